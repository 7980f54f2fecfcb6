"""One pattern of lateness at a call site, and its span: the instances that it covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.trends import Course
from mpiprof.diagnosis.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int


@dataclass(frozen=True)
class Pattern:
    """A pattern: its late ranks, instances and amount of lateness; times in ns.

    - cause: an entry of findings.CAUSES. ranks: world ranks, the latest first.
    - late_ns: usual lateness, or for an outlier, lateness in the worst of its instances.
    - instances: columns of the work matrix in which the pattern holds.
    - period, offsets: the pattern affects instances with number % period in offsets.
    - step: number of ranks by which lateness moves on each time.
    - gain_ns: wait in the sample that the pattern explains. p: p-value of the pattern.
    - prerequisite: index of the pattern that must be removed before this one costs wait, or None.
    - each: True if all ranks differ and `ranks` are the latest.
    - shows: number of instances in which the rank due is late by half of late_ns, or None if the
      pattern is no rotation.
    - levels: if the lateness differs between phases, first column, last column and lateness of
      each.
    - grows: first and last lateness if it changes gradually. course: its course over the columns,
      or over the instances of a periodic pattern.
    - varies: mean and largest lateness, if it varies from instance to instance.
    - speed: ranks per instance, of a delay that moves smoothly.
    - reverses: True if a delay moves to and fro over the ranks.
    - shift_ns: time that each rank (row) would work less in each column without the pattern,
      negative for more; None if unknown.
    """

    cause: str
    ranks: tuple[int, ...]
    late_ns: float
    instances: Int
    gain_ns: float
    p: float
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
    shift_ns: Float | None = None


@dataclass(frozen=True)
class Candidate:
    """A pattern that may be the best one, and the work that it explains.

    shift: as Pattern.shift_ns. is_better: as trends.Trend.
    """

    pattern: Pattern
    shift: Float
    is_better: bool = False


def count_late_instances(pattern: Pattern, matrix: WorkMatrix) -> int:
    """Return the number of instances in which a pattern has half of its mean lateness or more."""
    work_ns = matrix.work_ns[:, pattern.instances]
    rows = np.searchsorted(matrix.ranks, pattern.ranks)
    other_rows = np.setdiff1d(np.arange(len(work_ns)), rows)
    if pattern.cause == "outlier":
        return len(pattern.instances)
    if pattern.shows is not None:
        return pattern.shows
    if not len(rows) or not len(other_rows):
        return int((np.nanmax(work_ns, 0) > pattern.late_ns / 2).sum())
    if pattern.cause == "moving":  # another rank in each instance, and seldom all of them
        apart = np.nanmax(work_ns[rows], 0) - column_medians(work_ns)
        return int((apart > pattern.late_ns / 2).sum())
    apart = work_ns[rows[0]] - column_medians(work_ns[other_rows])
    apart = -apart if pattern.cause == "early" else apart
    return int((apart > pattern.late_ns / 2).sum())


def find_spans(number: Int, matrix: WorkMatrix) -> list[list[int]]:
    """Return the runs of instances that a pattern covers, as first and last number."""
    columns = np.searchsorted(matrix.number, number)
    edges = np.flatnonzero(np.diff(columns) > 1)
    first, last = number[np.r_[0, edges + 1]], number[np.r_[edges, len(number) - 1]]
    return [[int(a), int(b)] for a, b in zip(first, last, strict=True)]
