"""One habit: who works longer, in which columns of a matrix of work, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.causes.habits.course import Course
from mpiprof.causes.habits.rank_set import compute_gain
from mpiprof.causes.habits.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int


@dataclass(frozen=True)
class Habit:
    """A habit: its late ranks, instances and amount of lateness; times in ns.

    - cause: an entry of CAUSES (diagnosis/finding.py). ranks: world ranks, the latest first.
    - late_ns: usual lateness.
    - instances: columns of the work matrix in which the habit holds.
    - period, offsets: the habit affects instances with number % period in offsets.
    - step: number of ranks by which lateness moves on each time.
    - gain_ns: wait in the sample that the habit explains. p: p-value of the habit.
    - prerequisite: index of the habit that must be removed before this one costs wait, or None.
    - each: True if all ranks differ and `ranks` are the latest.
    - shows: number of instances in which the rank due is late by half of late_ns, or None if the
      habit does not move.
    - levels: if the lateness differs between phases, first column, last column and lateness of
      each.
    - grows: first and last lateness if it changes gradually. course: its course over the columns,
      or over the instances of a periodic habit.
    - varies: mean and largest lateness, if it varies from instance to instance.
    - speed: ranks per instance, of a delay that moves smoothly.
    - reverses: True if a delay moves to and fro over the ranks.
    - shift_ns: time that each rank (row) would work less in each column without the habit,
      negative for more.
    """

    cause: str
    ranks: tuple[int, ...]
    late_ns: float
    instances: Int
    gain_ns: float
    p: float
    shift_ns: Float
    period: int | None = None
    offsets: tuple[int, ...] = ()
    step: int | None = None
    node: str | None = None
    prerequisite: int | None = None
    each: bool = False
    shows: int | None = None
    levels: tuple[tuple[int, int, float], ...] = ()
    grows: tuple[float, float] | None = None
    course: Course | None = None
    varies: tuple[float, float] | None = None
    speed: float | None = None
    reverses: bool = False


@dataclass(frozen=True)
class Remainder:
    """Work of a matrix that no habit explains yet, and its waiting in each column."""

    matrix: WorkMatrix
    work_ns: Float
    waits: Float

    def make(self, cause: str, ranks: Sequence[int], shift: Float, **fields: Any) -> Habit:
        """Return a habit that explains some work."""
        gain = compute_gain(self.matrix, self.work_ns, shift, self.waits)
        return Habit(cause, tuple(ranks), gain_ns=gain, shift_ns=shift, **fields)

    def find_ranks(self, rows: Int) -> tuple[int, ...]:
        """Return the ranks of some rows."""
        return tuple(self.matrix.ranks[rows].tolist())


def count_late_instances(habit: Habit, matrix: WorkMatrix) -> int:
    """Return the number of instances in which a habit has half of its mean lateness or more."""
    work_ns = matrix.work_ns[:, habit.instances]
    rows = np.searchsorted(matrix.ranks, habit.ranks)
    other_rows = np.setdiff1d(np.arange(len(work_ns)), rows)
    if habit.shows is not None:
        return habit.shows
    if not len(rows) or not len(other_rows):
        return int((np.nanmax(work_ns, 0) > habit.late_ns / 2).sum())
    if habit.cause == "moving":  # another rank in each instance, and seldom all of them
        apart = np.nanmax(work_ns[rows], 0) - column_medians(work_ns)
        return int((apart > habit.late_ns / 2).sum())
    sign = -1 if habit.cause == "early" else 1
    apart = sign * (work_ns[rows] - column_medians(work_ns[other_rows]))
    return int((np.nan_to_num(apart, nan=-np.inf).max(0) > habit.late_ns / 2).sum())


def find_spans(number: Int, matrix: WorkMatrix) -> tuple[tuple[int, int], ...]:
    """Return the runs of instances that a habit covers, as first and last number."""
    columns = np.searchsorted(matrix.number, number)
    edges = np.flatnonzero(np.diff(columns) > 1)
    first, last = number[np.r_[0, edges + 1]], number[np.r_[edges, len(number) - 1]]
    return tuple((int(a), int(b)) for a, b in zip(first, last, strict=True))
