"""Sentences about the pair of ranks that loses most time in messages, for pages and reports."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.metrics.message_callsite_sums import are_waits_known
from mpiprof.reports.site_labels import describe_site
from mpiprof.trace import Trace

Words = list[tuple[str, str]]  # text, and its style: "", "strong" or "late"


def headline(trace: Trace, pairs: pd.DataFrame) -> Words:
    """Return the sentence about the costliest row of `list_waiting_pairs`, as styled words."""
    if not len(pairs):
        return [(absence_text(trace), "")]
    row = pairs.iloc[0]
    calls, late = int(row["calls"]), (f"rank {row['awaited']}", "late")
    reason = [(" for messages of ", ""), late]
    if 2 * row["send_wait_ns"] > row["wait_ns"]:
        reason = [(" for ", ""), late, (" to receive", "")]
    return [
        (f"Rank {row['rank']}", "strong"),
        (" waits ", ""),
        (format_time(float(row["wait_ns"])), "strong"),
        *reason,
        (" in ", ""),
        (format_pair_site(trace, row), "strong"),
        (f", in {format_count(calls)} call{'s' * (calls > 1)}.", ""),
    ]


def headline_text(trace: Trace, pairs: pd.DataFrame) -> str:
    """Return `headline` as text."""
    return "".join(text for text, _ in headline(trace, pairs))


def share_sentence(pairs: pd.DataFrame) -> str:
    """Return the share of the rank for which the others wait most, or "" without a wait."""
    whole = float(pairs["wait_ns"].sum())
    if not whole > 0:
        return ""
    sums = pairs.groupby("awaited")["wait_ns"].sum().sort_values(ascending=False, kind="stable")
    rank = int(sums.index[0])
    waiting = sorted(set(pairs.loc[pairs["awaited"] == rank, "rank"].tolist()))
    one = len(waiting) == 1
    who = f"rank {waiting[0]} waits" if one else f"{format_count(len(waiting))} ranks wait"
    share = format_share(float(sums.iloc[0]) / whole)
    return f"{share} of all waiting in messages is for rank {rank}; {who} for it."


def absence_text(trace: Trace) -> str:
    """Return the reason why no pair of ranks waits."""
    if not len(trace.message_sums):
        return "This trace has no messages."
    if not are_waits_known(trace):
        return "The waiting in messages is unknown, because only sums of messages were recorded."
    return "No rank waits for a message."


def format_pair_site(trace: Trace, row: Any) -> str:
    """Return the operation and call site of a row as text: "waitall at halo.py:13 exchange"."""
    return f"{row['operation']} at {describe_site(trace, int(row['site_id']))}"
