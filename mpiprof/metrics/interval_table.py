"""Table of the intervals between two calls of a rank, with the counters of its thread."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mpiprof.metrics.message_tables import describe_shapes, read_if_stored
from mpiprof.trace.trace import Trace

CALL_COLUMNS = ("operation", "site", "site_id")  # of the calls before and after an interval


@read_if_stored
def make_intervals(trace: Trace) -> pd.DataFrame:
    """Return one row per logged interval, by rank, thread and time.

    rank, thread, begin_ns, end_ns (of the interval), before_operation, before_site (text),
    before_site_id (the call before; "" and -1 if it is unknown, as at the start), after_operation,
    after_site, after_site_id, and the counters of trace.intervals.Intervals, -1 if unknown.
    """
    columns: dict[str, Any] = vars(trace.derive("message_logs")[2]).copy()
    described = {
        f"{side}_{name}": values
        for side in ("before", "after")
        for name, values in describe_shapes(
            trace, columns.pop(f"{side}_shape"), CALL_COLUMNS
        ).items()
    }
    first = {name: columns.pop(name) for name in ("rank", "thread", "begin_ns", "end_ns")}
    return pd.DataFrame({**first, **described, **columns}, copy=False)
