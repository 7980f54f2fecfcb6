"""Arrivals at a call site for the figures of its page, within the filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.arrival_pattern import read_arrival_pattern
from mpiprof.account.rank_totals import read_instance
from mpiprof.causes.arrival_statistics import LateRank, find_late_rank
from mpiprof.reports.pictures.rank_rows import MAX_ROWS, make_rank_rows, run_starts
from mpiprof.reports.words.ranks_and_steps import describe_location, host_of

from . import filtered_tables
from .figures import axes
from .figures.callsite import CallsiteArrivals
from .trace_data import TraceData
from .url_state import PageState


def get_late_rank(data: TraceData, callsite: int) -> LateRank | None:
    """Return the late rank of a call site, or None if no rank is late consistently."""
    return data.compute_once(("late rank", callsite), lambda: find_late_rank(data.trace, callsite))


def read_arrivals(data: TraceData, state: PageState, callsite: int) -> CallsiteArrivals:
    """Return the arrivals of the passing ranks in the passing instances of a call site."""
    chosen = state.without_page_keys().set_keys(band=state.get("band"))
    key = ("arrivals", callsite, chosen.format_query())
    return data.compute_once(key, lambda: _read_arrivals(data, state, callsite))


def _read_arrivals(data: TraceData, state: PageState, callsite: int) -> CallsiteArrivals:
    instances = filtered_tables.filtered_instances(data, callsite, state)
    every = filtered_tables.filtered_instances(data, callsite, state.set_keys(band=None))
    members = filtered_tables.callsite_members(data, callsite)
    members = np.intersect1d(members, data.filtered_ranks(state))
    late = get_late_rank(data, callsite)
    late_rank = None if late is None else late.rank
    rows = make_rank_rows(members, late_rank, MAX_ROWS)
    layout = members, rows.starts, axes.MAX_COLUMNS, late_rank
    arrivals = read_arrival_pattern(data.trace, instances, *layout)
    hosts = [host_of(data.trace, rank) for rank in members.tolist()]
    column = filtered_tables.imbalance_column(every)
    return CallsiteArrivals(instances, every, column, arrivals, rows, hosts, late)


def find_instance_at(arrivals: CallsiteArrivals, place: float) -> int:
    """Return the number of the instance at a place of the axis."""
    at = int(np.argmin(np.abs(arrivals.places - place)))
    return int(arrivals.numbers[at])


def find_latest_in_cell(
    data: TraceData, arrivals: CallsiteArrivals, place: float, y: float
) -> tuple[int, str]:
    """Return the instance that determines the colour of a cell, and its ranks as in "8-15".

    place, y: a point of the cell. The ranks are "" for a row of one rank.
    """
    starts = run_starts(len(arrivals.instances), axes.MAX_COLUMNS)
    first = int(np.searchsorted(arrivals.places[starts], place + 0.5, "right")) - 1
    first = max(first, 0)
    ends = [*starts.tolist(), len(arrivals.instances)]
    run = arrivals.instances.iloc[ends[first] : ends[first + 1]]
    ranks = arrivals.rows.ranks_of(arrivals.rows.find_row(y))
    label = f"{ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else ""
    if len(run) < 2:
        return int(run["number"].iloc[0]), label
    one_row = np.zeros(1, np.int64)
    late = read_arrival_pattern(data.trace, run, ranks, one_row, len(run)).late_ns[0]
    return int(run["number"].iloc[int(np.nan_to_num(late, nan=-np.inf).argmax())]), label


def read_instance_table(
    data: TraceData, state: PageState, callsite: int, row: dict[str, Any]
) -> pd.DataFrame:
    """Return one row per passing rank of an instance: rank, where, arrival_ns, exit_ns, wait_ns.

    row: of `filtered_tables.filtered_instances`. exit_ns is 0 for an open call.
    """
    communicator, first_arrival_ns = str(row["communicator"]), int(row["first_arrival_ns"])
    sequence, start = int(row["sequence"]), int(row["start"])
    instance = data.compute_once(
        ("instance", callsite, int(row["number"])),
        lambda: read_instance(data.trace, communicator, sequence, start, first_arrival_ns),
    )
    chosen = np.isin(instance.ranks, data.filtered_ranks(state))
    ranks = instance.ranks[chosen]
    return pd.DataFrame(
        {
            "rank": ranks,
            "where": [describe_location(data.trace, rank) for rank in ranks.tolist()],
            "arrival_ns": instance.arrival[chosen],
            "exit_ns": instance.finish[chosen],
            "wait_ns": instance.wait[chosen],
        }
    )
