"""Changes of work, calls and causes between two groups of runs: sentences, tables and data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiprof.account.ledger import CALLS, WAIT, WORK
from mpiprof.causes.cause_changes import CauseChange
from mpiprof.causes.place import format_call
from mpiprof.causes.time_changes import PlaceChange, TimeChange
from mpiprof.facts.operations import call_class
from mpiprof.interface.format_units import format_change, format_percent, format_time, lower_first
from mpiprof.reports.json import finding_as_data
from mpiprof.reports.table import TableColumn, render
from mpiprof.reports.words.finding_sentences import advise, problem_clause

MAX_SENTENCES = 2
MAIN_SHARE = 0.5  # of a change in calls, from which it is waiting
KINDS = {WORK: "work", CALLS: "in calls", WAIT: "waiting"}
LOCATION = ("operation", "file", "line", "function")
IDENTITY = ("cause", "ranks", "node", "sites", "title", "text")  # fields of a finding


def list_certain(changes: Sequence[PlaceChange]) -> list[PlaceChange]:
    """Return the changes by more than chance that no sentence on collectives states.

    Waiting is a part of the time in the calls, so it is left out.
    """
    return [
        change
        for change in changes
        if change.is_certain
        and change.kind != WAIT
        and (change.kind == WORK or call_class(_name_operation(change)) != "collective")
    ]


def place_sentences(changes: Sequence[PlaceChange], name: str) -> list[str]:
    """Return sentences on the largest changes of work and of calls on messages and windows."""
    certain = list_certain(changes)[:MAX_SENTENCES]
    return [_state_place_change(change, changes, name) for change in certain]


def advise_place(changes: Sequence[PlaceChange], name: str) -> str:
    """Return the advice for the largest change, or "" without one."""
    certain = list_certain(changes)
    if not certain:
        return ""
    if certain[0].change_ns < 0:
        return f"Keep what was changed in {name}."
    if certain[0].kind == WORK:
        return f"Look at the work {format_place(certain[0])}."
    return f"Look at the messages and the network of {format_place(certain[0])}."


def format_place(change: PlaceChange) -> str:
    """Return the place as "between a at x.py:1 and b at x.py:2", or as "send at x.py:1"."""
    if change.kind != WORK:
        return format_call(change.calls[0])
    before, after = (format_call(call) for call in change.calls)
    after = after if change.calls[1] else "the end of the record"
    return f"between two calls of {after}" if before == after else f"between {before} and {after}"


def place_table(changes: Sequence[PlaceChange], most: int) -> str:
    """Return the table of the largest changes by more than chance, or "" without one.

    The table of call sites has the changes of collectives.
    """
    certain = list_certain(changes)
    changes = [of for of in changes if of in certain or (of.kind == WAIT and of.is_certain)][:most]
    if not changes:
        return ""
    return render(
        TableColumn("", [KINDS[change.kind] for change in changes], left=True),
        TableColumn("place", [format_place(change) for change in changes], left=True, shrink=True),
        TableColumn(
            "A → B", [format_times(change.before_ns, change.after_ns) for change in changes]
        ),
        TableColumn("change", [format_time_change(change) for change in changes]),
    )


def places_as_data(changes: Sequence[PlaceChange]) -> list[dict[str, Any]]:
    """Return the changes in the schema of the JSON report."""
    return [
        {
            "kind": change.kind,
            "calls": [{name: call.get(name) for name in LOCATION} for call in change.calls],
            **change_as_data(change),
        }
        for change in changes
    ]


def change_as_data(change: TimeChange) -> dict[str, Any]:
    """Return the times of a change in the schema of the JSON report."""
    return {
        "before_ns": round(change.before_ns),
        "after_ns": round(change.after_ns),
        "added_ns": round(change.change_ns),
        "time_change": change.change_ns / change.before_ns if change.before_ns else None,
        "interval_ns": round(change.interval_ns),
        "certain": change.is_certain,
    }


def _state_place_change(change: PlaceChange, changes: Sequence[PlaceChange], name: str) -> str:
    more = "more" if change.change_ns > 0 else "less"
    amount, place = format_time(abs(change.change_ns)), format_place(change)
    subject = f"{name} has {amount} {more} work {place}"
    waiting = ""
    if change.kind != WORK:
        subject = f"{name} spends {amount} {more} in {place}"
        waits = [wait for wait in changes if wait.kind == WAIT and wait.calls == change.calls]
        if sum(wait.change_ns for wait in waits) / change.change_ns >= MAIN_SHARE:
            waiting = "; most of it is waiting"
    before, after = map(format_time, (change.before_ns, change.after_ns))
    values = f"{after} instead of {before} ({format_time_change(change)}), mean of the ranks"
    return f"{subject}: {values}{waiting}."


def format_times(before_ns: float, after_ns: float) -> str:
    """Return two times as "1.00 ms → 2.00 ms"."""
    return f"{format_time(before_ns)} → {format_time(after_ns)}"


def format_time_change(change: TimeChange) -> str:
    """Return a change in percent with its interval, or "new"."""
    if not change.before_ns:
        return "new"
    relative, interval = (
        time_ns / change.before_ns for time_ns in (change.change_ns, change.interval_ns)
    )
    return f"{format_change(relative)} ± {format_percent(interval)}"


def _name_operation(change: PlaceChange) -> str:
    return str(change.calls[0].get("operation"))


def cause_sentences(changes: Sequence[CauseChange], name: str) -> list[str]:
    """Return sentences on the largest changes by more than chance, with advice for grown causes.

    name: of the runs after the change.
    """
    certain = [change for change in changes if change.is_certain]
    return [_state_cause_change(change, name) for change in certain[:MAX_SENTENCES]]


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
        TableColumn("cause", clauses, left=True, shrink=True),
        TableColumn("waiting", waits),
        TableColumn("change", [_mark_change(change) for change in changes]),
        TableColumn("saves", savings, drop=1),
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


def _state_cause_change(change: CauseChange, name: str) -> str:
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
