"""The history of a program as a table, as Markdown for a merge request, and as JSON data."""

from __future__ import annotations

from typing import Any

from mpiprof.interface.format_units import UNKNOWN, format_share, format_time
from mpiprof.reports.history import History
from mpiprof.reports.table import TableColumn, escape_markdown, render_markdown
from mpiprof.reports.words.change_sentences import causes_as_data, places_as_data
from mpiprof.reports.words.history_sentences import (
    COMMIT_LENGTH,
    LEGEND,
    METHOD,
    note_left_out,
    verdict_lines,
)


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
    notes += [note for note in (note_left_out(history), LEGEND, METHOD) if note]
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
