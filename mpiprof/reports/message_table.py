"""The table of call sites of point-to-point messages, by their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mpiprof.account import columns
from mpiprof.account.message_callsite_sums import KEYS, are_waits_known, find_located_waits
from mpiprof.causes.finding import Finding
from mpiprof.facts.operations import function_name
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_share,
    format_size,
    format_time,
)
from mpiprof.reports import callsite_table
from mpiprof.reports.table import TableColumn, render, render_markdown, wrap_paragraph
from mpiprof.reports.words.trace_sentences import unknown_message_waits
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
        TableColumn("rank", [str(row["rank"]) for row in rows]),
        TableColumn("peer", [UNKNOWN if row["peer"] < 0 else str(row["peer"]) for row in rows]),
        TableColumn("calls", [_known(row["calls"], format_count) for row in rows]),
        TableColumn("sent", [_known(row["sent"], format_size) for row in rows]),
        TableColumn("received", [_known(row["received"], format_size) for row in rows]),
        TableColumn("time", [_known(row["total_ns"], format_time) for row in rows]),
        TableColumn("wait", [format_time(row["wait_ns"]) for row in rows]),
    )


def _known(value: float, text: Callable[[float], str]) -> str:
    """Return a sum as text; pairs in which a rank only waits have no calls of their own."""
    return text(value) if value else UNKNOWN


def message_columns(rows: Any, findings: Sequence[Finding] = ()) -> list[TableColumn]:
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


def sum_local_callsites(trace: Trace) -> Any:
    """Return one row per operation and call site, those with most time of all ranks first.

    operation, site, calls, total_ns, longest_ns, wait_ns, awaited (rank that is waited for most, -1
    without a wait). No rows if these calls take hardly any time.
    """
    sums: Any = trace.local_sums
    by = ["operation", "site", "site_id"]
    rows = sums.groupby(by, as_index=False, sort=False).agg(
        calls=("calls", "sum"), total_ns=("total_ns", "sum"), longest_ns=("longest_ns", "max")
    )
    rows = _add_waits(trace, rows)
    rows = rows.sort_values("total_ns", ascending=False, kind="stable")
    is_reported = rows["total_ns"].sum() >= SHOWN_SHARE * trace.process_time_ns
    return rows if is_reported else rows.head(0)


def _add_waits(trace: Trace, rows: Any) -> Any:
    """Return rows by operation and site_id with their waits for other ranks."""
    waits: Any = find_located_waits(trace)
    waits = waits[waits["operation"].isin(set(rows["operation"]))]
    columns = waits.assign(operation=waits["operation"].astype(str))
    pairs: Any = columns.groupby([*KEYS, "awaited"], as_index=False)["wait_ns"].sum()
    totals = pairs.groupby(KEYS, as_index=False)["wait_ns"].sum()
    most = pairs.sort_values("wait_ns", ascending=False, kind="stable").drop_duplicates(KEYS)
    joined = rows.merge(totals, "left", KEYS).merge(most[[*KEYS, "awaited"]], "left", KEYS)
    return joined.fillna({"wait_ns": 0, "awaited": -1}).astype({"wait_ns": int, "awaited": int})


def local_section(trace: Trace, most: int) -> tuple[str, str]:
    """Return the title and the table of these call sites; the table is "" without rows."""
    rows = sum_local_callsites(trace)
    title = "Other MPI functions by time"
    if len(rows) > most:
        title += f", the first {most} of {len(rows)}"
    if not len(rows):
        return title, ""
    shown = rows.head(most).to_dict("records")
    whole_ns = max(float(trace.process_time_ns), 1.0)
    return title, render(
        TableColumn("function", [function_name(row["operation"]) for row in shown], left=True),
        TableColumn("call site", [row["site"] for row in shown], left=True, shrink=True),
        TableColumn("calls", [format_count(row["calls"]) for row in shown]),
        TableColumn("time", [format_time(float(row["total_ns"])) for row in shown]),
        TableColumn("of time", [format_share(row["total_ns"] / whole_ns) for row in shown], drop=2),
        TableColumn("longest", [format_time(float(row["longest_ns"])) for row in shown], drop=1),
        TableColumn("wait", [_format_wait(row) for row in shown]),
        TableColumn("most for", [_format_awaited(row) for row in shown], left=True),
    )


def _format_wait(row: Any) -> str:
    return format_time(float(row["wait_ns"])) if row["wait_ns"] else ""


def _format_awaited(row: Any) -> str:
    return f"rank {row['awaited']}" if row["awaited"] >= 0 else ""
