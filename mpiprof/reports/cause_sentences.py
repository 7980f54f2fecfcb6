"""Changes of the waiting for each cause between two groups of runs: sentences, table and data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiprof.diagnosis.cause_changes import CauseChange
from mpiprof.interface.format_units import format_time, lower_first
from mpiprof.reports.json import finding_as_data
from mpiprof.reports.place_sentences import change_as_data, format_time_change, format_times
from mpiprof.reports.sentences import advise, problem_clause
from mpiprof.reports.table import Column, render

MAX_SENTENCES = 2
IDENTITY = ("cause", "ranks", "node", "sites", "title", "text")  # fields of a finding


def cause_sentences(changes: Sequence[CauseChange], name: str) -> list[str]:
    """Return sentences on the largest changes by more than chance, with advice for grown causes.

    name: of the runs after the change.
    """
    certain = [change for change in changes if change.is_certain]
    return [_state_change(change, name) for change in certain[:MAX_SENTENCES]]


def has_advice(changes: Sequence[CauseChange]) -> bool:
    """Return whether a sentence on a change has advice."""
    certain = [change for change in changes if change.is_certain]
    return any(change.change_ns > 0 for change in certain[:MAX_SENTENCES])


def cause_table(changes: Sequence[CauseChange], most: int) -> str:
    """Return the table of the largest changes, or "" without one; a star marks certain ones."""
    changes = changes[:most]
    if not changes:
        return ""
    clauses = [lower_first(problem_clause(change.trace, change.finding)) for change in changes]
    waits = [format_times(change.before_ns, change.after_ns) for change in changes]
    savings = [format_times(change.before_saved_ns, change.after_saved_ns) for change in changes]
    return render(
        Column("cause", clauses, left=True, shrink=True),
        Column("waiting", waits),
        Column("change", [_mark_change(change) for change in changes]),
        Column("saves", savings, drop=1),
    )


def causes_as_data(changes: Sequence[CauseChange]) -> list[dict[str, Any]]:
    """Return the changes in the schema of the JSON report."""
    rows = []
    for change in changes:
        finding = finding_as_data(change.trace, change.finding)
        savings = {
            "before_saved_ns": round(change.before_saved_ns),
            "after_saved_ns": round(change.after_saved_ns),
        }
        rows.append({name: finding[name] for name in IDENTITY} | change_as_data(change) | savings)
    return rows


def _state_change(change: CauseChange, name: str) -> str:
    clause = lower_first(problem_clause(change.trace, change.finding))
    before, after = map(format_time, (change.before_ns, change.after_ns))
    if not change.after_ns:
        return f"Gone in {name}: {clause}, with {before} of waiting."
    values = f"{after} of waiting instead of {before} ({format_time_change(change)})"
    sentence = f"In {name}, {clause}, with {values}."
    if not change.before_ns:
        sentence = f"New in {name}: {clause}, with {after} of waiting."
    if change.change_ns < 0:
        return sentence
    return f"{sentence} {advise(change.trace, change.finding)}"


def _mark_change(change: CauseChange) -> str:
    text = format_time_change(change) if change.after_ns else "gone"
    return f"{text}*" if change.is_certain else text
