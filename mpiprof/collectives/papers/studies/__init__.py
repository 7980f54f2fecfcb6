"""The papers' studies, and requirements on an emulated cluster."""

from __future__ import annotations

import importlib
from types import ModuleType

from mpiprof.collectives.catalogue import load_catalogue

# Modules with a longer name than their study.
MODULES = {"robust": "auto_robustness", "model": "model_accuracy"}


def list_algorithms(study: ModuleType) -> list[str]:
    """Return the algorithms that --only of a study selects: native, and all of its operations."""
    operations = getattr(study, "OPERATIONS", ())
    inter = getattr(study, "INTERCOMMUNICATOR", False)
    algorithms = [a for a in load_catalogue() if a.intercommunicator == inter]
    names = [a.name for a in algorithms if a.operation in operations]
    return list(dict.fromkeys(("native", *names))) if operations else []


def import_study(name: str) -> ModuleType:
    """Return the module of a study, by its name on the command line."""
    return importlib.import_module(f"{__name__}.{MODULES.get(name, name)}")
