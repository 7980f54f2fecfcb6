"""Sums of the recorder: counts, times and sizes of each rank, per call site.

Traces recorded as summary or ring contain the sums of all calls. Other traces contain the sums of
calls after a log reached its limit.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from mpiprof.trace.rank_arrays import get_column
from mpiprof.trace.sites import describe_sites, label_site
from mpiprof.trace.trace import Trace

COLUMNS = (
    "callsite",
    "rank",
    "operation",
    "site",
    "site_id",
    "communicator",
    "size",
    "calls",
    "total_ns",
    "longest_ns",
    "sent",
    "received",
    "algorithm",
)


def make_summary(trace: Trace) -> pd.DataFrame:
    """Return one row per rank and shape.

    callsite (its number in `callsites`), rank, operation, site (text), site_id and communicator
    (indices into the tables), size, calls, total_ns, longest_ns, sent and received (bytes over all
    calls), algorithm.
    """
    described = describe_sites(trace.tables.sites, [[i] for i in range(len(trace.tables.sites))])
    labels = [label_site(d[0]) for d in described] + ["?"]
    rows: list[dict[str, Any]] = []
    for rank in range(trace.ranks):
        for chosen in trace.read_totals(rank) if _is_totalled(trace, rank) else ():
            sent, received = get_column(chosen, "sent"), get_column(chosen, "received")
            longest = get_column(chosen, "longest")
            for i, index in enumerate(chosen.shape.tolist()):
                shape = trace.tables.shapes[index]
                rows.append(
                    {
                        "rank": rank,
                        "operation": shape.operation,
                        "site": labels[shape.site],
                        "site_id": shape.site,
                        "communicator": shape.communicator,
                        "size": trace.tables.communicators[shape.communicator].size,
                        "calls": int(chosen.exit_ns[i]),
                        "total_ns": int(chosen.enter_ns[i]),
                        "longest_ns": int(longest[i]),
                        "sent": max(int(sent[i]), 0),
                        "received": max(int(received[i]), 0),
                        "algorithm": shape.algorithm,
                    }
                )
    frame: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
    keys = callsite_keys(frame)
    positions = zip(frame["operation"], frame["communicator"], frame["site_id"], strict=True)
    numbers: dict[tuple[str, frozenset[int]], int] = {}
    frame["callsite"] = [numbers.setdefault(keys[position], len(numbers)) for position in positions]
    return frame


def summarise_totals(trace: Trace) -> pd.DataFrame:
    """Return one row per call site, by time, of calls past a log's limit or of all calls in a ring.

    operation, sites (described), calls, bytes (sent and received), total_ns and longest_ns, over
    all ranks, or over the ranks that reached their limit. Empty for other traces.
    """
    names = ["operation", "sites", "calls", "bytes", "total_ns", "longest_ns"]
    if trace.record == "summary" or not (trace.tables.limits or trace.wrapped_chunks):
        return pd.DataFrame(columns=names)
    rows = []
    for _, part in trace.summary.groupby("callsite"):
        sites = describe_sites(trace.tables.sites, [sorted(set(part["site_id"].tolist()))])
        rows.append(
            {
                "operation": part["operation"].iloc[0],
                "sites": sites[0],
                "calls": int(part["calls"].sum()),
                "bytes": int(part["sent"].sum() + part["received"].sum()),
                "total_ns": int(part["total_ns"].sum()),
                "longest_ns": int(part["longest_ns"].max()),
            }
        )
    frame: pd.DataFrame = pd.DataFrame(rows, columns=names)
    return frame.sort_values("total_ns", ascending=False, ignore_index=True)


def callsite_keys(table: pd.DataFrame) -> dict[tuple[str, int, int], tuple[str, frozenset[int]]]:
    """Return the call site (operation and sites) of each operation, communicator and site.

    If each rank calls an operation on a communicator at one site only, all these sites belong to
    the same instances. Otherwise their relation is unknown, and each site is a call site.
    """
    at: dict[tuple[str, int], dict[int, set[int]]] = {}
    columns = (table[name].tolist() for name in ("operation", "communicator", "rank", "site_id"))
    for operation, communicator, rank, site in zip(*columns, strict=True):
        at.setdefault((operation, communicator), {}).setdefault(rank, set()).add(site)
    keys = {}
    for (operation, communicator), of_rank in at.items():
        together = frozenset().union(*of_rank.values())
        alone = all(len(sites) == 1 for sites in of_rank.values())
        for site in together:
            sites = together if alone else frozenset([site])
            keys[operation, communicator, site] = (operation, sites)
    return keys


def _is_totalled(trace: Trace, rank: int) -> bool:
    return trace.has_totals or rank in trace.tables.limits
