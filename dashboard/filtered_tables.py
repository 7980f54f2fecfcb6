"""Tables behind the pages: the data that pass the filters, summed for each figure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.division import Division, divide_time
from mpiprof.reports.overview import callsite_rows
from mpiprof.reports.site_labels import places
from mpiprof.trace.sites import label_site
from mpiprof.trace.types import Int

from . import message_tables
from .trace_data import TraceData
from .url_state import PageState

SUM_COLUMNS = ["elapsed_ns", "total_wait_ns", "caused_ns", "lateness_ns", "last"]


def filtered_totals(data: TraceData, state: PageState) -> pd.DataFrame:
    """Return the rows of `rank_totals` that pass all filters; a summary has no wait time."""
    if data.trace.record == "summary":
        table = data.compute_once("totals", lambda: _summary_totals(data))
        good = data.filter_rows(table, PageState(operations=state.operations))
    else:
        table = data.derive("rank_totals")
        good = data.filter_rows(table, state)
    if state.nodes or state.ranks:
        good &= table["rank"].isin(data.filtered_ranks(state)).to_numpy()
    return table[good]


def _summary_totals(data: TraceData) -> pd.DataFrame:
    table = data.trace.summary.rename(columns={"calls": "instances", "total_ns": "elapsed_ns"})
    table = table[["callsite", "operation", "rank", "instances", "elapsed_ns"]]
    return table.assign(**dict.fromkeys(SUM_COLUMNS[1:], 0))


def divide_filtered_time(data: TraceData, state: PageState) -> Division:
    """Return the division of the passing ranks' time.

    Collectives that the filters by operation or communicator exclude are a part of their own.
    """
    ranks = data.filtered_ranks(state).tolist()
    division = divide_time(data.trace, ranks)
    every = filtered_totals(data, PageState(ranks=state.ranks, nodes=state.nodes))
    passing = filtered_totals(data, state)
    passing_ns, every_ns = (float(table["elapsed_ns"].sum()) for table in (passing, every))
    if passing_ns == every_ns:
        return division
    remaining_ns = division.collective_ns * passing_ns / every_ns
    waits = filtered_callsites(data, state) if data.trace.record == "summary" else passing
    wait_ns = min(float(waits["total_wait_ns"].sum()), remaining_ns)
    filtered_ns = division.collective_ns - remaining_ns
    unexplained_ns = min(division.collective_unexplained_ns, remaining_ns - wait_ns)
    return replace(
        division,
        collective_wait_ns=wait_ns,
        collective_unexplained_ns=unexplained_ns,
        filtered_ns=filtered_ns,
    )


def filtered_callsites(data: TraceData, state: PageState) -> pd.DataFrame:
    """Return the `callsites` that pass the filters, costliest first, with `place` and `wait_share`.

    total_wait_ns and total_elapsed_ns cover the data that pass the filters. wait_share is the wait
    time over the time of the passing ranks. Means over instances are of the whole call site. A
    summary has no wait time per rank.
    """
    sums = filtered_totals(data, state).groupby("callsite")[["elapsed_ns", "total_wait_ns"]].sum()
    table = data.callsites[data.callsites["callsite"].isin(sums.index)].copy()
    at = sums.reindex(table["callsite"])
    table["total_elapsed_ns"] = at["elapsed_ns"].to_numpy()
    if data.trace.record != "summary":
        table["total_wait_ns"] = at["total_wait_ns"].to_numpy()
    elif state.nodes or state.ranks:
        table["total_wait_ns"] = np.nan
    if state.nodes or state.ranks or state.communicators:  # the interval covers all ranks
        table["total_wait_low_ns"] = table["total_wait_high_ns"] = table["total_wait_ns"]
    table["place"] = [places(sites)[: callsite_rows.MAX_PLACES] for sites in table["sites"]]
    every = data.trace.process_time_ns / max(data.trace.ranks, 1)
    total = max(every * len(data.filtered_ranks(state)), 1.0)
    table["wait_share"] = table["total_wait_ns"] / total
    order = ["total_wait_ns", "total_elapsed_ns"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def all_callsites(data: TraceData, state: PageState) -> list[dict[str, Any]]:
    """Return the passing call sites of collectives and of messages, costliest first."""
    tables = filtered_callsites(data, state), message_tables.filtered_message_callsites(data, state)
    rows = (row for table in tables for row in table_records(table))
    return callsite_rows.sort_callsites(rows)


def parse_band(state: PageState) -> tuple[float, float] | None:
    """Return the band LOW-HIGH of imbalances in the URL, upper end excluded, or None."""
    match = re.fullmatch(
        r"(\d{1,18}(?:\.\d{1,9})?)-(\d{1,18}(?:\.\d{1,9})?)", state.get("band"), re.A
    )
    if match is None or not float(match[1]) < float(match[2]):
        return None
    return float(match[1]), float(match[2])


def imbalance_column(instances: pd.DataFrame) -> str:
    """Return the column of the imbalance: ω in message times T, or in ns if T is unknown."""
    has_factors = bool(instances["worst_factor"].notna().any())
    return "worst_factor" if has_factors else "worst_imbalance_ns"


def filtered_instances(data: TraceData, callsite: int, state: PageState) -> pd.DataFrame:
    """Return the passing instances of a call site; `number` counts all its instances from 0.

    A band in the URL passes only instances with an imbalance (`imbalance_column`) within the band.
    """

    def make() -> pd.DataFrame:
        table = data.instances
        instances = table[table["callsite"] == callsite].reset_index(drop=True)
        instances["number"] = np.arange(len(instances))
        return instances

    instances = data.compute_once(("instances", callsite), make)
    passing = data.filter_rows(instances, state)
    if (band := parse_band(state)) is not None:
        imbalance = instances[imbalance_column(instances)].to_numpy(np.float64)
        passing = passing & (imbalance >= band[0]) & (imbalance < band[1])
    return instances[passing]


def get_sparklines(data: TraceData) -> dict[int, list[float | None]]:
    """Return each call site's worst imbalance (ns) over the run."""
    return data.compute_once("sparklines", lambda: callsite_rows.make_sparklines(data.instances))


