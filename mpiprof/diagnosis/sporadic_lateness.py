"""Sporadic lateness of one rank: its costly instances, and the p-value that there are so many.

Accidents happen to any rank. A rank that is last in far more of the costly instances than the other
ranks are has a cause of its own, although it is not late in most instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.significance import p_apart_from_others
from mpiprof.diagnosis.work_matrix import column_medians
from mpiprof.trace.types import Bool, Float, Int

MIN_EVENTS = 3  # minimum number of late instances for a rank to be blamed
MAX_GAP = 4  # instances
MIN_APART = 5  # minimum number of late instances to compare a rank's lateness with other ranks'


@dataclass(frozen=True)
class SporadicRank:
    """Row of the work matrix with occasional lateness.

    columns: its late instances. late_ns: usual lateness in these. usual_share: wait that a usual
    row causes, over that of this row. p: p-value.
    """

    row: int
    columns: Int
    late_ns: float
    usual_share: float
    p: float


def find_sporadic_rank(work_ns: Float, waits: Float) -> SporadicRank | None:
    """Return the row that causes most wait, with its p-value, or None if it is hardly ever late."""
    ranks = len(work_ns)
    if waits.sum() <= 0 or ranks < 2:
        return None
    last = np.nanargmax(work_ns, 0)
    weight = np.bincount(last, waits, ranks)
    row = int(np.argmax(weight))
    usual = float(np.median(np.delete(weight, row))) / max(float(weight[row]), 1.0)
    late = np.nan_to_num(work_ns[row] - column_medians(np.delete(work_ns, row, 0)))
    columns = np.flatnonzero(_find_notable(late, last == row))
    if len(columns) < MIN_EVENTS:
        return None
    # Waiting may count delays of the awaited rank only, so the spread of the ranks is tested too.
    spread = np.nanmax(work_ns, 0) - column_medians(work_ns)
    p = max(_p_of_events(costly, last, row, ranks) for costly in (waits, spread))
    p = min(p, _p_apart(work_ns, row, len(columns)))
    return SporadicRank(row, columns, float(np.median(late[columns])), min(usual, 1.0), p)


def _p_apart(work_ns: Float, row: int, count: int) -> float:
    """Return the p-value that a row is as late as other rows in as many of their latest instances.

    Ranks that wander are late for a while, too, each at another time.
    """
    if count < MIN_APART:
        return 1.0
    late = np.nan_to_num(work_ns - column_medians(work_ns))
    largest = np.median(np.partition(late, -count, axis=1)[:, -count:], axis=1)
    return p_apart_from_others(largest[[row]], np.delete(largest, row))


def _p_of_events(costs: Float, last: Int, row: int, ranks: int) -> float:
    """Return the p-value that one rank is last in so many of the costly instances.

    costs: of each instance. Repeated events of the same rank within MAX_GAP instances count once.
    """
    from scipy import special

    events = np.flatnonzero(costs > _heavy_median(costs) / 2)
    count = hits = 0
    newest: dict[int, int] = {}
    for column, of in zip(events.tolist(), last[events].tolist(), strict=True):
        if column - newest.get(of, -MAX_GAP - 1) > MAX_GAP:
            count += 1
            hits += of == row
        newest[of] = column
    return min(float(special.bdtrc(hits - 1, count, 1 / ranks)) * ranks, 1.0)


def _find_notable(late: Float, chosen: Bool) -> Bool:
    """Return the instances in which a rank is late by at least half of the costliest lateness."""
    return np.asarray(chosen & (late > _heavy_median(late[chosen]) / 2))


def _heavy_median(values: Float) -> float:
    """Return the median of the largest values that add up to half of the sum."""
    order = np.sort(values)[::-1]
    total = np.cumsum(order)
    return float(np.median(order[: int(np.searchsorted(total, total[-1] / 2)) + 1]))
