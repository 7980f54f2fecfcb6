"""Tables behind the pages: the data that pass the filters, summed for each figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.reports import json
from mpiprof.reports.phrases import lacks_ranks
from mpiprof.reports.site_labels import places
from mpiprof.trace.types import Float, Int

from .trace_data import Data
from .url_state import State

SUMS = ["elapsed_ns", "total_wait_ns", "caused_ns", "lateness_ns", "last"]
PARTS = ("outside", "point to point", "work", "waiting", "other collectives")
SPARKS = 40  # points of a sparkline


def totals(data: Data, state: State) -> pd.DataFrame:
    """Return the rows of `rank_totals` that pass all filters; a summary has no wait time."""
    if data.trace.record == "summary":
        table = data.once("totals", lambda: _of_summary(data))
    else:
        table = data.derive("rank_totals")
    good = np.ones(len(table), np.bool_)
    if state.communicators and data.trace.record != "summary":
        good &= table["communicator"].isin(state.communicators).to_numpy()
    if state.operations:
        good &= table["operation"].isin(state.operations).to_numpy()
    if state.nodes or state.ranks:
        good &= table["rank"].isin(data.ranks(state)).to_numpy()
    return table[good]


def _of_summary(data: Data) -> pd.DataFrame:
    summary = data.trace.summary
    table = pd.DataFrame(
        {
            "callsite": summary["callsite"],
            "operation": summary["operation"],
            "communicator": "",
            "rank": summary["rank"],
            "instances": summary["calls"],
            "elapsed_ns": summary["total_ns"],
        }
    )
    for name in SUMS[1:]:
        table[name] = 0
    return table


def by_rank(data: Data, state: State) -> pd.DataFrame:
    """Return one row per passing rank: rank, where (host, processors), SUMS, point_to_point_ns."""
    ranks = data.ranks(state)
    sums = totals(data, state).groupby("rank")[SUMS].sum()
    table = sums.reindex(ranks, fill_value=0).reset_index(names="rank")
    between = data.derive("point_to_point")
    table["point_to_point_ns"] = between[ranks]
    table["where"] = [data.where(rank) for rank in ranks.tolist()]
    return table


def time_parts(data: Data, state: State) -> pd.DataFrame:
    """Return the composition of the passing ranks' time: part (of PARTS), ns; sums to their time.

    Collectives that the filters by operation or communicator exclude are a part of their own.
    Point-to-point time is limited to the time outside collectives.
    """
    ranks = by_rank(data, state)
    everything = by_rank(data, State(ranks=state.ranks, nodes=state.nodes))
    whole = float(data.trace.process_time_ns) * len(ranks) / max(data.trace.ranks, 1)
    elapsed, wait = float(ranks["elapsed_ns"].sum()), float(ranks["total_wait_ns"].sum())
    if data.trace.record == "summary":
        wait = min(float(by_callsite(data, state)["total_wait_ns"].sum()), elapsed)
    collective = float(everything["elapsed_ns"].sum())
    outside = max(whole - collective, 0.0)
    between = min(float(ranks["point_to_point_ns"].sum()), outside)
    values = [outside - between, between, elapsed - wait, wait, collective - elapsed]
    names = ["unknown" if p == "work" and lacks_ranks(data.trace) else p for p in PARTS]
    return pd.DataFrame({"part": names, "ns": values})


def by_callsite(data: Data, state: State) -> pd.DataFrame:
    """Return the `callsites` that pass the filters, costliest first, with `place` and `wait_share`.

    total_wait_ns and total_elapsed_ns cover the data that pass the filters. wait_share is the wait
    time over the time of the passing ranks. Means over instances are of the whole call site. A
    summary has no wait time per rank.
    """
    sums = (
        totals(data, state).groupby("callsite")[["elapsed_ns", "total_wait_ns", "caused_ns"]].sum()
    )
    table = data.callsites[data.callsites["callsite"].isin(sums.index)].copy()
    at = sums.reindex(table["callsite"])
    table["total_elapsed_ns"] = at["elapsed_ns"].to_numpy()
    if data.trace.record != "summary":
        table["total_wait_ns"] = at["total_wait_ns"].to_numpy()
    elif state.nodes or state.ranks:
        table["total_wait_ns"] = np.nan
    if state.nodes or state.ranks or state.communicators:  # the interval covers all ranks
        table["total_wait_low_ns"] = table["total_wait_high_ns"] = table["total_wait_ns"]
    table["place"] = [places(sites)[:400] for sites in table["sites"]]
    every = data.trace.process_time_ns / max(data.trace.ranks, 1)
    whole = max(every * len(data.ranks(state)), 1.0)
    table["wait_share"] = table["total_wait_ns"] / whole
    order = ["total_wait_ns", "total_elapsed_ns"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def band_of(state: State) -> tuple[int, int] | None:
    """Return the band LOW-HIGH of ω in the URL, in ns, upper end excluded, or None."""
    low, _, high = state.get("band").partition("-")
    good = low.isdecimal() and high.isdecimal() and len(low + high) < 36 and low.isascii()
    return (int(low), int(high)) if good and high.isascii() and int(low) < int(high) else None


def instances_of(data: Data, callsite: int, state: State) -> pd.DataFrame:
    """Return the passing instances of a call site; `number` counts all its instances from 0.

    A band in the URL passes only instances with ω within the band.
    """

    def make() -> pd.DataFrame:
        table = data.instances
        found = table[table["callsite"] == callsite].reset_index(drop=True)
        found["number"] = np.arange(len(found))
        return found

    found = data.once(("instances", callsite), make)
    passing = data.passing(found, state)
    if (band := band_of(state)) is not None:
        spread = found["worst_imbalance_ns"].to_numpy(np.float64)
        passing = passing & (spread >= band[0]) & (spread < band[1])
    return found[passing]


def sparklines(data: Data) -> dict[int, list[float | None]]:
    """Return each call site's worst imbalance (ns) over the run, as means of SPARKS equal parts."""

    def make() -> dict[int, list[float | None]]:
        table = data.instances
        return {
            int(str(callsite)): binned(part["worst_imbalance_ns"].to_numpy(np.float64))
            for callsite, part in table.groupby("callsite", sort=False)
        }

    return data.once("sparklines", make)


