"""Order of rows by rank and time and of codes, and medians of groups of values.

It is fast for rows that are nearly sorted. Medians take linear time. Source:
core/python_api/order.c and group_order.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.types import Array, Float, Int

MAX_CELLS_PER_CODE = 8  # of a table of codes; codes with a higher limit are sorted
CHECKED_ROWS = 1 << 15  # at a time, so that the arrays of a check remain in the cache


def order_by_time(rank: Array, time_ns: Array, ranks: int) -> tuple[Int, Int]:
    """Return the rows by rank and time, and where each rank begins; equal ones keep their order.

    rank: below `ranks`. Rows of a rank that consist of a few parts in order take least time.
    """
    order, first = order_by_rank(rank, ranks)
    room = np.empty(int(np.diff(first).max(initial=0)), np.int64)
    call_library(
        "order_by_time", ranks, np.ascontiguousarray(time_ns, np.int64), first, order, room
    )
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
    columns = (np.ascontiguousarray(column, np.int64) for column in (first, time_ns))
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
    ranks = int(max(column.max(initial=-1) for column in (columns[0], rank))) + 1
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


def number_values(values: Array) -> tuple[Int, Int]:
    """Return the values that occur, in order, and the number of each value."""
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low = int(values.min())
    codes, number = number_codes(values.astype(np.int64) - low, int(values.max()) - low + 1)
    return codes + low, number


def join_columns(parts: Sequence[Sequence[Array]], count: int) -> list[Array]:
    """Return the concatenation of each of `count` columns of int64 or smaller integers."""
    if len(parts) == 1:
        return list(parts[0])
    columns = zip(*parts, strict=True) if parts else [[np.zeros(0, np.int64)]] * count
    return [np.concatenate(column) for column in columns]


def find_medians(group: Int, values: Float, groups: int) -> Float:
    """Return the median of the values of each group, the lower one of two, 0 for an empty one."""
    count = count_members(group, groups)
    return select_values(group, values, (count - 1) // 2, count)


def find_upper_medians(group: Int, values: Float, groups: int) -> Float:
    """Return the median of the values of each group, the upper one of two, 0 for an empty one."""
    count = count_members(group, groups)
    return select_values(group, values, count // 2, count)


def count_members(group: Int, groups: int) -> Int:
    """Return the number of values of each group; all groups are below `groups`."""
    return np.bincount(group, minlength=groups)


def select_values(group: Int, values: Float, index: Int, count: Int) -> Float:
    """Return a value of each group: the one at an index in ascending order, 0 beyond the group.

    count: as count_members.
    """
    groups = len(count)
    if len(group) != len(values) or len(index) != groups:
        raise ValueError(f"{len(values)} values of {len(group)} rows in {groups} groups")
    end = np.cumsum(count) - count
    selected, room = np.empty(groups), np.empty(len(values))
    arrays = (np.ascontiguousarray(group, np.int64), np.ascontiguousarray(values, np.float64))
    index = np.ascontiguousarray(index, np.int64)
    call_library("group_order_select", len(values), groups, *arrays, index, end, room, selected)
    return selected
