"""Series of values: periods, running means and medians, and stretches of constant values.

A period means that every n-th value differs. The segmentation is implemented here, because
importing the package ruptures takes half a second, longer than the computation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mpiprof.account.instance_series import RUN_LENGTH
from mpiprof.trace.types import Float, Int

MAX_PERIOD = 64
MAX_PERIODIC_INSTANCES = 1 << 14  # number of instances in which a period is searched
MIN_PERIODIC_SHARE = 0.2  # minimum share of the variance that a period explains
MAX_PERIODIC_P = 1e-3  # maximum p-value of a period, corrected for all lengths
NEAR_BEST = 0.8  # a shorter period wins if it explains this share of what the best explains


@dataclass(frozen=True)
class Period:
    """Every length-th instance differs: number % length == offset."""

    length: int
    offset: int


def find_period(signal: Float, number: Int) -> Period | None:
    """Return the shortest period of a signal, or None; `number` is each value's instance number.

    Method: for each n, an analysis of variance of the signal minus its running mean, over number %
    n.
    """
    longest = min(MAX_PERIOD, len(signal) // 6, RUN_LENGTH // 3)
    if longest < 2 or np.ptp(signal) == 0:
        return None
    trend = find_running_mean(signal, 2 * longest + 1)
    # A long signal is thinned to whole runs, which suffice to find a period of any length.
    every = -(-len(signal) // MAX_PERIODIC_INSTANCES)
    chosen = np.arange(len(signal)) // RUN_LENGTH % every == 0
    residual, number = (signal - trend)[chosen], number[chosen]
    explained = np.zeros(longest + 1)
    for length in range(2, longest + 1):
        explained[length] = _explained_share(residual, number % length, length, longest)
    best = explained.max()
    if best < MIN_PERIODIC_SHARE:
        return None
    length = int(np.flatnonzero(explained >= NEAR_BEST * best)[0])
    means = find_class_means(residual, number % length, length)
    return Period(length, int(np.argmax(np.abs(means - np.median(means)))))


def find_running_mean(signal: Float, width: int) -> Float:
    """Return the mean over an odd number of values around each; the ends are repeated."""
    # Sums of values near 0 lose fewer digits.
    padded = np.pad(signal - signal[0], (width // 2 + 1, width // 2), mode="edge")
    padded[0] = 0.0
    sums = np.cumsum(padded)
    return np.asarray((sums[width:] - sums[:-width]) / width + signal[0])


def find_running_median(signal: Float, width: int, mode: Literal["edge", "reflect"]) -> Float:
    """Return the median over an odd number of values around each, along the first axis.

    mode: values beyond the ends, as of np.pad. SciPy has this function, but its import takes longer
    than a short report.
    """
    half = width // 2
    around = [(half, half)] + [(0, 0)] * (signal.ndim - 1)
    windows = sliding_window_view(np.pad(signal, around, mode=mode), width, axis=0)
    return np.asarray(np.partition(windows, half, axis=-1)[..., half])


def find_class_means(values: Float, class_of: Int, class_count: int) -> Float:
    """Return the mean of the values of each class, 0 for a class without values."""
    count = np.bincount(class_of, minlength=class_count)
    return np.asarray(np.bincount(class_of, values, class_count) / np.maximum(count, 1))


def _explained_share(residual: Float, class_of: Int, class_count: int, tests: int) -> float:
    """Return the adjusted share of variance that the classes explain; 0 if not significant."""
    residual = residual - residual.mean()
    total = float((residual**2).sum())
    count = np.bincount(class_of, minlength=class_count)
    sums = np.bincount(class_of, residual, class_count)
    within = max(total - float((sums**2 / np.maximum(count, 1)).sum()), 0.0)
    degrees_of_freedom = len(residual) - class_count
    if total <= 0 or degrees_of_freedom <= 0:
        return 0.0
    adjusted = 1 - (within / degrees_of_freedom) / (total / (len(residual) - 1))
    if adjusted < NEAR_BEST * MIN_PERIODIC_SHARE:
        return 0.0
    if within > 0:
        from scipy import special

        ratio = ((total - within) / (class_count - 1)) / (within / degrees_of_freedom)
        if special.fdtrc(class_count - 1, degrees_of_freedom, ratio) * tests > MAX_PERIODIC_P:
            return 0.0
    return adjusted


def segment_columns(columns: Float, penalty: float, shortest: int) -> Int:
    """Return the rows at which new stretches begin in the best segmentation of rows x columns.

    Minimises the squares about each stretch's mean plus a penalty per cut, over all segmentations
    with stretches of at least `shortest` rows. Algorithm: optimal partitioning (Jackson et al.
    2005), in quadratic time.
    """
    count, width = columns.shape
    sums = np.zeros((count + 1, width))
    np.cumsum(columns - columns.mean(0), axis=0, out=sums[1:])
    # |S(t) - S(s)|^2 for all s is one matrix-vector product.
    power = (sums**2).sum(1, keepdims=True)
    left = np.hstack([-2 * sums, power, np.ones((count + 1, 1))])
    right = np.hstack([sums, np.ones((count + 1, 1)), power])
    inverse = 1 / np.arange(count + 1, 0, -1)  # inverse lengths, ending with length 1
    best = np.full(count + 1, np.inf)  # cost of earlier rows, minus their sum of squares
    best[0] = -penalty
    origin = np.zeros(count + 1, np.int64)
    for end in range(shortest, count + 1):
        begins = end - shortest + 1
        lengths = inverse[count + 1 - end : count + 1 - end + begins]
        cost = best[:begins] - (left[:begins] @ right[end]) * lengths
        origin[end] = at = int(cost.argmin())
        best[end] = cost[at] + penalty
    cuts = []
    end = int(origin[count])
    while end > 0:
        cuts.append(end)
        end = int(origin[end])
    return np.array(cuts[::-1], np.int64)


def find_best_cut(columns: Float) -> int:
    """Return the row that best cuts the columns into two stretches of constant values."""
    count = len(columns)
    sums = np.cumsum(columns, axis=0)[:-1]
    left_length = np.arange(1, count)[:, None]
    gain = (sums**2 / left_length + (columns.sum(0) - sums) ** 2 / (count - left_length)).sum(1)
    return 1 + int(np.argmax(gain))