def binned(values: Float, most: int = SPARKS) -> list[float | None]:
    """Return the means of at most `most` consecutive parts; None for a part without values."""
    if not len(values):
        return []
    edges = np.linspace(0, len(values), min(most, len(values)) + 1).astype(int)[:-1]
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0.0), edges)
    count = np.add.reduceat(known.astype(np.int64), edges)
    return [float(t / c) if c else None for t, c in zip(total, count, strict=True)]


def text_of(value: Any) -> str:
    """Return text from a trace, cut to a length suitable for a page."""
    text = str(value)
    return text if len(text) <= 300 else text[:299] + "…"


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts."""
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def plain(value: Any) -> Any:
    """Return a value for JSON: None for NaN, text at a bounded length."""
    if isinstance(value, str):
        return text_of(value)
    return json.plain(value)


def members(data: Data, callsite: int) -> Int:
    """Return the world ranks of the members of a call site's instances, ascending."""
    table = totals(data, State())
    return np.unique(table.loc[table["callsite"] == callsite, "rank"].to_numpy(np.int64))


def switches(instances: pd.DataFrame) -> pd.DataFrame:
    """Return the changes of algorithm, without probes: number and new algorithm."""
    held = instances
    if "choice" in instances:
        held = instances[(instances["choice"] != "probe").to_numpy()]
    names = held["algorithm"].astype(str).to_numpy()
    changed = np.flatnonzero(names[1:] != names[:-1]) + 1
    found: pd.DataFrame = held.iloc[changed][["number", "algorithm"]]
    return found
