"""The columns of the tables of call sites, in the order of all tables but the dashboard's grid.

A new column is one entry: name, quantity, meaning, heading and computation. See account/column.py.
`Trace.callsites`, `Trace.message_callsites`, the report in all its formats, the grid of the
dashboard, --sort, --fail-on, exported instances and the reference page read the table through the
functions at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from mpiprof.account.callsite_sums import (
    CallsiteSums,
    SummarySums,
    counted,
    latest_ranks,
    latest_shares,
)
from mpiprof.account.column import EVERYWHERE, GRID, MESSAGES, PAGE, TERMINAL, Column, Row, mean
from mpiprof.account.instance_rows import Rows
from mpiprof.account.message_callsite_sums import MessageCallsiteSums
from mpiprof.account.quantiles import LEVELS
from mpiprof.facts.operations import WAIT_STATES, operations_in
from mpiprof.interface.format_units import (
    UNKNOWN,
    between,
    format_estimate,
    format_share,
    format_time,
)
from mpiprof.trace.types import Float

__all__ = ["COLUMNS", "GRID", "MESSAGES", "PAGE", "TERMINAL", "Column"]

ANYWHERE, SHARED = (*EVERYWHERE, MESSAGES), (GRID, MESSAGES)
MESSAGE_STATES = {  # wait states of calls on messages (account/message_waits.py)
    "late_sender": "for messages that were sent late",
    "wrong_order": "for late messages, while others that were sent earlier are received later",
    "late_receiver": "in sends, for late receives",
}


def _format_instances(row: Row) -> str:
    """Return the number of instances, with ~ if it is estimated."""
    return format_estimate(row["total_instances"], row["instances"])


def _any_incomplete(rows: Sequence[Row]) -> bool:
    """Return whether any row has complete instances and others."""
    return any(0 < row["complete_instances"] < row["total_instances"] for row in rows)


def _format_algorithm(row: Row) -> str:
    """Return the algorithms other than the library's, with counts if there are several."""
    parts = row["algorithms"].split(", ")
    if len(parts) > 2:
        return f"{parts[0]}, {len(parts) - 1} others"
    if len(parts) == 2:
        return str(row["algorithms"])
    name = parts[0].rpartition(" ")[0]
    return "" if name == "native" else str(name)


def _any_imbalance(rows: Sequence[Row]) -> bool:
    """Return whether the rows have imbalance; call sites of messages have none."""
    return not rows or any("worst_imbalance_ns" in row for row in rows)


def _format_total_wait(row: Row) -> str:
    """Return the total wait, if any instance was complete."""
    is_known = not pd.isna(row.get("wait_ns", 0))
    return format_time(row["total_wait_ns"]) if is_known else UNKNOWN


def wait_limits(row: Row) -> str:
    """Return the limits of an estimated total wait, or "" if it is exact."""
    return between(row["total_wait_low_ns"], row["total_wait_high_ns"], format_time)


def _format_wait_share(row: Row) -> str:
    """Return the total wait as a share of the time of the ranks, if any instance was complete."""
    is_known = not pd.isna(row.get("wait_ns", 0))
    return format_share(row["wait_share"]) if is_known else UNKNOWN


def _format_awaited(row: Row) -> str:
    """Return the rank that is waited for most, and its share of the wait."""
    if pd.isna(row["awaited_rank"]):
        return UNKNOWN
    return f"{row['awaited_rank']} in {format_share(row['awaited_share'])}"


def _format_latest(row: Row) -> str:
    """Return the rank that is last most often, and how often."""
    if pd.isna(row["latest_rank"]):
        return UNKNOWN
    return f"{row['latest_rank']} in {format_share(row['latest_share'])}"


