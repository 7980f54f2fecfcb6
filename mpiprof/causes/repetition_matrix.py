"""Matrices of the work of ranks between two call sites, by repetition.

For runs whose ranks do not all meet, such as pipelines. A window of a large run returns its
intervals between these call sites. A rank's intervals are numbered through all windows.

The first repetitions of a loop may follow other calls than the rest:

    start ── work ── recv ── work ── recv ── work ── recv ── allreduce ── work ── recv
         other pair      └─ pair with the habit ─┘                 other pair

The late ranks of a habit do the same work there: up to the same call. The other pairs may have
few repetitions, in which no search would find a habit. But the ranks and their usual delay are
known, so only these are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from mpiprof.account.delay_graph import WorkIntervals
from mpiprof.account.row_order import put_in_order
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.work_intervals import INSIDE, number_same_work
from mpiprof.causes.delay_matrix import (
    MIN_REPETITION_SHARE,
    OUTSIDE,
    Cells,
    Columns,
    DelayMatrix,
    FoundHabit,
    choose_columns,
    count_most_columns,
)
from mpiprof.causes.explained_waits import ChosenWaits
from mpiprof.causes.habits.habit import Habit
from mpiprof.causes.habits.rank_set import compute_gain
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.causes.place import Pair, add_up
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import START_NS, Bool, Float, Int

MAX_FEW_SHARE = 0.75  # of the usual number of intervals, up to which a rank has far fewer

# Returns the longest interval of each rank that ends up to each time, from the last one on.
FindLongest: TypeAlias = Callable[[Int], Float]
MAX_SAME_PAIRS = 4  # other pairs of call sites with the same work, for each pair
MIN_MORE_SHARE = 0.5  # of the delay of a habit, by which its ranks work longer in all
MIN_LATE_SHARE = 0.5  # of a usual delay, from which work is late; and of repetitions that are late


@dataclass(frozen=True)
class PairIntervals:
    """Intervals of work between two call sites in a window that begins at window_ns.

    By rank and begin: rank, begin_ns, end_ns, and the waiting cost_ns that they cause.
    """

    window_ns: int
    rank: Int
    begin_ns: Int
    end_ns: Int
    cost_ns: Float


def find_window_begin(trace: Trace) -> int:
    """Return the begin of a window of a run, START_NS of a whole run."""
    return trace.begin_ns if isinstance(trace, TraceWindow) else START_NS


def select_pair_intervals(waits: ChosenWaits, pairs: Sequence[Pair]) -> list[PairIntervals]:
    """Return the intervals between each pair of call sites in a window of the run."""
    intervals, cost = waits.delays.intervals, waits.costs.interval_ns
    pair_intervals = []
    for pair in pairs:
        rows = _order_intervals(waits, pair)
        rank, begin, end = intervals.rank[rows], intervals.begin_ns[rows], intervals.end_ns[rows]
        window_ns = find_window_begin(waits.trace)
        pair_intervals.append(PairIntervals(window_ns, rank, begin, end, cost[rows]))
    return pair_intervals


def find_longest(waits: ChosenWaits, ends_ns: Int) -> Float:
    """Return for a window what FindLongest returns for a run."""
    intervals = waits.delays.intervals
    column = np.searchsorted(ends_ns, intervals.end_ns, side="left")
    inside = column < len(ends_ns)
    longest = np.zeros((waits.trace.ranks, len(ends_ns)))
    length = (intervals.end_ns - intervals.begin_ns)[inside]
    np.maximum.at(longest, (intervals.rank[inside], column[inside]), length)
    return longest


def count_repetitions(trace: Trace, counts: Mapping[Pair, int], pair: Pair, recorded: int) -> float:
    """Return the estimated number of intervals between a pair of each rank, from its calls.

    counts: number of recorded intervals of all ranks between each pair.
    """
    if trace.sampling_interval == 1:
        return float(recorded)
    site = next(site_of_pair for site_of_pair in reversed(pair) if site_of_pair != INSIDE)
    sums = trace.message_sums
    calls = sums[sums["site_id"] == site].groupby("rank")["calls"].sum()
    if len(calls):
        total = float(calls.median())
    else:
        instances = trace.callsites["instances"].to_numpy() * callsite_scales(trace)
        total = sum(
            instances[number] for key, number in trace.aggregate[1].items() if site in key.sites
        )
    same = sum(count for other_pair, count in counts.items() if other_pair[1] == pair[1])
    return max(total * float(counts[pair] / same), float(recorded))


class RepetitionMatrix(DelayMatrix):
    """Length of each rank's n-th interval of work between two call sites.

    A rank is compared with the others at the same repetition, at whatever time. The intervals of a
    rank with far fewer ones are spread evenly over the repetitions. If only one rank works between
    these calls, it is compared with the longest work of the other ranks meanwhile.
    """

    unit = "repetition"

    def __init__(
        self,
        trace: Trace,
        pair: Pair,
        parts: Sequence[PairIntervals],
        counts: Mapping[Pair, int],
        longest: FindLongest,
    ):
        """Make the matrix from the intervals of all windows in order."""
        self.pair = pair
        work_intervals, cost, self._is_compared = _join_intervals(parts, trace.ranks)
        first = np.flatnonzero(np.diff(work_intervals.rank, prepend=-1))
        ranks, count = work_intervals.rank[first], np.diff(first, append=len(work_intervals.rank))
        repetitions = int(np.sort(count)[len(count) // 2])
        self._repetitions_of_one = np.ones(trace.ranks)
        few = count <= MAX_FEW_SHARE * repetitions
        self._repetitions_of_one[ranks[few]] = repetitions / count[few]
        nth = self._find_repetition(
            work_intervals.rank, np.arange(len(work_intervals.rank)) - np.repeat(first, count)
        )
        by_repetition = np.bincount(np.minimum(nth, repetitions), cost, repetitions + 1)
        number, scale = choose_columns(by_repetition[:-1], count_most_columns(len(ranks)))
        self._column_of = np.full(repetitions + 1, OUTSIDE, np.int64)
        self._column_of[number] = np.arange(len(number))
        self._firsts = _count_before(parts, trace.ranks)
        column = self._column_of[np.minimum(nth, repetitions)]
        begins = np.full(len(number), np.iinfo(np.int64).max)
        inside = column >= 0
        np.minimum.at(begins, column[inside], work_intervals.begin_ns[inside])
        is_alone = len(ranks) == 1 < trace.ranks
        if is_alone:
            ranks = np.arange(trace.ranks)
        total = count_repetitions(trace, counts, pair, repetitions)
        super().__init__(trace, ranks, Columns(number, begins, scale, repetitions, total))
        cells = Cells(ranks, len(number), column, work_intervals.rank)
        self.cost_ns = cells.sum(cost) * scale
        self._set_work(cells, work_intervals, longest if is_alone else None)

    def _find_repetition(self, rank: Int, nth: Int) -> Int:
        """Return the repetition of the n-th interval of a rank."""
        return ((nth + 0.5) * self._repetitions_of_one[rank]).astype(np.int64)

    def _set_work(
        self, cells: Cells, intervals: WorkIntervals, longest: FindLongest | None
    ) -> None:
        """Set the work and the costs that follow from it; longest: if only one rank works here."""
        work = cells.sum(intervals.end_ns - intervals.begin_ns)
        present = np.bincount(cells.inside[1], minlength=work.size).reshape(work.shape) > 0
        if longest is not None:
            self.alone_ns = float(np.median(work[present]))
            work = np.where(present, work, longest(intervals.end_ns[cells.column >= 0]))
        else:
            work[~present] = np.nan
        self.least_work_ns = np.asarray(np.nanmin(work, 0))
        self.work_ns = work - self.least_work_ns
        self._excess = np.nan_to_num(self.work_ns - column_medians(self.work_ns))
        # Work of the usual length may cost wait, too, as in a pipeline that fills.
        by_rank = np.sort(self.cost_ns.mean(1))
        self._usual_cost = np.minimum(self.cost_ns, by_rank[(len(work) - 1) // 2])

    def locate(self, waits: ChosenWaits) -> Cells:
        """Return the cells of the intervals of work in a window of the run."""
        intervals = waits.delays.intervals
        rows = _order_intervals(waits, self.pair)
        rank = intervals.rank[rows]
        _, first, count = np.unique(rank, return_index=True, return_counts=True)
        nth = np.arange(len(rows)) - np.repeat(first, count)
        nth += self._firsts[find_window_begin(waits.trace)][rank]
        nth = self._find_repetition(rank, nth)
        column = np.full(len(intervals.rank), OUTSIDE, np.int64)
        of_repetition = self._column_of[np.minimum(nth, len(self._column_of) - 1)]
        column[rows] = np.where(self._is_compared[rank], of_repetition, OUTSIDE)
        return Cells(self.ranks, self.instance_count, column, intervals.rank)

    def compute_waiting(self, work_ns: Float) -> Float:
        """Return the wait in ns that remains in each repetition if the ranks worked that long.

        The cost of a rank's work shrinks in proportion to its excess over the median, to that of
        the usual work.
        """
        late = self._excess > 0
        excess = np.nan_to_num(np.maximum(work_ns - column_medians(self.work_ns), 0.0))
        share = np.where(late, excess / np.where(late, self._excess, 1.0), 1.0)
        remaining = self._usual_cost + (self.cost_ns - self._usual_cost) * np.minimum(share, 1.0)
        return np.asarray(remaining.sum(0))

    def compute_caused_waits(self) -> Float:
        """Return the waiting that each rank causes; others may work longer with no rank waiting."""
        return np.asarray(self.cost_ns.sum(1))


def _join_intervals(
    parts: Sequence[PairIntervals], all_ranks: int
) -> tuple[WorkIntervals, Float, Bool]:
    """Return the intervals of windows by rank and begin, their costs, and which ranks have enough.

    Ranks with few intervals are left out.
    """
    rank, begin, end, cost = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("rank", "begin_ns", "end_ns", "cost_ns")
    )
    often = np.bincount(rank, minlength=all_ranks)
    has_enough = often >= MIN_REPETITION_SHARE * often.max()
    rank, begin, end, cost = put_in_order([rank, begin, end, cost], all_ranks)
    if not has_enough[often > 0].all():
        inside = has_enough[rank]
        rank, begin, end, cost = (column[inside] for column in (rank, begin, end, cost))
    return WorkIntervals(rank, begin, end, np.zeros(len(rank), np.int64)), cost, has_enough


def _order_intervals(waits: ChosenWaits, pair: Pair) -> Int:
    """Return the intervals of a window between two call sites, by rank and begin."""
    intervals, sites = waits.delays.intervals, waits.delays.sites
    key = sites.index(pair) if pair in sites else len(sites)
    rows = np.flatnonzero(intervals.key == key)
    columns = [intervals.rank[rows], intervals.begin_ns[rows], rows]
    return put_in_order(columns, waits.trace.ranks)[2]


def _count_before(parts: Sequence[PairIntervals], ranks: int) -> dict[int, Int]:
    """Return the number of each rank's intervals before each window, by its begin."""
    counts = [np.bincount(part.rank, minlength=ranks) for part in parts]
    before = np.cumsum([np.zeros(ranks, np.int64), *counts[:-1]], axis=0)
    return {part.window_ns: row for part, row in zip(parts, before, strict=True)}


