"""Segmentation of series into stretches of constant values.

It is implemented here, because importing the package ruptures takes half a second, longer than the
computation.
"""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Float, Int


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
