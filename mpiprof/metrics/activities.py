"""Long activities of all ranks: recorded calls, and intervals between calls.

Between them a rank makes calls that are too short to be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.collective_waits import CollectiveWaits
from mpiprof.metrics.time_order import put_in_order
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Int

RECORDED_NS = 20_000  # duration of a call from which `--messages auto` records it
# An activity, as core/python_api/activities.h describes it.
ACTIVITY = np.dtype(
    [("begin_ns", np.int64), ("end_ns", np.int64), ("last_site", np.int32), ("flags", np.uint32)]
)
SOURCE = {
    "count": int,
    "rank": np.int32,
    **dict.fromkeys(("begin_ns", "end_ns"), np.int64),
    **dict.fromkeys(("site", "last_site"), np.int32),
}


@dataclass(frozen=True)
class Activities:
    """Long activities of all ranks, by rank and time, without overlaps: calls and intervals.

    rows: of ACTIVITY. first: index of the first activity of each rank, and the number of
    activities. has_intervals: True if long intervals without calls are recorded.
    """

    rows: Array
    first: Int
    has_intervals: bool


def find_activities(trace: Trace) -> Activities:
    """Return the recorded calls and the long intervals between calls."""
    of: CollectiveWaits = trace.derive("collective_waits")
    intervals = trace.intervals
    names = (
        ("rank", "enter_ns", "exit_ns", "site_id", "site_id"),
        ("rank", "begin_ns", "end_ns", "before_site_id", "after_site_id"),
    )
    columns = (
        (of.call_rank, of.enter_ns, of.exit_ns, of.site_id, of.site_id),
        tuple(_take_message_calls(trace, names[0])),
        tuple(intervals[name].to_numpy() for name in names[1]),
    )
    sources = [_make_source(*of_source, ranks=trace.ranks) for of_source in columns]
    rows = np.empty(sum(len(of_source[0]) for of_source in columns), ACTIVITY)
    first = np.empty(trace.ranks + 1, np.int64)
    call_library("activities_join", *sources, trace.ranks, RECORDED_NS, rows, first)
    return Activities(rows[: first[-1]], first, len(intervals) > 0)


def _take_message_calls(trace: Trace, names: Sequence[str]) -> list[Array]:
    """Return columns of the logged calls on messages; of a window, without those around it."""
    calls = trace.message_calls
    columns = [calls[name].to_numpy() for name in names]
    if isinstance(trace, TraceWindow):
        is_here = trace.covers(calls["enter_ns"].to_numpy())
        columns = [column[is_here] for column in columns]
    return columns


def _make_source(*columns: Array, ranks: int) -> Struct:
    """Return rows by rank and time; columns: in the order of SOURCE."""
    ordered = put_in_order(columns, ranks)
    names = [name for name in SOURCE if name != "count"]
    values = dict(zip(names, ordered, strict=True))
    return Struct(SOURCE, {"count": len(columns[0]), **values})


def read_recorded_calls(trace: Trace) -> list[Int]:
    """Return rank, enter_ns, exit_ns and site of all recorded calls, by rank and time."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    names = {
        "call_rank": "rank",
        "enter_ns": "enter_ns",
        "exit_ns": "exit_ns",
        "site_id": "site_id",
    }
    of_messages = _take_message_calls(trace, list(names.values()))
    closed = of_messages[2] > 0  # by exit_ns
    joined: list[Any] = []
    for name, more in zip(names, of_messages, strict=True):
        column = np.concatenate([getattr(collective, name), more[closed]])
        joined.append(column if name.endswith("_ns") else column.astype(np.int32))
    return list(put_in_order(joined, trace.ranks))
