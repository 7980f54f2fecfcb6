"""History of a program: its runs in order of time, and the changes between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.causes.cause_changes import NO_CHANGES, LedgerChanges
from mpiprof.causes.change_points import ALPHA, MIN_RUNS, ChangePoint, find_change_points
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import UNKNOWN, format_count, format_share, format_time
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.reports.run_summary import RunSummary
from mpiprof.reports.table import TableColumn, escape_markdown, render_markdown
from mpiprof.reports.words.change_sentences import (
    cause_sentences,
    causes_as_data,
    place_sentences,
    places_as_data,
)

COMMIT_LENGTH = 8
LEGEND = (
    "lost: waiting as a share of all ranks' time. parallel = load balance × serialisation × "
    "transfer. slowest call site: where ranks wait most, as a share of all ranks' time."
)
METHOD = (
    f"Changes: rank-sum scan with random permutations; {format_share(ALPHA)} of unchanged "
    "histories show one by chance."
)


@dataclass(frozen=True)
class Metric:
    """A value of runs in which changes are searched."""

    name: str
    title: str
    unit: str = "share"

    def read(self, run: RunSummary) -> float:
        """Return the value of a run."""
        return float(getattr(run, self.name))

    def format(self, value: float) -> str:
        """Return a value with its unit."""
        return format_time(value * 1e9) if self.unit == "s" else format_share(value)


METRICS = (Metric("lost", "lost time"), Metric("run_s", "run time", "s"))


@dataclass(frozen=True)
class MetricChange:
    """A change of a metric before a run."""

    metric: Metric
    point: ChangePoint
    before: int  # number of runs up to the change before, or the first run
    after: int


@dataclass(frozen=True)
class History:
    """Comparable runs in order of time; `others`: (program, ranks) of the runs left out.

    ledgers: changes of work, of time in calls, and of causes with the newest change.
    """

    runs: list[RunSummary]
    changes: list[MetricChange]
    others: dict[tuple[str, int], int]
    ledgers: LedgerChanges = NO_CHANGES

    @property
    def title(self) -> str:
        """The program, its number of ranks, and the dates."""
        last = self.runs[-1]
        dates = list(dict.fromkeys(run.started[:10] for run in (self.runs[0], last)))
        count = f"{format_count(len(self.runs))} run{'s' * (len(self.runs) != 1)}"
        parts = [last.program, f"{format_count(last.ranks)} ranks", count, " to ".join(dates)]
        return " · ".join(part for part in parts if part)


def group_runs(
    runs: Sequence[RunSummary], program: str = "", ranks: int = 0
) -> tuple[list[RunSummary], dict[tuple[str, int], int]]:
    """Return the runs of a program and a number of ranks, and the counts of all other groups.

    Without a program or ranks, those of most runs are chosen. Raises UsageError if no run matches.
    """
    matching = [run for run in runs if program in ("", run.program)]
    if not matching:
        suggestion = suggest_names(program, dict.fromkeys(run.program for run in runs))
        raise UsageError(f"--program {program}: no such program; {suggestion}")
    matching = [run for run in matching if ranks in (0, run.ranks)]
    if not matching:
        raise UsageError(f"--ranks {ranks}: no such run; leave out --ranks")
    chosen = Counter((run.program, run.ranks) for run in reversed(matching)).most_common(1)[0][0]
    others = Counter((run.program, run.ranks) for run in runs)
    del others[chosen]
    return [run for run in matching if (run.program, run.ranks) == chosen], dict(others)


def make_history(
    runs: Sequence[RunSummary], others: dict[tuple[str, int], int] | None = None
) -> History:
    """Return the history of comparable runs, with the changes of all metrics in order."""
    changes = []
    for metric in METRICS:
        values = [metric.read(run) for run in runs]
        # All metrics together have the error rate ALPHA.
        points = find_change_points(values, ALPHA / len(METRICS))
        bounds = [0, *(point.index for point in points), len(runs)]
        changes += [
            MetricChange(metric, point, point.index - bounds[i], bounds[i + 2] - point.index)
            for i, point in enumerate(points)
        ]
    changes.sort(key=lambda change: (change.point.index, METRICS.index(change.metric)))
    return History(list(runs), changes, others or {})


def describe_run(history: History, index: int) -> str:
    """Return the date and the commit of a run."""
    run = history.runs[index]
    commit = f", commit {run.commit[:COMMIT_LENGTH]}" if run.commit else ""
    return f"{run.date}{commit}"


def describe_change(history: History, change: MetricChange) -> str:
    """Return a change as a sentence."""
    point, text = change.point, change.metric.format
    verb = "rose" if point.after > point.before else "fell"
    medians = f"from {text(point.before)} to {text(point.after)}"
    if text(point.before) == text(point.after):
        medians = f"slightly, at {text(point.after)}"
    basis = f"medians of {change.before} and {change.after} runs, p = {point.p:.2g}"
    when = describe_run(history, point.index)
    return f"The {change.metric.title} {verb} {medians} with the run of {when} ({basis})."


def verdict_lines(history: History) -> list[str]:
    """Return the verdict: the changes, the newest first, or the usual values."""
    if history.changes:
        newest, *earlier = [describe_change(history, of) for of in reversed(history.changes)]
        places = place_sentences(history.ledgers.places, "Each run since")
        causes = cause_sentences(history.ledgers.causes, "the runs since")
        return [newest, *places, *causes, *earlier]
    usual = []
    for metric in METRICS:
        known = [v for v in map(metric.read, history.runs) if not math.isnan(v)]
        if known:
            usual.append(f"{metric.title} {metric.format(float(np.median(known)))}")
    medians = f" Medians: {', '.join(usual)}." if usual else ""
    count = len(history.runs)
    if count < MIN_RUNS:
        fact = f"{count} run{'s are' if count != 1 else ' is'} too few to detect a change"
        return [f"{fact}: record at least {MIN_RUNS}.{medians}"]
    return [f"No change is visible in {format_count(count)} runs.{medians}"]


def note_others(history: History) -> str:
    """Return which runs are left out, or "" if none are."""
    if not history.others:
        return ""
    groups = [f"{program} on {ranks} ranks" for program, ranks in history.others]
    more = f" and {len(groups) - 3} more" if len(groups) > 3 else ""
    count = sum(history.others.values())
    which = f"{', '.join(groups[:3])}{more}"
    fact = f"{format_count(count)} other run{'s are' if count > 1 else ' is'} left out ({which})"
    return f"{fact}: choose with --program and --ranks."


def history_columns(history: History, newest: int | None = None) -> list[TableColumn]:
    """Return the columns of the newest runs (all if None), in order of time."""
    runs = history.runs if newest is None else history.runs[-newest:]

    def share_column(head: str, name: str, drop: int = 0) -> TableColumn:
        return TableColumn(head, [format_share(getattr(run, name)) for run in runs], drop=drop)

    slowest = [
        f"{run.slowest[0].name.partition(' at ')[2] or run.slowest[0].name} "
        f"{run.slowest[0].name.partition(' at ')[0]} {format_share(run.slowest[0].share)}"
        if run.slowest
        else UNKNOWN
        for run in runs
    ]
    return [
        TableColumn("date (UTC)", [run.date or UNKNOWN for run in runs], left=True),
        TableColumn("commit", [run.commit[:COMMIT_LENGTH] or UNKNOWN for run in runs], left=True),
        TableColumn("run time", [format_time(run.run_s * 1e9) for run in runs]),
        share_column("lost", "lost"),
        share_column("parallel", "parallel", 2),
        share_column("load balance", "load_balance", 3),
        share_column("serialisation", "serialisation", 4),
        share_column("transfer", "transfer", 4),
        TableColumn("slowest call site", slowest, left=True, shrink=True),
    ]


def history_markdown(history: History, newest: int) -> str:
    """Return the history for a merge request: verdict, table and legend."""
    parts = [f"### {escape_markdown(history.title)}"]
    parts += [f"**{escape_markdown(line)}**" for line in verdict_lines(history)]
    columns = history_columns(history, newest)
    marks = mark_changes(history)[-len(columns[0].cells) :]
    if any(marks):
        columns.insert(0, TableColumn("", ["change" * bool(mark) for mark in marks], left=True))
    left_out = len(history.runs) - len(columns[0].cells)
    notes = [f"The newest {newest} of {len(history.runs)} runs."] if left_out > 0 else []
    notes += [note for note in (note_others(history), LEGEND, METHOD) if note]
    parts += [render_markdown(columns), escape_markdown(" ".join(notes))]
    return "\n\n".join(parts)


def mark_changes(history: History) -> list[str]:
    """Return for each run the changed metrics, or "" if nothing changed before it."""
    marks = [""] * len(history.runs)
    for change in history.changes:
        arrow = f"{change.metric.format(change.point.before)} → "
        text = f"{change.metric.title} {arrow}{change.metric.format(change.point.after)}"
        marks[change.point.index] += (", " if marks[change.point.index] else "") + text
    return marks


def history_data(history: History) -> dict[str, Any]:
    """Return the history as JSON data."""
    return {
        "title": history.title,
        "verdict": verdict_lines(history),
        "changes": [
            {
                "run": change.point.index,
                "metric": change.metric.name,
                "before": change.point.before,
                "after": change.point.after,
                "p": change.point.p,
            }
            for change in history.changes
        ],
        "places": places_as_data(history.ledgers.places),
        "causes": causes_as_data(history.ledgers.causes),
        "runs": [run.as_data() for run in history.runs],
    }
