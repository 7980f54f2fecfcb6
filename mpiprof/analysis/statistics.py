"""Statistics that the recorder gathered while the program ran, as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from mpiprof.trace.statistics import statistics as read
from mpiprof.trace.trace import Trace

COLUMNS = (
    "operation",
    "site_id",
    "communicator",
    "size",
    "instances",
    "elapsed_ns",
    "average_imbalance_ns",
    "worst_imbalance_ns",
    "wait_ns",
    "score_ns",
    "balanced",
    "worst_most_ns",
    "latest_rank",
    "latest_count",
)


def statistics(trace: Trace) -> pd.DataFrame:
    """One row a call site and communicator, as its leader saw them: sums over instances.

    operation, site_id (index into the tables' sites), communicator (index into theirs), size,
    instances (that were observed: not the first of a key, nor those between windows), and the
    sums of trace.statistics.Statistics. Empty in traces of events without `--switch auto`.
    """
    rows: list[dict[str, Any]] = []
    for found in read(trace):
        shape = trace.tables.shapes[found.shape]
        row = asdict(found)
        row |= {"operation": shape.operation, "site_id": shape.site}
        row |= {"communicator": shape.communicator}
        row["size"] = trace.tables.communicators[shape.communicator].size
        rows.append(row)
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame
