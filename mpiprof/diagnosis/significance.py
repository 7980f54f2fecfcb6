"""Significance of means of consecutive instances, which are not independent.

Disturbances last and ranks wander, so the mean of n such values is less certain than of n
independent ones. A series is cut into consecutive stretches, whose means are the values of the
tests. Remaining correlation widens the error (batch means: Law and Carson 1979).
"""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Float

STRETCHES = (20, 5)
MAX_SIGNS = 40  # exponent of 0.5 in the smallest p-value of equal signs
MIN_DEGREES_OF_FREEDOM = 3.0  # degrees of freedom
MAX_CORRELATION = 0.9
MIN_KEPT, MAX_KEPT = 0.8, 0.995  # share of its predecessor that a persistent value keeps
MIN_OTHERS = 3  # ranks whose means have a distribution
STEPS = 2  # differences that may be lasting changes
BLOCKS = 16  # minimum number of blocks in a series


def stretch_means(values: Float, most: int) -> Float:
    """Return means of stretches of columns, rows x at most `most`; NaN without known values."""
    count = values.shape[-1]
    stretches = min(most, count)
    edges = np.arange(stretches) * count // stretches
    is_known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(is_known, values, 0.0), edges, axis=-1)
    number = np.add.reduceat(is_known.astype(np.float64), edges, axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.where(number > 0, number, np.nan))


def p_above(values: Float, p_apart: float = 1.0) -> Float:
    """Return the p-value that each row exceeds zero, in its mean or in most of its values.

    The better of two tests is taken: the mean detects small shifts in even noise, and the sign
    detects shifts that spikes hide. p_apart: see `p_apart_from_others`.
    """
    mean = p_above_zero(values, p_apart)
    signs = p_above_zero(np.sign(values), p_apart)
    for row in np.flatnonzero(signs < mean):
        known_values = values[row][~np.isnan(values[row])]
        # Chance of equal signs, where a persistent stretch counts once.
        number = len(known_values) / persistence_ratio(known_values)
        effective = float(effective_counts(known_values[None])[0])
        persistent = min(0.5 ** min(effective, MAX_SIGNS), p_apart)
        signs[row] = max(signs[row], 0.5 ** min(number, MAX_SIGNS), persistent)
    return np.asarray(np.minimum(2 * np.minimum(mean, signs), 1.0))


def p_apart_from_others(mean: Float, others: Float) -> float:
    """Return the p-value that the least of some means belongs to the means of the other ranks.

    Ranks that wander alike differ in their means, however long they keep them. A rank outside the
    distribution of the others does not wander like them. Returns 1 with less than 3 others.
    """
    from scipy import special

    count = len(others)
    if count < MIN_OTHERS:
        return 1.0
    spread = max(float(others.std(ddof=1)), 1.0) * np.sqrt(1 + 1 / count)
    score = (float(mean.min()) - float(others.mean())) / spread
    return min(float(special.stdtr(count - 1, -score)) * (count + len(mean)), 1.0)


def p_above_zero(values: Float, p_apart: float = 1.0) -> Float:
    """Return the p-value that the mean of each row exceeds zero.

    values: rows x instances, in order. The p-value is the largest of t-tests on means of short and
    long stretches, because slow fluctuations show only in long stretches, and of a t-test with the
    effective number of values, because fluctuations may be slower than the run. The last test is
    not needed for a rank apart from the others (p_apart).
    """
    short, long = (stretch_means(values, most) for most in STRETCHES)
    if short.shape[-1] == long.shape[-1]:
        return _p_of_correlated_means(long, np.zeros(len(long)))
    p = np.maximum(
        _p_of_correlated_means(short, neighbour_correlation(short)),
        _p_of_correlated_means(long, 0.0),
    )
    return np.asarray(np.maximum(p, np.minimum(_p_of_persistent_values(values), p_apart)))