def list_same_work(pairs: Sequence[Pair], pair_ns: Mapping[Pair, float]) -> list[Pair]:
    """Return the costliest pairs that end with the same calls as some pairs, without these.

    pair_ns: waiting that each pair causes.
    """
    same_work = []
    for after in dict.fromkeys(after for _, after in pairs if after != INSIDE):
        other_pairs = [pair for pair in pair_ns if pair[1] == after and pair not in pairs]
        other_pairs = [pair for pair in other_pairs if pair_ns[pair] > 0]
        same_work += sorted(other_pairs, key=lambda pair: -pair_ns[pair])[:MAX_SAME_PAIRS]
    return same_work


def sum_pair_work(waits: ChosenWaits) -> dict[Pair, Float]:
    """Return the work of each rank between each pair of call sites in a window, in ns."""
    intervals, ranks = waits.delays.intervals, waits.trace.ranks
    shape = len(waits.delays.sites), ranks
    cell, length = intervals.key * ranks + intervals.rank, intervals.end_ns - intervals.begin_ns
    work_ns = np.bincount(cell, length, shape[0] * shape[1]).reshape(shape)
    return dict(zip(waits.delays.sites, work_ns, strict=True))


def drop_divided_work(
    habits: Sequence[FoundHabit], windows: Sequence[Mapping[Pair, Float]]
) -> list[FoundHabit]:
    """Return the habits whose ranks work longer than other ranks in all of the same work together.

    Ranks at the edge of a sweep lack calls that divide the work of the other ranks, so they work
    longer between two calls, but not in a sweep. windows: of the run, as sum_pair_work.
    """
    work_ns = add_up(windows)
    pairs = list(work_ns)
    number = number_same_work(pairs)
    undivided: list[FoundHabit] = []
    for matrix, habit in habits:
        assert isinstance(matrix, RepetitionMatrix)
        is_same = number == number[pairs.index(matrix.pair)]
        of_ranks = np.sum([work_ns[pairs[index]] for index in np.flatnonzero(is_same)], 0)
        ranks = list(habit.ranks)
        other_work_ns = np.delete(of_ranks, ranks)
        claimed_ns = np.maximum(np.nan_to_num(habit.shift_ns), 0.0).sum()
        if ranks and len(other_work_ns):
            more_ns = np.maximum(of_ranks[ranks] - np.median(other_work_ns), 0.0).sum()
            if more_ns < MIN_MORE_SHARE * claimed_ns:
                continue
        undivided.append((matrix, habit))
    return undivided


