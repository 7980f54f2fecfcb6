"""The report on one call site for a terminal: its sentences, its instances and its ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.coverage import first_recorded
from mpiprof.account.quantiles import LEVELS
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.variance_components import Estimate
from mpiprof.causes.arrival_statistics import ArrivalStatistics
from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.terminal_colour import paint, paint_culprit
from mpiprof.reports import callsite_table
from mpiprof.reports.callsite_table import metric_columns
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.table import (
    Section,
    TableColumn,
    join_sections,
    render,
    render_bar,
    wrap_paragraph,
)
from mpiprof.reports.words import callsite_sentences, conclusion
from mpiprof.reports.words.callsite_sentences import worst_instance_sentence
from mpiprof.trace import Trace

SUMS = ("instances", "calls", "elapsed_ns", "lateness_ns", "last")
SHORT_ROWS = 6
ONE_RANK_ONLY = (
    "All its calls are on communicators of one rank, so no rank waits and there are no instances."
)
MESSAGES_DIFFER_MORE = (
    "Ranks with longer messages work less, so messages differ more than the whole time between."
)


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
    algorithm_columns = (
        [TableColumn("algorithm", ran, left=True)] if {*ran} - {"native", ""} else []
    )
    return render(
        TableColumn("instance", names),
        *algorithm_columns,
        *metric_columns(means, *metrics),
        *metric_columns([{"total_wait_ns": value} for value in waited], "total_wait_ns"),
        TableColumn("arrives last", [most_frequent_last(p) for p in parts]),
        TableColumn("ω", [render_bar(value / largest) for value in spread], left=True),
    )


def quantile_table(row: dict[str, Any]) -> str:
    """Return the 50 %, 90 % and 99 % quantiles over a call site's instances."""
    names = ["time in the call, mean over ranks", "waiting, all ranks together"]
    means = [format_time(float(row[mean])) for mean in ("mean_elapsed_ns", "wait_ns")]
    columns = [TableColumn("of an instance", names, left=True), TableColumn("mean", means)]
    for level, percent in LEVELS.items():
        values = [float(row[f"{of}_{level}_ns"]) for of in ("elapsed", "wait")]
        columns.append(TableColumn(f"{percent} %", [format_time(value) for value in values]))
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
        TableColumn("rank", [str(rank) for rank in of.index]),
        TableColumn("mean lateness", [format_time(float(ns)) for ns in of["late_ns"]]),
        TableColumn("greatest", [format_time(float(ns)) for ns in of["most_late_ns"]]),
        TableColumn(
            "last in", [format_share(float(part)) for part in of["last"] / of["instances"]]
        ),
        TableColumn("mean time inside", [format_time(float(ns)) for ns in inside]),
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
        TableColumn("last less first rank", [name for name, _ in rows], left=True),
        TableColumn("mean", [format_time(value.value) for _, value in rows]),
        TableColumn("95 %", [_format_interval(value) for _, value in rows]),
    )


def _format_interval(value: Estimate) -> str:
    half = (value.high - value.low) / 2
    return "" if np.isnan(half) else f"± {format_time(half)}"


def phase_table(phases: pd.DataFrame) -> str:
    """Return one row per phase of a call site."""
    rows = phases.to_dict("records")
    spans = [f"{row['first_instance']}-{row['last_instance']}" for row in rows]
    names = ("average_imbalance_ns", "worst_imbalance_ns", "worst_factor", "total_wait_ns")
    return render(TableColumn("instances", spans), *metric_columns(rows, *names, "latest_rank"))


def callsite_title(row: dict[str, Any]) -> str:
    """Return one line that names a call site and its key figures."""
    total, recorded = row["total_instances"], row["instances"]
    text = f"{format_count(total)} instance{'s' * (total != 1)}"
    if recorded < total:
        text = f"about {format_count(total)} instances, of which {format_count(recorded)} recorded"
    return f"{routine_at(row)}: {text}"


def report_callsite(
    trace: Trace,
    row: dict[Any, Any],
    note: str,
    top: int | None,
    named: Sequence[Path],
    above: Sequence[str] = (),
) -> str:
    """Return a call site of collectives over its instances.

    row: of trace.callsites. note: on further call sites that match, or "". top: maximum number of
    rows of each table in a report of all sections, or None for a report that fits on a screen.
    named: the trace as the user named it. above: paragraphs before the report.
    """
    title = paint(callsite_title(row), "strong")
    lines = [title, *([wrap_paragraph(note)] if note else [])]
    if row["total_wait_ns"] > 0:
        lines.append(
            wrap_paragraph(callsite_sentences.cost_sentence(row, trace.process_time_ns), 0)
        )
    problems = [wrap_paragraph(line, 0) for line in conclusion.callsite_problems(trace, row)]
    lines += [paint_culprit(problem) for problem in problems]
    sections = [Section("", line, essential=True) for line in [*above, *lines]]
    if trace.record == "summary":
        table = callsite_table.text(trace.callsites.loc[[row["callsite"]]])
        sections.append(Section("", f"{table}\n  recorded as summary: no instances"))
    else:
        sections += instance_sections(trace, row, SHORT_ROWS if top is None else top)
    last = f"next: {format_command('report', *named)}   (all call sites)"
    return join_sections(sections, last, whole=top is not None)


def instance_sections(trace: Trace, row: dict[Any, Any], top: int) -> Iterator[Section]:
    """Yield the causes of a call site's imbalance, its instances and its ranks."""
    if not row["instances"]:
        yield Section("", wrap_paragraph(ONE_RANK_ONLY, 0), essential=True)
        return
    callsite = int(row["callsite"])
    series = trace.series(callsite)[callsite]
    totals = trace.rank_totals[trace.rank_totals["callsite"] == callsite]
    worst = worst_instance_sentence(trace, series)
    yield Section("", wrap_paragraph(worst, 0) if worst else "", essential=True)
    yield from cause_sections(trace, callsite)
    yield Section("How long its instances take", quantile_table(row))
    first = first_recorded(trace, callsite)
    over = instance_table(series, int(row["instances"]), top, first)
    yield Section("Over its instances", over)
    ranks = rank_table(totals, top, float(callsite_scales(trace)[callsite]))
    yield Section("Its ranks", ranks)


def cause_sections(trace: Trace, callsite: int) -> Iterator[Section]:
    """Yield why the ranks arrive at a call site at different times, and its phases."""
    statistics, phases = trace.arrival_statistics(callsite), trace.phases(callsite)
    lines = [
        *callsite_sentences.arrival_sentences(statistics),
        callsite_sentences.period_sentence(phases),
    ]
    yield Section("Why", "\n".join(wrap_paragraph(line) for line in lines if line))
    if statistics.instances:
        table = imbalance_table(statistics)
        if statistics.point_to_point_ns.value > statistics.between_ns.value:
            table += f"\n{wrap_paragraph(MESSAGES_DIFFER_MORE)}"
        yield Section("Imbalance before and at it", table)
    if len(phases) > 1:
        yield Section("Phases", phase_table(phases))
