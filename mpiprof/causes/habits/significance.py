"""Significance of means of consecutive instances, which are not independent.

Disturbances last and ranks wander, so the mean of n such values is less certain than of n
independent ones. A series is cut into consecutive stretches. Their means are the values of the
tests. Remaining correlation widens the error (batch means: Law and Carson 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Float

STRETCHES = (20, 5)
MAX_VALUES = 256  # stretches of a long series that the model of its memory contains
MIN_VALUES = 12  # fewer values do not show how long they last
MIN_DEGREES_OF_FREEDOM = 3.0
MAX_SIGNS = 40  # exponent of 0.5 in the smallest p-value of equal signs
LEAST_ERROR = 1e-9  # of equal means
TINY = 1e-300  # sum of squares of equal values
MAX_CORRELATION = 0.9
# Shares of its predecessor that a value may keep. Longer memory is less likely beforehand: the
# probability of a share falls with MEMORY_EXPONENT down to 0 for values that never change.
KEPT_SHARES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99])
MEMORY_EXPONENT = 1.5
SLOPE_EXPONENT = 0.5  # of a series that may wander without limit
MAD_SCALE = 1.4826  # standard deviation over median deviation, of normal values
MAX_DEVIATIONS = 3.0  # larger deviations from the median say little about memory
TRIMMED_SHARE = 0.2  # of some means, at both ends
MIN_OTHERS = 3  # ranks whose means have a distribution
STEPS = 2  # differences that may be lasting changes
BLOCKS = 16  # minimum number of blocks in a series


def stretch_means(values: Float, max_stretches: int) -> Float:
    """Return means of stretches of columns, rows x `max_stretches` or less.

    They are NaN without known values.
    """
    count = values.shape[-1]
    stretches = min(max_stretches, count)
    edges = np.arange(stretches) * count // stretches
    is_known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(is_known, values, 0.0), edges, axis=-1)
    number = np.add.reduceat(is_known.astype(np.float64), edges, axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.where(number > 0, number, np.nan))


def p_above(values: Float, p_apart: float = 1.0, tests: int = 1) -> Float:
    """Return the p-value that each row exceeds zero, in its mean or in most of its values.

    The better of two tests is taken: the mean detects small shifts in even noise, and the sign
    detects shifts that spikes hide. p_apart: see `p_apart_from_others`. tests: number of rows from
    which these were chosen, which p_apart takes into account already.
    """
    memories = _find_memories(values)
    mean = p_above_zero(values, p_apart, memories, tests)
    signs = _p_mostly_positive(values, p_apart, memories, tests)
    return np.asarray(np.minimum(2 * np.minimum(mean, signs), 1.0))


def p_apart_from_others(mean: Float, other_means: Float, least_spread: float = 1.0) -> float:
    """Return the p-value that the least of some means belongs to the means of the other ranks.

    Ranks that wander at random differ in their means, however long they keep them. A rank outside
    the distribution of the others does not wander like them. Returns 1 with less than 3 others.
    least_spread: minimum standard deviation, 1 ns by default.
    """
    from scipy import special

    count = len(other_means)
    if count < MIN_OTHERS:
        return 1.0
    spread = max(float(other_means.std(ddof=1)), least_spread) * np.sqrt(1 + 1 / count)
    score = (float(mean.min()) - float(other_means.mean())) / spread
    return min(float(special.stdtr(count - 1, -score)) * (count + len(mean)), 1.0)


def p_above_zero(
    values: Float, p_apart: float = 1.0, memories: Sequence[_Memory] | None = None, tests: int = 1
) -> Float:
    """Return the p-value that the mean of each row exceeds zero.

    values: rows x instances, in order. Evidence comes from repetition: the mean must exceed what
    values with the row's memory reach by chance (`_Memory`). For a rank apart from the others
    (p_apart), a t-test on means of short stretches is sufficient.
    """
    if memories is None:
        memories = _find_memories(values)
    repeated = _p_of_repetition(values, memories) if memories else _p_of_stretches(values)
    short = np.minimum(_p_of_short_stretches(values), _p_of_trimmed_stretches(values))
    apart = np.maximum(short, p_apart)
    return np.asarray(np.minimum(repeated * tests, apart))


def _p_mostly_positive(
    values: Float, p_apart: float, memories: Sequence[_Memory], tests: int
) -> Float:
    """Return the p-value that most values of each row exceed zero; see `p_above_zero`."""
    signs = np.sign(values)
    counts = (~np.isnan(values)).sum(1)
    # Equal signs have no spread, but they may be equal by chance.
    by_chance = 0.5 ** np.minimum(counts, MAX_SIGNS)
    if memories:
        repeated = np.array([memory.p_of_signs() for memory in memories])
    else:
        repeated = np.maximum(_p_of_stretches(signs), by_chance)
    of_short = np.maximum(_p_of_short_stretches(signs), by_chance)
    return np.asarray(np.minimum(repeated * tests, np.maximum(of_short, p_apart)))


def _find_memories(values: Float) -> list[_Memory]:
    """Return the memory of each row, or [] if there are too few values to see it."""
    return [_Memory(row) for row in values] if values.shape[-1] >= MIN_VALUES else []


def _p_of_stretches(values: Float) -> Float:
    """Return the larger p-value of t-tests on means of short and long stretches.

    Slow fluctuations show only in long stretches.
    """
    short, long = (stretch_means(values, count) for count in STRETCHES)
    if short.shape[-1] == long.shape[-1]:
        return _p_of_correlated_means(long, np.zeros(len(long)))
    return np.asarray(np.maximum(_p_of_short_stretches(values), _p_of_correlated_means(long, 0.0)))


def _p_of_short_stretches(values: Float) -> Float:
    short = stretch_means(values, STRETCHES[0])
    return _p_of_correlated_means(short, neighbour_correlation(short))


def _p_of_trimmed_stretches(values: Float) -> Float:
    """Return the p-value of short stretches, of which the smallest and largest fifths are ignored.

    A single accident hides a shift in few values otherwise. Source: Tukey and McLaughlin 1963.
    """
    from scipy import special

    means = stretch_means(values, STRETCHES[0])
    correlation, count = neighbour_correlation(means), means.shape[-1]
    cut = int(TRIMMED_SHARE * count)
    if not cut:
        return np.ones(len(means))
    order = np.sort(means, axis=-1)
    trimmed = order[:, cut : count - cut]
    spread = np.clip(order, trimmed[:, :1], trimmed[:, -1:]).std(1, ddof=1)
    error = spread / ((1 - 2 * cut / count) * np.sqrt(count))
    score = trimmed.mean(1) / np.maximum(
        error * np.sqrt((1 + correlation) / (1 - correlation)), LEAST_ERROR
    )
    p = special.stdtr(trimmed.shape[-1] - 1, -score)
    return np.asarray(np.where(np.isnan(p), 1.0, p))


def _p_of_repetition(values: Float, memories: Sequence[_Memory]) -> Float:
    """Return the p-value that the mean of each row exceeds zero, for values with memory.

    Noise hides a long memory from single values. So the test is repeated with means of longer and
    longer stretches, with the correlation of neighbours.
    """
    p = np.array([memory.p_of_levels()[0] for memory in memories])
    count = min(values.shape[-1], MAX_VALUES) // 2
    while count >= MIN_VALUES:
        means = stretch_means(values, count)
        p = np.maximum(p, _p_of_correlated_means(means, neighbour_correlation(means)))
        count //= 2
    return p


def p_of_levels(values: Float, edges: Sequence[int]) -> Float:
    """Return the p-value that a series exceeds zero in each stretch between edges.

    The memory of the values is that of the whole series, without its changes at the edges. So the
    most extreme stretch of a wandering series is not significant.
    """
    index = np.searchsorted(edges, np.arange(len(values)), side="right")
    levels = (index[:, None] == np.arange(len(edges) + 1)).astype(np.float64)
    return _p_at_all_scales(values, levels)


def p_of_course(values: Float, course: Float) -> float:
    """Return the p-value that a series follows a course, beyond what wandering series do.

    The series changes by a multiple of the course, of either sign.
    """
    levels = np.stack([np.ones(len(values)), course], axis=1)
    sign = np.sign(np.linalg.lstsq(levels, values, rcond=None)[0][1])
    return float(_p_at_all_scales(sign * values, levels, SLOPE_EXPONENT)[-1])


def _p_at_all_scales(values: Float, levels: Float, exponent: float = MEMORY_EXPONENT) -> Float:
    """Return the largest p-values of levels in values and in means of longer and longer stretches.

    Noise hides a long memory from single values. Values far from the levels are tamed first.
    """
    residual = values - levels @ np.linalg.lstsq(levels, values, rcond=None)[0]
    values = values - residual + tame(residual)
    p = _Memory(values, levels, exponent).p_of_levels()
    count = min(len(values), MAX_VALUES) // 2
    while count >= MIN_VALUES:
        means = stretch_means(values[None], count)[0]
        of_means = stretch_means(levels.T, count).T
        p = np.maximum(p, _Memory(means, of_means, exponent).p_of_levels())
        count //= 2
    return p


def tame(values: Float) -> Float:
    """Return values that deviate from their median by at most MAX_DEVIATIONS."""
    middle = float(np.median(values))
    reach = MAX_DEVIATIONS * MAD_SCALE * float(np.median(np.abs(values - middle)))
    return np.clip(values, middle - reach, middle + reach)


class _Memory:
    """How much of its predecessor a value of a series keeps: a probability for each of KEPT_SHARES.

    Model: an autoregressive process of first order about known or unknown levels. The probabilities
    come from its restricted likelihood, in which unknown levels cause no bias (Harville 1977).
    levels: values x levels, weights of the levels in each value; by default there is one level. A
    slope is a level with growing weights.
    """

    def __init__(
        self, values: Float, levels: Float | None = None, exponent: float = MEMORY_EXPONENT
    ) -> None:
        is_known = ~np.isnan(values)
        self.values = values[is_known]
        self.count = min(len(self.values), MAX_VALUES)
        if levels is None:
            levels = np.ones((len(values), 1))
        self.level_count = levels.shape[1]
        self.fit: _Fit | None = None
        if self.count <= levels.shape[1]:
            return
        (series,) = stretch_means(self.values[None], MAX_VALUES)
        levels = stretch_means(levels[is_known].T, MAX_VALUES).T
        if np.linalg.matrix_rank(levels) < levels.shape[1]:
            return  # means of stretches do not show the shortest levels
        residual = series - levels @ np.linalg.lstsq(levels, series, rcond=None)[0]
        chance = _fit(tame(residual), levels).log_likelihood
        chance = np.exp(chance - chance.max()) * _prior(exponent)
        self.chance = chance / chance.sum()
        self.fit = _fit(series, levels)

    def p_of_levels(self) -> Float:
        """Return the p-value that each level exceeds zero."""
        from scipy import special

        if self.fit is None:
            return np.ones(self.level_count)  # too few values for the levels
        p = special.stdtr(self.fit.degrees_of_freedom, -self.fit.levels / self.fit.errors)
        return np.asarray(self.chance @ p)

    def p_of_signs(self) -> float:
        """Return the p-value that most values are positive.

        The signs of values with correlation r have the correlation 2/pi asin(r).
        """
        from scipy import special

        if self.fit is None:
            return 1.0
        count = len(self.values)
        share = float(np.sign(self.values).mean())
        distance = np.arange(1, count)
        kept_shares = KEPT_SHARES[:, None] ** (self.count / count)
        correlation = 2 / np.pi * np.arcsin(kept_shares**distance)
        variance = (1 + 2 * (correlation * (1 - distance / count)).sum(1)) / count
        return float(self.chance @ special.ndtr(-share / np.sqrt(variance)))


@dataclass(frozen=True)
class _Fit:
    """Levels of a series and their standard errors (shares x levels) for each of KEPT_SHARES."""

    levels: Float
    errors: Float
    degrees_of_freedom: int
    log_likelihood: Float


def _fit(series: Float, weights: Float) -> _Fit:
    """Return the levels by generalised least squares.

    The first value is scaled to the variance of an innovation.
    """
    first, share = np.sqrt(1 - KEPT_SHARES**2)[:, None], KEPT_SHARES[:, None]
    innovations = np.hstack([first * series[0], series[1:] - share * series[:-1]])
    first, share = first[:, :, None], share[:, :, None]
    of_level = np.hstack([first * weights[:1], weights[1:] - share * weights[:-1]])
    squared = of_level.transpose(0, 2, 1) @ of_level
    inverse = np.linalg.pinv(squared)
    projected = of_level.transpose(0, 2, 1) @ innovations[:, :, None]
    levels = inverse @ projected
    free = len(series) - weights.shape[1]
    residual = innovations - (of_level @ levels)[:, :, 0]
    squares = np.maximum((residual**2).sum(1), TINY)
    _, log_determinant = np.linalg.slogdet(squared)
    likelihood = np.log(1 - KEPT_SHARES**2) - log_determinant - free * np.log(squares)
    errors = np.sqrt((squares / free)[:, None] * np.diagonal(inverse, axis1=1, axis2=2))
    return _Fit(levels[:, :, 0], np.maximum(errors, TINY), free, likelihood / 2)


def _prior(exponent: float) -> Float:
    """Return the probability of each of KEPT_SHARES before the values are known."""
    edges = np.concatenate([[0.0], (KEPT_SHARES[1:] + KEPT_SHARES[:-1]) / 2, [1.0]])
    return np.asarray(-np.diff((1 - edges) ** exponent))


def _p_of_correlated_means(means: Float, correlation: Float | float) -> Float:
    """Return `p_above_zero` for means of stretches with a correlation between neighbours."""
    from scipy import special

    counts = (~np.isnan(means)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        row_means = np.nansum(means, 1) / counts
        spread = np.nansum((means - row_means[:, None]) ** 2, 1) / (counts - 1)
        unsure = (1 + correlation) / (1 - correlation)
        score = row_means / np.sqrt(spread / counts * unsure)
        free = np.maximum(counts / unsure - 1, MIN_DEGREES_OF_FREEDOM)
    p = special.stdtr(np.minimum(free, counts - 1), -score)
    p = np.where(spread == 0, np.where(row_means > 0, 0.0, 1.0), p)
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
