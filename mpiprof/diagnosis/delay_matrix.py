"""Work of all ranks between synchronisations, as input to the search for patterns.

The search (patterns.py) needs values whose excess over the other ranks costs wait. For one call
site these are arrivals. For a whole run it is work: the intervals without waiting, whose costs are
known (delay_graph.py). A rank that waits for others has no excess here, however late it arrives.
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
from mpiprof.diagnosis.delay_graph import DelayCosts
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_MEETINGS = 12  # fewer synchronisations of all ranks do not divide a run
TIME_SLICES = 64


class DelayMatrix(ArrivalMatrix):
    """Time of each rank (row) in each step (column) without its waits, in ns beyond the least.

    A step ends when all ranks meet in a synchronising collective, or else when all have called a
    collective. Without such collectives the run is divided into equal slices of time. Many short
    steps are joined.

    - edges_ns: begin of each step and the end of the last one.
    - cost_ns: waiting that the work of each rank and step causes, anywhere in the run.
    - synchronised: True if steps end with a meeting of all ranks.
    """

    def __init__(self, trace: Trace, delays: Delays, costs: DelayCosts, chosen: Bool) -> None:
        """Make the matrix of the chosen groups of waits and their costs."""
        self.ranks = np.arange(trace.ranks)
        self.edges_ns, self.synchronised = _find_steps(trace, delays)
        self.first_ns, self.number = self.edges_ns[:-1], np.arange(len(self.edges_ns) - 1)
        self.blocks = []
        self.least_ns = max(float(trace.clock_error_ns), 1_000.0)
        self.nodes, self.node = number_nodes(trace, self.ranks)
        self.step = self._find_step(delays.intervals.end_ns)
        self.cost_ns = self.sum_cells(delays, costs.interval_ns)
        waits = delays.waits
        wait_ns = (waits.end_ns - waits.begin_ns).astype(np.float64)
        cell = waits.rank * len(self.number) + self._find_step(waits.end_ns)
        shape = len(self.ranks), len(self.number)
        waited = np.bincount(cell, wait_ns, shape[0] * shape[1]).reshape(shape)
        selected = np.bincount(cell, wait_ns * chosen[waits.group], shape[0] * shape[1])
        self.wait_ns = selected.reshape(shape).sum(0)
        self.arrival = waited.max(0) - waited
        self._excess = self.arrival - column_medians(self.arrival)

    def _find_step(self, end_ns: Int) -> Int:
        """Return the step in which intervals or waits end."""
        step = np.searchsorted(self.edges_ns, end_ns, side="left") - 1
        return np.clip(step, 0, len(self.number) - 1)

    def sum_cells(self, delays: Delays, values: Float | Int, chosen: Bool | None = None) -> Float:
        """Return the sum over intervals by rank and step; of the chosen intervals if given."""
        columns = len(self.number)
        cell = delays.intervals.rank * columns + self.step
        if chosen is not None:
            cell, values = cell[chosen], values[chosen]
        sums = np.bincount(cell, values, len(self.ranks) * columns)
        return np.asarray(sums.reshape(len(self.ranks), columns))

    def compute_excess(self, ranks: Sequence[int], columns: Int) -> Float:
        """Return the work of some ranks beyond the median of the step; 0 elsewhere.

        Without ranks, all ranks count.
        """
        excess = np.zeros_like(self.arrival)
        rows = np.isin(self.ranks, ranks) if len(ranks) else np.ones(len(self.ranks), np.bool_)
        cells = np.ix_(rows, columns)
        excess[cells] = np.maximum(self._excess[cells], 0.0)
        return excess

    def spread_over_intervals(self, delays: Delays, values: Float, weight: Float) -> Float:
        """Return the part of a cell's value for each interval, in proportion to weights."""
        whole = self.sum_cells(delays, weight)
        share = values / np.where(whole > 0, whole, 1.0)
        part: Float = share[delays.intervals.rank, self.step] * weight
        return part

    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns that remains in each step if the ranks took that long.

        If all ranks meet at its end, each waits for the slowest one, in whichever call. Otherwise
        the cost of each rank shrinks in proportion to its excess over the median of the step.
        """
        if self.synchronised:
            whole, remaining = ((times.max(0) - times).sum(0) for times in (self.arrival, arrival))
            return np.asarray(self.wait_ns * remaining / np.where(whole > 0, whole, 1.0))
        usual = column_medians(self.arrival)
        late = self._excess > 0
        excess = np.maximum(arrival - usual, 0.0)
        share = np.where(late, excess / np.where(late, self._excess, 1.0), 1.0)
        return np.asarray((self.cost_ns * np.minimum(share, 1.0)).sum(0))


def _find_steps(trace: Trace, delays: Delays) -> tuple[Int, bool]:
    """Return the edges of the steps, and whether all ranks meet there."""
    begin, end = trace.calls_start_ns, trace.calls_start_ns + trace.duration_ns
    most = max(min(MAX_ARRIVALS // max(trace.ranks, 1), MAX_INSTANCES), 1)
    for times, synchronised in ((delays.meetings_of_all, True), (delays.calls_of_all, False)):
        inside = np.unique(times[(times > begin) & (times <= end)])
        if len(inside) >= MIN_MEETINGS:
            every = -(-len(inside) // most)
            return np.concatenate([[begin], inside[every - 1 :: every]]), synchronised
    return np.linspace(begin, end, TIME_SLICES + 1).astype(np.int64), False
