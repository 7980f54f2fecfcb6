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

import numpy as np

from mpiprof.account.delay_library import arrange_items, divide_costs
from mpiprof.metrics.time_order import find_order
from mpiprof.trace.types import Float, Int

# Intervals and waits of a rank that a window contains at most. Ranks that have not met for so long
# are compared over this window only.
MAX_REACH = 1 << 12


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
class Intervals:
    """Intervals of work. key: number of the pair of call sites."""

    rank: Int
    begin_ns: Int
    end_ns: Int
    key: Int

    def take(self, index: Int) -> Intervals:
        """Return some of the intervals."""
        return Intervals(*(column[index] for column in vars(self).values()))


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
        self, waits: Waits, intervals: Intervals, ranks: int, same: Int | None = None
    ) -> None:
        """same: of each key of intervals, the first key with the same work; all differ if None."""
        self.waits, self.ranks, self.interval_count = waits, ranks, len(intervals.rank)
        self._wait_key = int(intervals.key.max(initial=-1)) + 1
        self._same = np.arange(self._wait_key + 1)
        if same is not None:
            self._same[: self._wait_key] = same[: self._wait_key]
        values = {name: getattr(intervals, name) for name in ("rank", "begin_ns", "end_ns", "key")}
        order = find_order(intervals.rank, intervals.begin_ns, ranks)
        values |= {"order": np.zeros(0) if order is None else order}
        values |= {"group_first": waits.first, "wait_rank": waits.rank}
        values |= {"wait_begin_ns": waits.begin_ns, "wait_end_ns": waits.end_ns}
        counts = {"intervals": self.interval_count, "groups": len(waits.awaited), "ranks": ranks}
        counts["are_ordered"] = int(order is None)
        self._items, self._item_first = arrange_items(
            counts | values | {"wait_key": self._wait_key}
        )

    def compute_costs(self, chosen: Float | None = None) -> DelayCosts:
        """Return the costs of all waits, or of some groups: `chosen` is 1 for these, else 0.

        The costs of all intervals and the rests add up to the sum of these waits.
        """
        waits, groups = self.waits, len(self.waits.awaited)
        cost, rest = np.empty(groups), np.zeros(self.ranks)
        interval_ns, direct_ns = np.zeros(self.interval_count), np.zeros(self.interval_count)
        values = {"groups": groups, "wait_key": self._wait_key, "reach": MAX_REACH}
        names = ("awaited", "since_ns", "until_ns", "first", "rank", "begin_ns", "end_ns")
        arrays = {name: getattr(waits, name) for name in names}
        arrays |= {"items": self._items, "item_first": self._item_first}
        arrays |= {"chosen": np.ones(groups) if chosen is None else chosen}
        arrays |= {"cost": cost, "rest": rest, "same": self._same}
        arrays |= {"interval_cost": interval_ns, "interval_direct": direct_ns}
        divide_costs(values | arrays, self.ranks)
        return DelayCosts(interval_ns, direct_ns, rest, cost)