def table_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts."""
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def callsite_members(data: TraceData, callsite: int) -> Int:
    """Return the world ranks of the members of a call site's instances, ascending."""
    table = filtered_totals(data, PageState())
    return np.unique(table.loc[table["callsite"] == callsite, "rank"].to_numpy(np.int64))


def algorithm_changes(instances: pd.DataFrame) -> pd.DataFrame:
    """Return the changes of algorithm, without probes: number and new algorithm."""
    without_probes = instances
    if "choice" in instances:
        without_probes = instances[(instances["choice"] != "probe").to_numpy()]
    names = without_probes["algorithm"].astype(str).to_numpy()
    changed = np.flatnonzero(names[1:] != names[:-1]) + 1
    changes: pd.DataFrame = without_probes.iloc[changed][["number", "algorithm"]]
    return changes


def callsite_keys(data: TraceData, callsite: int) -> list[str]:
    """Return the selector's keys of a call site, matched by operation and source location."""
    rows = data.callsites[data.callsites["callsite"] == callsite]
    keys = data.trace.selection["key"]
    if not len(rows) or not len(keys):
        return []
    row = rows.iloc[0]
    labels = {label_site(site) for site in row["sites"]}
    labels |= {label.partition(" ")[0] for label in labels}
    chosen = [
        key
        for key, operation, sites in zip(keys["key"], keys["operation"], keys["sites"], strict=True)
        if operation == row["operation"]
        and any(s in labels or s.partition(" ")[0] in labels for s in sites)
    ]
    return list(dict.fromkeys(chosen))


def callsite_trials(data: TraceData, callsite: int) -> pd.DataFrame:
    """Return the selector's trials at a call site by phase and score: columns of "trial"."""
    trials = data.trace.selection["trial"]
    selected = trials[trials["key"].isin(callsite_keys(data, callsite))]
    return selected.sort_values(["phase", "score_ns"], kind="stable", ignore_index=True)


def list_operations(data: TraceData) -> list[str]:
    """Return the operations that occur, in alphabetical order."""
    return sorted({shape.operation for shape in data.trace.tables.shapes})
