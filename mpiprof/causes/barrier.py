"""Saving of a run without the barriers of a call site, by the replay of its dependences.

    with:     work  | barrier |  work   bcast  work  | barrier | ...
    without:  work  work   bcast  work  ...

Each rank keeps its own time between two calls, and each barrier its duration after the last rank
has arrived. So only waiting can vanish. Waiting that moves to the next operation saves nothing: if
the same rank is always late, the other ranks wait for it later.
"""

from __future__ import annotations

import numpy as np

from mpiprof.account.replay import Replay
from mpiprof.account.work_segments import records_each_call
from mpiprof.causes.removal import Saving
from mpiprof.metrics.dependences import Dependences
from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.trace.trace import Trace

MAX_BARRIERS = 4  # call sites in a run that is read in windows


def list_barriers(trace: Trace) -> list[int]:
    """Return the call sites of barriers with most waiting in a run, MAX_BARRIERS at most.

    Without a record of each call, a replay without a barrier lacks other dependences.
    """
    if not records_each_call(trace):
        return []
    wait_ns = trace.callsites["total_wait_ns"][trace.callsites["operation"] == "barrier"]
    return [int(site) for site in wait_ns[wait_ns > 0].nlargest(MAX_BARRIERS).index]


def replay_without_callsite(trace: Trace, numbers: dict[CallsiteKey, int], callsite: int) -> Saving:
    """Return what a run or a window of it would save without the collectives of a call site.

    numbers: of call sites in the run. A window numbers them differently.
    """
    keys = {key for key, number in numbers.items() if number == callsite}
    in_window = [number for key, number in trace.aggregate[1].items() if key in keys]
    dependences: Dependences = trace.derive("dependences")
    is_removed = dependences.are_at(in_window)
    waits = dependences.take(is_removed & (dependences.dependence < 0) & (dependences.gap_ns > 0))
    replay = Replay(dependences.take(~is_removed), trace.ranks)
    removed_ns = waits.gap_ns.astype(np.float64)
    return Saving(*replay.find_saved_times(trace, waits.rank, waits.time_ns, removed_ns))
