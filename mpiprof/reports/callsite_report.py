"""One call site over its instances: when ranks were late, and which ranks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.arrival_statistics import ArrivalStatistics
from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.metrics.instance_series import find_worst_instance
from mpiprof.metrics.quantiles import LEVELS
from mpiprof.metrics.rank_totals import read_instance_at
from mpiprof.metrics.variance_components import Estimate
from mpiprof.reports.callsite_table import metric_columns
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.table import Column, render, render_bar
from mpiprof.trace import Trace

SUMS = ("instances", "calls", "elapsed_ns", "lateness_ns", "last")


def instance_table(series: pd.DataFrame, total: int, most: int, first: int = 0) -> str:
    """Return at most `most` rows, each the mean over consecutive instances.

    series: the instance series of the call site. total: its number of instances. first: the number
    of its first instance. If the series is thinned, rows average the available instances, and sums
    are scaled up.
    """
    edges = first + np.linspace(0, total, min(most, total) + 1).astype(int)
    at = np.searchsorted(series["number"].to_numpy(), edges)
    parts = [series.iloc[a:b] for a, b in itertools.pairwise(at.tolist())]
    metrics = ("average_imbalance_ns", "worst_imbalance_ns", "worst_factor")
    means = [{name: float(part[name].mean()) for name in metrics} for part in parts]
    spread = [row["worst_imbalance_ns"] for row in means]
    largest = float(np.nanmax([0.0, *spread])) or 1.0
    bounds = list(itertools.pairwise(edges.tolist()))
    names = [f"{a}" if b - a == 1 else f"{a}-{b - 1}" for a, b in bounds]
    waited = []
    for part, (a, b) in zip(parts, bounds, strict=True):
        waited.append(float(part["wait_ns"].sum()) * (b - a) / len(part) if len(part) else math.nan)
    ran = ["+".join(dict.fromkeys(part["algorithm"])) for part in parts]
    algorithm_columns = [Column("algorithm", ran, left=True)] if {*ran} - {"native", ""} else []
    return render(
        Column("instance", names),
        *algorithm_columns,
        *metric_columns(means, *metrics),
        *metric_columns([{"total_wait_ns": value} for value in waited], "total_wait_ns"),
        Column("arrives last", [most_frequent_last(p) for p in parts]),
        Column("ω", [render_bar(value / largest) for value in spread], left=True),
    )


def worst_instance_sentence(trace: Trace, series: pd.DataFrame) -> str:
    """Return which rank is last in the instance with most waiting, and when, or "" if unknown.

    series: the instance series of the call site.
    """
    if len(series) < 2 or not series["worst_imbalance_ns"].max() > 0:
        return ""
    row = series.iloc[find_worst_instance(series)]
    begin = int(row["first_arrival_ns"])
    instance = read_instance_at(trace, begin, int(row["worst_imbalance_ns"]))
    if instance is None or len(instance.ranks) < 2:
        return ""
    last = int(np.argmax(instance.arrival))
    late_ns = float(instance.arrival[last] - np.median(np.delete(instance.arrival, last)))
    fact = (
        f"number {row['number']}, {format_time(begin - trace.calls_start_ns)} after the begin: "
        f"rank {instance.ranks[last]} arrives last, {format_time(late_ns)} after the median of the "
        f"other ranks and {format_time(float(row['worst_imbalance_ns']))} after the first."
    )
    if not row["wait_ns"] > 0:
        return f"The instance of largest imbalance is {fact}"
    waiting = format_time(float(row["wait_ns"]))
    return f"The instance with most waiting ({waiting} of all ranks together) is {fact}"


def quantile_table(row: dict[str, Any]) -> str:
    """Return the 50 %, 90 % and 99 % quantiles over a call site's instances."""
    names = ["time in the call, mean over ranks", "waiting, all ranks together"]
    means = [format_time(float(row[mean])) for mean in ("mean_elapsed_ns", "wait_ns")]
    columns = [Column("of an instance", names, left=True), Column("mean", means)]
    for level, percent in LEVELS.items():
        values = [float(row[f"{of}_{level}_ns"]) for of in ("elapsed", "wait")]
        columns.append(Column(f"{percent} %", [format_time(value) for value in values]))
    return render(*columns)


def most_frequent_last(part: Any) -> str:
    """Return the rank that is most often last in some instances."""
    last_ranks = part["last_rank"].dropna()
    last_ranks = last_ranks[last_ranks >= 0]
    return f"{last_ranks.mode().iloc[0]:.0f}" if len(last_ranks) else "–"


def rank_table(totals: pd.DataFrame, most: int, scale: float = 1.0) -> str:
    """Return the lateness and the time in the call for each rank, the latest rank first.

    totals: the rows of `rank_totals` of one call site. scale: instances per recorded instance, a
    factor for the sums of times.
    """
    of = totals.groupby("rank").agg(dict.fromkeys(SUMS, "sum") | {"most_late_ns": "max"})
    of = of[of["instances"] > 0]
    if not len(of):
        return "  no instance has been reached by all its ranks"
    of["late_ns"] = of["lateness_ns"] / of["instances"] / scale
    of = of.sort_values("late_ns", ascending=False, kind="stable").head(most)
    inside = of["elapsed_ns"] / of["calls"] / scale
    return render(
        Column("rank", [str(rank) for rank in of.index]),
        Column("mean lateness", [format_time(float(ns)) for ns in of["late_ns"]]),
        Column("greatest", [format_time(float(ns)) for ns in of["most_late_ns"]]),
        Column("last in", [format_share(float(part)) for part in of["last"] / of["instances"]]),
        Column("mean time inside", [format_time(float(ns)) for ns in inside]),
    )


def imbalance_table(statistics: ArrivalStatistics) -> str:
    """Return the imbalances of exit, between and arrival (Faraj et al., Tables 6 and 7).

    Messages may differ more than the time between: ranks that wait longer work less.
    """
    rows = [
        ("exit from the collective before", statistics.exit_ns),
        ("time between", statistics.between_ns),
        ("messages in that time", statistics.point_to_point_ns),
        ("arrival", statistics.arrival_ns),
    ]
    return render(
        Column("last less first rank", [name for name, _ in rows], left=True),
        Column("mean", [format_time(value.value) for _, value in rows]),
        Column("95 %", [_format_interval(value) for _, value in rows]),
    )


def _format_interval(value: Estimate) -> str:
    half = (value.high - value.low) / 2
    return "" if np.isnan(half) else f"± {format_time(half)}"


def phase_table(phases: pd.DataFrame) -> str:
    """Return one row per phase of a call site."""
    rows = phases.to_dict("records")
    spans = [f"{row['first_instance']}-{row['last_instance']}" for row in rows]
    names = ("average_imbalance_ns", "worst_imbalance_ns", "worst_factor", "total_wait_ns")
    return render(Column("instances", spans), *metric_columns(rows, *names, "latest_rank"))


def callsite_title(row: dict[str, Any]) -> str:
    """Return one line that names a call site and its key figures."""
    total, recorded = row["total_instances"], row["instances"]
    text = f"{format_count(total)} instance{'s' * (total != 1)}"
    if recorded < total:
        text = f"about {format_count(total)} instances, of which {format_count(recorded)} recorded"
    return f"{routine_at(row)}: {text}"
