"""Pairs of ranks: which rank waits for which, and the messages between two ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.account.batch_map import BatchPass
from mpiprof.account.instance_metrics import InstanceMetrics, take_complete
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.wait_states import awaited_rows, compute_arrival_waits, find_pending_waits
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

MAX_WAIT_ROWS = 64
MAX_PAIR_ROWS = 256
PAIR = ["source", "destination"]
COUNTS = ["messages", "bytes"]
KEYS = ["rank", "awaited", "operation", "site_id"]


@dataclass(frozen=True)
class WaitMatrix:
    """Wait of the ranks of each row for the ranks of each column, in ns over all instances."""

    ranks: tuple[tuple[int, int], ...]  # first and last world rank of each row and column
    # A row sums to the wait of its ranks, and a column to the wait that its ranks caused.
    total_wait_ns: Float


def compute_wait_matrix(trace: Trace, callsites: Sequence[int] = ()) -> WaitMatrix:
    """Return the wait matrix of some call sites, by default all; many ranks are joined to runs."""
    row = assign_rows(trace, MAX_WAIT_ROWS)
    count = int(row[-1]) + 1
    sums = np.zeros(count * count)
    arguments = (frozenset(callsites), row, callsite_scales(trace))
    for part in BatchPass(trace, _batch_wait_matrix, *arguments, known=trace.aggregate[1]):
        sums += part.value
    return WaitMatrix(list_rank_runs(row), sums.reshape(count, count))


def assign_rows(trace: Trace, rows: int) -> Int:
    """Return the row of each rank in a picture of at most `rows` rows."""
    count = min(rows, trace.ranks)
    return np.arange(trace.ranks) * count // trace.ranks


def list_rank_runs(row: Int) -> tuple[tuple[int, int], ...]:
    """Return the first and last world rank of each row, from the row of each rank."""
    edges = np.flatnonzero(np.diff(row, prepend=-1))
    ends = [*(edges[1:] - 1).tolist(), len(row) - 1]
    return tuple(zip(edges.tolist(), ends, strict=True))


def _batch_wait_matrix(
    measure: InstanceMetrics, batch: Batch, callsites: frozenset[int], row: Int, scale_of: Float
) -> Float:
    """Return the wait matrix of one batch, flattened: waiting rows x rows waited for."""
    count = int(row[-1]) + 1
    sums = np.zeros(count * count)
    cell = row[batch.communicator.ranks]
    for signature, index in measure.group_by_signature(batch):
        if callsites and signature.callsite not in callsites:
            continue
        if not signature.is_whole or signature.state is None or len(cell) < 2:
            continue
        arrival, begin, finish = take_complete(batch, signature, index)
        wait = compute_arrival_waits(arrival, begin, finish, signature.group)
        awaited_cell: Int = cell[awaited_rows(arrival, signature.group)]
        at = cell[:, None] * count + awaited_cell
        scale = float(scale_of[signature.callsite])
        sums += scale * np.bincount(at.ravel(), wait.ravel(), count * count)
        pending = find_pending_waits(arrival, begin, finish, signature.group)
        at = cell[pending.row] * count + cell[pending.awaited]
        sums += scale * np.bincount(at, pending.until_ns - pending.begin_ns, count * count)
    return sums


@dataclass(frozen=True)
class PairMatrix:
    """Sums over the messages between ranks; many ranks are joined to runs.

    ranks: first and last world rank of each row and column. messages, bytes: senders x receivers.
    wait_ns: ranks that wait x ranks that they wait for.
    """

    ranks: tuple[tuple[int, int], ...]
    messages: Int
    bytes: Int
    wait_ns: Int

    def get_cells(self, quantity: str) -> Int:
        """Return the matrix of a quantity: "messages", "bytes" or "wait"."""
        cells: Int = getattr(self, "wait_ns" if quantity == "wait" else quantity)
        return cells


def make_pair_matrix(
    trace: Trace, pairs: pd.DataFrame, max_rows: int = MAX_PAIR_ROWS
) -> PairMatrix:
    """Return the matrices of rows of `Trace.message_matrix`, with at most `max_rows` rows."""
    row = assign_rows(trace, max_rows)
    count = int(row[-1]) + 1
    source, destination = (row[pairs[name].to_numpy()] for name in ("source", "destination"))

    def add(*parts: tuple[Int, Int, str]) -> Int:
        cells = np.zeros((count, count), np.int64)
        for down, across, name in parts:
            np.add.at(cells, (down, across), pairs[name].to_numpy(np.int64))
        return cells

    return PairMatrix(
        list_rank_runs(row),
        add((source, destination, "messages")),
        add((source, destination, "bytes")),
        add((destination, source, "wait_ns"), (source, destination, "send_wait_ns")),
    )


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


def list_waiting_pairs(waits: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of ranks and call site, by descending wait.

    waits: rows of `find_located_waits`. rank (that waits), awaited (rank), operation and site_id of
    the waiting calls, wait_ns, calls (that wait), longest_ns, and the longest call's begin_ns and
    until_ns (when the awaited rank posted the message).
    """
    if not len(waits):
        names = ["wait_ns", "send_wait_ns", "calls", "longest_ns", "begin_ns", "until_ns"]
        return pd.DataFrame({name: pd.Series(dtype=object) for name in [*KEYS, *names]})
    if "calls" not in waits:  # rows are single calls
        waits = waits.assign(calls=1, longest_ns=waits["until_ns"] - waits["begin_ns"])
    of_sender = waits["wait_ns"].where(waits["state"] == "late_receiver", 0)
    groups = waits.assign(send_wait_ns=of_sender).groupby(KEYS, sort=False)
    table = groups.agg(
        wait_ns=("wait_ns", "sum"),
        send_wait_ns=("send_wait_ns", "sum"),
        calls=("calls", "sum"),
        longest_ns=("longest_ns", "max"),
    )
    longest = waits.sort_values("longest_ns", ascending=False, kind="stable").drop_duplicates(KEYS)
    table = table.join(longest.set_index(KEYS)[["begin_ns", "until_ns"]])
    order = {"wait_ns": False, "awaited": True, "rank": True}
    ordered: pd.DataFrame = table.reset_index().sort_values(
        list(order), ascending=list(order.values()), ignore_index=True
    )
    return ordered


def select_pairs(
    pairs: pd.DataFrame, waiting: tuple[int, int], awaited: tuple[int, int]
) -> pd.DataFrame:
    """Return the rows of the ranks between the first and the last rank of two runs of ranks."""
    chosen = pairs["rank"].between(*waiting) & pairs["awaited"].between(*awaited)
    return pairs[chosen].reset_index(drop=True)
