"""Work of all ranks by step or repetition, as input to the search for patterns.

The search (patterns.py) needs times whose excess over the other ranks costs wait. Work is time
without waits, whose costs are known (delay_graph.py). A rank that waits for others has no excess
here, however late it arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.diagnosis.delay_graph import Intervals
from mpiprof.diagnosis.run_steps import Steps, number_steps
from mpiprof.diagnosis.work_intervals import INSIDE
from mpiprof.diagnosis.work_matrix import MAX_ARRIVALS, MAX_INSTANCES, WorkMatrix, column_medians
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float, Int

# Minimum number of repetitions of a rank, over the largest one. Fewer intervals are long by chance:
# shorter ones have no records.
MIN_REPETITION_SHARE = 0.2
RUNS = 64  # of consecutive columns, if not all fit into a matrix
RUN_LENGTH = 256  # maximum number of columns in a run
MAX_COSTLY = 8  # columns with much more wait than usual, which are in a matrix in any case
COSTLY_FACTOR = 10.0  # multiple of the mean wait of all columns
OUTSIDE = -1  # column of intervals that are not in a matrix


@dataclass(frozen=True)
class Columns:
    """Columns of a matrix: number (of the step or repetition), begin_ns and scale.

    count: number of recorded steps or repetitions. total: estimated number in the run.
    """

    number: Int
    begin_ns: Int
    scale: Float
    count: int
    total: float


class DelayMatrix(WorkMatrix):
    """Work of each rank (row) in each column, in ns beyond the least of the column.

    - unit: "step" or "repetition", of which a column is one.
    - callsite: at which all steps end, or None.
    - column: column of each interval of work, OUTSIDE if it is in none.
    - cost_ns: waiting that the work of each rank and column causes, anywhere in the run.
    - scale: factor of each column, with which the waiting of all columns is that of the run.
    - count: number of recorded steps or repetitions, of which the columns may be a part.
    - alone_ns: usual work of the only rank that works there, None if other ranks work there, too.
    """

    unit: str
    callsite: int | None = None
    alone_ns: float | None = None
    cost_ns: Float

    def __init__(self, trace: Trace, delays: Delays, ranks: Int, column: Int, columns: Columns):
        """Prepare the rows and columns; column: of each interval of work."""
        super().__init__(trace, ranks, columns.number, columns.begin_ns)
        self.column, self.delays = column, delays
        self.columns, self.count = columns, columns.count
        self.scale = columns.scale.copy()

    def find_scale(self, index: Int) -> float:
        """Return the number of steps or repetitions that each of some columns stands for."""
        weights = self.cost_ns[:, index].sum(0) / self.scale[index]
        mean = np.average(self.columns.scale[index], weights=weights if weights.any() else None)
        return float(mean) * self.columns.total / self.count

    @cached_property
    def _cells(self) -> tuple[Int, Int]:
        """The intervals of work in the matrix, and the cell of each."""
        inside = np.flatnonzero(self.column >= 0)
        row = self.delays.intervals.rank[inside]
        if len(self.ranks) <= self.ranks[-1]:  # some ranks have no row
            row = np.searchsorted(self.ranks, row)
        return inside, row * len(self.number) + self.column[inside]

    def sum_cells(self, values: Float | Int) -> Float:
        """Return the sum over intervals of work by rank and column."""
        inside, cell = self._cells
        shape = len(self.ranks), len(self.number)
        return np.bincount(cell, values[inside], shape[0] * shape[1]).reshape(shape).astype(float)

    def spread_over_intervals(self, values: Float, ranks: Sequence[int]) -> Float:
        """Return the part of a cell's value for each interval, at most its length.

        The parts are in proportion to the lengths beyond the usual length between the same calls on
        other ranks than the given ones. What does not fit is in proportion to the lengths.
        """
        intervals = self.delays.intervals
        length = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
        others = ~np.isin(intervals.rank, ranks)
        usual = group_medians(intervals.key, length, others if others.any() else ~others)
        part = np.minimum(self._spread(values, np.maximum(length - usual, 0.0)), length)
        missing = np.maximum(values - self.sum_cells(part), 0.0)
        return part + np.minimum(self._spread(missing, length - part), length - part)

    def _spread(self, values: Float, weight: Float) -> Float:
        whole = self.sum_cells(weight)
        share = values / np.where(whole > 0, whole, 1.0)
        inside, cell = self._cells
        part = np.zeros(len(weight))
        part[inside] = share.ravel()[cell] * weight[inside]
        return part


class StepMatrix(DelayMatrix):
    """Time of each rank in each step without its waits, of the steps that end at some call sites.

    All ranks take equally long for a step, so a rank that waits less worked longer. Time in
    messages without records may be waiting, so it is no work. If there are very many steps, some
    of them stand for all.
    """

    unit = "step"

    def __init__(
        self,
        trace: Trace,
        delays: Delays,
        steps: Steps,
        callsites: Sequence[int],
        cost_ns: Float,
        chosen: Float,
    ):
        """Make the matrix. chosen: weight of each group of waits to explain, else 0."""
        self.callsite = callsites[0] if len(callsites) == 1 else None
        mine = np.flatnonzero(np.isin(steps.callsite, callsites) & steps.is_known)
        waits = delays.waits
        wait_ns = (waits.end_ns - waits.begin_ns).astype(np.float64)
        weighted = wait_ns * chosen[waits.group]
        by_step = np.bincount(steps.of_waits, weighted, len(steps.callsite))[mine]
        index, scale = choose_columns(by_step, _max_columns(trace.ranks))
        column_of = np.full(len(steps.callsite), OUTSIDE, np.int64)
        column_of[mine[index]] = np.arange(len(index))
        number = number_steps(trace, steps, mine, callsites)
        total = float(number[-1] + 1) if trace.sampling_interval > 1 else float(len(mine))
        of = number[index], steps.edges_ns[mine[index]], scale
        columns = Columns(*of, len(mine), total)
        column = column_of[steps.of_intervals]
        super().__init__(trace, delays, np.arange(trace.ranks), column, columns)
        self.cost_ns = self.sum_cells(cost_ns) * scale
        wait_column = column_of[steps.of_waits]
        inside = np.flatnonzero(wait_column >= 0)  # often a small part
        rank, wait_column, group = waits.rank[inside], wait_column[inside], waits.group[inside]
        wait_ns, weighted = wait_ns[inside], weighted[inside]
        of_messages, counted = delays.callsite[group] < 0, chosen[group] > 0
        waited = self._sum_by_rank(rank, wait_column, wait_ns * ~of_messages)
        in_messages = self._sum_by_rank(rank, wait_column, wait_ns * of_messages)
        time = delays.message_time
        spent_column = column_of[steps.find(time.end_ns)]
        inside = np.flatnonzero(spent_column >= 0)
        spent = time.rank[inside], spent_column[inside], time.spent_ns[inside]
        waited += np.maximum(in_messages, self._sum_by_rank(*spent))
        self.wait_ns = self._sum_by_rank(rank, wait_column, wait_ns * counted).sum(0)
        of_all = self._sum_by_rank(rank, wait_column, weighted).sum(0)
        self.scale *= np.where(self.wait_ns > 0, of_all / np.maximum(self.wait_ns, 1.0), 1.0)
        self.work_ns = waited.max(0) - waited

    def _sum_by_rank(self, rank: Int, column: Int, values: Float | Int) -> Float:
        """Return the sum of values by rank and column."""
        shape = len(self.ranks), len(self.number)
        sums = np.bincount(rank * shape[1] + column, values, shape[0] * shape[1])
        return sums.reshape(shape).astype(np.float64)

    def compute_waiting(self, work_ns: Float) -> Float:
        """Return the wait in ns that remains in each step if the ranks took that long.

        Each rank waits for the slowest one until they meet, in whichever call. If ranks waited for
        each other in turn, they waited longer than that, and keep the rest.
        """
        whole, remaining = ((times.max(0) - times).sum(0) for times in (self.work_ns, work_ns))
        share = np.minimum(self.wait_ns / np.where(whole > 0, whole, 1.0), 1.0)
        waits = np.maximum(self.wait_ns + share * (remaining - whole), 0.0)
        return np.asarray(waits * self.scale)


class RepetitionMatrix(DelayMatrix):
    """Length of each rank's n-th interval of work between two call sites.

    For runs whose ranks do not all meet, such as pipelines. A rank is compared with the others at
    the same repetition, at whatever time. If only one rank works between these calls, it is
    compared with the longest work of the other ranks meanwhile.
    """

    unit = "repetition"

    def __init__(self, trace: Trace, delays: Delays, key: int, cost_ns: Float):
        """Make the matrix for the intervals with a key."""
        intervals = delays.intervals
        mine = np.flatnonzero(intervals.key == key)
        rank, begin = intervals.rank[mine], intervals.begin_ns[mine]
        if not is_in_order(rank, begin):
            order = np.lexsort((begin, rank))
            mine, rank = mine[order], rank[order]
        often = np.bincount(rank)
        is_frequent = often >= MIN_REPETITION_SHARE * often.max()
        if not is_frequent[often > 0].all():
            mine = mine[is_frequent[rank]]
            rank = intervals.rank[mine]
        first = np.flatnonzero(np.diff(rank, prepend=-1))
        ranks, count = rank[first], np.diff(first, append=len(rank))
        nth = np.arange(len(mine)) - np.repeat(first, count)
        repetitions = int(np.median(count))
        by_repetition = np.bincount(np.minimum(nth, repetitions), cost_ns[mine], repetitions + 1)
        number, scale = choose_columns(by_repetition[:-1], _max_columns(len(ranks)))
        column_of = np.full(repetitions + 1, OUTSIDE, np.int64)
        column_of[number] = np.arange(len(number))
        column = np.full(len(intervals.rank), OUTSIDE, np.int64)
        column[mine] = column_of[np.minimum(nth, repetitions)]
        begin = np.full(len(number), np.iinfo(np.int64).max)
        inside = mine[column[mine] >= 0]
        np.minimum.at(begin, column[inside], intervals.begin_ns[inside])
        is_alone = len(ranks) == 1 < trace.ranks
        if is_alone:
            ranks = np.arange(trace.ranks)
        total = _count_repetitions(trace, delays, key, repetitions)
        columns = Columns(number, begin, scale, repetitions, total)
        super().__init__(trace, delays, ranks, column, columns)
        work = self.sum_cells(intervals.end_ns - intervals.begin_ns)
        cells = self._cells[1]
        present = np.bincount(cells, minlength=work.size).reshape(work.shape) > 0
        if is_alone:
            self.alone_ns = float(np.median(work[present]))
            work = np.where(
                present, work, _find_longest(intervals, intervals.end_ns[inside], ranks)
            )
        else:
            work[~present] = np.nan
        self.cost_ns = self.sum_cells(cost_ns) * scale
        self.work_ns = work - np.nanmin(work, 0)
        self._excess = np.nan_to_num(self.work_ns - column_medians(self.work_ns))
        # Work of the usual length may cost wait, too, as in a pipeline that fills.
        by_rank = np.sort(self.cost_ns.mean(1))
        self._usual_cost = np.minimum(self.cost_ns, by_rank[(len(ranks) - 1) // 2])

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


def is_in_order(rank: Int, begin_ns: Int) -> bool:
    """Return whether intervals are in order of rank and begin."""
    rises = begin_ns[1:] >= begin_ns[:-1]
    rises[rank[1:] > rank[:-1]] = True
    return bool(rises.all() and (rank[1:] >= rank[:-1]).all())


def choose_columns(wait_ns: Array, most: int) -> tuple[Int, Float]:
    """Return the columns of a matrix: indices of at most about `most` steps, and their scales.

    These are evenly spread runs of consecutive steps, so that periods remain visible, and the few
    steps with very much wait. scale: number of steps that each one stands for, in proportion to the
    wait. wait_ns: of each step.
    """
    count = len(wait_ns)
    if count <= most:
        return np.arange(count), np.ones(count)
    costly = np.argsort(-wait_ns, kind="stable")[: min(MAX_COSTLY, most)]
    costly = costly[wait_ns[costly] > COSTLY_FACTOR * wait_ns.mean()]
    length = min(max(most // RUNS, 1), RUN_LENGTH)
    runs = -(-count // length)
    every = -(-runs // max(most // length, 1))
    is_regular = np.arange(count) // length % every == 0
    is_regular[costly] = False
    rest = np.delete(wait_ns, costly).sum()
    known = wait_ns[is_regular].sum()
    scales = np.ones(count)
    scales[is_regular] = rest / known if known > 0 else 1.0
    is_regular[costly] = True
    return np.flatnonzero(is_regular), scales[is_regular]


def _count_repetitions(trace: Trace, delays: Delays, key: int, recorded: int) -> float:
    """Return the estimated number of intervals with a key of each rank, from its calls."""
    if trace.sampling_interval == 1:
        return float(recorded)
    site = next(of for of in reversed(delays.sites[key]) if of != INSIDE)
    sums = trace.message_sums
    calls = sums[sums["site_id"] == site].groupby("rank")["calls"].sum()
    if len(calls):
        total = float(calls.median())
    else:
        instances = trace.callsites["instances"].to_numpy() * callsite_scales(trace)
        total = sum(
            instances[number] for of, number in trace.aggregate[1].items() if site in of.sites
        )
    counts = np.bincount(delays.intervals.key, minlength=len(delays.sites))
    same = [other for other, pair in enumerate(delays.sites) if pair[1] == delays.sites[key][1]]
    return max(total * float(counts[key] / counts[same].sum()), float(recorded))


def _max_columns(rows: int) -> int:
    """Return the maximum number of columns of a matrix."""
    return max(min(MAX_ARRIVALS // max(rows, 1), MAX_INSTANCES), 1)


def _find_longest(intervals: Intervals, ends_ns: Int, ranks: Int) -> Float:
    """Return the longest interval of each rank that ends up to each time, from the last one on."""
    column = np.searchsorted(ends_ns, intervals.end_ns, side="left")
    inside = column < len(ends_ns)
    longest = np.zeros((len(ranks), len(ends_ns)))
    length = (intervals.end_ns - intervals.begin_ns)[inside]
    np.maximum.at(longest, (intervals.rank[inside], column[inside]), length)
    return longest


def group_medians(group: Int, values: Float, counted: Bool) -> Float:
    """Return for each value the median of its group's counted values, 0 if there are none."""
    groups = int(group.max(initial=-1)) + 1
    of, chosen = group[counted], values[counted]
    ordered = chosen[np.lexsort((chosen, of))]
    count = np.bincount(of, minlength=groups)
    middle = np.minimum(np.cumsum(count) - count + count // 2, max(len(ordered) - 1, 0))
    median = np.where(count > 0, ordered[middle], 0.0)
    result: Float = median[group]
    return result
