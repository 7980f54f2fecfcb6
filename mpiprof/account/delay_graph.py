"""Cost of each interval of work: all waiting that it causes, directly or through other ranks.

A rank r waits because the awaited rank s arrives later. Let T be the last time at which the two
ranks met (one waited for the other, or both took part in a synchronising collective):

    r  T ── work ── wait of r ──────────────┐ until
    s  T ── work ──── wait of s ── work ────┘ arrives

Both windows begin at T, so the wait of r equals the work and waits of s in its window, minus those
of r in its window. The wait is divided among the intervals in which s took longer than r (same pair
of call sites) and, if s waited longer than r, among the waits of s. A wait passes its share on to
its own causes, so that all cost ends at intervals of work.

While r works, s may wait for a rank that does the same work at the same time (up to the same call
site, because the call before may have no record). Then this wait is no excess of s over r. It
counts as the work:

    worker 1  T ── work ── wait of r ───────┐ until
    worker 2  T ── work ──┐                 │
    master s  T ── wait ──┴───── work ──────┘ arrives

Source: Böhme et al., "Identifying the root causes of wait states in large-scale parallel
applications", ACM TOPC 3(2), 2016: delay costs, short-term and long-term. Here long-term costs are
passed on in one step, and ranks that wait for the same rank in one instance are compared together.

One pass over the groups of waits, the latest first, divides the costs in C
(core/python_api/delays.c): when the pass reaches a group, all later groups have added to its cost.
Memory: 24 bytes for each interval and wait besides them, and 16 for each interval and group of
waits while costs are computed. Time: the sum of the windows' numbers of intervals and waits.
Windows of ranks that meet rarely reach back over MAX_REACH intervals and waits at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mpiprof.account.row_order import order_by_time
from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.types import Array, Float, Int

# Intervals and waits of a rank that a window contains at most. Ranks that have not met for so long
# are compared over this window only.
MAX_REACH = 1 << 12
# An interval or a wait, as struct item in core/python_api/delays.h.
ITEM = np.dtype([("begin_ns", "i8"), ("end_ns", "i8"), ("number", "i4"), ("key", "i4")])
SUMS_FIELDS = 8
# The fields of the struct in core/python_api/delays.c, in their order.
RUN = {
    **dict.fromkeys(("groups", "wait_key", "reach"), int),
    **dict.fromkeys(("awaited", "since_ns", "until_ns", "first"), np.int64),
    **dict.fromkeys(("rank", "begin_ns", "end_ns"), np.int64),
    "items": ITEM,
    **dict.fromkeys(("item_first", "cursor", "member_end"), np.int64),
    **dict.fromkeys(("chosen", "direct", "cost"), np.float64),
    **dict.fromkeys(("interval_cost", "interval_direct", "rest"), np.float64),
    "sums": np.float64,
    "used": np.int64,
    "beyond": np.float64,
    "same": np.int64,
}

# The same of the struct in core/python_api/delay_items.c.
ARRANGED = {
    **dict.fromkeys(("ranks", "intervals", "waits", "wait_key"), int),
    **dict.fromkeys(("first", "order", "begin_ns", "end_ns", "key"), np.int64),
    **dict.fromkeys(("wait_begin_ns", "wait_end_ns", "group"), np.int64),
    "items": ITEM,
}


@dataclass(frozen=True)
class Waits:
    """Waits in groups: the members of a group wait for the same rank until it arrives.

    Per group, the latest first: awaited (rank), until_ns (its arrival), since_ns (when these ranks
    last met). first: the first member of each group, and the number of members. Per member, by
    group: rank, begin_ns and end_ns of its wait.
    """

    awaited: Int
    until_ns: Int
    since_ns: Int
    first: Int
    rank: Int
    begin_ns: Int
    end_ns: Int

    @cached_property
    def group(self) -> Int:
        """Index of the group of each member."""
        return np.repeat(np.arange(len(self.awaited)), np.diff(self.first))


@dataclass(frozen=True)
class WorkIntervals:
    """Intervals of work. key: number of the pair of call sites."""

    rank: Int
    begin_ns: Int
    end_ns: Int
    key: Int

    def take(self, index: Int) -> WorkIntervals:
        """Return some of the intervals."""
        return WorkIntervals(*(column[index] for column in vars(self).values()))


@dataclass(frozen=True)
class DelayCosts:
    """Waiting caused, in ns over all ranks.

    interval_ns: by each interval. direct_ns: the part without waits of further ranks. rest_ns: by
    each rank outside the intervals (short intervals, transfers, and time before the first meeting).
    wait_ns: by each group of waits, including the waits that it causes in turn.
    """

    interval_ns: Float
    direct_ns: Float
    rest_ns: Float
    wait_ns: Float


class DelayGraph:
    """Waits and intervals of a run in order, for sums of costs over any groups of waits."""

    def __init__(
        self, waits: Waits, intervals: WorkIntervals, ranks: int, same: Int | None = None
    ) -> None:
        """same: of each key of intervals, the first key with the same work; all differ if None."""
        self.waits, self.ranks, self.interval_count = waits, ranks, len(intervals.rank)
        self._wait_key = int(intervals.key.max(initial=-1)) + 1
        self._same = np.arange(self._wait_key + 1)
        if same is not None:
            self._same[: self._wait_key] = same[: self._wait_key]
        self._items, self._item_first = _arrange_items(waits, intervals, ranks, self._wait_key)

    def compute_costs(self, chosen: Float | None = None) -> DelayCosts:
        """Return the costs of all waits, or of some groups: `chosen` is 1 for these, else 0.

        The costs of all intervals and the rests add up to the sum of these waits.
        """
        waits, groups, keys = self.waits, len(self.waits.awaited), self._wait_key + 1
        cost, rest = np.empty(groups), np.zeros(self.ranks)
        interval_ns, direct_ns = np.zeros(self.interval_count), np.zeros(self.interval_count)
        names = ("awaited", "since_ns", "until_ns", "first", "rank", "begin_ns", "end_ns")
        values: dict[str, Any] = {name: getattr(waits, name) for name in names}
        values |= {"groups": groups, "wait_key": self._wait_key, "reach": MAX_REACH}
        values |= {"items": self._items, "item_first": self._item_first, "same": self._same}
        values |= {"chosen": np.ones(groups) if chosen is None else chosen}
        values |= {"cost": cost, "rest": rest}
        values |= {"interval_cost": interval_ns, "interval_direct": direct_ns}
        # Scratch arrays.
        values |= {
            "cursor": self._item_first[1:].copy(),
            "member_end": np.empty(self.ranks, np.int64),
        }
        values |= {"direct": np.zeros(1), "sums": np.zeros((keys, SUMS_FIELDS))}
        values |= {"used": np.empty(keys, np.int64), "beyond": np.empty(MAX_REACH)}
        call_library("delays_divide_costs", Struct(RUN, values))
        return DelayCosts(interval_ns, direct_ns, rest, cost)


def _arrange_items(
    waits: Waits, intervals: WorkIntervals, ranks: int, wait_key: int
) -> tuple[Array, Int]:
    """Return the intervals and waits by rank and time without overlaps, and where ranks begin."""
    count = len(intervals.rank) + len(waits.rank)
    if count > np.iinfo(np.int32).max:
        raise ValueError("too many intervals and waits for numbers of 32 bits")
    rank = np.concatenate([intervals.rank, waits.rank[::-1]])  # the earliest wait first
    begin_ns = np.concatenate([intervals.begin_ns, waits.begin_ns[::-1]])
    order, first = order_by_time(rank, begin_ns, ranks)
    items = np.empty(count, ITEM)
    values: dict[str, Any] = {
        "ranks": ranks,
        "intervals": len(intervals.rank),
        "waits": len(waits.rank),
        "wait_key": wait_key,
        "first": first,
        "order": order,
        "begin_ns": intervals.begin_ns,
        "end_ns": intervals.end_ns,
        "key": intervals.key,
        "wait_begin_ns": waits.begin_ns,
        "wait_end_ns": waits.end_ns,
        "group": waits.group,
        "items": items,
    }
    call_library("delay_items_arrange", Struct(ARRANGED, values))
    return items, first
