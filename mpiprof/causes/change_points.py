"""Change points in a series of runs: the run from which on a value is higher or lower.

Method: scan with the rank-sum test. For each split, the sum of the ranks before it is compared with
its expected value, in standard deviations (Wilcoxon, Mann and Whitney). The statistic is the
largest of these over all splits, as by Pettitt (1979) without his weights, so that recent changes
count like old ones. Its p-value comes from random permutations of the series, so at most a share
`alpha` of the series without a change gets one, whatever the distribution. Both sides of a change
are searched again (binary segmentation). Consecutive runs must be independent: a slow drift of the
machine is a change, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.trace.types import Float

ALPHA = 0.05  # share of unchanged series in which a change is reported
MIN_SIDE = 3  # runs on each side of a change
MIN_RUNS = 8  # fewer runs cannot show a change: too few permutations differ
PERMUTATIONS = 1999
MAX_RUNS = 1000  # the newest are searched


@dataclass(frozen=True)
class ChangePoint:
    """A change before the run `index`; medians of the runs before and after, up to neighbours."""

    index: int
    before: float
    after: float
    p: float


def find_change_points(values: Sequence[float] | Float, alpha: float = ALPHA) -> list[ChangePoint]:
    """Return the change points of a series in order; unknown values (NaN) are skipped."""
    series = np.asarray(values, np.float64)
    known_runs = np.flatnonzero(~np.isnan(series))[-MAX_RUNS:]
    known_values = series[known_runs]
    p_by_split: dict[int, float] = {}
    _split(known_values, 0, len(known_values), alpha, p_by_split)
    splits = sorted(p_by_split)
    bounds = [0, *splits, len(known_values)]
    parts = [known_values[a:b] for a, b in itertools.pairwise(bounds)] if splits else []
    medians = [float(np.median(part)) for part in parts]
    return [
        ChangePoint(int(known_runs[split]), medians[i], medians[i + 1], p_by_split[split])
        for i, split in enumerate(splits)
    ]


def _split(values: Float, begin: int, end: int, alpha: float, p_by_split: dict[int, float]) -> None:
    """Add the significant splits between two indices to `p_by_split`, with their p-values."""
    if end - begin < MIN_RUNS:
        return
    split, p = compute_change(values[begin:end])
    if p > alpha:
        return
    p_by_split[begin + split] = p
    _split(values, begin, begin + split, alpha, p_by_split)
    _split(values, begin + split, end, alpha, p_by_split)


def compute_change(values: Float) -> tuple[int, float]:
    """Return the most likely split of a series, and the p-value of a change there."""
    ranks = np.asarray(pd.Series(values).rank(), np.float64)  # equal values share their rank
    observed = _scan(ranks[None])[0]
    random = np.random.default_rng(len(values))  # the same series always has the same p-value
    shuffled = random.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)
    largest = _scan(shuffled).max(axis=1)
    extreme = int((largest >= observed.max() - 1e-9).sum())
    return MIN_SIDE + int(observed.argmax()), (extreme + 1) / (PERMUTATIONS + 1)


def _scan(ranks: Float) -> Float:
    """Return |z| of the rank sum before each split; rows are series, columns are splits."""
    count = ranks.shape[1]
    before = np.arange(MIN_SIDE, count - MIN_SIDE + 1)
    sums = ranks.cumsum(axis=1)[:, before - 1]
    variance = ranks[0].var(ddof=1) * before * (count - before) / count
    deviation: Float = np.abs(sums - before * ranks[0].mean())
    scaled: Float = deviation / np.sqrt(np.maximum(variance, 1e-300))
    return scaled
