"""Work of all ranks by step or repetition, as input to the search for habits.

The search (causes/habits) needs times whose excess over the other ranks costs wait. Work is time
without waits, whose costs are known (delay_graph.py). A rank that waits for others has no excess
here, however late it arrives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from mpiprof.account.delay_graph import WorkIntervals
from mpiprof.account.row_order import find_upper_medians
from mpiprof.causes.explained_waits import ChosenWaits
from mpiprof.causes.habits.habit import Habit
from mpiprof.causes.habits.work_matrix import MAX_ARRIVALS, MAX_INSTANCES, WorkMatrix
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float, Int

# Minimum number of repetitions of a rank, over the largest one. Fewer intervals are long by chance:
# shorter ones have no records.
MIN_REPETITION_SHARE = 0.2
RUNS = 64  # of consecutive columns, if not all fit into a matrix
RUN_LENGTH = 256  # maximum number of columns in a run
MAX_COSTLY = 8  # columns with much more wait than usual, which are in a matrix in any case
COSTLY_FACTOR = 10.0  # multiple of the mean wait of all columns
MAX_CHANCE = 0.01  # p-value of a rank that often works longest, if columns are independent
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
    - cost_ns: waiting that the work of each rank and column causes, anywhere in the run.
    - scale: factor of each column, with which the waiting of all columns is that of the run.
    - count: number of recorded steps or repetitions, of which the columns may be a part.
    - alone_ns: usual work of the only rank that works there, None if other ranks work there, too.
    """

    unit: str
    callsite: int | None = None
    alone_ns: float | None = None
    cost_ns: Float

    def __init__(self, trace: Trace, ranks: Int, columns: Columns):
        """Prepare the rows and columns."""
        super().__init__(trace, ranks, columns.number, columns.begin_ns)
        self.columns, self.count = columns, columns.count
        self.scale = columns.scale.copy()

    @abstractmethod
    def locate(self, waits: ChosenWaits) -> Cells:
        """Return the cells of the intervals of work in a window of the run."""

    def has_common_last(self) -> bool:
        """Return whether one rank works longest in more columns than it would by chance.

        It is the same rank in both halves of the columns, because a rank that wanders works longest
        for a while. For the same reason, columns count less if the rank changes less often than in
        independent columns. Ranks that wander for longer remain, so this is no proof.
        """
        from scipy import special

        rows, count = self.work_ns.shape
        last = np.nanargmax(self.work_ns, 0)
        first, second = (np.bincount(half, minlength=rows) for half in np.array_split(last, 2))
        if first.argmax() != second.argmax():
            return False
        often = int((first + second).max())
        by_chance = (count - 1) * (1 - float((((first + second) / count) ** 2).sum()))
        stay = max(by_chance / max(np.count_nonzero(np.diff(last)), 1), 1.0)
        p: float = rows * special.bdtrc(int(often / stay) - 1, int(count / stay), 1 / rows)
        return rows > 1 and p <= MAX_CHANCE

    def find_scale(self, index: Int) -> float:
        """Return the number of steps or repetitions that each of some columns stands for."""
        weights = self.cost_ns[:, index].sum(0) / self.scale[index]
        mean = np.average(self.columns.scale[index], weights=weights if weights.any() else None)
        return float(mean) * self.columns.total / self.count


