"""Messages by call site, and by pair of ranks: sums of all calls, and the waiting in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.metrics import columns
from mpiprof.metrics.message_callsite_sums import (
    MessageCallsiteSums,
    find_located_waits,
    sum_message_callsites,
)
from mpiprof.trace.trace import Trace

PAIR = ["source", "destination"]
COUNTS = ["messages", "bytes"]


def make_message_callsites(trace: Trace) -> pd.DataFrame:
    """Return one row per operation and call site of messages, by descending time.

    `site_id` is the index of the call site in the tables, -1 if it is unknown. The further columns
    are the entries of metrics/columns.py that are computed from messages.
    """
    return make_message_table(sum_message_callsites(trace))


def make_message_table(sums: MessageCallsiteSums) -> pd.DataFrame:
    """Return the table of call sites of messages from their sums."""
    table: dict[str, Any] = {"site_id": sums.keys["site_id"].to_numpy()}
    for column in columns.of_messages():
        assert column.messages is not None
        table[column.name] = column.messages(sums)
    made = pd.DataFrame(table)
    return made.sort_values("total_elapsed_ns", ascending=False, kind="stable", ignore_index=True)


def make_message_matrix(trace: Trace) -> pd.DataFrame:
    """Return one row per pair of ranks with messages, by ascending source and destination.

    source, destination (world ranks), messages, bytes (as sent), wait_ns (of the destination for
    the source), send_wait_ns (of the source for the destination).
    """
    return make_pair_table(trace.message_sums, find_located_waits(trace))


def make_pair_table(sums: pd.DataFrame, waits: pd.DataFrame) -> pd.DataFrame:
    """Return the table of pairs of ranks from rows of `message_sums` and `message_waits`."""
    sums = sums[sums["peer"] >= 0].rename(columns={"sent": "bytes", "calls": "messages"})
    # A call that sends and receives counts at the peer that it receives from.
    exchanges = sums["operation"].str.contains("sendrecv")
    sends = sums["operation"].str.contains("send") & ~exchanges
    outward = {"rank": "source", "peer": "destination"}
    inward = {"peer": "source", "rank": "destination"}
    parts = [
        sums[sends].rename(columns=outward),
        sums[exchanges].rename(columns=outward).assign(messages=0),
        sums[exchanges].rename(columns=inward).assign(bytes=0),
    ]
    table = pd.concat([part[[*PAIR, *COUNTS]] for part in parts]).groupby(PAIR).sum()
    of_sender = waits["state"] == "late_receiver"
    for name, chosen, ranks in (
        ("wait_ns", ~of_sender, {"awaited": "source", "rank": "destination"}),
        ("send_wait_ns", of_sender, {"rank": "source", "awaited": "destination"}),
    ):
        wait_ns = waits[chosen].rename(columns=ranks).groupby(PAIR)["wait_ns"].sum()
        table = table.join(wait_ns.rename(name), how="outer")
    table = table.fillna(0).astype(np.int64)
    return table[(table != 0).any(axis=1)].reset_index()
