"""Time of each rank in MPI: in collectives, waiting in collectives, and in other calls."""

from __future__ import annotations

from typing import Any

from mpiprof.interface.format_units import format_count, format_time
from mpiprof.reports.json import plain_number
from mpiprof.reports.table import Column, render
from mpiprof.trace import Trace

# Columns of the table, and their headings.
COLUMN_HEADS = {
    "collective_ns": "collectives",
    "total_wait_ns": "of it waiting",
    "point_to_point_ns": "point-to-point",
    "completion_ns": "completion",
    "one_sided_ns": "one-sided",
    "files_ns": "files",
}
LEGEND = (
    "  collectives: with what makes communicators, collective calls on windows and files, and\n"
    "  MPI_Finalize; point-to-point: blocking calls; completion: Wait, Test and their like;\n"
    "  files: calls of one process alone"
)


def make_rows(trace: Trace) -> list[dict[str, Any]]:
    """Return a row per rank with `rank` and the columns of COLUMN_HEADS; unknown values are NaN."""
    table = trace.spent.rename(columns=lambda name: f"{name}_ns").set_index("rank_ns")
    if trace.record == "summary" or trace.wrapped_chunks:
        # The other columns also cover the whole run.
        table["collective_ns"] = trace.summary.groupby("rank")["total_ns"].sum()
        table["total_wait_ns"] = float("nan")
    else:
        sums = trace.rank_totals.groupby("rank")[["elapsed_ns", "total_wait_ns"]].sum()
        table["collective_ns"], table["total_wait_ns"] = sums["elapsed_ns"], sums["total_wait_ns"]
        table["total_wait_ns"] = table["total_wait_ns"].fillna(0)
    table["collective_ns"] = table["collective_ns"].fillna(0)
    found: list[dict[str, Any]] = table[list(COLUMN_HEADS)].to_dict("records")  # type: ignore[assignment]
    return [{"rank": rank, **row} for rank, row in zip(table.index, found, strict=True)]


def rows_as_data(trace: Trace) -> list[dict[str, Any]]:
    """Return the rows as data."""
    return [{name: plain_number(value) for name, value in row.items()} for row in make_rows(trace)]


def rank_time_table(trace: Trace, most: int) -> str:
    """Return a table of the ranks with most time in MPI calls, the largest first."""
    found = make_rows(trace)
    found.sort(key=lambda row: -sum(v for n, v in row.items() if n.endswith("_ns") and v == v))
    left = f", the first {most} of {format_count(len(found))}" if len(found) > most else ""
    found = found[:most]
    columns = [Column("rank", [str(row["rank"]) for row in found])]
    for name, head in COLUMN_HEADS.items():
        columns.append(Column(head, [format_time(row[name]) for row in found]))
    table = render(columns)
    return f"Ranks by time in MPI{left}\n{table}\n{LEGEND}"
