"""Parts of the package that need more than its own dependencies."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from mpiprof.errors import MpiprofError
from mpiprof.installation import install_command


def part(name: str) -> ModuleType:
    """Return a module of the dashboard; raises MpiprofError where what it needs is missing."""
    import mpiprof

    # Python started in a checkout finds the package there, and the dashboard beside it.
    if importlib.util.find_spec("mpiprof.dashboard") is None:
        mpiprof.__path__.append(str(Path(mpiprof.__file__).parents[1]))
    try:
        return importlib.import_module(f"mpiprof.dashboard.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mpiprof"):
            raise
        raise missing(str(error.name)) from None


def missing(name: str) -> MpiprofError:
    """Return the error for a module that is not installed."""
    return MpiprofError(f"view needs {name}: {install_command('dashboard')}")
