"""Counts of small non-negative integers, without sorting if sorting is slower."""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Int

SPARSE_FACTOR = 8  # counting in cells beats sorting up to this many cells per number, plus SOME
DENSE_CELLS = 1 << 14


def count_distinct(numbers: Int, cells: int) -> tuple[Int, Int]:
    """Return the distinct numbers, ascending, and their counts. All numbers are below `cells`."""
    if cells > SPARSE_FACTOR * numbers.size + DENSE_CELLS:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers.ravel(), minlength=1)
    used = np.flatnonzero(counts)
    return used, counts[used]
