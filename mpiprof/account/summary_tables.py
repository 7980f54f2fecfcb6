"""Tables that the recorder computes itself: sums of calls, statistics, and the selector's log.

Traces recorded as summary or ring contain the sums of all calls. Other traces contain the sums of
calls after a log reached its limit.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.callsite_sums import is_waiting_observed
from mpiprof.account.tables import label_sites
from mpiprof.trace import selector_log
from mpiprof.trace.insitu_statistics import Statistics, read_statistics
from mpiprof.trace.rank_arrays import EMPTY, concatenate, get_column
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace

MEAN_COLUMNS = ("mean_elapsed_ns", "average_imbalance_ns", "worst_imbalance_ns")


def make_summary(trace: Trace) -> pd.DataFrame:
    """Return one row per rank and shape.

    callsite (its number in `callsites`), rank, operation, site (text), site_id and communicator
    (indices into the tables), size, calls, total_ns, longest_ns, sent and received (bytes over all
    calls), algorithm.
    """
    labels, communicators = label_sites(trace), trace.tables.communicators
    ranks = [r for r in range(trace.ranks) if trace.has_totals or r in trace.tables.limits]
    parts = [(0, EMPTY), *((rank, block) for rank in ranks for block in trace.read_totals(rank))]
    totals = concatenate([block for _, block in parts])
    shapes = [trace.tables.shapes[index] for index in totals.shape.tolist()]
    frame = pd.DataFrame(
        {
            "rank": np.repeat([rank for rank, _ in parts], [len(block) for _, block in parts]),
            "operation": [shape.operation for shape in shapes],
            "site": [labels[shape.site] for shape in shapes],
            "site_id": [shape.site for shape in shapes],
            "communicator": [shape.communicator for shape in shapes],
            "size": [communicators[shape.communicator].size for shape in shapes],
            "calls": totals.exit_ns,
            "total_ns": totals.enter_ns,
            "longest_ns": get_column(totals, "longest"),
            "sent": np.maximum(get_column(totals, "sent"), 0),
            "received": np.maximum(get_column(totals, "received"), 0),
            "algorithm": [shape.algorithm for shape in shapes],
        }
    )
    keys = callsite_keys(frame)
    positions = zip(frame["operation"], frame["communicator"], frame["site_id"], strict=True)
    numbers: dict[tuple[str, frozenset[int]], int] = {}
    callsites = [numbers.setdefault(keys[position], len(numbers)) for position in positions]
    frame.insert(0, "callsite", callsites)
    return frame


def summarise_totals(trace: Trace) -> pd.DataFrame:
    """Return one row per call site, by time, of calls past a log's limit or of all calls in a ring.

    operation, sites (described), calls, bytes (sent and received), total_ns and longest_ns, over
    all ranks, or over the ranks that reached their limit. Empty for other traces.
    """
    names = ["operation", "sites", "calls", "bytes", "total_ns", "longest_ns"]
    if trace.record == "summary" or not (trace.tables.limits or trace.wrapped_chunks):
        return pd.DataFrame(columns=names)
    groups = trace.summary.groupby("callsite")
    frame = groups[["calls", "sent", "received", "total_ns"]].sum()
    frame["longest_ns"] = groups["longest_ns"].max()
    frame["operation"] = groups["operation"].first()
    frame["bytes"] = frame["sent"] + frame["received"]
    ids = [sorted(set(part["site_id"].tolist())) for _, part in groups]
    sites: Any = describe_sites(trace.tables.sites, ids)
    frame["sites"] = sites
    return frame[names].sort_values("total_ns", ascending=False, ignore_index=True)


def callsite_keys(table: pd.DataFrame) -> dict[tuple[str, int, int], tuple[str, frozenset[int]]]:
    """Return the call site (operation and sites) of each operation, communicator and site."""
    # If each rank calls an operation on a communicator at one site only, all these sites belong to
    # the same instances. Otherwise their relation is unknown, and each site is a call site.
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


def make_statistics(trace: Trace) -> pd.DataFrame:
    """Return one row per call site and communicator, as seen by its leader: sums over instances.

    operation, site_id (index into the table of sites), communicator (index into the table of
    communicators), size, instances (observed instances, without the first of each key and those
    between windows), and the sums of trace.insitu_statistics.Statistics. Empty for event traces
    without `--switch auto`.
    """
    statistics = list(read_statistics(trace))
    shapes = [trace.tables.shapes[entry.shape] for entry in statistics]
    table: dict[str, list[Any]] = {
        "operation": [shape.operation for shape in shapes],
        "site_id": [shape.site for shape in shapes],
        "communicator": [shape.communicator for shape in shapes],
        "size": [trace.tables.communicators[shape.communicator].size for shape in shapes],
    }
    for name in (field.name for field in fields(Statistics) if field.name != "shape"):
        table[name] = [getattr(entry, name) for entry in statistics]
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


def make_selector_tables(trace: Trace) -> dict[str, pd.DataFrame]:
    """Return a table for each type of log entry, in order of writing; all empty without a selector.

    The columns are REQUIRED_FIELDS and OPTIONAL_NUMBERS of trace/selector_log.py. Table `key` also
    has `mode` (auto or robust) and `sites` (list of texts as in `events`).
    """
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in selector_log.REQUIRED_FIELDS}
    for line in selector_log.read(trace.path):
        rows[line.pop("kind")].append(line)
    tables = {}
    for kind, required in selector_log.REQUIRED_FIELDS.items():
        columns = [*required, *selector_log.OPTIONAL_NUMBERS[kind]]
        extra_columns = ["mode", "sites"] if kind == "key" else []
        tables[kind] = pd.DataFrame(rows[kind], columns=columns + extra_columns)
    return tables
