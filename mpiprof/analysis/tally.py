"""How often each of some small whole numbers is there, without sorting where that is slower."""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Int

EACH = 8  # cells a number, and some, up to which counting in all cells is faster than sorting
SOME = 1 << 14


def tally(numbers: Int, cells: int) -> tuple[Int, Int]:
    """Return the numbers that are there, ascending, and how often; all are below `cells`."""
    if cells > EACH * numbers.size + SOME:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers.ravel(), minlength=1)
    used = np.flatnonzero(counts)
    return used, counts[used]