# fmt: off
COLUMNS: tuple[Column, ...] = (
    Column("operation", "text", "the call without MPI_",
        heading="operation", views=ANYWHERE, width=105,
        recorded=lambda sums: [key.operation for key in sums.keys],
        summary=lambda sums: sums.operations, messages=lambda sums: sums.operations),
    Column("sites", "sites", "file, line and function; how many more there are",
        details="places in the program: file, line, function",
        heading="call site", views=ANYWHERE, width=190, recorded=lambda sums: sums.sites,
        summary=lambda sums: sums.sites, messages=lambda sums: sums.sites),
    Column("algorithm", "text", "algorithms of its instances",
        details="what it ran on: `native`, with the library's own name where that is certain "
        "(`native:ring`), or one of ours; several are joined by `+`",
        heading="algorithm", views=(TERMINAL, PAGE), priority=1, cell=_format_algorithm,
        recorded=lambda sums: ["+".join(sorted(counts)) for counts in sums.algorithms],
        summary=lambda sums: ["+".join(sorted(counts)) for counts in sums.algorithms]),
    Column("algorithms", "algorithms", "algorithms of its instances, and how many ran on each",
        details='how many instances ran on each algorithm: `{"native": 37, "kang": 3}`',
        heading="algorithm", views=(GRID,), priority=5, width=130,
        recorded=lambda sums: [counted(counts) for counts in sums.algorithms],
        summary=lambda sums: [counted(counts) for counts in sums.algorithms]),
    Column("instances", "count", "recorded instances",
        details="how many are recorded; of a summary how many there are; calls on communicators of "
        "one rank do not count here and in other columns, but in `total_elapsed_ns`",
        recorded=lambda sums: sums.count("instances"),
        summary=lambda sums: sums.total("instances")),
    Column("total_instances", "counted", "instances (~ estimated)",
        details="how many there are, which `total_...` sums up: with `--sample` an estimate, else "
        "`instances`",
        heading="instances", views=EVERYWHERE, priority=2, width=85, cell=_format_instances,
        recorded=lambda sums: np.rint(sums.scale * sums.sums["instances"]).astype(np.int64),
        summary=lambda sums: sums.total("instances")),
    Column("complete_instances", "count",
        "instances of which all arrivals are known; the means are over these",
        heading="known", views=(TERMINAL, PAGE), legend=True, needed=_any_incomplete,
        recorded=lambda sums: sums.count("complete"), summary=lambda sums: sums.total("observed")),
    Column("calls", "count", "calls of all ranks",
        heading="calls", views=SHARED, priority=2, width=75,
        messages=lambda sums: sums.total("calls")),
    Column("size", "count", "ranks of its communicator, the largest",
        heading="ranks", views=(GRID,), priority=10, width=70,
        recorded=lambda sums: sums.count("size"), summary=lambda sums: sums.extreme("size", "max")),
    mean("bytes", "size", "bytes that a rank sends, mean; of messages also receives, the larger",
        lambda rows: rows.bytes, summary=lambda sums: sums.average("bytes"),
        messages=lambda sums: sums.mean(np.maximum(sums.total("sent"), sums.total("received"))),
        heading="bytes", views=ANYWHERE, priority=5),
    Column("sent", "size", "bytes that all ranks send", messages=lambda sums: sums.total("sent")),
    Column("received", "size", "bytes that all ranks receive",
        details="bytes that all ranks receive; the size of the buffer where the program ignores "
        "the status of a nonblocking receive",
        messages=lambda sums: sums.total("received")),
    Column("bytes_min", "size", "bytes that a rank sends, least",
        instance=lambda rows: rows.bytes_min, recorded=lambda sums: sums.extreme("bytes_min"),
        summary=lambda sums: sums.extreme("bytes_min", "min")),
    Column("bytes_max", "size", "bytes that a rank sends, most",
        instance=lambda rows: rows.bytes_max, recorded=lambda sums: sums.extreme("bytes_max"),
        summary=lambda sums: sums.extreme("bytes_max", "max")),
    mean("message_bytes", "size", "bytes of the message of time T",
        lambda rows: rows.message_bytes,
        heading="msg size",
        details="bytes of the message whose time is T: what goes to one destination in an "
        "all-to-all, else a contribution or a vector",
        summary=lambda sums: sums.average("message_bytes")),
    mean("mean_elapsed_ns", "duration", "mean time in the call",
        lambda rows: rows.mean_elapsed, summary=lambda sums: sums.mean_elapsed_ns,
        messages=lambda sums: sums.mean(sums.elapsed_ns),
        heading="ē", views=ANYWHERE, priority=7, legend=True),
    Column("longest_ns", "duration", "time in the longest call",
        heading="longest", views=(MESSAGES,), priority=3, messages=lambda sums: sums.longest()),
    *(
        Column(f"elapsed_{level}_ns", "duration",
            f"{percent} % quantile of the instances' time in the call (mean over ranks)",
            recorded=partial(CallsiteSums.quantile, name=f"elapsed_{level}_ns"))
        for level, percent in LEVELS.items()
    ),
    mean("average_imbalance_ns", "duration", "mean distance of arrivals from their mean",
        lambda rows: rows.average_imbalance, summary=lambda sums: sums.mean("average_imbalance_ns"),
        heading="δ", views=(TERMINAL, GRID), priority=8, legend=True),
    mean("worst_imbalance_ns", "duration", "last minus first arrival",
        lambda rows: rows.worst_imbalance, summary=lambda sums: sums.mean("worst_imbalance_ns"),
        heading="ω", views=EVERYWHERE, priority=3, legend=True),
    mean("message_time_ns", "duration", "time of one message (to one destination in an all-to-all)",
        lambda rows: rows.message_time,
        summary=lambda sums: sums.average("message_time_ns"),
        heading="T", legend=True),
    mean("average_factor", "factor", "δ in times of one message",
        lambda rows: rows.average_factor,
        summary=lambda sums: sums.mean("average_imbalance_ns", factor=True),
        heading="δ/T", views=(TERMINAL, GRID), priority=6, width=75),
    mean("worst_factor", "factor", "ω in times of one message",
        lambda rows: rows.worst_factor,
        summary=lambda sums: sums.mean("worst_imbalance_ns", factor=True),
        heading="ω/T", views=EVERYWHERE, priority=4, width=75),
    Column("worst_factor_max", "factor", "the largest ω/T of an instance",
        recorded=lambda sums: sums.extreme("worst_max"),
        summary=lambda sums: sums.worst_factor_max),
    mean("exit_imbalance_ns", "duration", "last minus first exit (Faraj et al. 2008, Section 5)",
        lambda rows: rows.exit_imbalance),
    mean("exit_factor", "factor", "last minus first exit in times of one message",
        lambda rows: rows.exit_factor),
    mean("wait_ns", "duration",
        "time that ranks wait for a later rank, summed over ranks, mean of the instances",
        lambda rows: rows.wait,
        summary=lambda sums: np.where(sums.is_waiting_known, sums.mean("wait_ns"), np.nan),
        heading="wait"),
    *(
        Column(f"wait_{state}_ns", "duration", f"of it in {operations_in(state)}: {rule.sentence}",
            instance=partial(Rows.wait_in, state=state))
        for state, rule in WAIT_STATES.items()
    ),
    *(
        Column(f"wait_{level}_ns", "duration",
            f"{percent} % quantile of the instances' wait (summed over ranks)",
            recorded=partial(CallsiteSums.quantile, name=f"wait_{level}_ns"))
        for level, percent in LEVELS.items()
    ),
    mean("completion_skew_ns", "duration",
        "time in the call after the first rank had left, summed over ranks",
        lambda rows: rows.skew),
    Column("total_wait_ns", "duration", "total wait, over ranks and instances",
        heading="Σ wait", views=ANYWHERE, width=90, legend=True, cell=_format_total_wait,
        recorded=lambda sums: sums.total("wait_ns"), summary=lambda sums: sums.wait_ns,
        messages=lambda sums: sums.wait_ns),
    Column("wait_share", "share", "total wait, of the time of all ranks",
        heading="of time", views=SHARED, width=75, legend=True, cell=_format_wait_share,
        messages=lambda sums: sums.wait_ns / sums.whole_ns),
    Column("total_wait_low_ns", "duration", "where Σ wait lies, as it is an estimate",
        details="lower limit of the total wait, where it is an estimate; else the total wait",
        heading="between", views=(TERMINAL, PAGE), priority=1, legend=True, cell=wait_limits,
        recorded=lambda sums: sums.limits["total_wait_low_ns"],
        summary=lambda sums: sums.wait_limits[0]),
    Column("total_wait_high_ns", "duration", "upper limit of the total wait",
        recorded=lambda sums: sums.limits["total_wait_high_ns"],
        summary=lambda sums: sums.wait_limits[1]),
    *(
        Column(f"total_wait_{state}_ns", "duration",
            f"of the total wait, in {operations_in(state)}: {rule.sentence}",
            recorded=partial(CallsiteSums.total, name=f"wait_{state}"),
            summary=partial(SummarySums.wait_in, state=state))
        for state, rule in WAIT_STATES.items()
    ),
    *(
        Column(f"total_wait_{state}_ns", "duration", f"of the total wait, {meaning}",
            messages=partial(MessageCallsiteSums.wait_in, state=state))
        for state, meaning in MESSAGE_STATES.items()
    ),
    Column("awaited_rank", "rank", "rank most waited for, and its share; it may wait itself",
        details="rank that is waited for most; null if nobody waits",
        heading="mostly for", views=SHARED, priority=1, width=100, legend=True,
        cell=_format_awaited, messages=lambda sums: sums.awaited["rank"].array),
    Column("awaited_share", "share", "share of the wait that is for this rank",
        messages=lambda sums: sums.awaited["share"].to_numpy()),
    Column("worst_imbalance_over_run", "picture",
        "last minus first arrival, from instance to instance",
        heading="ω over the run", views=(PAGE, GRID), priority=3, width=128,
        needed=_any_imbalance),
    Column("cause", "text", "ranks that cause most of the waiting, and their share of it",
        heading="cause", views=(GRID,), width=100),
    Column("latest_rank", "rank", "who arrives last most often; it may have waited for the cause",
        details="the rank that comes last most often; null if none is late by more than the clock "
        "error",
        heading="arrives last", views=EVERYWHERE, priority=1, width=100, legend=True,
        cell=_format_latest,
        recorded=latest_ranks, summary=latest_ranks),
    Column("latest_share", "share", "share of the complete instances in which that rank comes last",
        recorded=lambda sums: latest_shares(sums, sums.sums["complete"]),
        summary=lambda sums: latest_shares(sums, sums.total("observed"))),
    Column("balanced_share", "share", "share of instances with ω/T < 1",
        heading="bal.", views=(TERMINAL, GRID), priority=9, legend=True,
        recorded=lambda sums: sums.ratio("balanced", "judged"),
        summary=lambda sums: sums.balanced_share),
    Column("total_elapsed_ns", "duration", "time of all ranks in the calls",
        heading="time", views=SHARED, priority=10, legend=True,
        recorded=lambda sums: sums.total("elapsed"), summary=lambda sums: sums.elapsed_ns,
        messages=lambda sums: sums.elapsed_ns),
    Column("total_elapsed_low_ns", "duration",
        "lower limit of the time of all ranks in the calls, where it is an estimate",
        recorded=lambda sums: sums.limits["total_elapsed_low_ns"],
        summary=lambda sums: sums.elapsed_ns),
    Column("total_elapsed_high_ns", "duration", "upper limit of that time",
        recorded=lambda sums: sums.limits["total_elapsed_high_ns"],
        summary=lambda sums: sums.elapsed_ns),
)
# fmt: on


