"""The place of a rank in the machine, as text."""

from __future__ import annotations

from mpiprof.interface.format_units import MAX_TEXT, format_runs
from mpiprof.trace import Trace


def host_of(trace: Trace, rank: int) -> str:
    """Return the host of a rank, "?" if unknown."""
    return str(trace.tables.processes.get(rank, {}).get("host") or "?")


def describe_location(trace: Trace, rank: int) -> str:
    """Return a rank's host and the processors that its affinity allows, as text."""
    processors = trace.tables.processes.get(rank, {}).get("processors") or []
    host, plural = host_of(trace, rank)[:MAX_TEXT], "s" * (len(processors) > 1)
    return f"{host}, processor{plural} {format_runs(processors)}" if processors else host
