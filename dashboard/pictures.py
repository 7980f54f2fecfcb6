"""The figures of a trace, from what is derived from it: for the pages and for notebooks alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.analysis.ranks import Instance, lateness, one_instance
from mpiprof.errors import MpiprofError
from mpiprof.trace.types import Float, Int

from . import tables
from .data import Data
from .figures import axes, overview
from .figures import callsite as figures
from .state import State


def time(data: Data, state: State) -> go.Figure:
    """Return where the time of all ranks went."""
    return overview.time_bar(tables.time_parts(data, state))


def ranks(data: Data, state: State) -> go.Figure:
    """Return who waits, and who is waited for."""
    return overview.ranks(tables.by_rank(data, state))


def whom(data: Data, state: State, callsites: tuple[int, ...] = ()) -> go.Figure:
    """Return who waits for whom, at some call sites or at those of the chosen operations."""
    if not callsites:
        table = data.callsites
        callsites = tuple(table[table["operation"].isin(state.operations)]["callsite"].tolist())
    return overview.whom(data.derive("waiting_for", callsites))


def factors(data: Data, state: State, callsite: int) -> go.Figure:
    """Return the imbalance factors of a call site over its instances."""
    instances = tables.instances_of(data, callsite, state)
    try:
        phases = data.derive("phases", callsite)
    except MpiprofError:
        phases = pd.DataFrame()
    return figures.factors(instances, phases, tables.switches(instances))


def arrivals(data: Data, state: State, callsite: int) -> go.Figure:
    """Return how late each rank comes in each instance of a call site."""
    return figures.heat_map(*lateness_of(data, state, callsite), latest_first=by_lateness(state))


def by_lateness(state: State) -> bool:
    """Whether the address asks for the latest ranks first."""
    return state.get("order") == "late"


def lateness_of(data: Data, state: State, callsite: int) -> tuple[Float, Int, Int]:
    """Return lateness as the heat map shows it, its ranks, and the numbers of its instances."""
    instances = tables.instances_of(data, callsite, state)
    members = np.intersect1d(tables.members(data, callsite), data.ranks(state))

    def make() -> Any:
        most = axes.MOST_ROWS, axes.MOST_COLUMNS
        return lateness(data.trace, instances, {callsite: members}, *most)[callsite]

    late = data.once(("late", callsite, state.shared().query()), make)
    return late, members, instances["number"].to_numpy(np.int64)


def late_ranks(data: Data, state: State, callsite: int) -> go.Figure:
    """Return which rank is late at a call site, how often and by how much."""
    totals = tables.totals(data, state)
    here = totals[totals["callsite"] == callsite]
    table = here.groupby("rank")[["last", "lateness_ns"]].sum().reset_index()
    table["where"] = [data.where(rank) for rank in table["rank"].tolist()]
    complete = int(tables.instances_of(data, callsite, state)["complete"].sum())
    return figures.late_ranks(table, complete)


def distribution(data: Data, state: State, callsite: int) -> go.Figure:
    """Return how many instances of a call site are balanced (Faraj et al. 2008, Figure 2)."""
    instances = tables.instances_of(data, callsite, state)
    return figures.distribution(instances["worst_factor"].to_numpy(np.float64))


def instance(data: Data, state: State, callsite: int, row: dict[str, Any]) -> go.Figure:
    """Return one instance in full, a row of `tables.instances_of`."""

    def read() -> Instance:
        return one_instance(
            data.trace,
            str(row["communicator"]),
            int(row["sequence"]),
            int(row["start"]),
            int(row["first_arrival_ns"]),
        )

    found = data.once(("instance", callsite, int(row["number"])), read)
    chosen = np.isin(found.ranks, data.ranks(state))
    members = pd.DataFrame(
        {
            "rank": found.ranks[chosen],
            "where": [data.where(rank) for rank in found.ranks[chosen].tolist()],
            "arrival_ns": found.arrival[chosen],
            "exit_ns": found.finish[chosen],
            "wait_ns": found.wait[chosen],
        }
    )
    return figures.instance(members, message_ns=float(row["message_time_ns"]))


def worst(instances: pd.DataFrame) -> int:
    """Return the position of the instance whose ranks came furthest apart."""
    return int(instances["worst_imbalance_ns"].fillna(-1).to_numpy().argmax())
