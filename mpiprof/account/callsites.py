"""The tables of call sites of collectives and of messages, and the paper's tables of routines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account import columns
from mpiprof.account.aggregate import RANGE_NAMES
from mpiprof.account.callsite_sums import CallsiteSums, divide, sum_summary, weighted_mean
from mpiprof.account.message_callsite_sums import MessageCallsiteSums, sum_message_callsites
from mpiprof.trace.trace import Trace


def make_callsites(trace: Trace) -> pd.DataFrame:
    """Return one row per call site, in order of first appearance.

    `callsite` is its number. `started`: its instances are starts of a persistent operation. The
    further columns are the entries of account/columns.py that are computed from a trace. Means and
    quantiles are over complete instances. In a trace recorded as summary, `complete_instances` are
    the instances with observed arrivals.
    """
    if trace.record == "summary" and len(trace.summary):
        return of_summary(trace)
    sums = CallsiteSums(trace)
    table: dict[str, Any] = {"callsite": np.arange(len(sums.keys))}
    table["started"] = np.array([key.started for key in sums.keys], np.bool_)
    for column in columns.recorded():
        assert column.recorded is not None
        table[column.name] = column.recorded(sums)
    return pd.DataFrame(table)


def of_summary(trace: Trace) -> pd.DataFrame:
    """Return the table of call sites from the totals of all calls and the in-situ statistics."""
    sums = sum_summary(trace)
    table: dict[str, Any] = {"callsite": np.arange(len(sums.operations)), "started": False}
    for column in columns.recorded():
        table[column.name] = np.nan if column.summary is None else column.summary(sums)
    return pd.DataFrame(table)


def make_message_callsites(trace: Trace) -> pd.DataFrame:
    """Return one row per operation and call site of messages, by descending time.

    `site_id` is the index of the call site in the tables, -1 if it is unknown. The further columns
    are the entries of account/columns.py that are computed from messages.
    """
    return make_message_table(sum_message_callsites(trace))


def make_message_table(sums: MessageCallsiteSums) -> pd.DataFrame:
    """Return the table of call sites of messages from their sums."""
    table: dict[str, Any] = {"site_id": sums.keys["site_id"].to_numpy()}
    for column in columns.of_messages():
        assert column.messages is not None
        table[column.name] = column.messages(sums)
    unsorted = pd.DataFrame(table)
    return unsorted.sort_values(
        "total_elapsed_ns", ascending=False, kind="stable", ignore_index=True
    )


def join_by_routine(table: pd.DataFrame) -> pd.DataFrame:
    """Join call sites by routine: the paper's Tables 2, 3 and 5, from `callsites`.

    One row a routine, by time: operation, callsites, count (instances, estimated of a sample),
    recorded (of these), bytes, bytes_min, bytes_max, message_bytes, total_elapsed_ns,
    elapsed_share (of all operations), total_wait_ns, average_factor and worst_factor (means over
    instances), major (a tenth or more of the time in all operations).
    """
    groups = table.groupby("operation", sort=False)
    joined: pd.DataFrame = groups.agg(
        callsites=("operation", "size"),
        count=("total_instances", "sum"),
        recorded=("instances", "sum"),
        bytes_min=("bytes_min", "min"),
        bytes_max=("bytes_max", "max"),
        total_elapsed_ns=("total_elapsed_ns", "sum"),
        total_wait_ns=("total_wait_ns", "sum"),
    )
    for name in ("bytes", "message_bytes", "mean_elapsed_ns", "average_factor", "worst_factor"):
        weight = "complete_instances"
        joined[name] = [weighted_mean(group[name], group[weight]) for _, group in groups]
    total_ns = max(int(joined["total_elapsed_ns"].sum()), 1)
    joined["elapsed_share"] = joined["total_elapsed_ns"] / total_ns
    joined["major"] = joined["elapsed_share"] >= 0.1
    return joined.reset_index().sort_values("total_elapsed_ns", ascending=False, ignore_index=True)


def average_factors(table: pd.DataFrame) -> dict[str, float]:
    """Return the paper's Table 4: mean average-case and worst-case factor over all instances."""
    weight = table["complete_instances"]
    return {name: weighted_mean(table[name], weight) for name in ("average_factor", "worst_factor")}


def factor_distribution(trace: Trace) -> pd.DataFrame:
    """Return the paper's Figure 2: shares of instances by range of their worst-case factor.

    One row per range: range, small (messages of at most 1000 B), large (above 1000 B). Each column
    sums to 1, or is NaN without such instances. The limits of the ranges are 1, 8, 32, 128 and
    1024.
    """
    sums, keys = trace.aggregate
    vectors = sums.take_sums(len(keys))
    table: dict[str, Any] = {"range": list(RANGE_NAMES)}
    for size in ("small", "large"):
        counts = np.array([vectors[size + name].sum() for name in RANGE_NAMES])
        table[size] = divide(counts, np.full(len(counts), counts.sum()))
        table[size + "_count"] = counts.astype(np.int64)
    return pd.DataFrame(table)
