"""The recorder's in-situ statistics as a table."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.operations import WAIT_STATES, WaitRule, base_operation, wait_state
from mpiprof.trace.insitu_statistics import Statistics, read_statistics
from mpiprof.trace.trace import Trace

MEAN_COLUMNS = ("mean_elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns")


def is_waiting_observed(operation: str) -> bool:
    """Return whether the recorder's statistics contain the waits of an operation."""
    rule = WAIT_STATES.get(wait_state(base_operation(operation)) or "")
    return rule not in (WaitRule.RANK_FOR_SOURCES, WaitRule.UNSPECIFIED)


def make_statistics(trace: Trace) -> pd.DataFrame:
    """Return one row per call site and communicator, as seen by its leader: sums over instances.

    operation, site_id (index into the table of sites), communicator (index into the table of
    communicators), size, instances (observed instances, without the first of each key and those
    between windows), and the sums of trace.insitu_statistics.Statistics. Empty for event traces
    without `--switch auto`.
    """
    statistics = list(read_statistics(trace))
    shapes = [trace.tables.shapes[one.shape] for one in statistics]
    table: dict[str, list[Any]] = {
        "operation": [shape.operation for shape in shapes],
        "site_id": [shape.site for shape in shapes],
        "communicator": [shape.communicator for shape in shapes],
        "size": [trace.tables.communicators[shape.communicator].size for shape in shapes],
    }
    for name in (field.name for field in fields(Statistics) if field.name != "shape"):
        table[name] = [getattr(one, name) for one in statistics]
    return pd.DataFrame(table)


def sum_by_callsite(table: pd.DataFrame) -> pd.DataFrame:
    """Return `statistics` joined over communicators, the call site with the most wait time first.

    operation, site_id, instances, mean_elapsed_ns, average_imbalance_ns and worst_imbalance_ns
    (means), total_wait_ns (sum over ranks and instances, NaN if unknown), latest_rank and
    latest_share (of the instances; NA and NaN if unknown).
    """
    rows = []
    for (operation, site), part in table.groupby(["operation", "site_id"], sort=False):
        instances = int(part["instances"].sum())
        sums = part[["elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns"]].sum()
        wait = float(part["wait_ns"].sum())
        late = part[part["latest_rank"] >= 0].groupby("latest_rank")["latest_count"].sum()
        rows.append(
            {"operation": operation, "site_id": site, "instances": instances}
            | dict(zip(MEAN_COLUMNS, (sums / instances).tolist(), strict=True))
            | {"total_wait_ns": wait if is_waiting_observed(str(operation)) else np.nan}
            | {"latest_rank": late.idxmax() if len(late) else pd.NA}
            | {"latest_share": late.max() / instances if len(late) else np.nan}
        )
    columns = ["operation", "site_id", "instances", *MEAN_COLUMNS, "total_wait_ns"]
    frame = pd.DataFrame(rows, columns=[*columns, "latest_rank", "latest_share"])
    return frame.sort_values("total_wait_ns", ascending=False, kind="stable", ignore_index=True)
