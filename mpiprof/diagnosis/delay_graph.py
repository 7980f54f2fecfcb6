"""Cost of each interval of work: all waiting that it causes, directly or through other ranks.

A rank r waits because the awaited rank s arrives later. Let T be the last time at which the two
ranks met (one waited for the other, or both took part in a synchronising collective):

    r  T ── work ── wait of r ──────────────┐ until
    s  T ── work ──── wait of s ── work ────┘ arrives

Both windows begin at T, so the wait of r equals the work and waits of s in its window, minus those
of r in its window. The wait is divided among the intervals in which s took longer than r (same pair
of call sites) and, if s waited longer than r, among the waits of s. A wait passes its share on to
its own causes, so that all cost ends at intervals of work.

Source: Böhme et al., "Identifying the root causes of wait states in large-scale parallel
applications", ACM TOPC 3(2), 2016: delay costs, short-term and long-term. Here long-term costs are
passed on in one step, and ranks that wait for the same rank in one instance are compared together.

One pass over the groups of waits, the latest first, divides the costs in C
(core/python_api/delays.c): when the pass reaches a group, all later groups have added to its cost.
Memory: 28 bytes for each interval and wait besides them, and 16 for each interval and group of
waits while costs are computed. Time: the sum of the windows' numbers of intervals and waits, after
a sort. Windows of ranks that meet rarely reach back over MAX_REACH intervals and waits at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.delay_library import divide_costs
from mpiprof.metrics.collective_waits import sort_codes
from mpiprof.trace.types import Float, Int, Int32

ITEM_ARRAYS = ("begin", "end", "index", "key", "first")
# Intervals and waits of a rank that a window contains at most. Ranks that have not met for so long
# are compared over this window only.
MAX_REACH = 1 << 12


@dataclass(frozen=True)
class Waits:
    """Waits in groups: the members of a group wait for the same rank until it arrives.

    Per group: awaited (rank), until_ns (its arrival), since_ns (when these ranks last met).
    Per member, in any order: group (index), rank, begin_ns and end_ns of its wait.
    """

    awaited: Int
    until_ns: Int
    since_ns: Int
    group: Int
    rank: Int
    begin_ns: Int
    end_ns: Int


@dataclass(frozen=True)
class Intervals:
    """Intervals of work. key: number of the pair of call sites."""

    rank: Int
    begin_ns: Int
    end_ns: Int
    key: Int


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


@dataclass(frozen=True)
class _Items:
    """Intervals and waits of all ranks, by rank and time and without overlaps.

    begin, end: positions, which are times plus an offset for each rank. index: of the interval, or
    of the wait's group. key: of the interval; waits have the key `wait_key`. first: of each rank.
    """

    begin: Int
    end: Int
    index: Int
    key: Int32
    first: Int
    wait_key: int
    stride: int
    origin: int


class DelayGraph:
    """Waits and intervals of a run in order, for sums of costs over any groups of waits."""

    def __init__(self, waits: Waits, intervals: Intervals, ranks: int) -> None:
        self.waits, self.ranks, self.interval_count = waits, ranks, len(intervals.rank)
        groups = len(waits.awaited)
        self.order = np.argsort(-waits.until_ns, kind="stable")
        self.member = sort_codes(waits.group)
        counts = np.bincount(waits.group, minlength=groups)
        self.first = np.concatenate([[0], np.cumsum(counts)])
        self.items = _sort_items(waits, intervals, ranks)

    def compute_costs(self, chosen: Float | None = None) -> DelayCosts:
        """Return the costs of all waits, or of some groups: `chosen` is 1 for these, else 0.

        The costs of all intervals and the rests add up to the sum of these waits.
        """
        waits, items, groups = self.waits, self.items, len(self.order)
        length = (waits.end_ns - waits.begin_ns).astype(np.float64)
        direct = np.bincount(waits.group, length, groups).astype(np.float64)
        if chosen is not None:
            direct *= chosen
        cost, rest = direct.copy(), np.zeros(self.ranks)
        interval_ns, direct_ns = np.zeros(self.interval_count), np.zeros(self.interval_count)
        counts = {"groups": groups, "wait_key": items.wait_key, "reach": MAX_REACH}
        arrays = {
            name: getattr(waits, name)
            for name in ("awaited", "since_ns", "until_ns", "rank", "begin_ns", "end_ns")
        }
        arrays |= {f"item_{name}": getattr(items, name) for name in ITEM_ARRAYS}
        arrays |= {name: getattr(self, name) for name in ("order", "first", "member")}
        arrays |= {"cursor": items.first[1:].copy(), "direct": direct, "cost": cost, "rest": rest}
        arrays |= {"interval_cost": interval_ns, "interval_direct": direct_ns}
        divide_costs(counts | {"stride": items.stride, "origin": items.origin}, arrays)
        return DelayCosts(interval_ns, direct_ns, rest, cost)


def _sort_items(waits: Waits, intervals: Intervals, ranks: int) -> _Items:
    """Return all intervals and waits by rank and time."""
    origin = int(min(intervals.begin_ns.min(initial=0), waits.since_ns.min(initial=0)))
    latest = int(max(intervals.end_ns.max(initial=0), waits.until_ns.max(initial=0)))
    stride = max(latest, int(waits.end_ns.max(initial=0))) - origin + 1

    def join(of_intervals: Int, of_waits: Int) -> Int:
        rank = np.concatenate([intervals.rank, waits.rank])
        times: Int = np.concatenate([of_intervals, of_waits])
        times -= origin
        times += rank * stride
        return times

    begin = join(intervals.begin_ns, waits.begin_ns)
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    # Intervals of several threads may overlap; the time counts once.
    end = np.maximum.accumulate(join(intervals.end_ns, waits.end_ns)[order])
    begin[1:] = np.maximum(begin[1:], end[:-1])
    index = np.concatenate([np.arange(len(intervals.rank)), waits.group])[order]
    wait_key = int(intervals.key.max(initial=-1)) + 1
    key = np.full(len(order), wait_key, np.int32)
    key[: len(intervals.key)] = intervals.key
    first = np.searchsorted(begin, np.arange(ranks + 1) * stride)
    return _Items(begin, end, index, key[order], first, wait_key, stride, origin)
