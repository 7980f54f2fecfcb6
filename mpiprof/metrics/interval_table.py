"""Table of the intervals between two calls of a rank, with the counters of its thread."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pandas as pd

from mpiprof.metrics.message_tables import describe_shapes, read_if_stored
from mpiprof.trace.intervals import Intervals, join_parts, read_intervals
from mpiprof.trace.trace import Trace

CALL_COLUMNS = ("operation", "site", "site_id")  # of the calls before and after an interval


@read_if_stored
def make_intervals(trace: Trace) -> pd.DataFrame:
    """Return one row per logged interval, by rank, thread and time.

    rank, thread, begin_ns, end_ns (of the interval), before_operation, before_site (text),
    before_site_id (the call before; "" and -1 if it is unknown, as at the start), after_operation,
    after_site, after_site_id, and the counters of trace.intervals.Intervals, -1 if unknown.
    """
    logs = [read_intervals(trace, rank) for rank in trace.ranks_with_messages]
    counts = [len(log.begin_ns) for log in logs]
    ranks = np.repeat(np.array(trace.ranks_with_messages, np.int32), counts)
    columns = {
        field.name: join_parts([getattr(log, field.name) for log in logs])
        for field in fields(Intervals)
    }
    described = {
        f"{side}_{name}": values
        for side in ("before", "after")
        for name, values in describe_shapes(trace, columns.pop(f"{side}_shape")).items()
        if name in CALL_COLUMNS
    }
    first = {name: columns.pop(name) for name in ("thread", "begin_ns", "end_ns")}
    return pd.DataFrame({"rank": ranks, **first, **described, **columns}, copy=False)
