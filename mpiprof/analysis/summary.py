"""Traces recorded as summary: counts, times and sizes per call site, no arrivals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from mpiprof.analysis.operations import STATES
from mpiprof.trace.sites import describe_sites, site_label
from mpiprof.trace.stream import Block, column
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import SUMMARY


def summary(trace: Trace) -> pd.DataFrame:
    """One row a rank and shape.

    rank, operation, site (text), site_id (index into the tables' sites), size, calls, total_ns,
    longest_ns, sent and received (bytes over all calls), algorithm.
    """
    described = describe_sites(trace.tables.sites, [[i] for i in range(len(trace.tables.sites))])
    labels = [site_label(d[0]) for d in described] + ["?"]
    rows: list[dict[str, Any]] = []
    for rank in range(trace.ranks):
        for block in _blocks(trace, rank):
            chosen = block.take(column(block, "kind") == SUMMARY)
            sent, received = column(chosen, "sent"), column(chosen, "received")
            longest = column(chosen, "longest")
            for i, index in enumerate(chosen.shape.tolist()):
                shape = trace.tables.shapes[index]
                rows.append(
                    {
                        "rank": rank,
                        "operation": shape.operation,
                        "site": labels[shape.site],
                        "site_id": shape.site,
                        "size": trace.tables.communicators[shape.communicator].size,
                        "calls": int(chosen.exit[i]),
                        "total_ns": int(chosen.enter[i]),
                        "longest_ns": int(longest[i]),
                        "sent": max(int(sent[i]), 0),
                        "received": max(int(received[i]), 0),
                        "algorithm": shape.algorithm,
                    }
                )
    columns = [
        "rank",
        "operation",
        "site",
        "site_id",
        "size",
        "calls",
        "total_ns",
        "longest_ns",
        "sent",
        "received",
        "algorithm",
    ]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return frame


def _blocks(trace: Trace, rank: int) -> Iterator[Block]:
    """Yield chunk by chunk: a summary and its extensions never span two."""
    for thread in trace.stream(rank).threads:
        while thread.chunks and (block := thread.read(thread.chunks[0].log.layout.records)):
            yield block


def summary_callsites(trace: Trace) -> pd.DataFrame:
    """Give the table of call sites as far as a summary goes.

    The columns of `callsites`, NaN for everything about arrivals; `instances` is the largest
    number of calls of any rank.
    """
    table = trace.derive("summary")
    rows: list[dict[str, Any]] = []
    nan = float("nan")
    for (operation, site), part in table.groupby(["operation", "site_id"], sort=False):
        per_rank = part.groupby("rank")[["calls", "total_ns", "sent"]].sum()
        calls = int(per_rank["calls"].sum())
        each = part["sent"] / part["calls"].clip(lower=1)
        rows.append(
            {
                "callsite": len(rows),
                "operation": operation,
                "sites": describe_sites(trace.tables.sites, [[int(site)]])[0],
                "started": False,
                "instances": int(per_rank["calls"].max()),
                "complete_instances": 0,
                "size": int(part["size"].max()),
                "bytes": float(per_rank["sent"].sum()) / max(calls, 1),
                "bytes_min": float(each.min()),
                "bytes_max": float(each.max()),
                "message_bytes": nan,
                "mean_elapsed_ns": float(per_rank["total_ns"].sum()) / max(calls, 1),
                **dict.fromkeys(
                    (
                        "average_imbalance_ns",
                        "worst_imbalance_ns",
                        "message_time_ns",
                        "average_factor",
                        "worst_factor",
                        "worst_factor_max",
                        "balanced_share",
                        "wait_ns",
                    ),
                    nan,
                ),
                "latest_rank": pd.NA,
                "latest_share": nan,
                "algorithm": "+".join(sorted(set(part.loc[part["calls"] > 0, "algorithm"]))),
                "completion_skew_ns": nan,
                "total_elapsed_ns": int(per_rank["total_ns"].sum()),
                "total_wait_ns": 0,
                **{f"total_wait_{state}_ns": 0 for state in STATES},
            }
        )
    frame: pd.DataFrame = pd.DataFrame(rows)
    if len(frame):
        frame["latest_rank"] = frame["latest_rank"].astype("Int64")
    return frame
