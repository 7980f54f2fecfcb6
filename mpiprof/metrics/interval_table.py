"""Table of the intervals between two calls of a rank, with the counters of its thread."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics.message_tables import describe_shapes, read_if_stored
from mpiprof.trace.intervals import Intervals, read_intervals
from mpiprof.trace.trace import Trace

CALL_COLUMNS = ("operation", "site", "site_id")  # of the calls before and after an interval
NO_CALL = {"operation": "", "site": "", "site_id": -1}


@read_if_stored
def make_intervals(trace: Trace) -> pd.DataFrame:
    """Return one row per logged interval, by rank, thread and time.

    rank, thread, begin_ns, end_ns (of the interval), before_operation, before_site (text),
    before_site_id (the call before; "" and -1 if it is unknown, as at the start), after_operation,
    after_site, after_site_id, and the counters of trace.intervals.Intervals, -1 if unknown.
    """
    logs: list[Intervals] = trace.derive("interval_logs")
    ranks = np.repeat(np.arange(trace.ranks), [len(log.begin_ns) for log in logs])
    columns = {
        field.name: np.concatenate(
            [np.zeros(0, np.int64), *(getattr(log, field.name) for log in logs)]
        )
        for field in fields(Intervals)
    }
    frame = pd.DataFrame({"rank": ranks, "thread": columns.pop("thread")})
    for name in ("begin_ns", "end_ns"):
        frame[name] = columns.pop(name)
    for side in ("before", "after"):
        for name, values in _describe_calls(trace, columns.pop(f"{side}_shape")).items():
            frame[f"{side}_{name}"] = values
    return frame.assign(**columns)


def read_interval_logs(trace: Trace) -> list[Intervals]:
    """Return the logged intervals of each rank."""
    return [read_intervals(trace, rank) for rank in range(trace.ranks)]


def _describe_calls(trace: Trace, shapes: Any) -> dict[str, Any]:
    """Return operation and call site of each shape, NO_CALL for -1."""
    known = shapes >= 0
    described = describe_shapes(trace, shapes[known])
    columns = {}
    for name in CALL_COLUMNS:
        columns[name] = np.full(len(shapes), NO_CALL[name], described[name].dtype)
        columns[name][known] = described[name]
    return columns
