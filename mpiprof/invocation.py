"""How a person starts this mpiprof from here, for the next command that a verb names."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path


def invocation() -> str:
    """Return "python -m mpiprof", with the interpreter's path where `python` is another one."""
    own = Path(sys.executable)
    known = shutil.which("python")
    # Not samefile: the interpreters of two virtual environments are links to the same file.
    if known is not None and Path(known).parent.resolve() == own.parent.resolve():
        return "python -m mpiprof"
    with contextlib.suppress(ValueError):
        own = own.relative_to(Path.cwd())
    return f"{own} -m mpiprof"
