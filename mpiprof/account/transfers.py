"""Transfers: time in calls after all awaited ranks have come, and the unexplained part of it.

    rank 5   work | recv ── wait ── | transfer | work ...
    rank 6   work ─────────── send ↑ posted

The expected time of a transfer is at most EXPECTED_FACTOR times the median of its kind: the calls
on messages at one call site with as much data, within a factor of two, or the instances of one call
site of collectives. Beyond that, the time above the median is unexplained. It belongs to the call
or to its link, never to the work of a rank.
"""

from __future__ import annotations

import numpy as np

from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.group_order import find_medians
from mpiprof.metrics.message_waits import Postings
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

EXPECTED_FACTOR = 2.0


def find_transfers(trace: Trace) -> Int:
    """Return the transfer time of each row of `message_calls` in ns, 0 in a call in vain."""
    postings: Postings = trace.derive("postings")
    table = trace.message_calls
    until = np.zeros(len(table), np.int64)
    np.maximum.at(until, postings.waits["call"], postings.waits["until_ns"])
    enter, exit_ = (table[name].to_numpy(np.int64) for name in ("enter_ns", "exit_ns"))
    transfer = np.where(exit_ > 0, exit_ - np.maximum(enter, until), 0).clip(min=0)
    transfer[table["messages"].to_numpy() == 0] = 0
    return transfer


def sum_unexplained_messages(trace: Trace) -> Float:
    """Return the unexplained time of each rank in calls on messages, 0 without single calls."""
    if not fits_in_memory(trace) or not len(trace.message_calls):
        return np.zeros(trace.ranks)
    table = trace.message_calls
    transfer: Int = trace.derive("transfers")
    chosen = np.flatnonzero(transfer > 0)
    values = transfer[chosen].astype(np.float64)
    size_class = np.frexp(_sum_bytes(trace))[1][chosen]  # the exponent of the power of two
    site = table["site_id"].to_numpy(np.int64)[chosen]
    code = site * (size_class.max(initial=0) + 1) + size_class
    kinds, kind = np.unique(code, return_inverse=True)
    usual = find_medians(kind, values, len(kinds))[kind]
    excess = np.where(values > EXPECTED_FACTOR * usual, values - usual, 0.0)
    ranks = table["rank"].to_numpy(np.int64)[chosen]
    return np.asarray(np.bincount(ranks, excess, trace.ranks), np.float64)


def _sum_bytes(trace: Trace) -> Float:
    """Return the bytes of the messages of each row of `message_calls`."""
    postings: Postings = trace.derive("postings")
    rows = postings.messages.rows
    known = np.maximum(rows["bytes"].astype(np.float64), 0.0)
    sums = np.bincount(rows["call"], known, len(trace.message_calls))
    return np.asarray(sums, np.float64)


def sum_unexplained_collectives(trace: Trace) -> Float:
    """Return the unexplained time of all ranks at each call site of collectives."""
    if trace.record == "summary":
        return np.zeros(len(trace.callsites))
    sums, keys = trace.aggregate
    excess: Float = sums.quantiles.sum_excess("transfer", EXPECTED_FACTOR, len(keys))
    return excess * callsite_scales(trace)
