"""Calls of a trace, to find other call sites that a plan's exported rule would change."""

from __future__ import annotations

from mpiprof.trace.trace import Trace
from mpiprof.tune import tasks
from mpiprof.tune.export_rules.cells import TraceCalls


def list_calls(trace: Trace) -> list[TraceCalls]:
    """Return the calls on intra-communicators, by call site and size class."""
    return [
        TraceCalls(one.operation, one.size, one.bytes, one.sites, one.label)
        for one in tasks.list_works(trace, 1)
        if not one.remote_size
    ]
