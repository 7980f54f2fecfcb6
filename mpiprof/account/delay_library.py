"""Passes over all waits or events of a run in C: their order is that of time, so numpy cannot.

Sources: core/python_api/{delays,delay_groups,delay_items,delay_table,delay_windows,replay}.c.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.types import Array, Float, Int

# Fields of the structs in C, in their order.
RUN = {
    **dict.fromkeys(("groups", "wait_key", "reach"), int),
    **dict.fromkeys(("awaited", "since_ns", "until_ns", "first"), np.int64),
    **dict.fromkeys(("rank", "begin_ns", "end_ns"), np.int64),
    **dict.fromkeys(("items", "item_first", "cursor", "member_end"), np.int64),
    **dict.fromkeys(("chosen", "direct", "cost"), np.float64),
    **dict.fromkeys(("interval_cost", "interval_direct", "rest"), np.float64),
    "sums": np.float64,
    "used": np.int64,
    "beyond": np.float64,
    "same": np.int64,
}
INTERVALS = {
    **dict.fromkeys(("count", "keys"), int),
    **dict.fromkeys(("rank", "key", "begin_ns", "end_ns"), np.int64),
    **dict.fromkeys(("cost", "direct"), np.float64),
    "number": np.int64,
    **dict.fromkeys(("cost_ns", "direct_ns", "work_ns"), np.float64),
    **dict.fromkeys(("intervals", "late_intervals"), np.int64),
}
PARTS = {
    **dict.fromkeys(("intervals", "groups", "ranks", "are_ordered", "wait_key"), int),
    **dict.fromkeys(("order", "rank", "begin_ns", "end_ns", "key"), np.int64),
    **dict.fromkeys(("group_first", "wait_rank", "wait_begin_ns", "wait_end_ns"), np.int64),
    **dict.fromkeys(("first", "waits_of"), np.int64),
}
JOINED = {
    **dict.fromkeys(("collective", "members", "messages"), int),
    **dict.fromkeys(("order", "awaited", "until_ns", "callsite", "communicator"), np.int64),
    **dict.fromkeys(("is_meeting", "is_counted"), np.bool_),
    **dict.fromkeys(("group", "rank", "begin_ns", "end_ns"), np.int64),
    **dict.fromkeys(("message_awaited", "message_until_ns"), np.int64),
    **dict.fromkeys(("message_rank", "message_begin_ns"), np.int64),
    **dict.fromkeys(("joined_awaited", "joined_until_ns", "joined_callsite", "met"), np.int64),
    **dict.fromkeys(("meets", "counted"), np.bool_),
    **dict.fromkeys(("first", "joined_rank", "joined_begin_ns", "joined_end_ns"), np.int64),
    "next": np.int64,
}
JOINED_COLUMNS = {  # results for each group, and for each member
    "groups": ("joined_awaited", "joined_until_ns", "joined_callsite", "met", "meets", "counted"),
    "members": ("joined_rank", "joined_begin_ns", "joined_end_ns"),
}
GROUPS = {
    "count": int,
    **dict.fromkeys(("awaited", "until_ns", "first", "rank", "begin_ns"), np.int64),
    "meets": np.bool_,
    "since_ns": np.int64,
}
ITEM_WORDS = 3  # of 64 bits
SUMS_FIELDS = 8


def arrange_items(values: dict[str, Any]) -> tuple[Array, Int]:
    """Return the intervals and waits of all ranks as items, and where those of a rank begin.

    values: the fields of PARTS except results and scratch arrays.
    """
    ranks, count = values["ranks"], values["intervals"] + len(values["wait_rank"])
    if count > np.iinfo(np.int32).max:
        raise ValueError("too many intervals and waits for numbers of 32 bits")
    items, first = np.empty((count, ITEM_WORDS), np.int64), np.empty(ranks + 1, np.int64)
    scratch = {"first": first, "waits_of": np.zeros(ranks, np.int64)}
    call_library("delay_items_arrange", Struct(PARTS, values | scratch), items)
    return items, first


def number_pairs(first: Array, second: Array, low: int, count: int) -> tuple[Int, Int]:
    """Return the codes of the pairs that occur, in order, and the number of each pair.

    The code of a pair is (first - low) * count + second - low. All values are from `low` to before
    low + count.
    """
    columns = [np.ascontiguousarray(of, np.int32) for of in (first, second)]
    arguments = len(first), *columns, low, count
    number_of, number = np.zeros(count * count, np.int64), np.empty(len(first), np.int64)
    call_library("delay_items_mark_pairs", *arguments, number_of)
    codes = np.flatnonzero(number_of)
    number_of[codes] = np.arange(len(codes))
    call_library("delay_items_number_pairs", *arguments, number_of, number)
    return codes, number


def join_groups(values: dict[str, Any]) -> dict[str, Array]:
    """Return the results of JOINED: groups of waits in order, and their members by group.

    values: the fields of JOINED except results and scratch arrays.
    """
    collective, members, messages = (values[name] for name in ("collective", "members", "messages"))
    sizes = {"groups": collective + messages, "members": members + messages}
    results: dict[str, Array] = {
        name: np.empty(sizes[of], JOINED[name])
        for of, names in JOINED_COLUMNS.items()
        for name in names
    }
    results["first"] = np.empty(sizes["groups"] + 1, np.int64)
    scratch = {"next": np.zeros(collective, np.int64)}
    call_library("delay_groups_join", Struct(JOINED, values | results | scratch))
    return results


def divide_costs(values: dict[str, Any], ranks: int) -> None:
    """Divide the costs of all groups of waits among their causes.

    values: the fields of RUN except scratch arrays. The results are in the arrays cost,
    interval_cost, interval_direct and rest, of which the last three are 0 at first.
    """
    keys = values["wait_key"] + 1
    scratch = {
        "cursor": values["item_first"][1:].copy(),
        "member_end": np.empty(ranks, np.int64),
        "direct": np.zeros(1),
        "sums": np.zeros((keys, SUMS_FIELDS)),
        "used": np.empty(keys, np.int64),
        "beyond": np.empty(values["reach"]),
    }
    call_library("delays_divide_costs", Struct(RUN, values | scratch))


def sum_intervals(values: dict[str, Any], ranks: int) -> tuple[Int, dict[str, Array]]:
    """Return the codes (rank * keys + key) that intervals have, and their sums.

    values: the fields of INTERVALS except results and scratch arrays.
    """
    number = np.zeros(ranks * values["keys"], np.int64)
    columns = (np.ascontiguousarray(values[name], np.int64) for name in ("rank", "key"))
    call_library("delay_table_mark", values["count"], values["keys"], *columns, number)
    codes = np.flatnonzero(number)
    number[codes] = np.arange(len(codes))
    names = ("cost_ns", "direct_ns", "work_ns", "intervals", "late_intervals")
    sums: dict[str, Array] = {name: np.zeros(len(codes), INTERVALS[name]) for name in names}
    call_library("delay_table_sum", Struct(INTERVALS, values | {"number": number} | sums))
    return codes, sums


class WindowFinder:
    """Begins of the windows of groups of waits, which move to later meetings of their ranks.

    values: the fields of GROUPS. The results are in the array since_ns.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._groups, self._members = Struct(GROUPS, values), len(values["rank"])

    def add_meetings(self, is_member: Array, times_ns: Int) -> None:
        """Add meetings of some ranks; times_ns: ascending."""
        call_library("delay_windows_add_meetings", self._groups, is_member, times_ns, len(times_ns))

    def add_pairs(self, ranks: int) -> None:
        """Add the waits of ranks for each other."""
        pairs = min(self._members, ranks * (ranks - 1) // 2) + 1
        table = np.empty((1 << (2 * pairs).bit_length(), 2), np.int64)
        call_library("delay_windows_add_pairs", self._groups, table, len(table))

    def limit(self) -> None:
        """Let each window begin at the first wait of its group at the latest."""
        of = self._groups.arrays
        columns = (of[name] for name in ("first", "begin_ns", "since_ns"))
        call_library("delay_groups_limit", len(of["awaited"]), *columns)


def advance_leads(
    rank: Array, dependence: Array, gap: Array, removed: Array, dependences: int, ranks: int
) -> Float:
    """Return the lead of each rank after all events.

    One value per event, in order of time: rank, dependence, gap and removed, as replay.c describes.
    dependences: their number.
    """
    if len(rank) and not 0 <= rank.min() <= rank.max() < ranks:
        raise ValueError(f"events of ranks that are not below {ranks}")
    ends, leads = np.full(dependences, np.inf), np.zeros(ranks)
    typed = zip((rank, dependence, gap, removed), (np.int32, np.int64, float, float), strict=True)
    columns = [np.ascontiguousarray(values, dtype) for values, dtype in typed]
    call_library("replay_advance", len(rank), *columns, ends, leads)
    return leads
