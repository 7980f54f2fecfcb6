"""Long activities of all ranks: recorded calls, and intervals between calls.

Between them a rank makes calls that are too short to be recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mpiprof.metrics.collective_waits import CollectiveWaits, sort_calls
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

NEVER_NS = np.iinfo(np.int64).max
RECORDED_NS = 20_000  # duration of a call from which `--messages auto` records it


@dataclass(frozen=True)
class Activities:
    """Long activities of all ranks, by rank and time, without overlaps: calls and intervals.

    last_site: of the call, or of the call that ends the interval. first: index of the first of
    consecutive activities without a call between them. has_intervals: True if long intervals
    without calls are recorded.
    """

    rank: Int
    begin_ns: Int
    end_ns: Int
    last_site: Int
    is_call: Bool
    first: Int
    has_intervals: bool

    @staticmethod
    def join(
        rank: Int, begin_ns: Int, end_ns: Int, sites: tuple[Int, Int], calls: int
    ) -> Activities:
        """Return activities in order.

        sites: of each call, and of the calls before and after each interval. calls: number of
        calls, which precede the intervals.
        """
        order = sort_calls(rank, begin_ns)
        rank, begin, end = rank[order], begin_ns[order], end_ns[order]
        site, last_site = (of[order] for of in sites)
        pause, is_call = begin[1:] - end[:-1], order < calls
        same = (pause == 0) | ((site[1:] == last_site[:-1]) & (pause <= RECORDED_NS))
        follows = (rank[1:] == rank[:-1]) & (is_call[1:] != is_call[:-1]) & same
        index = np.arange(len(rank))
        first = np.maximum.accumulate(np.where(np.r_[np.zeros(1, bool), follows], 0, index))
        first, has_intervals = first[: len(rank)], calls < len(rank)
        return Activities(rank, begin, end, last_site, is_call, first, has_intervals)

    def last_pause(self, rank: Int, time_ns: Int) -> tuple[Int, Int]:
        """Return the last time up to `time_ns` outside all activities, and since when it is free.

        At that time the rank made short calls, or none.
        """
        if not len(self.rank):
            return time_ns, np.full(len(time_ns), np.iinfo(np.int64).min)
        at = self._count_begun(rank, time_ns) - 1
        here = (at >= 0) & (self.rank[at] == rank)
        inside = here & (self.end_ns[at] > time_ns)
        before = np.where(inside, self.first[at] - 1, at)
        here = (before >= 0) & (self.rank[before] == rank)
        last = np.where(inside, self.begin_ns[self.first[at]], time_ns)
        return last, np.where(here, self.end_ns[before], np.iinfo(np.int64).min)

    def next_begin(self, rank: Int, time_ns: Int) -> Int:
        """Return when the next activity of a rank begins, from `time_ns` on, or NEVER_NS."""
        if not len(self.rank):
            return np.full(len(time_ns), NEVER_NS)
        at = self._count_begun(rank, time_ns - 1)
        index = np.minimum(at, len(self.rank) - 1)
        here = (at < len(self.rank)) & (self.rank[index] == rank)
        return np.where(here, self.begin_ns[index], NEVER_NS)

    def _count_begun(self, rank: Int, time_ns: Int) -> Int:
        """Return the number of activities of earlier ranks, and of the rank until a time."""
        low, high, position = self._positions
        sought = np.clip(time_ns, low, high) - low
        sought += rank.astype(np.int64) * (high - low + 1)
        return np.searchsorted(position, sought, side="right")

    @cached_property
    def _positions(self) -> tuple[int, int, Int]:
        """Times before and after all activities, and the begins plus an offset for each rank."""
        low, high = int(self.begin_ns.min()) - 1, int(self.end_ns.max()) + 1
        return low, high, self.rank.astype(np.int64) * (high - low + 1) + (self.begin_ns - low)


def read_recorded_calls(trace: Trace) -> list[Int]:
    """Return rank, enter_ns, exit_ns and site of all recorded calls, by rank and time."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    calls = trace.message_calls
    closed = calls["exit_ns"].to_numpy() > 0
    columns = [
        (collective.call_rank, "rank"),
        (collective.enter_ns, "enter_ns"),
        (collective.exit_ns, "exit_ns"),
        (collective.site_id, "site_id"),
    ]
    joined: list[Any] = []
    for of, name in columns:
        column = np.concatenate([of, calls[name].to_numpy()[closed]])
        joined.append(column if name.endswith("_ns") else column.astype(np.int32))
    order = sort_calls(joined[0], joined[1])
    return [column[order] for column in joined]


def find_activities(trace: Trace) -> Activities:
    """Return the recorded calls and the long intervals between calls."""
    rank, begin, end, site = read_recorded_calls(trace)
    intervals = trace.intervals
    names = ("rank", "begin_ns", "end_ns", "before_site_id", "after_site_id")
    of_rank, begins, ends, before, after = (intervals[name].to_numpy() for name in names)
    return Activities.join(
        np.concatenate([rank, of_rank]),
        np.concatenate([begin, begins]),
        np.concatenate([end, ends]),
        (np.concatenate([site, before]), np.concatenate([site, after])),
        calls=len(rank),
    )
