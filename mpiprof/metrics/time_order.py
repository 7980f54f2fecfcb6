"""Order of rows by rank and time, and of codes. It is fast for rows that are nearly sorted.

Source: core/python_api/order.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.types import Array, Int


def order_by_time(rank: Array, time_ns: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank and time, and where each rank begins; equal ones keep their order.

    rank: below `ranks`. The time is proportional to the logarithm of the number of parts of a rank
    that are in order.
    """
    order, first = order_by_rank(rank, ranks)
    time_ns = np.ascontiguousarray(time_ns, np.int64)
    entries = np.empty((2 * int(np.diff(first).max(initial=0)), 2), np.int64)
    call_library("order_by_time", ranks, first, time_ns, entries, order)
    return order, first


def order_by_rank(rank: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank, and where each rank begins; rows of a rank keep their order."""
    order, first = np.empty(len(rank), np.int64), np.empty(ranks + 1, np.int64)
    group = np.ascontiguousarray(rank, np.int32)
    if len(rank) and not 0 <= group.min() <= group.max() < ranks:
        raise ValueError(f"rows of ranks that are not below {ranks}")
    call_library("order_by_group", len(rank), ranks, group, first, order)
    return order, first


def find_order(rank: Array, time_ns: Array, ranks: int) -> Int:
    """Return the rows by rank and time as `order_by_time`, at once if they are in order."""
    in_order = _are_in_order(rank, time_ns)
    return np.arange(len(rank)) if in_order else order_by_time(rank, time_ns, ranks)[0]


def put_in_order(columns: Sequence[Array], ranks: int) -> Sequence[Array]:
    """Return columns of rows by rank and time; rank and time are the first two columns."""
    rank, time_ns = columns[:2]
    if _are_in_order(rank, time_ns):
        return columns
    order, _ = order_by_time(rank, time_ns, ranks)
    return [column[order] for column in columns]


def _are_in_order(rank: Array, time_ns: Array) -> bool:
    is_later = (rank[1:] > rank[:-1]) | (time_ns[1:] >= time_ns[:-1])
    return bool((is_later & (rank[1:] >= rank[:-1])).all())


def number_codes(code: Int, limit: int) -> tuple[Int, Int]:
    """Return the codes that occur, in order, and the number of each code; all are below a limit."""
    occurs = np.zeros(limit, np.bool_)
    occurs[code] = True
    known = np.flatnonzero(occurs)
    number = np.empty(limit, np.int64)
    number[known] = np.arange(len(known))
    return known, number[code]
