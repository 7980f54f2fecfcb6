"""Work that a few ranks do alone while the others wait: a serial section, or an unequal group.

    rank 0   work | allreduce | ── serial work ── | bcast | work
    others   work | allreduce | bcast ── wait ────────── | work

Work between the same calls belongs together (number_same_work in account/work_intervals.py), except
where all ranks work briefly, as before MPI_Finalize. Ranks with less than MIN_WORK_SHARE of the
largest usual work of a rank there do not take part in it. If only one rank has MIN_OTHER_SHARE of
it, it works alone. The usual work is the median segment times the number of segments, because few
long segments are events (single_event.py) or a habit. If all ranks take part, the work at one place
may be additional: only a few ranks work there, and they work elsewhere as long as the others, as an
inner rank of a tree that combines results. If at most half of the ranks take part, the run is
replayed without this work. It is a cause if the run then ends earlier by MIN_SAVED_SHARE of its
time, and by MIN_OWN_SHARE of the removed work of a rank: then the other ranks wait for it. The
saving is exact for a serial section. For a group it is the time until the other ranks are the
slowest ones. If the same share of each segment saves as much, the group lacks only this share of
its work.

The function is silent if all ranks take part in the work, however unequal, if more than half of the
ranks do, such as the workers of a master, if the members of a group work for different times, and
if several members work less than MIN_MORE_WORK times as long in the run as the other ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mpiprof.account.row_order import find_medians
from mpiprof.account.segments import Work, number_segments, read_work
from mpiprof.account.work_intervals import number_same_work
from mpiprof.causes.cause import (
    Cause,
    FoundCause,
    Removal,
    Saving,
    join_removals,
    join_savings,
    replay_without,
)
from mpiprof.causes.place import Pair, add_up, find_place
from mpiprof.causes.processor_queues import read_counted
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

MIN_WORK_SHARE = 0.03  # of the largest work of a rank, from which a rank takes part in the work
MIN_OTHER_SHARE = 0.04  # of the work of one rank, from which any other rank takes part in it
MIN_LINK_SHARE = 0.003  # of the largest work at a place, from which places are the same work
MAX_MEMBER_SHARE = 0.5  # of the ranks that take part
MIN_MEDIAN_SHARE = 0.7  # of the largest work of a member, that the lower median of the members has
MIN_MORE_WORK = 1.05  # of several members in the run, over that of the other ranks
MIN_SAVED_SHARE = 0.01  # of the run time
MIN_OWN_SHARE = 0.1  # of the work of a member that the run time would lack
MIN_MAIN_SHARE = 0.8  # of the saving of all work of the members, from which one place is the cause
MAX_SAVED_SHARE = 0.9  # of the work of a member, up to which the others also work meanwhile
MIN_SAME_SAVING = 0.95  # of the saving of all work, from which a part of it saves the same
MAX_REPLAYS = 16
MIN_OFF_SHARE = 0.5  # of the work, from which its ranks are off the processor
MAX_PLACES = 3


@dataclass(frozen=True)
class ExclusiveWork(Cause):
    """Work of a few ranks for which the others wait.

    work_ns: of the member with most of it, over the run. count: of its segments. other_ranks:
    number of ranks that do not take part. removed_share: of the work, that the replay lacks.
    off_share: of the work with counters, in which the members are neither running nor ready.
    """

    icon: ClassVar[str] = "processor"
    work_ns: int
    count: int
    other_ranks: int
    removed_share: float
    off_share: float = 0.0

    @property
    def name(self) -> str:
        """Return the name in JSON."""
        return "serial_section" if len(self.ranks) == 1 else "unequal_groups"

    @property
    def repair(self) -> str:
        """Return the begin of the sentence on the saving."""
        is_whole = self.removed_share > MAX_SAVED_SHARE
        return "Without that" if is_whole else f"With {format_share(self.removed_share)} less of it"

    @property
    def title(self) -> str:
        """Return the heading, one short line."""
        return f"{capitalise(format_ranks(self.ranks))} worked while the others waited"

    @property
    def clause(self) -> str:
        """Return who works alone, how long and where."""
        ranks, is_one = format_ranks(self.ranks), len(self.ranks) == 1
        alone = f"work{'s' * is_one}{' alone' * is_one}"
        each = f"for {format_time(self.work_ns / self.count)} {self.places[0]}"
        times = "once" if self.count == 1 else f"{format_count(self.count)} times"
        waiting_ranks = "the other rank waits" if self.other_ranks == 1 else "the other ranks wait"
        clause = f"{ranks} {alone} {each}, {times}, while {waiting_ranks}"
        if not self.is_off:
            return clause
        is_off = "is" if is_one else "are"
        return (
            f"{clause}, but {is_off} off the processor {format_share(self.off_share)} of this time"
        )

    @property
    def is_off(self) -> bool:
        """Return whether the ranks wait for something that is no processor and no rank."""
        return self.off_share >= MIN_OFF_SHARE

    @property
    def reason(self) -> str:
        """Return the reason in few words."""
        if self.is_off:
            return "stopped or asleep"
        return "serial work" if len(self.ranks) == 1 else "unequal groups"

    @property
    def advice(self) -> str:
        """Return what to change."""
        ranks = format_ranks(self.ranks)
        if self.is_off:
            return f"Look for files, locks or pauses that {ranks} waited for there."
        if len(self.ranks) == 1:
            return f"Divide this work among the ranks, or let them work while {ranks} does it."
        return f"Give {ranks} less of the work, or this part of the program more ranks."


@dataclass(frozen=True)
class Members:
    """Ranks that work alone at some places. places: pairs of sites, in groups of the same work."""

    ranks: tuple[int, ...]
    places: tuple[tuple[Pair, ...], ...]


@dataclass(frozen=True)
class RemovedWork:
    """Removed work in a window: by place the time and the number of segments of each rank.

    off_ns: of the part with counters, whose length is counted_ns: neither running nor ready.
    """

    removal: Removal
    saving: Saving
    off_ns: float
    counted_ns: float
    work_ns: dict[Pair, Float]
    count: dict[Pair, Float]


def sum_work(trace: Trace) -> dict[Pair, Float]:
    """Return the usual work of each rank by place, in ns, of a run or a window of it."""
    work = read_work(trace)
    cell, shape = work.place * trace.ranks + work.rank, (len(work.places), trace.ranks)
    cells = shape[0] * shape[1]
    median = find_medians(cell, work.length_ns.astype(np.float64), cells)
    sums = (median * np.bincount(cell, minlength=cells)).reshape(shape)
    return {work.places[at]: sums[at] for at in np.flatnonzero(sums.any(1)).tolist()}


def choose_members(
    windows: Sequence[dict[Pair, Float]], ranks: int, run_ns: float
) -> list[Members]:
    """Return the ranks that work alone, with their places; windows: as sum_work."""
    sums = add_up(windows)
    groups_of_ranks: dict[tuple[int, ...], list[tuple[Pair, ...]]] = {}
    rank_work_ns = np.sum([np.zeros(ranks), *sums.values()], 0)
    # Short work between calls that all ranks make would join the work of unlike ranks.
    least_ns = MIN_LINK_SHARE * max((place_ns.max() for place_ns in sums.values()), default=0.0)
    places = [place for place, place_ns in sums.items() if place_ns.max() >= least_ns]
    group = number_same_work(places)
    for number in np.unique(group).tolist():
        same_work = tuple(places[index] for index in np.flatnonzero(group == number).tolist())
        work_ns = np.sum([sums[place] for place in same_work], 0)
        members = _find_participants(work_ns)
        is_notable = work_ns.max() >= MIN_SAVED_SHARE * run_ns
        if is_notable and _are_few_and_equal(work_ns, members, rank_work_ns):
            groups_of_ranks.setdefault(tuple(members.tolist()), []).append(same_work)
            continue
        for place in same_work if is_notable and len(same_work) > 1 else ():
            members = _find_additional(sums[place], rank_work_ns)
            is_costly = sums[place].max() >= MIN_SAVED_SHARE * run_ns
            if is_costly and _are_few_and_equal(sums[place], members, rank_work_ns):
                groups_of_ranks.setdefault(tuple(members.tolist()), []).append((place,))
    candidates = [
        Members(ranks_of_group, tuple(groups)) for ranks_of_group, groups in groups_of_ranks.items()
    ]
    candidates.sort(key=lambda candidate: -_find_largest_work(sums, candidate))
    return candidates[:MAX_REPLAYS]


def _find_participants(work_ns: Float) -> Int:
    """Return the ranks that take part in some work; work_ns: of each rank there."""
    members = np.flatnonzero(work_ns >= max(MIN_OTHER_SHARE * work_ns.max(), 1.0))
    if len(members) > 1:
        members = np.flatnonzero(work_ns >= max(MIN_WORK_SHARE * work_ns.max(), 1.0))
    return members


def _find_additional(work_ns: Float, rank_work_ns: Float) -> Int:
    """Return the ranks that work at a place beside the work of all ranks, or none.

    work_ns: of each rank at the place. rank_work_ns: of each rank in the run.
    """
    members = _find_participants(work_ns)
    others_ns = np.delete(rank_work_ns, members)
    if not len(others_ns):
        return members[:0]
    rest_ns = rank_work_ns[members] - work_ns[members]
    is_beside = rest_ns.min() >= MIN_MEDIAN_SHARE * np.median(others_ns)
    is_more = rank_work_ns[members].min() >= MIN_MORE_WORK * others_ns.max()
    return members if is_beside and is_more else members[:0]


def _are_few_and_equal(work_ns: Float, members: Int, rank_work_ns: Float) -> bool:
    """Return whether few ranks take part in some work, equally long, and work more than others.

    work_ns: of each rank there. rank_work_ns: of each rank in the run.
    """
    if not 0 < len(members) <= MAX_MEMBER_SHARE * len(work_ns):
        return False
    # One member that works longer than the others of its group is the habit of a rank.
    lower_median_ns = np.sort(work_ns[members])[(len(members) - 1) // 2]
    if lower_median_ns < MIN_MEDIAN_SHARE * work_ns.max():
        return False
    # Groups with equal work between different calls, such as even and odd ranks, are no cause.
    other_work_ns = np.median(np.delete(rank_work_ns, members))
    is_alone = len(members) == 1
    return is_alone or bool(np.median(rank_work_ns[members]) >= MIN_MORE_WORK * other_work_ns)


def list_candidates(members: Sequence[Members]) -> list[Members]:
    """Return ranks that work alone, and the same ranks with each of their places only."""
    singles = [
        replace(candidate, places=(same_work,))
        for candidate in members
        for same_work in (candidate.places if len(candidate.places) > 1 else ())
    ]
    return [*members, *singles]


def remove_work(trace: Trace, candidates: Sequence[Members]) -> list[RemovedWork]:
    """Return the effect of each removal on a run or a window of it."""
    work = read_work(trace)
    return [_remove_members(trace, work, candidate) for candidate in candidates]


def make_causes(
    trace: Trace,
    candidates: Sequence[Members],
    windows: Sequence[Sequence[RemovedWork]],
    run_ns: float,
) -> list[FoundCause]:
    """Return the causes among candidates from the effects of their removal; windows: of the run.

    Ranks have one cause: their costliest place, if it saves most of what all their places save.
    """
    causes_of_ranks: dict[tuple[int, ...], list[FoundCause]] = {}
    for candidate, *parts in zip(candidates, *windows, strict=True):
        causes_of_ranks.setdefault(candidate.ranks, []).append(_make_cause(trace, candidate, parts))
    chosen = []
    for joined, *singles in causes_of_ranks.values():  # list_candidates begins with all places
        main = max(singles, key=lambda cause: cause.saving.run_ns, default=joined)
        is_main = main.saving.run_ns >= MIN_MAIN_SHARE * joined.saving.run_ns
        chosen.append(main if is_main else joined)
    least_ns = MIN_SAVED_SHARE * run_ns
    return [cause for cause in chosen if cause.saving.run_ns >= max(least_ns, _least_saving(cause))]


def _least_saving(work: FoundCause) -> float:
    assert isinstance(work.cause, ExclusiveWork)
    return MIN_OWN_SHARE * work.cause.work_ns


def _find_largest_work(sums: dict[Pair, Float], members: Members) -> float:
    places = [place for same_work in members.places for place in same_work]
    return float(np.sum([sums[place] for place in places], 0).max())


def _remove_members(trace: Trace, work: Work, members: Members) -> RemovedWork:
    places = [place for same_work in members.places for place in same_work]
    is_here = np.array([place in places for place in work.places] or [False], np.bool_)
    removed = np.flatnonzero(is_here[work.place] & np.isin(work.rank, members.ranks))
    removal = Removal(
        work.rank[removed], work.end_ns[removed], work.length_ns[removed].astype(np.float64)
    )
    work_ns = _sum_by_place(work, removed, trace.ranks, work.length_ns)
    count = _sum_by_place(work, removed, trace.ranks, np.ones(len(work.rank)))
    times = *_limit_to_saving(trace, removal), *_sum_off_times(trace, removal)
    return RemovedWork(*times, work_ns, count)


def _sum_off_times(trace: Trace, removal: Removal) -> tuple[float, float]:
    """Return the time off the processor of removed work with counters, and its length, in ns."""
    table = read_counted(trace)
    rank, end = (table[name].to_numpy(np.int64) for name in ("rank", "end_ns"))
    table = table[np.isin(number_segments(rank, end), removal.keys)]
    length_ns = table["end_ns"] - table["begin_ns"]
    busy_ns = table["processor_ns"] + table["queue_ns"] + table["other_threads_ns"].clip(lower=0)
    return float((length_ns - busy_ns).clip(lower=0).sum()), float(length_ns.sum())


def _limit_to_saving(trace: Trace, removal: Removal) -> tuple[Removal, Saving]:
    """Return the part of a removal that saves as much as all of it, and its saving.

    Without any work, the members would wait for the other ranks: that is not their load.
    """
    saving = replay_without(trace, removal)
    share = saving.run_ns / max(float(removal.sum_by_rank(trace.ranks).max()), 1.0)
    if 0 < share < MAX_SAVED_SHARE:
        part = replace(removal, removed_ns=removal.removed_ns * share)
        saving_of_part = replay_without(trace, part)
        if saving_of_part.run_ns >= MIN_SAME_SAVING * saving.run_ns:
            return part, saving_of_part
    return removal, saving


def _sum_by_place(work: Work, chosen: Int, ranks: int, values: Array) -> dict[Pair, Float]:
    cell = work.place[chosen] * ranks + work.rank[chosen]
    shape = len(work.places), ranks
    sums = np.bincount(cell, values[chosen], shape[0] * shape[1]).reshape(shape)
    return {work.places[at]: sums[at] for at in np.flatnonzero(sums.any(1)).tolist()}


def _make_cause(trace: Trace, members: Members, parts: Sequence[RemovedWork]) -> FoundCause:
    """Return the cause from the effects of its removal in all windows."""
    work_ns = add_up([part.work_ns for part in parts])
    count = add_up([part.count for part in parts])
    ordered = sorted(work_ns, key=lambda place: -float(work_ns[place].sum()))
    of_ranks = np.sum([np.zeros(trace.ranks), *work_ns.values()], 0)
    counts = np.sum([np.zeros(trace.ranks), *count.values()], 0)
    busiest = int(of_ranks.argmax())
    removal = join_removals([part.removal for part in parts])
    cause = ExclusiveWork(
        members.ranks,
        tuple(find_place(trace, place) for place in ordered[:MAX_PLACES]),
        round(of_ranks[busiest]),
        round(counts[busiest]),
        trace.ranks - len(members.ranks),
        removal.total_ns / max(float(of_ranks.sum()), 1.0),
        sum(part.off_ns for part in parts) / max(sum(part.counted_ns for part in parts), 1.0),
    )
    return FoundCause(cause, removal, join_savings([part.saving for part in parts]))
