"""Imports parts of the package with optional dependencies."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from mpiprof.errors import MpiprofError
from mpiprof.interface.installation import install_command


def import_dashboard(name: str) -> ModuleType:
    """Return a module of the dashboard; raises MpiprofError if a dependency of it is missing."""
    import mpiprof

    # In a checkout, the dashboard's folder is beside the package, not in it.
    if importlib.util.find_spec("mpiprof.dashboard") is None:
        mpiprof.__path__.append(str(Path(mpiprof.__file__).parents[1]))
    try:
        return importlib.import_module(f"mpiprof.dashboard.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mpiprof"):
            raise
        raise missing_module_error(str(error.name)) from None


def missing_module_error(name: str) -> MpiprofError:
    """Return the error for a module that is not installed."""
    return MpiprofError(f"view needs {name}: {install_command('dashboard')}")
