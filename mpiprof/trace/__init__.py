"""From a trace folder to matched instances: logs, tables, clocks, matching."""

from __future__ import annotations

from mpiprof.trace.trace import Trace

__all__ = ["Trace"]