def continue_habits(
    habits: Sequence[FoundHabit], matrices: Sequence[RepetitionMatrix]
) -> list[FoundHabit]:
    """Return the habits as they continue in other matrices of the same work."""
    continued: list[FoundHabit] = []
    known_habits = {(id(matrix), habit.cause, frozenset(habit.ranks)) for matrix, habit in habits}
    for source, known_habit in habits:
        if not isinstance(source, RepetitionMatrix) or not _is_constant(known_habit):
            continue
        for matrix in matrices:
            is_known = (id(matrix), known_habit.cause, frozenset(known_habit.ranks)) in known_habits
            if not is_known and matrix.pair[1] == source.pair[1]:
                habit = _continue_habit(source, known_habit, matrix)
                continued += [] if habit is None else [(matrix, habit)]
    return continued


def _is_constant(habit: Habit) -> bool:
    """Return whether ranks are late in consecutive repetitions."""
    is_late = habit.cause in ("rank", "node") and len(habit.ranks) > 0
    return is_late and not (habit.each or habit.grows)


def _continue_habit(source: DelayMatrix, habit: Habit, matrix: DelayMatrix) -> Habit | None:
    """Return a habit of one matrix in another one, None if its ranks are not late there."""
    rows = np.searchsorted(matrix.ranks, habit.ranks)
    rows = rows[np.isin(habit.ranks, matrix.ranks)]
    other_work_ns = np.delete(matrix.work_ns, rows, 0)
    if len(rows) < len(habit.ranks) or not len(other_work_ns):
        return None
    columns = _find_columns(source, habit, matrix)
    excess = np.nan_to_num(matrix.work_ns[rows] - column_medians(other_work_ns))[:, columns]
    is_late = excess.mean(0) >= MIN_LATE_SHARE * habit.late_ns
    if not is_late.sum() >= max(MIN_LATE_SHARE * len(columns), 1):
        return None
    columns, excess = columns[is_late], excess[:, is_late]
    shift = np.zeros_like(matrix.work_ns)
    shift[np.ix_(rows, columns)] = np.clip(excess, 0.0, _find_usual_delays(source, habit))
    gain = compute_gain(matrix, matrix.work_ns, shift, matrix.compute_waiting(matrix.work_ns))
    if not gain > 0:
        return None
    fields = {"instances": columns, "gain_ns": gain, "shift_ns": shift}
    return replace(habit, levels=(), prerequisite=None, **fields)


def _find_columns(source: DelayMatrix, habit: Habit, matrix: DelayMatrix) -> Int:
    """Return the columns of a matrix in the part of the run in which a habit holds."""
    columns = np.arange(matrix.instance_count)
    if len(habit.instances) == source.instance_count:
        return columns
    begins = source.columns.begin_ns[habit.instances]
    of_matrix = matrix.columns.begin_ns
    return np.flatnonzero((of_matrix >= begins.min()) & (of_matrix <= begins.max()))


def _find_usual_delays(source: DelayMatrix, habit: Habit) -> Float:
    """Return the maximum delay in ns that a habit explains, as a column with each rank."""
    if habit.varies is not None:
        return np.full((len(habit.ranks), 1), np.inf)
    rows = np.searchsorted(source.ranks, habit.ranks)
    shifts = habit.shift_ns[rows][:, habit.instances]
    return np.asarray(np.median(shifts, 1, keepdims=True))
