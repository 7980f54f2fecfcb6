"""Evidence of a habit from the intervals of work that belong to it, window by window.

Ranks that are blocked while another rank works have no work that could be moved to it. So blocked
ranks are blamed themselves, although the other rank is the exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.account.message_waits import UNKNOWN
from mpiprof.account.work_intervals import INSIDE, number_same_work
from mpiprof.causes.cause import Removal, Saving, replay_without
from mpiprof.causes.delay_matrix import (
    MIN_REPETITION_SHARE,
    Cells,
    DelayMatrix,
    FoundHabit,
    sum_gains,
)
from mpiprof.causes.delay_reasons import (
    BLOCKED,
    DelayReasons,
    explain_delay,
    find_largest_reason,
    join_reasons,
)
from mpiprof.causes.explained_waits import Callsite, CallsiteWaits, ChosenWaits
from mpiprof.causes.finding import FoundReason, WorkLocation
from mpiprof.causes.habits.habit import Habit
from mpiprof.causes.habits.significance import MIN_OTHERS
from mpiprof.causes.place import SEVERAL, Pair, add_up, find_place
from mpiprof.causes.sampled_code import find_sampled_code
from mpiprof.causes.work_groups import WorkGroups
from mpiprof.trace.thread_times import find_stretches
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float

MIN_MAIN_SHARE = 0.5  # of the work of a habit, from which a pair of call sites is its place
MIN_PLACE_SHARE = 0.8  # of the excess work of a rank, that is at its main place
MAX_LOCATIONS = 3  # pairs of call sites that a finding names
MAX_WINDOW_PAIRS = 16  # pairs of call sites of a window whose costs are divided among the ranks


@dataclass(frozen=True)
class WorkEvidence:
    """Evidence of some intervals of work in a window.

    pair_ns: their excess work, or the waiting that they cause, by pair of call sites. rank_ns: the
    same by rank, for the costliest pairs.
    reason: the costliest pair, and the reasons of its delay, None without counters.
    """

    pair_ns: dict[Pair, float]
    rank_ns: dict[Pair, Float]
    reason: tuple[Pair, DelayReasons] | None


@dataclass(frozen=True)
class WindowEvidence:
    """Evidence of a habit in a window.

    caused_ns: waiting at each of some call sites. saving: what the removal saves in the window.
    is_exact: whether there are messages, and the times of all are known.
    """

    work: WorkEvidence
    caused_ns: Float
    removal: Removal
    saving: Saving
    is_exact: bool

    @property
    def work_ns(self) -> float:
        """Return the removed work of all ranks."""
        return self.removal.total_ns


def collect_evidence(
    waits: ChosenWaits, habits: Sequence[Sequence[FoundHabit]], callsites: Sequence[Callsite]
) -> tuple[list[WindowEvidence], WorkEvidence]:
    """Return the evidence of habits in a window of the run, and that of all other work.

    habits: each in one or several matrices.
    """
    located = [[matrix.locate(waits) for matrix, _ in parts] for parts in habits]
    chosen = []
    for parts, cells in zip(habits, located, strict=True):
        in_habit = []
        for (_, habit), habit_cells in zip(parts, cells, strict=True):
            in_habit.append(habit_cells.choose(habit.ranks, habit.instances))
        chosen.append(np.any(in_habit, 0))
    callsite_waits = CallsiteWaits(waits)
    caused = callsite_waits.sum_caused(callsites, chosen)
    for row, parts in enumerate(habits):
        if parts[0][1].cause == "early":  # early ranks wait for the work of all other ranks
            caused[row] = callsite_waits.sum_by_ranks(callsites, parts[0][1].ranks)
    evidence = []
    intervals, postings = waits.delays.intervals, waits.trace.derive("postings")
    is_exact = len(postings.posted_ns) > 0 and not (postings.state == UNKNOWN).any()
    length = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
    for parts, cells, is_in_habit, row in zip(habits, located, chosen, caused, strict=True):
        removed, removal, saving = np.zeros(0), Removal.nothing(), Saving(0.0, 0.0)
        if parts[0][1].cause != "early" and is_in_habit.any():
            removed = _find_removed_work(waits, parts, cells, length)
            removal = _find_removal(waits, removed)
            saving = replay_without(waits.trace, removal)
            length = length - removed  # work that belongs to two habits is removed once
        weight_ns = removed if removal.total_ns > 0 else waits.costs.interval_ns
        work = _describe_work(waits, is_in_habit, weight_ns)
        evidence.append(WindowEvidence(work, row, removal, saving, is_exact))
    is_other_work = ~np.any([np.zeros(len(waits.costs.interval_ns), np.bool_), *chosen], axis=0)
    return evidence, _describe_work(waits, is_other_work, waits.costs.interval_ns)


def describe_habit_work(waits: ChosenWaits, matrix: DelayMatrix, habit: Habit) -> WorkEvidence:
    """Return the evidence of the work of a habit in a window of the run."""
    chosen = matrix.locate(waits).choose(habit.ranks, habit.instances)
    return _describe_work(waits, chosen, waits.costs.interval_ns)


def _describe_work(waits: ChosenWaits, chosen: Bool, cost_ns: Float) -> WorkEvidence:
    """Return the evidence of some intervals of work in a window.

    cost_ns: of each interval, the excess work of a habit or the waiting that the interval causes.
    """
    sites = waits.delays.sites
    key, rank = waits.delays.intervals.key, waits.delays.intervals.rank
    cost = np.bincount(key[chosen], cost_ns[chosen], len(sites))
    order = np.argsort(-cost, kind="stable")[: min(MAX_WINDOW_PAIRS, np.count_nonzero(cost > 0))]
    by_rank: dict[Pair, Float] = {}
    for number in order.tolist():
        at_pair = chosen & (key == number)
        costs = np.bincount(rank[at_pair], cost_ns[at_pair], waits.trace.ranks)
        by_rank[sites[number]] = costs.astype(np.float64)
    pairs = {sites[number]: float(cost[number]) for number in np.flatnonzero(cost > 0).tolist()}
    main = int(np.argmax(cost)) if pairs else None
    reason = None if main is None else _find_reasons(waits, chosen, main)
    return WorkEvidence(pairs, by_rank, reason)


def _find_removed_work(
    waits: ChosenWaits, parts: Sequence[FoundHabit], cells: Sequence[Cells], length: Float
) -> Float:
    """Return the work in ns that each interval lacks if a habit's ranks work like the others.

    A late rank also has the noise of all ranks, which a repair does not remove. So the removed work
    is the excess over the median, at most the time that the habit explains. It is first removed
    where a late rank works longer than each other rank, because elsewhere its excess is noise. If
    all ranks differ, all are compared with the median of all. The excess in a step is removed from
    work that no other rank does. length: of each interval without the habits before.
    """
    trace, before = waits.trace, length
    groups: WorkGroups = trace.derive("work_groups")
    same_work = number_same_work(waits.delays.sites)
    for (matrix, habit), habit_cells in zip(parts, cells, strict=True):
        start = length
        ranks = () if habit.each or habit.cause == "gradient" else habit.ranks
        is_other_rank = ~np.isin(np.arange(trace.ranks), ranks)
        chosen = habit_cells.choose(ranks, habit.instances)
        is_other_rank = is_other_rank if is_other_rank.any() else ~is_other_rank
        usual, comparable = groups.find_usual(length, chosen, is_other_rank)
        apart = np.where(comparable, np.maximum(start - usual, 0.0), 0.0)
        excess = matrix.compute_excess(ranks, habit.instances)
        remaining_ns = np.where(
            comparable,
            0.0,
            habit_cells.spread_over_intervals(excess, ranks, waits.delays.intervals, same_work),
        )
        shift = np.nan_to_num(habit.shift_ns)
        if habit.cause == "gradient":  # the repair gives each rank at most the median work
            shift = shift - np.median(shift, 0)
        shift = np.maximum(shift, 0.0)
        late = np.minimum(apart + remaining_ns, start)
        first = habit_cells.limit(
            np.where(start > groups.find_longest(length, is_other_rank), late, 0.0), shift
        )
        removed = first + habit_cells.limit(late - first, shift - habit_cells.sum(first))
        length = start - removed
    return before - length


def _find_removal(waits: ChosenWaits, removed_ns: Float) -> Removal:
    """Return the removal of some work in ns of each interval."""
    chosen = np.flatnonzero(removed_ns)
    intervals = waits.delays.intervals.take(chosen)
    ends = waits.trace.derive("replay").find_ends(intervals)
    return Removal(intervals.rank.astype(np.int64), ends, removed_ns[chosen])


def join_saved_time(
    trace: Trace,
    parts: Sequence[FoundHabit],
    windows: Sequence[WindowEvidence],
    *,
    waiting_ns: float,
) -> tuple[float, float]:
    """Return how much earlier the run would end without a habit, and the work as a rank's mean.

    The rest of the first time is less waiting: at most all waiting of the run, as a rank's mean.
    It may exceed the waiting that the habit explains, because late ranks of a pipeline also wait
    for each other. All ranks meet between windows, so the times of windows add up.
    waiting_ns: of the run; inf for the waits at one call site.
    """
    scale = _find_scale(parts)
    saved = max(sum(window.saving.run_ns for window in windows) * scale, 0.0)
    work = min(sum(window.work_ns for window in windows) * scale / trace.ranks, saved)
    return min(saved, waiting_ns / trace.ranks + work), work


def find_cost(
    parts: Sequence[FoundHabit], windows: Sequence[WindowEvidence], *, is_only: bool
) -> float:
    """Return the waiting in ns that would vanish without a habit.

    The gain in steps lacks waits that noise of other work in the step hides. The gain in
    repetitions includes waits that would remain, for ranks that are nearly as late. So the waiting
    that vanishes in the replay is the least cost in steps, and the largest in repetitions, if the
    usual work is known exactly. It does not count with several habits, of which one may hide
    another, and without the records of a rank, whose waits the replay lacks. In repetitions, the
    times of all messages must be known, and without messages the replay may lack dependences of
    rooted collectives.
    """
    gain = sum_gains(parts)
    matrix, habit = parts[0]
    if not is_only or not _has_reference(matrix, habit):
        return gain
    vanished = sum(window.saving.waiting_ns for window in windows) * _find_scale(parts)
    if matrix.unit == "step":
        return max(gain, vanished)
    return (
        min(gain, vanished) if vanished > 0 and all(window.is_exact for window in windows) else gain
    )


def _has_reference(matrix: DelayMatrix, habit: Habit) -> bool:
    """Return whether the usual work of a habit's ranks is known exactly.

    One or two other ranks have noise of their own. If all ranks differ, none has the usual work.
    The whole work of a rank that works alone counts.
    """
    if habit.cause in ("early", "gradient") or habit.each or matrix.alone_ns is not None:
        return False
    return habit.cause == "moving" or len(matrix.ranks) - len(habit.ranks) >= MIN_OTHERS


def _find_scale(parts: Sequence[FoundHabit]) -> float:
    """Return the number of steps or repetitions that each recorded one stands for."""
    scales = [matrix.find_scale(habit.instances) for matrix, habit in parts]
    weights = [max(habit.gain_ns, 1.0) for _, habit in parts]
    return float(np.average(scales, weights=weights))


def _find_reasons(waits: ChosenWaits, chosen: Bool, main: int) -> tuple[Pair, DelayReasons] | None:
    """Return the costliest pair of call sites in a window, and the reasons of its delay.

    main: number of this pair.

    Source: the counters of the intervals (delay_reasons.py), compared with the intervals of the
    other ranks between the same calls, or of the same ranks at other times.
    """
    trace, intervals, cost_ns = waits.trace, waits.delays.intervals, waits.costs.interval_ns
    table, sites = trace.intervals, waits.delays.sites
    if not len(table) or sites[main][1] == INSIDE:
        return None
    at_pair = intervals.key == main
    late = chosen & at_pair & (cost_ns > 0)
    late_ranks = np.unique(intervals.rank[late])
    other_work = at_pair & ~np.isin(intervals.rank, late_ranks)
    # Few intervals of a rank are long by chance. Most of them have no records.
    min_repetitions = MIN_REPETITION_SHARE * late.sum() / max(len(late_ranks), 1)
    often = np.bincount(intervals.rank[other_work], minlength=trace.ranks) >= min_repetitions
    reference = other_work & often[intervals.rank]
    if not other_work.any() and len(late_ranks) == 1:
        reference = at_pair & ~chosen
    elif not other_work.any():
        # All ranks are late, at different times.
        usual_cost = float((cost_ns[late] ** 2).sum() / max(cost_ns[late].sum(), 1.0))
        late &= cost_ns >= usual_cost / 2
        reference = at_pair & ~late
    count = len(table)  # the intervals inside calls and before lost ones have no counters
    if not late[:count].any():
        return None
    compared = table[late[:count]], table[reference[:count]]
    stretches = find_stretches(trace.tables.threads)
    return sites[main], explain_delay(*compared, trace.page_fault_ns, stretches)


def find_reason(windows: Sequence[WorkEvidence]) -> FoundReason | None:
    """Return the reason of a delay in its costliest place; None without counters."""
    pair_ns = add_up([evidence.pair_ns for evidence in windows])
    main = max(pair_ns, key=lambda pair: pair_ns[pair], default=None)
    parts = [
        window.reason[1]
        for window in windows
        if window.reason is not None and window.reason[0] == main
    ]
    if not parts:
        return None
    reasons = join_reasons(parts)
    if not reasons.excess_ns > 0:
        return None
    shares = {name: ns / reasons.excess_ns for name, ns in reasons.shares_ns.items() if ns > 0}
    return FoundReason(find_largest_reason(reasons), shares)


def is_blocked(windows: Sequence[WorkEvidence]) -> bool:
    """Return whether work is long because its ranks are blocked."""
    reason = find_reason(windows)
    return reason is not None and reason.reason == BLOCKED


def list_locations(trace: Trace, windows: Sequence[WorkEvidence]) -> Iterator[WorkLocation]:
    """Yield the pairs of call sites with most of the work of a habit, the costliest first.

    If none has most of it, pairs with the same call after the work count as one: ranks make several
    calls in turn before it.
    """
    pair_ns = add_up([evidence.pair_ns for evidence in windows])
    rank_ns = add_up([evidence.rank_ns for evidence in windows])
    total_ns = max(sum(pair_ns.values()), 1.0)
    groups = {pair: [pair] for pair in rank_ns}
    if max(pair_ns.values(), default=0.0) < MIN_MAIN_SHARE * total_ns:
        groups = _join_by_call_after(rank_ns)
    cost_ns = {
        pair: sum(pair_ns[pair_of_group] for pair_of_group in group)
        for pair, group in groups.items()
    }
    for pair in sorted(groups, key=lambda pair: -cost_ns[pair])[:MAX_LOCATIONS]:
        rank = int(np.sum([rank_ns[pair_of_group] for pair_of_group in groups[pair]], 0).argmax())
        place = find_place(trace, pair)
        code = find_sampled_code(trace, rank, [before for before, _ in groups[pair]], pair[1:])
        share = cost_ns[pair] / total_ns
        yield WorkLocation(place.before, place.after, place.inside, share, rank, code)


def _join_by_call_after(pairs: Iterable[Pair]) -> dict[Pair, list[Pair]]:
    """Return pairs in groups with the same call after the work; SEVERAL stands for the call before.

    A pair that is alone, or inside a call, stays as it is.
    """
    by_after: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_after.setdefault(pair[1], []).append(pair)
    single = {group[0]: group for group in by_after.values() if len(group) == 1}
    inside = {pair: [pair] for pair in by_after.get(INSIDE, [])}
    several = {
        (SEVERAL, after): group
        for after, group in by_after.items()
        if len(group) > 1 and after != INSIDE
    }
    return single | inside | several


def group_ranks_by_place(windows: Sequence[WorkEvidence]) -> dict[tuple[int, ...], float]:
    """Return the ranks with most of their excess work at the same place, and this work in ns."""
    rank_ns = add_up([evidence.rank_ns for evidence in windows])
    if len(rank_ns) < 2:
        return {}
    place = number_same_work(list(rank_ns))
    places, number = np.unique(place, return_inverse=True)
    work_ns = np.zeros((len(places), len(next(iter(rank_ns.values())))))
    np.add.at(work_ns, number, np.array(list(rank_ns.values())))
    main, whole_ns = work_ns.argmax(0), work_ns.sum(0)
    is_main = work_ns.max(0) >= MIN_PLACE_SHARE * np.maximum(whole_ns, 1.0)
    groups = {}
    for index in range(len(places)):
        ranks = np.flatnonzero(is_main & (main == index))
        if len(ranks):
            groups[tuple(ranks.tolist())] = float(whole_ns[ranks].sum())
    return groups


def find_blocked_place(trace: Trace, work: Sequence[WorkEvidence]) -> WorkLocation | None:
    """Return where ranks are blocked in most of some work, or None if they are not."""
    return next(list_locations(trace, work), None) if is_blocked(work) else None
