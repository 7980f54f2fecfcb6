"""Reads trace folders: logs, tables and clocks, matched into instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace

__all__ = ["Trace"]


def __getattr__(name: str) -> Any:
    """Import numpy only when traces are read: `run` needs only the check of a machine table."""
    if name == "Trace":
        from mpiprof.trace.trace import Trace

        return Trace
    raise AttributeError(f"module 'mpiprof.trace' has no attribute {name!r}")
