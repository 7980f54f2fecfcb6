"""One call site over its instances: when it was late, and which ranks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mpiprof.analysis.quantiles import LEVELS
from mpiprof.reports.places import places
from mpiprof.reports.table import Column, bar, render
from mpiprof.units import count, duration, factor, share

if TYPE_CHECKING:
    from mpiprof.analysis.causes import Causes
    from mpiprof.analysis.variance import Estimate


def instance_table(instances: Any, most: int, first: int = 0) -> str:
    """Return at most `most` rows, each the mean over a run of consecutive instances.

    `instances` are those of one call site in order of their first arrival, numbered from `first`.
    """
    total = len(instances)
    edges = np.linspace(0, total, min(most, total) + 1).astype(int)
    parts = [instances.iloc[a:b] for a, b in itertools.pairwise(edges)]
    spread = [float(part["worst_imbalance_ns"].mean()) for part in parts]
    largest = float(np.nanmax([0.0, *spread])) or 1.0
    bounds = list(itertools.pairwise((edges + first).tolist()))
    names = [f"{a}" if b - a == 1 else f"{a}-{b - 1}" for a, b in bounds]
    ran = ["+".join(dict.fromkeys(part["algorithm"])) for part in parts]
    shown = [Column("algorithm", ran, left=True)] if set(ran) != {"native"} else []
    return render(
        [
            Column("instance", names),
            *shown,
            Column("δ", [duration(float(p["average_imbalance_ns"].mean())) for p in parts]),
            Column("ω", [duration(value) for value in spread]),
            Column("ω/T", [factor(float(p["worst_factor"].mean())) for p in parts]),
            Column("Σ wait", [duration(float(p["wait_ns"].sum())) for p in parts]),
            Column("latest", [most_frequent(p) for p in parts]),
            Column("ω", [bar(value / largest) for value in spread], left=True),
        ]
    )


def quantile_table(row: dict[str, Any]) -> str:
    """Return what half, 90 % and 99 % of a call site's instances do not exceed."""
    rows = [
        ("time in the call, mean over ranks", row["mean_elapsed_ns"], "elapsed"),
        ("waiting, all ranks together", row["wait_ns"], "wait"),
    ]
    levels = [
        Column(f"{percent} %", [duration(float(row[f"{of}_{level}_ns"])) for _, _, of in rows])
        for level, percent in LEVELS.items()
    ]
    return render(
        [
            Column("of an instance", [name for name, _, _ in rows], left=True),
            Column("mean", [duration(float(mean)) for _, mean, _ in rows]),
            *levels,
        ]
    )


def most_frequent(part: Any) -> str:
    """Return the rank that is last most often in some instances."""
    known = part["last_rank"].dropna()
    known = known[known >= 0]
    return f"{known.mode().iloc[0]:.0f}" if len(known) else "–"


def rank_table(arrivals: Any, exits: Any, ranks: list[int], most: int) -> str:
    """Return how late each rank comes and how long it stays, the latest first.

    `arrivals` and `exits` are (instances x ranks) in ns; -1 and 0 where there is none.
    """
    here = arrivals >= 0
    complete = here.all(axis=1)
    arrivals, exits = arrivals[complete].astype(float), exits[complete].astype(float)
    if not len(arrivals):
        return "  no instance has been reached by all its ranks"
    late = arrivals - arrivals.min(axis=1, keepdims=True)
    last = late.argmax(axis=1)
    inside = np.where(exits > 0, exits - arrivals, np.nan)
    order = np.argsort(-late.mean(axis=0), kind="stable")[:most]
    return render(
        [
            Column("rank", [str(ranks[i]) for i in order]),
            Column("mean lateness", [duration(float(late[:, i].mean())) for i in order]),
            Column("greatest", [duration(float(late[:, i].max())) for i in order]),
            Column("last in", [share(float((last == i).mean())) for i in order]),
            Column("mean time inside", [duration(_mean(inside[:, i])) for i in order]),
        ]
    )


def cause_table(found: Causes) -> str:
    """Return imbalances of exit, between and arrival (the paper's Tables 6 and 7)."""
    rows = [
        ("exit from the collective before", found.exit_ns),
        ("time between", found.between_ns),
        ("of it point-to-point", found.point_to_point_ns),
        ("arrival", found.arrival_ns),
    ]
    return render(
        [
            Column("last less first rank", [name for name, _ in rows], left=True),
            Column("mean", [duration(value.value) for _, value in rows]),
            Column("95 %", [_interval(value) for _, value in rows]),
        ]
    )


def _interval(value: Estimate) -> str:
    half = (value.high - value.low) / 2
    return "" if np.isnan(half) else f"± {duration(half)}"


def chain_table(chain: pd.DataFrame, most: int) -> str:
    """Return where the lateness of whoever came last began, the most frequent origin first."""
    rows = chain.head(most).to_dict("records")
    how = {"point_to_point": "messages", "outside": "between", "inside": "inside"}
    return render(
        [
            Column("rank", [str(row["rank"]) for row in rows]),
            Column("how", [how.get(row["how"], "unknown") for row in rows], left=True),
            Column("after", [row["after_site"] for row in rows], left=True, shrink=True),
            Column("at", [row["site"] for row in rows], left=True, shrink=True),
            Column("instances", [share(row["share"]) for row in rows]),
            Column("late by", [duration(row["late_ns"]) for row in rows]),
            Column("through", [f"{row['hops']:.1f}" for row in rows]),
        ]
    )


def phase_table(phases: pd.DataFrame) -> str:
    """Return the phases of a call site, a row each."""
    rows = phases.to_dict("records")
    spans = [f"{row['first_instance']}-{row['last_instance']}" for row in rows]
    late = [f"{r['latest_rank']} in {share(r['latest_share'])}" for r in rows]
    unknown = [bool(pd.isna(row["latest_rank"])) for row in rows]
    return render(
        [
            Column("instances", spans),
            Column("δ", [duration(row["average_imbalance_ns"]) for row in rows]),
            Column("ω", [duration(row["worst_imbalance_ns"]) for row in rows]),
            Column("ω/T", [factor(row["worst_factor"]) for row in rows]),
            Column("Σ wait", [duration(row["total_wait_ns"]) for row in rows]),
            Column("latest", ["–" if n else t for n, t in zip(unknown, late, strict=True)]),
        ]
    )


def _mean(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def title(row: dict[str, Any]) -> str:
    """Return a line that names a call site and its figures."""
    total, recorded = row["total_instances"], row["instances"]
    where = f"{row['operation']} at {places(row['sites'])}"
    if recorded < total:
        return f"{where}: about {count(total)} instances, of which {count(recorded)} recorded"
    return f"{where}: {count(total)} instance{'s' * (total != 1)}"
