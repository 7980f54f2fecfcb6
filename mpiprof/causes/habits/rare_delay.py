"""Rare delays of one rank: it is last in far more of the costly columns than the other ranks.

    row 2 |    x        x   x          x        x
    row 1 |         x
    row 0 |                       x
          +-------------------------------------- columns

Accidents happen to any rank. If most of the costly columns are of one rank, its delays have a cause
of their own.
"""

from __future__ import annotations

import numpy as np

from mpiprof.causes.habits.significance import p_apart_from_others
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.trace.types import Float, Int

MIN_EVENTS = 3  # late columns of a rank that is blamed
MAX_GAP = 4  # columns within which repeated delays of a rank are one event
MIN_APART = 5  # late columns, from which a rank's lateness is compared with other ranks'


def find_rare_columns(work_ns: Float, waits: Float, row: int) -> Int:
    """Return the columns in which a row is last, by at least half of its costliest lateness."""
    late = np.nan_to_num(work_ns[row] - column_medians(np.delete(work_ns, row, 0)))
    is_last = (np.nanargmax(work_ns, 0) == row) & (waits > 0)
    if not is_last.any():
        return np.zeros(0, np.int64)
    columns = np.flatnonzero(is_last & (late > _find_costly_median(late[is_last]) / 2))
    return columns if len(columns) >= MIN_EVENTS else columns[:0]


def find_chance_of_rare(work_ns: Float, waits: Float, row: int, count: int) -> float:
    """Return the p-value that a row is late in so many columns as other rows are.

    Waiting may count delays of the awaited rank only, so the spread of the ranks is tested, too.
    """
    last = np.nanargmax(work_ns, 0)
    spread = np.nanmax(work_ns, 0) - column_medians(work_ns)
    p = max(_find_chance_of_events(costs, last, row, len(work_ns)) for costs in (waits, spread))
    return min(p, _find_chance_apart(work_ns, row, count))


def _find_chance_apart(work_ns: Float, row: int, count: int) -> float:
    """Return the p-value that a row is as late as other rows in as many of their latest columns.

    Ranks that wander are late for a while, too, each at another time.
    """
    if count < MIN_APART:
        return 1.0
    late = np.nan_to_num(work_ns - column_medians(work_ns))
    largest = np.median(np.partition(late, -count, axis=1)[:, -count:], axis=1)
    return p_apart_from_others(largest[[row]], np.delete(largest, row))


def _find_chance_of_events(costs: Float, last: Int, row: int, ranks: int) -> float:
    """Return the p-value that one rank is last in so many of the costly columns.

    costs: of each column. Repeated events of the same rank within MAX_GAP columns count once.
    """
    from scipy import special

    events = np.flatnonzero(costs > _find_costly_median(costs) / 2)
    count = hits = 0
    newest: dict[int, int] = {}
    for column, rank in zip(events.tolist(), last[events].tolist(), strict=True):
        if column - newest.get(rank, -MAX_GAP - 1) > MAX_GAP:
            count += 1
            hits += rank == row
        newest[rank] = column
    return min(float(special.bdtrc(hits - 1, count, 1 / ranks)) * ranks, 1.0)


def find_turns(work_ns: Float) -> tuple[Int, Float, float]:
    """Return the last row of each column, its lateness, and the p-value that so few rows are last.

    Under the null hypothesis, each next row is any other row. A row that is last in consecutive
    columns counts once, because a wandering row is last for a while.
    """
    from scipy import special

    row = np.nanargmax(work_ns, 0)
    late = np.nanmax(work_ns, 0) - column_medians(work_ns)
    rows, few, moves = len(work_ns), len(np.unique(row)), np.count_nonzero(np.diff(row))
    p = float(special.comb(rows, few)) * ((few - 1) / max(rows - 1, 1)) ** moves
    return row, np.nan_to_num(late), min(p, 1.0)


def _find_costly_median(values: Float) -> float:
    """Return the median of the largest values that add up to half of the sum."""
    order = np.sort(values)[::-1]
    total = np.cumsum(order)
    return float(np.median(order[: int(np.searchsorted(total, total[-1] / 2)) + 1]))
