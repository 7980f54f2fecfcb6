"""Work of all ranks by step or repetition, as input to the search for patterns.

The search (patterns.py) needs values whose excess over the other ranks costs wait. For one call
site these are arrivals. For a whole run it is work: time without waits, whose costs are known
(delay_graph.py). A rank that waits for others has no excess here, however late it arrives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.diagnosis.arrival_matrix import (
    MAX_ARRIVALS,
    MAX_INSTANCES,
    ArrivalMatrix,
    column_medians,
    number_nodes,
)
from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_STEPS = 12  # fewer synchronisations of all ranks do not divide a run
OUTSIDE = -1  # column of intervals that are not in a matrix


class DelayMatrix(ArrivalMatrix):
    """Work of each rank (row) in each column, in ns beyond the least of the column.

    - unit: "step" or "repetition", of which a column is one.
    - column: column of each interval of work, OUTSIDE if it is in none.
    - cost_ns: waiting that the work of each rank and column causes, anywhere in the run.
    """

    unit: str

    def __init__(self, trace: Trace, delays: Delays, ranks: Int, column: Int, begin_ns: Int):
        """Prepare the rows and columns; begin_ns: begin of each column."""
        self.ranks, self.column, self.delays = ranks, column, delays
        self.first_ns, self.number = begin_ns, np.arange(len(begin_ns))
        self.blocks = []
        self.least_ns = max(float(trace.clock_error_ns), 1_000.0)
        self.nodes, self.node = number_nodes(trace, ranks)

    def sum_cells(self, values: Float | Int) -> Float:
        """Return the sum over intervals of work by rank and column."""
        inside = self.column >= 0
        row = np.searchsorted(self.ranks, self.delays.intervals.rank[inside])
        cell = row * len(self.number) + self.column[inside]
        shape = len(self.ranks), len(self.number)
        return np.bincount(cell, values[inside], shape[0] * shape[1]).reshape(shape).astype(float)

    def compute_excess(self, ranks: Sequence[int], columns: Int) -> Float:
        """Return the work of some ranks beyond the median of the others in the column; 0 elsewhere.

        Without ranks, or without others, all ranks are compared with the median of all.
        """
        rows = np.isin(self.ranks, ranks)
        if rows.all() or not rows.any():
            rows[:] = True
        others = self.arrival[:, columns] if rows.all() else self.arrival[np.ix_(~rows, columns)]
        cells = np.ix_(rows, columns)
        excess = np.zeros_like(self.arrival)
        excess[cells] = np.maximum(self.arrival[cells] - column_medians(others), 0.0)
        return np.nan_to_num(excess)

    def spread_over_intervals(self, values: Float, ranks: Sequence[int]) -> Float:
        """Return the part of a cell's value for each interval, at most its length.

        The parts are in proportion to the lengths beyond the usual length between the same calls on
        other ranks than the given ones. What does not fit is in proportion to the lengths.
        """
        intervals = self.delays.intervals
        length = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
        others = ~np.isin(intervals.rank, ranks)
        usual = _group_medians(intervals.key, length, others if others.any() else ~others)
        part = np.minimum(self._spread(values, np.maximum(length - usual, 0.0)), length)
        missing = np.maximum(values - self.sum_cells(part), 0.0)
        return part + np.minimum(self._spread(missing, length - part), length - part)

    def _spread(self, values: Float, weight: Float) -> Float:
        whole = self.sum_cells(weight)
        share = values / np.where(whole > 0, whole, 1.0)
        inside = self.column >= 0
        row = np.searchsorted(self.ranks, self.delays.intervals.rank[inside])
        part = np.zeros(len(weight))
        part[inside] = share[row, self.column[inside]] * weight[inside]
        return part


class StepMatrix(DelayMatrix):
    """Time of each rank in each step without its waits.

    A step ends when all ranks meet in a synchronising collective. All ranks take equally long for a
    step, so a rank that waits less worked longer. Many short steps are joined.
    """

    unit = "step"

    def __init__(self, trace: Trace, delays: Delays, edges_ns: Int, cost_ns: Float, chosen: Float):
        """Make the matrix. chosen: 1 for the groups of waits to explain, else 0."""
        column = _find_columns(edges_ns, delays.intervals.end_ns)
        super().__init__(trace, delays, np.arange(trace.ranks), column, edges_ns[:-1])
        self.cost_ns = self.sum_cells(cost_ns)
        waits = delays.waits
        wait_ns = (waits.end_ns - waits.begin_ns).astype(np.float64)
        shape = trace.ranks, len(self.number)
        cell = waits.rank * shape[1] + _find_columns(edges_ns, waits.end_ns)
        waited = np.bincount(cell, wait_ns, shape[0] * shape[1]).reshape(shape)
        selected = np.bincount(cell, wait_ns * chosen[waits.group], shape[0] * shape[1])
        self.wait_ns = selected.reshape(shape).sum(0)
        self.arrival = waited.max(0) - waited

    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns that remains in each step if the ranks took that long.

        Each rank waits for the slowest one until they meet, in whichever call.
        """
        whole, remaining = ((times.max(0) - times).sum(0) for times in (self.arrival, arrival))
        return np.asarray(self.wait_ns * remaining / np.where(whole > 0, whole, 1.0))


