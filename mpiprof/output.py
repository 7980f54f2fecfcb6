"""Whether a file that was asked for can be written, said before the work for it begins."""

from __future__ import annotations

import os
from pathlib import Path

from mpiprof.errors import UsageError


def check_output(option: str, path: Path, example: str, *, replaced: bool = False) -> None:
    """Raise UsageError where no file can be written; `example` is a name that would do.

    replaced: a new file takes the place of one that is there, so that only the folder counts.
    """
    if not path.name or path.is_dir():
        raise UsageError(f"{option} {path} is a folder: name a file, such as {example}")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() and not replaced else parent, os.W_OK):
        raise UsageError(f"{option} {path} can't be written: name a file elsewhere")
