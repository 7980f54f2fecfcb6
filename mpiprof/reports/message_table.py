"""The table of call sites of point-to-point messages, by their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_share,
    format_size,
    format_time,
)
from mpiprof.metrics import columns
from mpiprof.metrics.message_callsite_sums import are_waits_known, find_located_waits
from mpiprof.reports import callsite_table
from mpiprof.reports.phrases import unknown_message_waits
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.table import Column, render, render_markdown, wrap_paragraph
from mpiprof.trace import Trace

SHOWN_SHARE = 0.01  # of all ranks' time, below which messages are not reported


def reported_message_ns(trace: Trace) -> float:
    """Return all ranks' time in calls on messages, or 0 if it is too short to be reported."""
    message_ns = float(trace.message_sums["total_ns"].sum())
    return message_ns if message_ns >= SHOWN_SHARE * trace.whole_process_time_ns else 0.0


def reported_callsites(trace: Trace) -> Any:
    """Return the call sites of messages by time; none if messages take hardly any time."""
    rows = trace.message_callsites
    return rows if reported_message_ns(trace) else rows.head(0)


def message_section(trace: Trace, findings: Sequence[Finding], most: int) -> str:
    """Return the call sites of messages with most time, or "" if messages take hardly any time."""
    rows = reported_callsites(trace)
    return callsite_text(rows, most, findings) if len(rows) else ""


def markdown_section(trace: Trace, findings: Sequence[Finding], most: int) -> tuple[str, str, str]:
    """Return title, table and legend of `message_section` for Markdown, or three times ""."""
    rows = reported_callsites(trace)
    if not len(rows):
        return "", "", ""
    table = render_markdown(message_columns(rows.head(most), findings))
    return section_title(len(rows), most), table, callsite_table.legend(table)


def section_title(count: int, most: int) -> str:
    """Return the title of the table, with a note if it has not all call sites."""
    limit_note = f", the first {most} of {count}" if count > most else ""
    return f"Call sites of messages by time{limit_note}"


def callsite_text(rows: Any, most: int, findings: Sequence[Finding] = ()) -> str:
    """Return a table of call sites of messages with its legend."""
    table = render(*message_columns(rows.head(most), findings))
    return (
        f"{section_title(len(rows), most)}\n{table}\n{wrap_paragraph(callsite_table.legend(table))}"
    )


def pair_text(trace: Trace, callsite: Mapping[Any, Any], most: int) -> str:
    """Return the calls of a call site by rank and peer, the pairs with most waiting first."""
    sums, waits = trace.message_sums, find_located_waits(trace)
    sums, waits = (
        table[
            (table["operation"] == callsite["operation"])
            & (table["site_id"] == callsite["site_id"])
        ]
        for table in (sums, waits)
    )
    pairs = sums.groupby(["rank", "peer"])[["calls", "sent", "received", "total_ns"]].sum()
    wait_ns = waits.rename(columns={"awaited": "peer"}).groupby(["rank", "peer"])["wait_ns"].sum()
    joined = pairs.join(wait_ns, how="outer").fillna(0).reset_index()
    order = joined.sort_values(["wait_ns", "total_ns"], ascending=False, kind="stable")
    rows = order.head(most).to_dict("records")
    return render(
        Column("rank", [str(row["rank"]) for row in rows]),
        Column("peer", [UNKNOWN if row["peer"] < 0 else str(row["peer"]) for row in rows]),
        Column("calls", [_known(row["calls"], format_count) for row in rows]),
        Column("sent", [_known(row["sent"], format_size) for row in rows]),
        Column("received", [_known(row["received"], format_size) for row in rows]),
        Column("time", [_known(row["total_ns"], format_time) for row in rows]),
        Column("wait", [format_time(row["wait_ns"]) for row in rows]),
    )


def longest_wait_sentence(trace: Trace, callsite: Mapping[Any, Any]) -> str:
    """Return the longest wait at a call site, or "" if nobody waits there."""
    waits = find_located_waits(trace)
    here = waits["operation"].astype(str) == callsite["operation"]
    waits = waits[here & (waits["site_id"] == callsite["site_id"])]
    if not len(waits):
        return ""
    row = waits.loc[waits["longest_ns" if "longest_ns" in waits else "wait_ns"].idxmax()]
    begin, until = int(row["begin_ns"]), int(row["until_ns"])
    return (
        f"The longest wait here is {format_time(until - begin)}: rank {row['rank']} for rank "
        f"{row['awaited']}, {format_time(begin - trace.calls_start_ns)} after the begin."
    )


def _known(value: float, text: Callable[[float], str]) -> str:
    """Return a sum as text; pairs in which a rank only waits have no calls of their own."""
    return text(value) if value else UNKNOWN


def message_cost_sentence(row: Mapping[Any, Any]) -> str:
    """Return the cost of the waiting at a call site of messages, or "" if nobody waits."""
    if not row["total_wait_ns"] > 0:
        return ""
    cost = f"{routine_at(row)} costs {format_time(row['total_wait_ns'])} of waiting"
    share, rank = format_share(row["awaited_share"]), row["awaited_rank"]
    mostly = f"{share} of it is directly for rank {rank}"
    return f"{cost}, {format_share(row['wait_share'])} of all ranks' time; {mostly}."


def message_columns(rows: Any, findings: Sequence[Finding] = ()) -> list[Column]:
    """Return the columns of the table for a terminal or for Markdown."""
    shown = callsite_table.view_columns(rows, columns.MESSAGES, permanent="total_elapsed_ns")
    return callsite_table.with_cause(shown, rows, findings)


def message_facts(trace: Trace) -> str:
    """Return the time in messages and the waiting in it, or "" if it is too short."""
    message_ns, whole = reported_message_ns(trace), float(trace.whole_process_time_ns)
    if not message_ns:
        return ""
    wait_ns = float(find_located_waits(trace)["wait_ns"].sum())
    times = [f"{format_share(ns / whole)} ({format_time(ns)})" for ns in (message_ns, wait_ns)]
    if not are_waits_known(trace) or unknown_message_waits(trace):
        return f"{times[0]} of all ranks' time; the waiting in it is not known"
    return f"{times[0]} of all ranks' time; {times[1]} is waiting for late ranks"
