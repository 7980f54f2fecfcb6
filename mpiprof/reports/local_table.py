"""The table of calls of one rank on windows, files, communicators etc. (`Trace.local_sums`)."""

from __future__ import annotations

from typing import Any

from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.operations import function_name
from mpiprof.reports.message_table import SHOWN_SHARE
from mpiprof.reports.table import Column, render
from mpiprof.trace import Trace


def sum_local_callsites(trace: Trace) -> Any:
    """Return one row per operation and call site, those with most time of all ranks first.

    operation, site, calls, total_ns, longest_ns. No rows if these calls take hardly any time.
    """
    sums = trace.local_sums
    rows = sums.groupby(["operation", "site"], as_index=False, sort=False).agg(
        calls=("calls", "sum"), total_ns=("total_ns", "sum"), longest_ns=("longest_ns", "max")
    )
    rows = rows.sort_values("total_ns", ascending=False, kind="stable")
    is_reported = rows["total_ns"].sum() >= SHOWN_SHARE * trace.process_time_ns
    return rows if is_reported else rows.head(0)


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
    )