def find(name: str) -> Column:
    """Return a column by its name; raises KeyError if there is none."""
    return {column.name: column for column in COLUMNS}[name]


def recorded() -> list[Column]:
    """Return the columns that are computed from a trace, for `Trace.callsites` and JSON."""
    return [column for column in COLUMNS if column.recorded is not None]


def of_messages() -> list[Column]:
    """Return the columns of call sites of messages, as in `Trace.message_callsites` and JSON."""
    return [column for column in COLUMNS if column.messages is not None]


def numbers() -> tuple[str, ...]:
    """Return the names of the columns with numbers, for --sort and --fail-on."""
    return tuple(column.name for column in recorded() if not column.is_text)


def message_numbers() -> tuple[str, ...]:
    """Return the names of the columns with numbers of call sites of messages, for --fail-on."""
    return tuple(column.name for column in of_messages() if not column.is_text)


def texts() -> tuple[str, ...]:
    """Return the names of the columns with texts, for --sort and --fail-on."""
    return tuple(column.name for column in recorded() if column.quantity == "text")


def of_view(view: str) -> list[Column]:
    """Return the columns that a table for people shows, in the order of the table."""
    return [column for column in COLUMNS if view in column.views]


def of_instances(*, means: bool = False) -> dict[str, Callable[[Rows], Float]]:
    """Return the value of each instance by column; `means`: only where call sites have its mean."""
    return {
        column.name: column.instance
        for column in COLUMNS
        if column.instance is not None and (column.is_mean or not means)
    }


def shown(view: str, rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a view that have a value in some rows."""
    return [column for column in of_view(view) if column.informs(rows)]


def quantity_of(name: str) -> str:
    """Return the quantity of a column, or "number" if it has none.

    A column of another table has the quantity of its namesake in COLUMNS, after a prefix such as
    `run.` or `other_`, or the quantity that its suffix states.
    """
    base = name.rpartition(".")[2].removeprefix("other_")
    quantities = {column.name: column.quantity for column in COLUMNS}
    if base in quantities:
        return quantities[base]
    if f"_{base}".endswith(("_share", "_change", "_p")):
        return "share"
    return "duration" if base.endswith("_ns") else "number"
