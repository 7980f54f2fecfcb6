"""The costliest call sites as rows, with the spread of their arrivals over the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.arrival_pattern import read_arrival_pattern
from mpiprof.causes.arrival_statistics import find_late_rank
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_factor,
    format_share,
    format_size,
    format_time,
)
from mpiprof.reports.pictures import row_pictures
from mpiprof.reports.pictures.arrival_pattern import MAX_COLUMNS, MAX_ROWS, ArrivalCells
from mpiprof.reports.pictures.rank_rows import make_rank_rows
from mpiprof.reports.site_labels import format_callsite, make_callsite_key, places
from mpiprof.reports.words.ranks_and_steps import host_of
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

MAX_SITES = 12
MAX_PLACES = 400  # characters of the locations of a call site
SPARKLINE_PARTS = 40  # points of a sparkline
HEADS = (
    *("", "operation", "bytes", "instances", "waiting", "of the run"),
    *("spread ω over the run", "mean ω", "ω / T", "arrives last", "cause"),
)
Sparklines = Mapping[Any, Sequence[float | None]]  # by call site


@dataclass(frozen=True)
class CallsiteRow:
    """A row. callsite: key of the call site. picture: SVG, or "" without instances."""

    callsite: Any
    place: str
    function: str
    operation: str
    size: str
    instances: str
    waiting: str
    share: str
    picture: str
    spread: str
    factor: str
    latest: str
    latest_share: str
    cause: str


def list_callsites(trace: Trace) -> list[dict[str, Any]]:
    """Return all call sites of collectives and messages, costliest first, with `place`."""
    rows = []
    for table in (trace.callsites, trace.message_callsites):
        for values in table.to_numpy():
            row = dict(zip(map(str, table), values, strict=True))
            place = places(row["sites"])[:MAX_PLACES]
            rows.append({"callsite": None, **row, "place": place})
    return sort_callsites(rows)


def sort_callsites(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of call sites, costliest first."""
    order = ("total_wait_ns", "total_elapsed_ns")
    return sorted(rows, key=lambda row: [-np.nan_to_num(float(row[n]), nan=-1) for n in order])


def make_rows(
    rows: Sequence[dict[str, Any]],
    run_ns: float,
    ranks: int,
    lines: Sparklines,
    causes: Mapping[int | str, str],
) -> list[CallsiteRow]:
    """Return the rows; times are means of the ranks. causes: of `name_causes`, in accent."""
    run_ns = max(run_ns, 1.0)
    return [_make_row(row, run_ns, max(ranks, 1), lines, causes) for row in rows]


def _make_row(
    row: dict[str, Any],
    run_ns: float,
    ranks: int,
    lines: Sparklines,
    causes: Mapping[int | str, str],
) -> CallsiteRow:
    wait_ns = _number(row, "total_wait_ns")
    known = bool(row.get("complete_instances", not math.isnan(wait_ns)))
    waiting = wait_ns / ranks if known else math.nan
    share, latest = _number(row, "latest_share"), _number(row, "latest_rank")
    is_known = not math.isnan(share) and not math.isnan(latest)
    callsite, spread = row["callsite"], lines.get(row["callsite"], [])
    place, _, function = str(row["place"]).partition(" ")
    label = f"Spread ω over the run at {row['place']}"[:200]
    of_messages = "site_id" in row
    key = make_callsite_key((row["operation"], row["site_id"])) if of_messages else callsite
    cause = causes.get(key, "")
    return CallsiteRow(
        callsite,
        place,
        function,
        row["operation"],
        _known(row, "bytes", format_size),
        _known(row, "instances", format_count),
        format_time(waiting),
        UNKNOWN if math.isnan(waiting) else format_share(waiting / run_ns),
        row_pictures.draw_line(spread, label, late=bool(cause)) if spread else "",
        _known(row, "worst_imbalance_ns", format_time),
        _known(row, "worst_factor", format_factor),
        f"rank {latest:.0f}" if is_known else "",
        format_share(share) if is_known else "",
        cause,
    )


def _number(row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    return math.nan if value is None or pd.isna(value) else float(value)


def _known(row: dict[str, Any], name: str, form: Any) -> str:
    value = _number(row, name)
    return UNKNOWN if math.isnan(value) or value < 0 else str(form(value))


def make_sparklines(instances: pd.DataFrame) -> dict[int, list[float | None]]:
    """Return each call site's worst imbalance (ns) as means of SPARKLINE_PARTS parts of the run."""
    return {
        int(str(callsite)): bin_means(part["worst_imbalance_ns"].to_numpy(np.float64))
        for callsite, part in instances.groupby("callsite", sort=False)
    }


def bin_means(values: Float, max_parts: int = SPARKLINE_PARTS) -> list[float | None]:
    """Return the means of at most `max_parts` consecutive parts; None for a part without values."""
    if not len(values):
        return []
    edges = np.linspace(0, len(values), min(max_parts, len(values)) + 1).astype(int)[:-1]
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0.0), edges)
    count = np.add.reduceat(known.astype(np.int64), edges)
    return [float(t / c) if c else None for t, c in zip(total, count, strict=True)]


def read_pattern(trace: Trace, callsite: int, instances: pd.DataFrame) -> ArrivalCells | None:
    """Return the pattern of a call site, or None for a single instance. instances: of the trace."""
    rows = instances[(instances["callsite"] == callsite).to_numpy()]
    totals = trace.rank_totals
    members = np.unique(totals.loc[totals["callsite"] == callsite, "rank"].to_numpy(np.int64))
    if len(rows) < 2 or len(members) < 2:
        return None
    late = find_late_rank(trace, callsite)
    late_rank = None if late is None else late.rank
    layout = make_rank_rows(members, late_rank, MAX_ROWS)
    read = read_arrival_pattern(trace, rows, members, layout.starts, MAX_COLUMNS, late_rank)
    hosts = [host_of(trace, rank) for rank in members.tolist()]
    site = format_callsite(trace, callsite)
    return ArrivalCells(read.late_ns, layout, hosts, late_rank, len(rows), site)
