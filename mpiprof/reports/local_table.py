"""The table of calls of one rank on windows, files, communicators etc. (`Trace.local_sums`)."""

from __future__ import annotations

from typing import Any

from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.metrics.message_callsite_sums import KEYS, find_located_waits
from mpiprof.operations import function_name
from mpiprof.reports.message_table import SHOWN_SHARE
from mpiprof.reports.table import Column, render
from mpiprof.trace import Trace


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
        Column("function", [function_name(row["operation"]) for row in shown], left=True),
        Column("call site", [row["site"] for row in shown], left=True, shrink=True),
        Column("calls", [format_count(row["calls"]) for row in shown]),
        Column("time", [format_time(float(row["total_ns"])) for row in shown]),
        Column("of time", [format_share(row["total_ns"] / whole_ns) for row in shown], drop=2),
        Column("longest", [format_time(float(row["longest_ns"])) for row in shown], drop=1),
        Column("wait", [_format_wait(row) for row in shown]),
        Column("most for", [_format_awaited(row) for row in shown], left=True),
    )


def _format_wait(row: Any) -> str:
    return format_time(float(row["wait_ns"])) if row["wait_ns"] else ""


def _format_awaited(row: Any) -> str:
    return f"rank {row['awaited']}" if row["awaited"] >= 0 else ""
