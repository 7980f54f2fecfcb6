"""Efficiencies of the POP method as a fact of the run, and as a table of its phases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mpiprof.account.efficiencies import RUN
from mpiprof.interface.format_units import UNKNOWN, format_share, format_time
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.table import TableColumn
from mpiprof.trace import Trace

MAX_PHASES = 12
COLUMNS = {
    "parallel": "parallel",
    "load_balance": "load balance",
    "serialisation": "serialisation",
    "transfer": "transfer",
}


def efficiency_fact(trace: Trace) -> str:
    """Return the efficiencies of the run, or "" if they are unknown."""
    run = run_efficiencies(trace)
    if run is None or math.isnan(run["load_balance"]):
        return ""
    known = ["communication"] if math.isnan(run["transfer"]) else ["serialisation", "transfer"]
    parts = [f"{name} {format_share(run[name])}" for name in known]
    balance = f"load balance {format_share(run['load_balance'])}"
    return f"{format_share(run['parallel'])}: {', '.join([balance, *parts])}"


def run_efficiencies(trace: Trace) -> dict[str, Any] | None:
    """Return the row of `Trace.efficiencies` for the whole run, or None if it is unknown."""
    rows: list[dict[Any, Any]] = trace.efficiencies.to_dict("records")
    return {str(name): value for name, value in rows[0].items()} if rows else None


def format_factor_range(row: Mapping[str, Any], name: str) -> str:
    """Return an efficiency in percent, or its bounds if it is not known."""
    if not math.isnan(row[name]):
        return format_share(row[name])
    low, high = (row.get(f"{name}_{side}", math.nan) for side in ("low", "high"))
    if math.isnan(low):
        return UNKNOWN
    return f"{format_share(low).removesuffix(' %')} to {format_share(high)}"


def phase_title(trace: Trace) -> str:
    """Return the title of the table of phases."""
    row: Any = trace.callsites.loc[trace.hot[0]]
    return f"Efficiencies by phase of {routine_at(row)}"


def phase_columns(trace: Trace) -> list[TableColumn]:
    """Return the columns of the table of phases, or none if the run has a single phase."""
    rows = [row for row in trace.efficiencies.to_dict("records") if row["phase"] != RUN]
    rows = rows[:MAX_PHASES]
    if not rows:
        return []
    start = trace.calls_start_ns
    return [
        TableColumn("phase", [str(int(row["phase"])) for row in rows]),
        TableColumn("from", [format_time(row["begin_ns"] - start) for row in rows]),
        TableColumn("for", [format_time(row["end_ns"] - row["begin_ns"]) for row in rows]),
        *efficiency_columns(rows),
    ]


def efficiency_columns(rows: list[dict[Any, Any]]) -> list[TableColumn]:
    """Return the columns of the efficiencies of some rows."""
    return [
        TableColumn(head, [format_factor_range(row, name) for row in rows])
        for name, head in COLUMNS.items()
    ]