def _p_of_persistent_values(values: Float) -> Float:
    """Return the p-value of a t-test with the effective number of values; 0 if they forget fast."""
    from scipy import special

    effective = effective_counts(values)
    counts = (~np.isnan(values)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, 1) / counts
        spread = np.nansum((values - mean[:, None]) ** 2, 1) / counts
        score = mean / np.sqrt(spread / effective)
    p = special.stdtr(np.maximum(effective - 1, 1.0), -score)
    return np.where((effective < counts) & (spread > 0) & ~np.isnan(p), p, 0.0)


def effective_counts(values: Float) -> Float:
    """Return the number of independent values that are worth as much as each row's.

    A value that keeps the share r of its predecessor counts as (1 - r) / (1 + r) values. All values
    count if r is below MIN_KEPT.
    """
    counts = (~np.isnan(values)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = values - (np.nansum(values, 1) / counts)[:, None]
        power = np.nansum(deviations**2, 1)
        product = np.nan_to_num(deviations[:, :-1] * deviations[:, 1:]).sum(1)
        kept = np.where(power > 0, product / power, 0.0)
        kept = np.minimum(kept + (1 + 3 * kept) / counts, MAX_KEPT)  # as in neighbour_correlation
    effective: Float = np.where(kept >= MIN_KEPT, counts * (1 - kept) / (1 + kept), counts)
    return effective


def _p_of_correlated_means(means: Float, alike: Float | float) -> Float:
    """Return `p_above_zero` for means of stretches with a correlation between neighbours."""
    from scipy import special

    counts = (~np.isnan(means)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.nansum(means, 1) / counts
        spread = np.nansum((means - whole[:, None]) ** 2, 1) / (counts - 1)
        unsure = (1 + alike) / (1 - alike)
        score = whole / np.sqrt(spread / counts * unsure)
        free = np.maximum(counts / unsure - 1, MIN_DEGREES_OF_FREEDOM)
    p = special.stdtr(np.minimum(free, counts - 1), -score)
    p = np.where(spread == 0, np.where(whole > 0, 0.0, 1.0), p)
    return np.asarray(np.where((counts >= 2) & ~np.isnan(p), p, 1.0))


def neighbour_correlation(means: Float) -> Float:
    """Return the correlation of neighbouring stretches of each row, 0 to MAX_CORRELATION.

    Half of it is the common value of all rows, because one row of 20 values is uncertain. The bias
    from estimating the mean is corrected (Kendall 1954).
    """
    counts = (~np.isnan(means)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = means - np.nansum(means, 1, keepdims=True) / counts[:, None]
        product = np.nan_to_num(deviations[:, :-1] * deviations[:, 1:]).sum(1)
        power = np.nansum(deviations**2, 1)
        variance = np.where(power > 0, product / power, 0.0)
        common = product.sum() / power.sum() if power.sum() > 0 else 0.0
        correlation = (variance + common) / 2
        correlation = correlation + (1 + 3 * correlation) / np.maximum(counts, 1)
    return np.asarray(np.clip(correlation, 0.0, MAX_CORRELATION))


def persistence_ratio(signal: Float) -> float:
    """Return the ratio of the variance of block means to that of independent values, at least 1.

    Computed from differences of neighbouring blocks of 1, 2, 4, ... values. The two largest
    differences are ignored, so that one or two steps do not count as persistence.
    """
    base = _block_spread(signal, 1, 0)
    ratio, size = 1.0, 2
    while base > 0 and size * BLOCKS <= len(signal):
        ratio = max(ratio, size * _block_spread(signal, size, STEPS) / base)
        size *= 2
    return ratio


def _block_spread(signal: Float, size: int, without: int) -> float:
    """Return the mean square difference of neighbouring block means, without the largest ones."""
    count = len(signal) // size
    means = signal[: count * size].reshape(count, size).mean(1)
    squares = np.diff(means) ** 2
    remaining_count = max(len(squares) - without, 1)
    if remaining_count < len(squares):
        squares = np.partition(squares, remaining_count)[:remaining_count]
    return float(squares.mean()) if len(squares) else 0.0
