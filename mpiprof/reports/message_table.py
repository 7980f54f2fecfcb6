"""The table of call sites of point-to-point messages, by their time."""

from __future__ import annotations

from typing import Any

from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_share,
    format_size,
    format_time,
)
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
    rows = trace.message_callsites
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
        Column("Σ wait", [format_time(ns) for ns in rows["wait_ns"].tolist()]),
        Column("mostly for", [_format_awaited(row) for row in rows.to_dict("records")]),
        Column("longest", [format_time(ns) for ns in rows["longest_ns"].tolist()]),
    )


def _format_awaited(row: dict[Any, Any]) -> str:
    """Return the rank that a call site's ranks mostly wait for: "3 in 40 %"."""
    if row["awaited"] < 0:
        return UNKNOWN
    return f"{row['awaited']} in {format_share(row['awaited_share'])}"


def message_facts(trace: Trace) -> str:
    """Return the time in messages and the waiting in it, or "" if it is too short."""
    message_ns, whole = reported_message_ns(trace), float(trace.process_time_ns)
    if not message_ns:
        return ""
    wait_ns = float(trace.message_waits["wait_ns"].sum())
    times = [f"{format_share(ns / whole)} ({format_time(ns)})" for ns in (message_ns, wait_ns)]
    return f"{times[0]} of all ranks' time; {times[1]} is waiting for late ranks"
