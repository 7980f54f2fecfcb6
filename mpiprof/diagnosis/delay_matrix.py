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
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_MEETINGS = 12  # fewer synchronisations of all ranks do not divide a run
TIME_SLICES = 64


class DelayMatrix(ArrivalMatrix):
    """Work of each rank (row) in each step (column) of a run, in ns beyond the least of the step.

    A step ends when all ranks meet in a synchronising collective. Without such collectives the run
    is divided into equal slices of time. Many short steps are joined.

    - edges_ns: begin of each step and the end of the last one.
    - cost_ns: waiting that the work of each rank and step causes, anywhere in the run.
    - synchronised: True if steps end with a meeting of all ranks.
    """

    def __init__(self, trace: Trace, delays: Delays, cost_ns: Float) -> None:
        """Make the matrix; `cost_ns` is the cost of each interval."""
        self.ranks = np.arange(trace.ranks)
        self.edges_ns, self.synchronised = _find_steps(trace, delays)
        self.first_ns, self.number = self.edges_ns[:-1], np.arange(len(self.edges_ns) - 1)
        self.blocks = []
        self.least_ns = max(float(trace.clock_error_ns), 1_000.0)
        self.nodes, self.node = number_nodes(trace, self.ranks)
        intervals = delays.intervals
        self.step = np.searchsorted(self.edges_ns, intervals.begin_ns, side="right") - 1
        self.step = np.clip(self.step, 0, len(self.number) - 1)
        work = self.sum_cells(delays, intervals.end_ns - intervals.begin_ns)
        self.cost_ns = self.sum_cells(delays, cost_ns)
        self.arrival = work - work.min(0)
        self._excess = self.arrival - column_medians(self.arrival)

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
        """Return the wait in ns that remains in each step if the ranks worked that long.

        The cost of a rank's work shrinks in proportion to its excess over the median of the step.
        """
        usual = column_medians(self.arrival)
        excess = np.maximum(arrival - usual, 0.0)
        late = self._excess > 0
        share = np.where(late, excess / np.where(late, self._excess, 1.0), 1.0)
        return np.asarray((self.cost_ns * np.minimum(share, 1.0)).sum(0))


def _find_steps(trace: Trace, delays: Delays) -> tuple[Int, bool]:
    """Return the edges of the steps, and whether all ranks meet there."""
    begin, end = trace.calls_start_ns, trace.calls_start_ns + trace.duration_ns
    most = max(min(MAX_ARRIVALS // max(trace.ranks, 1), MAX_INSTANCES), 1)
    of_all = [len(ranks) == trace.ranks for ranks in delays.meetings.members.values()]
    whole = np.array(list(delays.meetings.members), np.int64)[np.array(of_all, np.bool_)]
    meetings = delays.meetings.time_ns[np.isin(delays.meetings.communicator, whole)]
    meetings = np.unique(meetings[(meetings > begin) & (meetings < end)])
    if len(meetings) < MIN_MEETINGS:
        return np.linspace(begin, end, TIME_SLICES + 1).astype(np.int64), False
    every = -(-len(meetings) // most)
    return np.concatenate([meetings[::every], [end]]), True
