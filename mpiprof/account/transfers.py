"""Transfers of messages: the time in calls after all awaited ranks have posted them.

The expected time of a transfer is at most EXPECTED_FACTOR times the median of its kind: the calls
at one call site with as much data, within a factor of two. Beyond that, the time above the median
is unexplained.

A run that is analysed in windows has the sums of its windows by kind and length of the transfers.
Lengths are equal within 0.8 % (account/quantiles.py), so medians of the run are, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.message_waits import Postings, find_wait_ends
from mpiprof.account.quantiles import bucket_numbers
from mpiprof.account.row_order import number_codes, number_values
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

EXPECTED_FACTOR = 2.0
KIND = ["site_id", "size_class"]
LENGTH = [*KIND, "bucket"]  # size_class: exponent of a power of two. bucket: of quantiles.py
SUMS = ["calls", "total_ns"]
NO_SUMS = pd.DataFrame(0, index=[], columns=["rank", *LENGTH, *SUMS])


def find_transfers(trace: Trace) -> Int:
    """Return the transfer time of each row of `message_calls` in ns, 0 in a call in vain."""
    table = trace.message_calls
    exit_ = table["exit_ns"].to_numpy(np.int64)
    transfer = np.where(exit_ > 0, exit_ - find_wait_ends(trace), 0).clip(min=0)
    transfer[table["messages"].to_numpy() == 0] = 0
    return transfer


def sum_transfers(trace: Trace) -> pd.DataFrame:
    """Return the transfers in a run or a window of it: rank, LENGTH, calls (number), total_ns."""
    table = trace.message_calls
    if not len(table):
        return NO_SUMS
    transfer: Int = trace.derive("transfers")
    is_chosen = transfer > 0
    if isinstance(trace, TraceWindow):
        is_chosen &= trace.covers(table["enter_ns"].to_numpy(np.int64))
    row = np.flatnonzero(is_chosen)
    values = transfer[row].astype(np.float64)
    rank, site = (table[name].to_numpy(np.int64)[row] for name in ("rank", "site_id"))
    columns = [site, np.frexp(_sum_bytes(trace)[row])[1], bucket_numbers(values)]
    lengths, number = _number_rows(columns)
    ranks = max(trace.ranks, 1)
    codes, cell = number_codes(number * ranks + rank, len(lengths) * ranks)
    sums = pd.DataFrame(lengths[codes // ranks], columns=LENGTH)
    sums.insert(0, "rank", codes % ranks)
    return sums.assign(calls=np.bincount(cell), total_ns=np.bincount(cell, values))


def _number_rows(columns: Sequence[Int]) -> tuple[Int, Int]:
    """Return the different rows of some columns, in order, and the number of each row."""
    number, rows = np.zeros(len(columns[0]), np.int64), np.zeros((1, 0), np.int64)
    for column in columns:
        values, of_value = number_values(column)
        codes, number = number_codes(number * len(values) + of_value, len(rows) * len(values))
        rows = np.column_stack([rows[codes // len(values)], values[codes % len(values)]])
    return rows, number


def sum_unexplained_messages(trace: Trace) -> Float:
    """Return the unexplained time of each rank in calls on messages, 0 without single calls."""
    windows = [NO_SUMS]
    if fits_in_memory(trace):
        windows = [sum_transfers(trace)]
    elif trace.has_message_events:
        windows = trace.derive("window_transfers")
    sums = pd.concat(windows)
    lengths = sums.groupby(LENGTH)[SUMS].sum().reset_index()
    calls = lengths.groupby(KIND)["calls"]
    lengths["usual_ns"] = lengths["total_ns"] / lengths["calls"]
    is_upper = 2 * calls.cumsum() >= calls.transform("sum")
    usual = lengths[is_upper].groupby(KIND)["usual_ns"].first()
    sums = sums.join(usual, on=KIND)
    usual_ns = sums["usual_ns"] * sums["calls"]
    excess = (sums["total_ns"] - usual_ns).where(sums["total_ns"] > EXPECTED_FACTOR * usual_ns, 0.0)
    rank = sums["rank"].to_numpy(np.int64)
    return np.asarray(np.bincount(rank, excess, trace.ranks), np.float64)


def _sum_bytes(trace: Trace) -> Float:
    """Return the bytes of the messages of each row of `message_calls`."""
    postings: Postings = trace.derive("postings")
    rows = postings.messages.rows
    known_bytes = np.maximum(rows["bytes"].astype(np.float64), 0.0)
    sums = np.bincount(rows["call"], known_bytes, len(trace.message_calls))
    return np.asarray(sums, np.float64)