@dataclass(frozen=True)
class Cells:
    """The cells of a matrix to which intervals of work or waits belong.

    ranks: of the rows. count: number of columns. column: of each interval, OUTSIDE if it is in
    none. rank: of each interval.
    """

    ranks: Int
    count: int
    column: Int
    rank: Int

    @cached_property
    def inside(self) -> tuple[Int, Int]:
        """The intervals in the matrix, and the cell of each."""
        inside = np.flatnonzero(self.column >= 0)
        row = self.rank[inside]
        if len(self.ranks) <= self.ranks[-1]:  # some ranks have no row
            row = np.searchsorted(self.ranks, row)
        return inside, row * self.count + self.column[inside]

    def sum(self, values: Float | Int) -> Float:
        """Return the sum over intervals by rank and column."""
        inside, cell = self.inside
        shape = len(self.ranks), self.count
        return np.bincount(cell, values[inside], shape[0] * shape[1]).reshape(shape).astype(float)

    def choose(self, ranks: Sequence[int], columns: Int) -> Bool:
        """Return which intervals are of some ranks (of all without any) and in some columns."""
        in_columns = np.zeros(self.count + 1, np.bool_)  # the last element is for OUTSIDE
        in_columns[columns] = True
        chosen: Bool = in_columns[self.column]
        if len(ranks):
            chosen &= np.isin(self.rank, ranks)
        return chosen

    def spread_over_intervals(
        self, values: Float, ranks: Sequence[int], intervals: WorkIntervals, same_work: Int
    ) -> Float:
        """Return the part of a cell's value for each interval, at most its length.

        The parts are in proportion to the lengths beyond the usual length between the same calls on
        other ranks than the given ones, or else of the same work. What does not fit is in
        proportion to the lengths. same_work: of each key, the first key with the same work.
        """
        length = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
        is_other_rank = ~np.isin(self.rank, ranks)
        is_reference = is_other_rank if is_other_rank.any() else ~is_other_rank
        has_reference = np.zeros(len(same_work), np.bool_)
        has_reference[intervals.key[is_reference]] = True
        usual = np.where(
            has_reference[intervals.key],
            group_medians(intervals.key, length, is_reference),
            group_medians(same_work[intervals.key], length, is_reference),
        )
        part = np.minimum(self._spread(values, np.maximum(length - usual, 0.0)), length)
        missing = np.maximum(values - self.sum(part), 0.0)
        return part + np.minimum(self._spread(missing, length - part), length - part)

    def limit(self, values: Float, limits: Float) -> Float:
        """Return values of intervals, reduced in proportion to at most a sum for each cell.

        Values outside the matrix are 0.
        """
        return self._spread(np.minimum(self.sum(values), limits), values)

    def _spread(self, values: Float, weight: Float) -> Float:
        """Return the values of cells, divided among their intervals in proportion to a weight."""
        total = self.sum(weight)
        share = values / np.where(total > 0, total, 1.0)
        inside, cell = self.inside
        part = np.zeros(len(weight))
        part[inside] = share.ravel()[cell] * weight[inside]
        return part


def choose_columns(wait_ns: Array, max_columns: int) -> tuple[Int, Float]:
    """Return the columns of a matrix: indices of about `max_columns` steps at most, their scales.

    These are evenly spread runs of consecutive steps, so that periods remain visible, and the few
    steps with very much wait. scale: number of steps that each one stands for, in proportion to the
    wait. wait_ns: of each step.
    """
    count = len(wait_ns)
    if count <= max_columns:
        return np.arange(count), np.ones(count)
    costly = np.argsort(-wait_ns, kind="stable")[: min(MAX_COSTLY, max_columns)]
    costly = costly[wait_ns[costly] > COSTLY_FACTOR * wait_ns.mean()]
    length = min(max(max_columns // RUNS, 1), RUN_LENGTH)
    runs = -(-count // length)
    every = -(-runs // max(max_columns // length, 1))
    is_regular = np.arange(count) // length % every == 0
    is_regular[costly] = False
    regular_wait_ns = np.delete(wait_ns, costly).sum()
    chosen_wait_ns = wait_ns[is_regular].sum()
    scales = np.ones(count)
    scales[is_regular] = regular_wait_ns / chosen_wait_ns if chosen_wait_ns > 0 else 1.0
    is_regular[costly] = True
    return np.flatnonzero(is_regular), scales[is_regular]


def count_most_columns(rows: int) -> int:
    """Return the maximum number of columns of a matrix."""
    return max(min(MAX_ARRIVALS // max(rows, 1), MAX_INSTANCES), 1)


def group_medians(group: Int, values: Float, counted: Bool) -> Float:
    """Return for each value the median of its group's counted values, 0 if there are none."""
    groups = int(group.max(initial=-1)) + 1
    return find_upper_medians(group[counted], values[counted], groups)[group]


FoundHabit: TypeAlias = tuple[DelayMatrix, Habit]


def sum_gains(parts: Sequence[FoundHabit]) -> float:
    """Return the waiting in ns that the parts of a habit explain."""
    return sum(habit.gain_ns for _, habit in parts)
