"""Calls of a trace, to find other call sites that a plan's exported rule would change."""

from __future__ import annotations

from mpiprof.trace.trace import Trace
from mpiprof.tune import tasks
from mpiprof.tune.export_rules.cells import Call


def calls(trace: Trace) -> list[Call]:
    """Return the calls on intra-communicators, by call site and size class."""
    return [
        Call(one.operation, one.size, one.bytes, one.sites, one.place)
        for one in tasks.works(trace, 1)
        if not one.remote_size
    ]
