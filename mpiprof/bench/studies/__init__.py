"""The papers' studies, and requirements on an emulated cluster."""

from __future__ import annotations

import importlib
from types import ModuleType

MODULES = {"robust": "auto_robustness"}  # of studies whose name says too little


def import_study(name: str) -> ModuleType:
    """Return the module of a study, by its name on the command line."""
    return importlib.import_module(f"{__name__}.{MODULES.get(name, name)}")
