"""What chance alone does to means of consecutive instances, which are not independent.

A disturbance lasts, ranks wander: the mean of n such values is less sure than that of n
independent ones. So a series is cut into consecutive stretches whose means are the values of the
tests, and what their own correlation leaves unsure is added (batch means: Law and Carson 1979).
"""

from __future__ import annotations

import numpy as np

from mpiprof.analysis import tails
from mpiprof.trace.types import Float

STRETCHES = (20, 5)
MOST_SIGNS = 40  # so many of one sign are no chance
LEAST_FREE = 3.0  # degrees of freedom
MOST_CORRELATED = 0.9
STEPS = 2  # differences that may be changes for good
BLOCKS = 16  # a block of the longest kind is at most this part of a series


def stretch_means(values: Float, most: int) -> Float:
    """Return means of consecutive columns: rows x at most `most`; NaN where nothing is known."""
    count = values.shape[-1]
    stretches = min(most, count)
    edges = np.arange(stretches) * count // stretches
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), edges, axis=-1)
    number = np.add.reduceat(known.astype(np.float64), edges, axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.where(number > 0, number, np.nan))


def p_above(values: Float) -> Float:
    """Return for each row how likely chance makes it greater than zero, in mean or in most cases.

    The better of two tests: the mean tells small shifts of even noise, the sign what spikes hide.
    """
    mean = p_above_zero(values)
    signs = p_above_zero(np.sign(values))
    for row in np.flatnonzero(signs < mean):
        known = values[row][~np.isnan(values[row])]
        # As many of one sign by chance, where what lasts counts once.
        signs[row] = max(signs[row], 0.5 ** min(len(known) / persistence(known), MOST_SIGNS))
    return np.asarray(np.minimum(2 * np.minimum(mean, signs), 1.0))


def p_above_zero(values: Float) -> Float:
    """Return for each row how likely chance makes its mean so much greater than zero.

    values: rows x instances, in their order. The most doubtful of some t-tests of the means of
    stretches, short and long, as what moves slowly only shows in long ones.
    """
    short, long = (stretch_means(values, most) for most in STRETCHES)
    if short.shape[-1] == long.shape[-1]:
        return _p_of_means(long, np.zeros(len(long)))
    return np.asarray(np.maximum(_p_of_means(short, correlation(short)), _p_of_means(long, 0.0)))


def _p_of_means(means: Float, alike: Float | float) -> Float:
    """Return what `p_above_zero` does, of stretches of which neighbours are alike (0 to 1)."""
    known = (~np.isnan(means)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.nansum(means, 1) / known
        spread = np.nansum((means - whole[:, None]) ** 2, 1) / (known - 1)
        unsure = (1 + alike) / (1 - alike)
        score = whole / np.sqrt(spread / known * unsure)
        free = np.maximum(known / unsure - 1, LEAST_FREE)
    p = tails.student(np.minimum(free, known - 1), score)
    p = np.where(spread == 0, np.where(whole > 0, 0.0, 1.0), p)
    return np.asarray(np.where((known >= 2) & ~np.isnan(p), p, 1.0))


def correlation(means: Float) -> Float:
    """Return how alike neighbouring stretches are, of each row: 0 where they are not.

    Half of it is the rows' common value, as one row of 20 values tells little; what estimating
    their mean took away is given back (Kendall 1954).
    """
    known = (~np.isnan(means)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = means - np.nansum(means, 1, keepdims=True) / known[:, None]
        product = np.nan_to_num(rest[:, :-1] * rest[:, 1:]).sum(1)
        power = np.nansum(rest**2, 1)
        own = np.where(power > 0, product / power, 0.0)
        common = product.sum() / power.sum() if power.sum() > 0 else 0.0
        found = (own + common) / 2
        found = found + (1 + 3 * found) / np.maximum(known, 1)
    return np.asarray(np.clip(found, 0.0, MOST_CORRELATED))


def persistence(signal: Float) -> float:
    """Return by how much a series' means vary more than those of independent values; at least 1.

    From differences of neighbouring blocks of 1, 2, 4, ... values, the greatest two aside, so that
    a step or two do not count as persistence.
    """
    base = _block_spread(signal, 1, 0)
    found, size = 1.0, 2
    while base > 0 and size * BLOCKS <= len(signal):
        found = max(found, size * _block_spread(signal, size, STEPS) / base)
        size *= 2
    return found


def _block_spread(signal: Float, size: int, without: int) -> float:
    """Return the mean square of differences of neighbouring blocks' means, without the greatest."""
    count = len(signal) // size
    means = signal[: count * size].reshape(count, size).mean(1)
    squares = np.diff(means) ** 2
    kept = max(len(squares) - without, 1)
    if kept < len(squares):
        squares = np.partition(squares, kept)[:kept]
    return float(squares.mean()) if len(squares) else 0.0