class RepetitionMatrix(DelayMatrix):
    """Length of each rank's n-th interval of work between two call sites.

    For runs whose ranks do not all meet, such as pipelines. A rank is compared with the others at
    the same repetition, at whatever time.
    """

    unit = "repetition"

    def __init__(self, trace: Trace, delays: Delays, key: int, cost_ns: Float):
        """Make the matrix for the intervals with a key."""
        intervals = delays.intervals
        mine = np.flatnonzero(intervals.key == key)
        mine = mine[np.lexsort((intervals.begin_ns[mine], intervals.rank[mine]))]
        ranks, first, count = np.unique(intervals.rank[mine], return_index=True, return_counts=True)
        nth = np.arange(len(mine)) - np.repeat(first, count)
        most = min(int(np.median(count)), MAX_ARRIVALS // len(ranks), MAX_INSTANCES)
        column = np.full(len(intervals.rank), OUTSIDE, np.int64)
        column[mine] = np.where(nth < most, nth, OUTSIDE)
        begin = np.full(most, np.iinfo(np.int64).max)
        inside = mine[nth < most]
        np.minimum.at(begin, column[inside], intervals.begin_ns[inside])
        super().__init__(trace, delays, ranks, column, begin)
        work = self.sum_cells(intervals.end_ns - intervals.begin_ns)
        work[self.sum_cells(np.ones(len(column))) == 0] = np.nan
        self.cost_ns = self.sum_cells(cost_ns)
        self.arrival = work - np.nanmin(work, 0)
        self._excess = np.nan_to_num(self.arrival - column_medians(self.arrival))

    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns that remains in each repetition if the ranks worked that long.

        The cost of a rank's work shrinks in proportion to its excess over the median.
        """
        late = self._excess > 0
        excess = np.nan_to_num(np.maximum(arrival - column_medians(self.arrival), 0.0))
        share = np.where(late, excess / np.where(late, self._excess, 1.0), 1.0)
        return np.asarray((self.cost_ns * np.minimum(share, 1.0)).sum(0))


def _group_medians(group: Int, values: Float, counted: Bool) -> Float:
    """Return for each value the median of its group's counted values, 0 if there are none."""
    groups = int(group.max(initial=-1)) + 1
    of, chosen = group[counted], values[counted]
    ordered = chosen[np.lexsort((chosen, of))]
    count = np.bincount(of, minlength=groups)
    middle = np.minimum(np.cumsum(count) - count + count // 2, max(len(ordered) - 1, 0))
    median = np.where(count > 0, ordered[middle], 0.0)
    result: Float = median[group]
    return result


def find_step_edges(trace: Trace, delays: Delays) -> Int | None:
    """Return the times at which all ranks met, from the start on, or None if they hardly met."""
    begin, end = trace.calls_start_ns, trace.calls_start_ns + trace.duration_ns
    most = max(min(MAX_ARRIVALS // max(trace.ranks, 1), MAX_INSTANCES), 1)
    meetings = np.unique(delays.meetings_of_all)
    meetings = meetings[(meetings > begin) & (meetings <= end)]
    if len(meetings) < MIN_STEPS:
        return None
    every = -(-len(meetings) // most)
    return np.concatenate([[begin], meetings[every - 1 :: every]])


def _find_columns(edges_ns: Int, end_ns: Int) -> Int:
    """Return the step in which intervals or waits end."""
    column = np.searchsorted(edges_ns, end_ns, side="left") - 1
    return np.clip(column, 0, len(edges_ns) - 2)
