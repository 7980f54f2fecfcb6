"""Outliers: few instances with much of the wait at a call site, and the late ranks in them."""

from __future__ import annotations

import numpy as np

from mpiprof.diagnosis.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int

MAX_SHARE = 0.02  # share of the instances
MAX_REPEATED_SHARE = 0.15  # the same if all outliers have the same late ranks
MAX_OUTLIERS = 8
MAX_GAP = 4  # instances between two outliers of one accident
MIN_INSTANCES = 4  # minimum number of instances for outliers
MIN_FACTOR = 10.0  # multiple of the median wait
MIN_WAIT_SHARE = 0.1  # minimum wait of an outlier, as a share of the worst one's
TAIL_PART, MIN_TAIL = 10, 10  # the tail is a tenth of the instances, but at least 10
MIN_TAIL_VALUES = 3  # smallest tail, for each possible outlier
SAME_RANKS_SHARE = 0.4  # minimum share of the wait in outliers


def find_outliers(matrix: WorkMatrix, work_ns: Float, waits: Float) -> Int:
    """Return the columns of the few instances with much of the wait; empty if there are none.

    If the outliers with the same late ranks as the worst one have enough wait, only these are
    returned: two accidents have separate causes. More outliers are possible if all have the same
    late ranks, because accidents happen to any rank.
    """
    nothing = np.zeros(0, np.int64)
    count, whole = len(waits), float(waits.sum())
    if count < MIN_INSTANCES or whole <= 0:
        return nothing
    costly = _find_costly(waits, max_outliers(count, MAX_REPEATED_SHARE))
    who = [frozenset(find_late_ranks(matrix, work_ns[:, [column]])) for column in costly.tolist()]
    if not who[:1] or not who[0] or any(ranks != who[0] for ranks in who):
        costly = costly[: max_outliers(count)]
    if waits[costly].sum() < SAME_RANKS_SHARE * whole:
        return nothing
    same_ranks = costly[[ranks == who[0] for ranks in who[: len(costly)]]]
    return np.sort(same_ranks if waits[same_ranks].sum() >= SAME_RANKS_SHARE * whole else costly)


def _find_costly(waits: Float, most: int) -> Int:
    """Return the few instances that wait far longer than usual, the costliest first."""
    worst = np.argsort(-waits, kind="stable")[:most]
    least = max(MIN_FACTOR * float(np.median(waits)), MIN_WAIT_SHARE * float(waits[worst[0]]))
    return np.asarray(worst[waits[worst] > least])


def max_outliers(count: int, share: float = MAX_SHARE) -> int:
    """Return the maximum number of outliers among some instances."""
    return min(max(int(share * count), 1), MAX_OUTLIERS)


def tail_p_value(waits: Float, found: int = 1) -> float:
    """Return the p-value that the largest wait belongs to the tail of the other instances' waits.

    The tail is a power law (Hill 1975). A few or many of the largest waits show its exponent: few,
    because a tail may be steeper than what precedes it. Possible outliers are left out, so that
    they count as at least as large as the largest of the others. If there are few others, all of
    them are the tail, which makes the p-value larger. Returns 0 if at most one of them waits.
    found: number of outliers, which may exceed the usual maximum.
    """
    possible = max(max_outliers(len(waits)), found)
    others = np.sort(waits)[::-1][possible:]
    others = others[others > 0]
    count = min(max(len(others) // TAIL_PART, MIN_TAIL), len(others) - 1)
    if count < 1:
        return 0.0
    beyond = float(np.log(waits.max() / others[0]))
    tails = (min(MIN_TAIL_VALUES * possible, count), count)
    return min(len(tails) * min(_p_beyond(others, few, possible, beyond) for few in tails), 1.0)


def p_of_same_ranks(columns: Int, ranks: int) -> float:
    """Return the probability that accidents in some instances strike the same rank by chance.

    More outliers than usual have the same late ranks. One accident may last for MAX_GAP instances.
    """
    accidents = 1 + int((np.diff(columns) > MAX_GAP).sum())
    return float(ranks) ** (1 - accidents)


def _p_beyond(others: Float, count: int, possible: int, beyond: float) -> float:
    """Return the p-value that one of the outliers exceeds the others by a logarithm.

    Logarithms of values of a power law are exponential, so the distribution is exact for an unknown
    exponent: a ratio of sums of exponential variables.
    """
    logs = np.log(others[:count] / others[count])
    total = float(logs.sum() + possible * logs[0])
    return float(possible * (total / max(total + beyond, 1e-9)) ** count)


def find_late_ranks(matrix: WorkMatrix, work_ns: Float) -> tuple[int, ...]:
    """Return the ranks that worked far longer than all other ranks, the latest first.

    Returns () if there are none, also if some ranks were far ahead and all others late together.
    """
    low, high = np.nanmin(work_ns, 0), np.nanmax(work_ns, 0)
    middle = column_medians(work_ns)
    far = (work_ns - middle) > (high - middle) / 2
    far &= far.sum(0) <= len(work_ns) / 2
    far &= (work_ns > (low + high) / 2).sum(0) <= len(work_ns) / 2
    rows = np.flatnonzero(far.any(1))
    late = np.nanmax(np.where(far, work_ns, 0.0), 1)[rows]
    return tuple(matrix.ranks[rows[np.argsort(-late, kind="stable")]].tolist())
