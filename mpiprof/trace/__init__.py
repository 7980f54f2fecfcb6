"""From a trace folder to matched instances: logs, tables, clocks, matching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace

__all__ = ["Trace"]


def __getattr__(name: str) -> Any:
    """Import numpy only where traces are read: `run` asks for a machine table's faults alone."""
    if name == "Trace":
        from mpiprof.trace.trace import Trace

        return Trace
    raise AttributeError(f"module 'mpiprof.trace' has no attribute {name!r}")
