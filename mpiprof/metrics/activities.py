"""Long activities of all ranks: recorded calls, and intervals between calls.

Between them a rank makes calls that are too short to be recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.collective_waits import CollectiveWaits
from mpiprof.metrics.time_order import order_by_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Int

RECORDED_NS = 20_000  # duration of a call from which `--messages auto` records it
# An activity, as core/python_api/activities.c describes it.
ACTIVITY = np.dtype(
    [
        *((name, np.int64) for name in ("begin_ns", "end_ns", "first")),
        ("last_site", np.int32),
        ("is_call", np.uint32),
    ]
)
PARTS = {
    **dict.fromkeys(("calls", "ranks", "short_ns"), int),
    **dict.fromkeys(("first", "order", "begin_ns", "end_ns"), np.int64),
    **dict.fromkeys(("site", "last_site"), np.int32),
}


@dataclass(frozen=True)
class Activities:
    """Long activities of all ranks, by rank and time, without overlaps: calls and intervals.

    rows: of ACTIVITY. last_site: of the call, or of the call that ends the interval. first: index
    of the first of consecutive activities without a call between them. first_of_rank: index of the
    first activity of each rank, and the number of activities. has_intervals: True if long intervals
    without calls are recorded.
    """

    rows: Array
    first_of_rank: Int
    has_intervals: bool

    @staticmethod
    def join(
        rank: Int, begin_ns: Int, end_ns: Int, sites: tuple[Int, Int], calls: int, ranks: int
    ) -> Activities:
        """Return activities in order.

        sites: of each call, and of the calls before and after each interval. calls: number of
        calls, which precede the intervals. ranks: of the trace.
        """
        order, first = order_by_time(rank, begin_ns, ranks)
        rows = np.empty(len(rank), ACTIVITY)
        values = {"calls": calls, "ranks": ranks, "short_ns": RECORDED_NS, "first": first}
        values |= {"order": order, "begin_ns": begin_ns, "end_ns": end_ns}
        parts = Struct(PARTS, values | {"site": sites[0], "last_site": sites[1]})
        call_library("activities_arrange", parts, rows)
        return Activities(rows, first, calls < len(rank))

    def last_pause(self, rank: Int, time_ns: Int) -> tuple[Int, Int]:
        """Return the last time up to `time_ns` outside all activities, and since when it is free.

        At that time the rank made short calls, or none.
        """
        last, since = np.empty((2, len(rank)), np.int64)
        self._find("activities_find_pauses", rank, time_ns, last, since)
        return last, since

    def next_begin(self, rank: Int, time_ns: Int) -> Int:
        """Return when the next activity of a rank begins, from `time_ns` on, or INT64_MAX."""
        next_ = np.empty(len(rank), np.int64)
        self._find("activities_find_next", rank, time_ns, next_)
        return next_

    def _find(self, function: str, rank: Int, time_ns: Int, *results: Int) -> None:
        """Call a function on times of ranks. It is fast if the times of each rank ascend."""
        first, near = self.first_of_rank, self.first_of_rank.copy()
        columns = (np.ascontiguousarray(of, np.int64) for of in (rank, time_ns))
        call_library(function, self.rows, first, near, len(rank), *columns, *results)


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
    order, _ = order_by_time(joined[0], joined[1], trace.ranks)
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
        ranks=trace.ranks,
    )
