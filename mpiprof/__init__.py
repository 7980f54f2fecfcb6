"""mpiprof: which rank of an MPI program makes the others wait, why, and at what cost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiprof.trace import Trace

__version__ = "0.1.0"
__all__ = ["Trace", "__version__", "open"]

# In a checkout, the folder of mpiprof.dashboard is beside this package, not in it. A Python in the
# root of the checkout imports this package even if mpiprof is installed.
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
if os.path.isfile(os.path.join(_CHECKOUT, "pyproject.toml")):  # noqa: PTH113, PTH118
    __path__.append(_CHECKOUT)


def open(path: str | os.PathLike[str]) -> Trace:  # noqa: A001 (the name users expect)
    """Open a trace folder, or the anchor file of an OTF2 archive, and return a Trace.

    Raises TraceError if nothing in it is readable.
    """
    from mpiprof.account.shape_names import name_shapes
    from mpiprof.causes.lazy_tables import DERIVED
    from mpiprof.dashboard.notebook import NotebookTables, Plots, list_findings
    from mpiprof.formats.otf2 import open_converted
    from mpiprof.trace import Trace

    shown = {"findings": list_findings, "plot": Plots, "show": NotebookTables}
    return Trace(open_converted(path), {**DERIVED, **shown, "shapes": name_shapes})


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name == "Trace":
        from mpiprof.trace import Trace

        return Trace
    raise AttributeError(f"module 'mpiprof' has no attribute {name!r}")
