"""Order of rows by rank and time, and of codes. It is fast for rows that are nearly sorted.

Source: core/python_api/order.c.
"""

from __future__ import annotations

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


def sort_codes(code: Int) -> Int:
    """Return the order of codes that are not negative; equal ones keep their order.

    Several times faster than a stable `argsort`, because values are sorted instead of indices.
    """
    bits = len(code).bit_length()
    if int(code.max(initial=0)) >= 1 << (63 - bits):
        return np.argsort(code, kind="stable")
    packed = (code << bits) | np.arange(len(code))
    packed.sort()
    return np.asarray(packed & ((1 << bits) - 1))


def number_codes(code: Int, limit: int) -> tuple[Int, Int]:
    """Return the codes that occur, in order, and the number of each code; all are below a limit."""
    occurs = np.zeros(limit, np.bool_)
    occurs[code] = True
    known = np.flatnonzero(occurs)
    number = np.empty(limit, np.int64)
    number[known] = np.arange(len(known))
    return known, number[code]
