"""Shares of a variance, with confidence intervals from the delete-a-group jackknife.

Arrivals of consecutive instances are not independent: a disturbance lasts and a program has phases.
Intervals from single instances would be too narrow. So the run is cut into GROUPS stretches, and
each statistic is also computed without each stretch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Array, Float, Int

GROUPS = 20
CONFIDENCE = 0.95
SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % confidence interval; NaN if unknown."""

    value: float
    low: float
    high: float


UNKNOWN_ESTIMATE = Estimate(float("nan"), float("nan"), float("nan"))


def number_stretches(instances: int) -> Int:
    """Return the stretch of the run of each of `instances` consecutive instances."""
    return np.arange(instances) * min(GROUPS, instances) // max(instances, 1)


def jackknife_estimate(
    sums: Float, statistic: Callable[[Float], Float], bounds: tuple[float, float] | None = None
) -> list[Estimate]:
    """Return a statistic of sums (stretches x K) over all stretches, with confidence intervals.

    The statistic maps K sums to some values. With fewer than 3 stretches the intervals are NaN.
    Intervals are cut at `bounds` but always include their value.
    """
    from scipy import special

    total = sums.sum(0)
    value = statistic(total)
    count = len(sums)
    half: Float = np.full(len(value), np.nan)
    if count >= 3:
        without = np.stack([statistic(total - part) for part in sums])
        spread = ((without - without.mean(0)) ** 2).sum(0) * (count - 1) / count
        half = special.stdtrit(count - 1, (1 + CONFIDENCE) / 2) * np.sqrt(spread)
    low, high = value - half, value + half
    if bounds is not None:
        lower, upper = np.minimum(value, bounds[0]), np.maximum(value, bounds[1])
        low, high = np.maximum(low, lower), np.minimum(high, upper)
    return [Estimate(*limits) for limits in np.stack([value, low, high], 1).tolist()]


def nodes_differ(lateness: Float, node: Int, min_difference: float) -> bool:
    """Return whether lateness (ns, one value per rank) differs significantly between nodes.

    Uses Fisher's test, which requires a node with two ranks. min_difference: of medians, in ns.
    """
    groups = [lateness[node == number] for number in np.unique(node)]
    if len(groups) < 2 or max(map(len, groups)) < 2:
        return False
    if np.ptp([np.median(group) for group in groups]) <= min_difference:
        return False
    # One late rank would otherwise hide a slow node.
    groups = [_clip_outliers(group) for group in groups]
    drawn = np.concatenate(groups)
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    between = float(((drawn - drawn.mean()) ** 2).sum()) - within
    if all(np.ptp(group) == 0 for group in groups):
        return True
    from scipy import special

    free = len(groups) - 1, len(drawn) - len(groups)
    ratio = (between / free[0]) / (within / free[1])
    return bool(special.fdtrc(*free, ratio) < SIGNIFICANT)


def _clip_outliers(values: Float) -> Float:
    """Return values with outliers clipped to three (robust) standard deviations from the median."""
    median = np.median(values)
    reach = 3 * np.median(np.abs(values - median)) / 0.6745
    return np.asarray(np.clip(values, median - reach, median + reach))


def centre_columns(values: Float) -> Float:
    """Return ranks x instances minus the mean of each instance."""
    return np.asarray(values - values.mean(0))


def sum_groups(values: Float, group: Int, groups: int) -> Float:
    """Return sums over the instances of each group: groups x ranks from ranks x instances."""
    return np.stack([np.bincount(group, row, groups) for row in values], 1)


def median_before_last(arrival: Array) -> Float:
    """Return the median of each column without its largest value, the last arrival.

    The last arrival minus this median is what `subtract_median_of_others` returns for it. A column
    of one value has this value.
    """
    other_count = max(len(arrival) - 1, 1)
    middle = [(other_count - 1) // 2, other_count // 2]
    ordered = np.partition(arrival, middle, axis=0)
    return np.asarray(ordered[middle].mean(0))


def lateness_after_others(values: Array, row: int) -> float:
    """Return value `row` minus the median of the other values, or 0 if there are none."""
    other_values = np.delete(values, row)
    other_values = other_values[~np.isnan(other_values)]
    if not len(other_values) or np.isnan(values[row]):
        return 0.0
    return float(values[row] - np.median(other_values))


def subtract_median_of_others(values: Float) -> Float:
    """Return each value minus the median of the other values of its column."""
    count = len(values)
    if count < 2:
        return np.zeros_like(values)
    if count == 2:
        return np.asarray(values - values[::-1])
    order = np.sort(values, axis=0)
    middle = count // 2
    if count % 2 == 0:
        lower = values <= order[middle - 1]
        return np.asarray(values - np.where(lower, order[middle], order[middle - 1]))
    at, below, above = order[middle], order[middle - 1], order[middle + 1]
    median = np.where(
        values < at, (at + above) / 2, np.where(values > at, (below + at) / 2, (below + above) / 2)
    )
    return np.asarray(values - median)
