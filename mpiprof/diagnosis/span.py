"""Span of a pattern: the number of its instances, and the runs of instances that it covers."""

from __future__ import annotations

import numpy as np

from mpiprof.diagnosis.arrival_matrix import ArrivalMatrix, column_medians
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.trace.types import Int

MIN_SPANS = 1  # minimum distance of separate spans, in instances


def count_late_instances(one: Pattern, grid: ArrivalMatrix) -> int:
    """Return the number of instances in which a pattern has half of its mean lateness or more."""
    arrival = grid.arrival[:, one.instances]
    rows = np.searchsorted(grid.ranks, one.ranks)
    others = np.setdiff1d(np.arange(len(arrival)), rows)
    if one.cause == "outlier":
        return len(one.instances)
    if one.shows is not None:
        return one.shows
    if not len(rows) or not len(others):
        return int((np.nanmax(arrival, 0) > one.late_ns / 2).sum())
    apart = arrival[rows[0]] - column_medians(arrival[others])
    apart = -apart if one.cause == "early" else apart
    return int((apart > one.late_ns / 2).sum())


def columns_with_ranks(one: Pattern, grid: ArrivalMatrix) -> Int:
    """Return the columns in which any of a pattern's ranks take part; all if it names no ranks."""
    rows = np.searchsorted(grid.ranks, one.ranks)
    if not len(rows):
        return np.arange(grid.instance_count)
    return np.flatnonzero(~np.isnan(grid.arrival[rows]).all(0))


def find_spans(number: Int, grid: ArrivalMatrix) -> list[list[int]]:
    """Return the runs of instances that a pattern covers, as first and last number."""
    columns = np.searchsorted(grid.number, number)
    edges = np.flatnonzero(np.diff(columns) > MIN_SPANS)
    first, last = number[np.r_[0, edges + 1]], number[np.r_[edges, len(number) - 1]]
    return [[int(a), int(b)] for a, b in zip(first, last, strict=True)]
