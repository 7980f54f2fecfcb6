"""Saving of a run without the barriers of a call site, by the replay of its dependences.

    with:     work  | barrier |  work   bcast  work  | barrier | ...
    without:  work  work   bcast  work  ...

Each rank keeps its own time between two calls, and each barrier its duration after the last rank
has arrived. So only waiting can vanish. Waiting that moves to the next operation saves nothing: if
the same rank is always late, the other ranks wait for it later.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mpiprof.account.replay import Replay
from mpiprof.causes.removal import Saving, join_savings
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.dependences import Dependences
from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.trace.trace import Trace


def find_saving_without(trace: Trace, callsite: int) -> Saving:
    """Return what a run would save without the collectives of a call site."""
    keys = frozenset(key for key, number in trace.aggregate[1].items() if number == callsite)
    replay = partial(replay_without_callsite, keys=keys)
    return join_savings(
        [replay(trace)] if fits_in_memory(trace) else trace.derive("in_windows")(replay)
    )


def replay_without_callsite(trace: Trace, keys: frozenset[CallsiteKey]) -> Saving:
    """Return what a run or a window of it would save without the collectives of a call site.

    keys: of the call site, whose number in a window differs from that in the run.
    """
    numbers = [number for key, number in trace.aggregate[1].items() if key in keys]
    dependences: Dependences = trace.derive("dependences")
    is_removed = dependences.are_at(numbers)
    waits = dependences.take(is_removed & (dependences.dependence < 0) & (dependences.gap_ns > 0))
    replay = Replay(dependences.take(~is_removed), trace.ranks)
    removed_ns = waits.gap_ns.astype(np.float64)
    return Saving(*replay.find_saved_times(trace, waits.rank, waits.time_ns, removed_ns))
