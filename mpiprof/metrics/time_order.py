"""Order of rows by rank and time, and of codes. It is fast for rows that are nearly sorted.

Source: core/python_api/order.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.types import Array, Int

CHECKED_ROWS = 1 << 15  # at a time, so that the arrays of a check remain in the cache


def order_by_time(rank: Array, time_ns: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank and time, and where each rank begins; equal ones keep their order.

    rank: below `ranks`. Rows of a rank that consist of a few parts in order take least time.
    """
    order, first = order_by_rank(rank, ranks)
    time_ns = np.ascontiguousarray(time_ns, np.int64)
    entries = np.empty((2 * int(np.diff(first).max(initial=0)), 2), np.int64)
    call_library("order_by_time", ranks, first, time_ns, entries, order)
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


def order_from_latest(first_ns: Int, second_ns: Int) -> Int:
    """Return the rows of two columns of times, the latest first; equal ones keep their order.

    Rows of the second column follow the rows of the first one.
    """
    rows = len(first_ns) + len(second_ns)
    order, entries = np.empty(rows, np.int64), np.empty((2 * rows, 2), np.int64)
    columns = (np.ascontiguousarray(of, np.int64) for of in (first_ns, second_ns))
    arguments = (argument for of in columns for argument in (of, len(of)))
    call_library("order_from_latest", *arguments, entries, order)
    return order


def order_by_rank(rank: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank, and where each rank begins; rows of a rank keep their order."""
    order, first = np.empty(len(rank), np.int64), np.empty(ranks + 1, np.int64)
    group = np.ascontiguousarray(rank, np.int32)
    if len(rank) and not 0 <= group.min() <= group.max() < ranks:
        raise ValueError(f"rows of ranks that are not below {ranks}")
    call_library("order_by_group", len(rank), ranks, group, first, order)
    return order, first


def find_order(rank: Array, time_ns: Array, ranks: int) -> Int | None:
    """Return the rows by rank and time as `order_by_time`, or None if they are in order."""
    return None if _are_in_order(rank, time_ns) else order_by_time(rank, time_ns, ranks)[0]


def put_in_order(columns: Sequence[Array], ranks: int) -> Sequence[Array]:
    """Return columns of rows by rank and time; rank and time are the first two columns."""
    rank, time_ns = columns[:2]
    order = find_order(rank, time_ns, ranks)
    return columns if order is None else [column[order] for column in columns]


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
    occurs = np.zeros(limit, np.bool_)
    occurs[code] = True
    known = np.flatnonzero(occurs)
    number = np.empty(limit, np.int64)
    number[known] = np.arange(len(known))
    return known, number[code]
