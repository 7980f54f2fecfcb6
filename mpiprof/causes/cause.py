"""One cause of lost time, the time that a run would lack without it, and what that saves.

Each cause has its own file in this package. A run is replayed without the time of a cause, or
without the barriers of a call site:

    with:     work  | barrier |  work   bcast  work  | barrier | ...
    without:  work  work   bcast  work  ...

Each rank keeps its own time between two calls, and each barrier its duration after the last rank
has arrived. So only waiting can vanish. Waiting that moves to the next operation saves nothing: if
the same rank is always late, the other ranks wait for it later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from typing import ClassVar

import numpy as np

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.dependences import Dependences
from mpiprof.account.instance_rows import CallsiteKey
from mpiprof.account.replay import Replay
from mpiprof.account.segments import number_segments, read_segments, records_each_call
from mpiprof.causes.place import Place, find_place
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MAX_BARRIERS = 4  # call sites in a run that is read in windows


@dataclass(frozen=True)
class Cause(ABC):
    """A cause and its evidence. Each subclass has its own file.

    finder: the function of this file that finds the cause. icon: of the page. weight: factor of the
    saving, in the order of causes and habits. ranks: that the cause concerns, the main one first.
    places: of the work, the main one first.
    """

    finder: ClassVar[str] = "make_causes"
    icon: ClassVar[str]
    weight: ClassVar[float] = 1.05  # because facts need no test
    ranks: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name in JSON, a key of causes/finding.py's CAUSES."""

    @property
    def is_first(self) -> bool:
        """Return whether the cause is stated before all others, because it disturbs their times."""
        return False

    @property
    def repair(self) -> str:
        """Return the begin of the sentence on the saving."""
        return "Without that"

    @property
    def saves_more(self) -> bool:
        """Return whether the repair may save more than the replay shows."""
        return False

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the heading, one short line."""

    @property
    @abstractmethod
    def clause(self) -> str:
        """Return who or what causes waiting, when and where, as a clause without its cost."""

    @property
    @abstractmethod
    def reason(self) -> str:
        """Return the reason in few words, "" if it is unknown."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """Return where to look, or what to change."""


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


@dataclass(frozen=True)
class RemovedSegment:
    """A segment that a replay shortens.

    begin_ns: since the start of the run. length_ns: of the segment. removed_ns: the part of it that
    the run would lack.
    """

    rank: int
    begin_ns: int
    length_ns: int
    removed_ns: int
    place: Place


@dataclass(frozen=True)
class FoundCause:
    """A cause, the time that the run would lack without it, and what that saves."""

    cause: Cause
    removal: Removal
    saving: Saving


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


def add_removals(removals: Sequence[Removal]) -> Removal:
    """Return the removal of all segments of some removals, of each as often as it is in them."""
    columns = ([getattr(removal, field.name) for removal in removals] for field in fields(Removal))
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


def list_removed_segments(trace: Trace, removal: Removal, count: int) -> list[RemovedSegment]:
    """Return the segments of a run with most removed time, at most `count`, by their begin."""
    origin_ns = int(trace.run_start_ns)
    find = partial(_find_removed_segments, removal=removal, count=count, origin_ns=origin_ns)
    windows = [find(trace)] if fits_in_memory(trace) else trace.derive("in_windows")(find)
    segments = [segment for window in windows for segment in window]
    largest = sorted(segments, key=lambda segment: -segment.removed_ns)[:count]
    return sorted(largest, key=lambda segment: segment.begin_ns)


def _find_removed_segments(
    trace: Trace, removal: Removal, count: int, origin_ns: int
) -> list[RemovedSegment]:
    """Return the segments of a run or a window of it with most removed time."""
    work = read_segments(trace)
    keys = number_segments(work.rank, work.end_ns)
    _, at, removed = np.intersect1d(keys, removal.keys, return_indices=True)
    largest = np.argsort(-removal.removed_ns[removed], kind="stable")[:count]
    return [
        RemovedSegment(
            int(work.rank[index]),
            int(work.begin_ns[index]) - origin_ns,
            int(work.end_ns[index] - work.begin_ns[index]),
            round(float(removed_ns)),
            find_place(trace, work.places[work.place[index]]),
        )
        for index, removed_ns in zip(at[largest], removal.removed_ns[removed][largest], strict=True)
    ]
