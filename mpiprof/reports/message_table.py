"""The table of call sites of point-to-point messages, by their time."""

from __future__ import annotations

from typing import Any

from mpiprof.interface.format_units import format_count, format_share, format_size, format_time
from mpiprof.reports.table import Column, render
from mpiprof.trace import Trace

SHOWN_SHARE = 0.01  # of all ranks' time, below which messages are not reported


def reported_message_ns(trace: Trace) -> float:
    """Return all ranks' time in calls on messages, or 0 if it is too short to be reported."""
    message_ns = float(trace.message_sums["total_ns"].sum())
    return message_ns if message_ns >= SHOWN_SHARE * trace.process_time_ns else 0.0


def message_section(trace: Trace, most: int) -> str:
    """Return the call sites of messages with most time, or "" if messages take hardly any time."""
    if not reported_message_ns(trace):
        return ""
    sites = trace.message_sums.groupby(["operation", "site"], sort=False)
    rows = sites[["calls", "sent", "received", "total_ns"]].sum()
    rows["longest_ns"] = sites["longest_ns"].max()
    rows = rows.sort_values("total_ns", ascending=False, kind="stable").reset_index()
    limit_note = f", the first {most} of {len(rows)}" if len(rows) > most else ""
    return f"Call sites of messages by time{limit_note}\n{_table(trace, rows.head(most))}"


def _table(trace: Trace, rows: Any) -> str:
    whole = float(trace.process_time_ns)
    sizes = (rows["sent"] + rows["received"]).tolist()
    return render(
        Column("routine", rows["operation"].tolist(), left=True),
        Column("call site", rows["site"].tolist(), left=True, shrink=True),
        Column("calls", [format_count(count) for count in rows["calls"].tolist()]),
        Column("bytes", [format_size(size) for size in sizes]),
        Column("Σ time", [format_time(ns) for ns in rows["total_ns"].tolist()]),
        Column("of all ranks' time", [format_share(ns / whole) for ns in rows["total_ns"]]),
        Column("longest", [format_time(ns) for ns in rows["longest_ns"].tolist()]),
    )
