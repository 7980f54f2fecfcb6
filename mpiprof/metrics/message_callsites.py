"""Messages by call site, and by pair of ranks: sums of all calls, and the waiting in them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpiprof.trace.trace import Trace

SUMS = {"calls": "sum", "sent": "sum", "received": "sum", "total_ns": "sum", "longest_ns": "max"}


def make_message_callsites(trace: Trace) -> pd.DataFrame:
    """Return one row per operation and call site of messages, by descending time.

    operation, site (text), site_id, calls, sent and received (bytes), total_ns and longest_ns (time
    in the calls), wait_ns (in waits for late ranks), awaited (rank that causes most of the wait, -1
    if there is none), awaited_share (of the wait).
    """
    keys = ["operation", "site", "site_id"]
    table = trace.message_sums.groupby(keys, sort=False).agg(SUMS).reset_index()
    waits = trace.message_waits
    calls = trace.message_calls.iloc[waits["call"]]
    waits = waits.assign(
        operation=calls["operation"].to_numpy(), site_id=calls["site_id"].to_numpy()
    )
    pairs = waits.groupby(["operation", "site_id", "awaited"])["wait_ns"].sum().reset_index()
    of_site = pairs.groupby(["operation", "site_id"])["wait_ns"]
    worst = pairs.loc[of_site.idxmax()].assign(whole_ns=of_site.sum().to_numpy())
    worst["awaited_share"] = worst["wait_ns"] / worst["whole_ns"]
    worst = worst.drop(columns="wait_ns").rename(columns={"whole_ns": "wait_ns"})
    table = table.merge(worst, how="left", on=["operation", "site_id"])
    table["wait_ns"] = table["wait_ns"].fillna(0).astype(np.int64)
    table["awaited"] = table["awaited"].fillna(-1).astype(np.int64)
    table["awaited_share"] = table["awaited_share"].fillna(0.0)
    return table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def make_message_matrix(trace: Trace) -> pd.DataFrame:
    """Return one row per pair of ranks with messages, by ascending source and destination.

    source, destination (world ranks), messages, bytes (as sent), wait_ns (of the destination for
    the source), send_wait_ns (of the source for the destination).
    """
    pair = ["source", "destination"]
    sums = trace.message_sums
    sums = sums[sums["operation"].str.contains("send") & (sums["peer"] >= 0)]
    sent = sums.rename(
        columns={"rank": "source", "peer": "destination", "calls": "messages", "sent": "bytes"}
    )
    table = sent.groupby(pair)[["messages", "bytes"]].sum()
    waits = trace.message_waits
    of_sender = waits["state"] == "late_receiver"
    for name, chosen, columns in (
        ("wait_ns", ~of_sender, {"awaited": "source", "rank": "destination"}),
        ("send_wait_ns", of_sender, {"rank": "source", "awaited": "destination"}),
    ):
        of = waits[chosen].rename(columns=columns).groupby(pair)["wait_ns"].sum()
        table = table.join(of.rename(name), how="outer")
    return table.fillna(0).astype(np.int64).reset_index()
