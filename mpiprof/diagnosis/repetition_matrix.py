"""Matrices of the work of ranks between two call sites, by repetition.

For runs whose ranks do not all meet, such as pipelines. A window of a large run returns its
intervals between these call sites. A rank's intervals are numbered through all windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mpiprof.account.delay_graph import Intervals
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.causes.place import Pair
from mpiprof.diagnosis.delay_matrix import (
    MIN_REPETITION_SHARE,
    OUTSIDE,
    Cells,
    Columns,
    DelayMatrix,
    choose_columns,
    count_most_columns,
)
from mpiprof.diagnosis.explained_waits import ChosenWaits
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.metrics.time_order import put_in_order
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import START_NS, Bool, Float, Int

MAX_FEW_SHARE = 0.75  # of the usual number of intervals, up to which a rank has far fewer

# Returns the longest interval of each rank that ends up to each time, from the last one on.
FindLongest: TypeAlias = Callable[[Int], Float]


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
    found = []
    for pair in pairs:
        mine = _order_intervals(waits, pair)
        rank, begin, end = intervals.rank[mine], intervals.begin_ns[mine], intervals.end_ns[mine]
        window_ns = find_window_begin(waits.trace)
        found.append(PairIntervals(window_ns, rank, begin, end, cost[mine]))
    return found


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
    site = next(of for of in reversed(pair) if of != INSIDE)
    sums = trace.message_sums
    calls = sums[sums["site_id"] == site].groupby("rank")["calls"].sum()
    if len(calls):
        total = float(calls.median())
    else:
        instances = trace.callsites["instances"].to_numpy() * callsite_scales(trace)
        total = sum(
            instances[number] for of, number in trace.aggregate[1].items() if site in of.sites
        )
    same = sum(count for other, count in counts.items() if other[1] == pair[1])
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
        mine, cost, self._is_compared = _join_intervals(parts, trace.ranks)
        first = np.flatnonzero(np.diff(mine.rank, prepend=-1))
        ranks, count = mine.rank[first], np.diff(first, append=len(mine.rank))
        repetitions = int(np.sort(count)[len(count) // 2])
        self._repetitions_of_one = np.ones(trace.ranks)
        few = count <= MAX_FEW_SHARE * repetitions
        self._repetitions_of_one[ranks[few]] = repetitions / count[few]
        nth = self._find_repetition(mine.rank, np.arange(len(mine.rank)) - np.repeat(first, count))
        by_repetition = np.bincount(np.minimum(nth, repetitions), cost, repetitions + 1)
        number, scale = choose_columns(by_repetition[:-1], count_most_columns(len(ranks)))
        self._column_of = np.full(repetitions + 1, OUTSIDE, np.int64)
        self._column_of[number] = np.arange(len(number))
        self._firsts = _count_before(parts, trace.ranks)
        column = self._column_of[np.minimum(nth, repetitions)]
        begins = np.full(len(number), np.iinfo(np.int64).max)
        inside = column >= 0
        np.minimum.at(begins, column[inside], mine.begin_ns[inside])
        is_alone = len(ranks) == 1 < trace.ranks
        if is_alone:
            ranks = np.arange(trace.ranks)
        total = count_repetitions(trace, counts, pair, repetitions)
        super().__init__(trace, ranks, Columns(number, begins, scale, repetitions, total))
        cells = Cells(ranks, len(number), column, mine.rank)
        self.cost_ns = cells.sum(cost) * scale
        self._set_work(cells, mine, longest if is_alone else None)

    def _find_repetition(self, rank: Int, nth: Int) -> Int:
        """Return the repetition of the n-th interval of a rank."""
        return ((nth + 0.5) * self._repetitions_of_one[rank]).astype(np.int64)

    def _set_work(self, cells: Cells, intervals: Intervals, longest: FindLongest | None) -> None:
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
        mine = _order_intervals(waits, self.pair)
        rank = intervals.rank[mine]
        _, first, count = np.unique(rank, return_index=True, return_counts=True)
        nth = np.arange(len(mine)) - np.repeat(first, count)
        nth += self._firsts[find_window_begin(waits.trace)][rank]
        nth = self._find_repetition(rank, nth)
        column = np.full(len(intervals.rank), OUTSIDE, np.int64)
        of_repetition = self._column_of[np.minimum(nth, len(self._column_of) - 1)]
        column[mine] = np.where(self._is_compared[rank], of_repetition, OUTSIDE)
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
) -> tuple[Intervals, Float, Bool]:
    """Return the intervals of windows by rank and begin, their costs, and which ranks have enough.

    Ranks with few intervals are left out.
    """
    rank, begin, end, cost = (
        np.concatenate([getattr(of, name) for of in parts])
        for name in ("rank", "begin_ns", "end_ns", "cost_ns")
    )
    often = np.bincount(rank, minlength=all_ranks)
    has_enough = often >= MIN_REPETITION_SHARE * often.max()
    rank, begin, end, cost = put_in_order([rank, begin, end, cost], all_ranks)
    if not has_enough[often > 0].all():
        inside = has_enough[rank]
        rank, begin, end, cost = (of[inside] for of in (rank, begin, end, cost))
    return Intervals(rank, begin, end, np.zeros(len(rank), np.int64)), cost, has_enough


def _order_intervals(waits: ChosenWaits, pair: Pair) -> Int:
    """Return the intervals of a window between two call sites, by rank and begin."""
    intervals, sites = waits.delays.intervals, waits.delays.sites
    key = sites.index(pair) if pair in sites else len(sites)
    mine = np.flatnonzero(intervals.key == key)
    columns = [intervals.rank[mine], intervals.begin_ns[mine], mine]
    return put_in_order(columns, waits.trace.ranks)[2]


def _count_before(parts: Sequence[PairIntervals], ranks: int) -> dict[int, Int]:
    """Return the number of each rank's intervals before each window, by its begin."""
    counts = [np.bincount(of.rank, minlength=ranks) for of in parts]
    before = np.cumsum([np.zeros(ranks, np.int64), *counts[:-1]], axis=0)
    return {of.window_ns: row for of, row in zip(parts, before, strict=True)}
