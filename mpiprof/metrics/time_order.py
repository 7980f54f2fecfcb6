"""Order of rows by rank and time, and of codes. It is fast for rows that are nearly sorted.

Source: core/python_api/order.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.types import Array, Int

MAX_CELLS_PER_CODE = 8  # of a table of codes; codes with a higher limit are sorted
CHECKED_ROWS = 1 << 15  # at a time, so that the arrays of a check remain in the cache


def order_by_time(rank: Array, time_ns: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank and time, and where each rank begins; equal ones keep their order.

    rank: below `ranks`. Rows of a rank that consist of a few parts in order take least time.
    """
    order, first = order_by_rank(rank, ranks)
    times_ns = time_ns[order]
    for begin, end in pairwise(first.tolist()):
        rows, of_rank_ns = order[begin:end], times_ns[begin:end]
        if (of_rank_ns[1:] < of_rank_ns[:-1]).any():
            rows[:] = rows[np.argsort(of_rank_ns, kind="stable")]
    return order, first


def find_places(
    first: Int, time_ns: Int, rank: Array, sought_ns: Int, *, after: bool = False
) -> Int:
    """Return where rows belong among rows by rank and time: the first row that is not earlier.

    first: of each rank, its first row in time_ns, and then the number of rows. rank, sought_ns: of
    the rows to place; rows by rank and time take least time. after: after rows of equal time.
    """
    rank = np.ascontiguousarray(rank, np.int64)
    if len(rank) and not 0 <= rank.min() <= rank.max() < len(first) - 1:
        raise ValueError(f"rows of ranks that are not below {len(first) - 1}")
    place = np.empty(len(rank), np.int64)
    columns = (np.ascontiguousarray(of, np.int64) for of in (first, time_ns))
    sought = np.ascontiguousarray(sought_ns, np.int64)
    call_library("order_find", *columns, len(rank), rank, sought, int(after), place)
    return place


def count_first_rows(rank: Array, ranks: int) -> Int:
    """Return the first row of each rank among rows by rank, and then the number of rows."""
    return np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=ranks))])


def find_last_rows(
    columns: tuple[Int, Int], rank: Int, time_ns: Int, *, until: bool = False
) -> Int:
    """Return the last row of each rank that is earlier than a time, -1 without such a row.

    columns: rank and time of the rows, by rank and time. until: rows of equal time count, too.
    """
    ranks = int(max(of.max(initial=-1) for of in (columns[0], rank))) + 1
    first = count_first_rows(columns[0], ranks)
    row = find_places(first, columns[1], rank, time_ns, after=until) - 1
    return np.where(row >= first[rank], row, -1)


def order_from_latest(time_ns: Int) -> Int:
    """Return the rows by time, the latest first; equal ones keep their order."""
    return order_by_time(np.zeros(len(time_ns), np.int32), -time_ns, 1)[0]


def order_by_rank(rank: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank, and where each rank begins; rows of a rank keep their order."""
    order, first = np.empty(len(rank), np.int64), np.empty(ranks + 1, np.int64)
    group = np.ascontiguousarray(rank, np.int32)
    if len(rank) and not 0 <= group.min() <= group.max() < ranks:
        raise ValueError(f"rows of ranks that are not below {ranks}")
    call_library("order_by_group", len(rank), ranks, group, first, order)
    return order, first


def put_in_order(columns: Sequence[Array], ranks: int) -> Sequence[Array]:
    """Return columns of rows by rank and time; rank and time are the first two columns."""
    rank, time_ns = columns[:2]
    if _are_in_order(rank, time_ns):
        return columns
    order, _ = order_by_time(rank, time_ns, ranks)
    return [column[order] for column in columns]


def _are_in_order(rank: Array, time_ns: Array) -> bool:
    for begin in range(0, len(rank), CHECKED_ROWS):
        rows = slice(begin, begin + CHECKED_ROWS + 1)
        ranks, times_ns = rank[rows], time_ns[rows]
        is_later = (ranks[1:] > ranks[:-1]) | (times_ns[1:] >= times_ns[:-1])
        if not (is_later & (ranks[1:] >= ranks[:-1])).all():
            return False
    return True


def number_codes(code: Int, limit: int) -> tuple[Int, Int]:
    """Return the codes that occur, in order, and the number of each code; all are below a limit."""
    if limit > MAX_CELLS_PER_CODE * len(code):
        codes, number = np.unique(code, return_inverse=True)
        return codes, number.reshape(-1)
    occurs = np.zeros(limit, np.bool_)
    occurs[code] = True
    codes = np.flatnonzero(occurs)
    numbers = np.empty(limit, np.int64)
    numbers[codes] = np.arange(len(codes))
    return codes, numbers[code]


def join_columns(parts: Sequence[Sequence[Array]], count: int) -> list[Array]:
    """Return the concatenation of each of `count` columns of int64 or smaller integers."""
    if len(parts) == 1:
        return list(parts[0])
    columns = zip(*parts, strict=True) if parts else [[np.zeros(0, np.int64)]] * count
    return [np.concatenate(column) for column in columns]
