"""Time that a run would lack without a cause, and the run time that its removal saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from mpiprof.account.replay import Replay
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int


@dataclass(frozen=True)
class Removal:
    """Removed time, one entry per segment: the rank, the end of the segment, and the time in ns."""

    rank: Int
    time_ns: Int
    removed_ns: Float

    @staticmethod
    def nothing() -> Removal:
        """Return the removal of no time."""
        return Removal(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def take(self, chosen: Bool | Int) -> Removal:
        """Return the removal of some of the segments."""
        return Removal(self.rank[chosen], self.time_ns[chosen], self.removed_ns[chosen])

    def sum_by_rank(self, ranks: int) -> Float:
        """Return the removed time of each rank."""
        return np.bincount(self.rank, self.removed_ns, ranks).astype(np.float64)

    @property
    def keys(self) -> Int:
        """Return a number for each segment, which its rank and its end determine."""
        return number_segments(self.rank, self.time_ns)

    @property
    def total_ns(self) -> float:
        """Return the removed time of all ranks."""
        return float(self.removed_ns.sum())


@dataclass(frozen=True)
class Saving:
    """Effect of a removal, in ns: less run time, and less waiting of all ranks.

    calls_ns: time that ranks spend less in calls, which is not known to be waiting. queue_ns: time
    that ranks wait less for a processor.
    """

    run_ns: float
    waiting_ns: float
    calls_ns: float = 0.0
    queue_ns: float = 0.0


def find_saving(trace: Trace, removal: Removal) -> Saving:
    """Return what the replay of a run saves without some time (account/replay.py)."""
    return join_savings([replay_without(trace, removal)])


def replay_without(trace: Trace, removal: Removal) -> Saving:
    """Return the effect of a removal on a run or a window of it, negative if it costs time."""
    replay: Replay = trace.derive("replay")
    saved, of_all = replay.find_saved_times(
        trace, removal.rank, removal.time_ns, removal.removed_ns
    )
    return Saving(saved, of_all - removal.total_ns)


def join_savings(windows: Sequence[Saving]) -> Saving:
    """Return the effect on a run from the effects on its windows, at least 0."""
    return Saving(*(max(sum(values), 0.0) for values in zip(*map(astuple, windows), strict=True)))


def number_segments(rank: Int, end_ns: Int) -> Int:
    """Return a number for each segment of a run, which its rank and its end determine."""
    return rank * (1 << 48) + end_ns % (1 << 48)


def add_removals(removals: Sequence[Removal]) -> Removal:
    """Return the removal of all segments of some removals, of each as often as it is in them."""
    columns = ([getattr(of, field.name) for of in removals] for field in fields(Removal))
    return Removal(*map(np.concatenate, columns))


def join_removals(removals: Sequence[Removal]) -> Removal:
    """Return the union of some removals. A segment in several ones has the largest time of them."""
    added = add_removals([Removal.nothing(), *removals])
    added = added.take(np.lexsort((-added.removed_ns, added.time_ns, added.rank)))
    is_first = np.ones(len(added.rank), np.bool_)
    is_first[1:] = (np.diff(added.rank) != 0) | (np.diff(added.time_ns) != 0)
    return added.take(is_first)


def subtract_removal(removal: Removal, subtracted: Removal) -> Removal:
    """Return a removal without the time that another one removes from the same segments."""
    union, part = join_removals([removal, subtracted]), join_removals([subtracted])
    rest_ns = union.removed_ns.copy()
    rest_ns[np.isin(union.keys, part.keys)] -= part.removed_ns  # both are in the same order
    return replace(union, removed_ns=rest_ns).take(rest_ns > 0)


def find_shared_ns(first: Removal, second: Removal) -> float:
    """Return the time that two removals have in common."""
    union_ns = join_removals([first, second]).total_ns
    return max(first.total_ns + second.total_ns - union_ns, 0.0)
