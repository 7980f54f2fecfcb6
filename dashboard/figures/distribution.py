"""Distribution of imbalance factors over the ranges of Faraj et al. 2008, Figure 2."""

from __future__ import annotations

import numpy as np

from mpiprof.metrics.aggregate import FACTOR_RANGES, RANGE_NAMES
from mpiprof.trace.types import Float, Int


def count_in_ranges(worst_factors: Float) -> Int:
    """Return the number of known factors in each of the paper's ranges."""
    known = worst_factors[~np.isnan(worst_factors)]
    return np.bincount(np.searchsorted(FACTOR_RANGES, known, "right"), minlength=len(RANGE_NAMES))
