"""Comparison of two or more recordings side by side, as text and as JSON data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mpiprof.account.columns import find
from mpiprof.causes.cause_changes import NO_CHANGES, LedgerChanges, compare_ledgers
from mpiprof.causes.compare import COLUMNS, MEAN_COLUMNS
from mpiprof.causes.compare_verdict import (
    INCOMPARABLE,
    Difference,
    judge_difference,
    recommend_repetitions,
)
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import format_change, format_count, format_time
from mpiprof.reports import json
from mpiprof.reports.callsite_table import metric_columns
from mpiprof.reports.fail_on import label_rows
from mpiprof.reports.json import locations_of, plain_number, totals_as_data
from mpiprof.reports.table import TableColumn, render
from mpiprof.reports.text import format_percent
from mpiprof.reports.words import callsite_sentences
from mpiprof.reports.words.change_sentences import causes_as_data, format_place, places_as_data
from mpiprof.reports.words.compare_sentences import drop_changes, incomparable_sentence
from mpiprof.reports.words.compare_sentences import verdict_paragraphs as in_words
from mpiprof.reports.words.finding_sentences import finding_title
from mpiprof.reports.words.trace_sentences import coverage_time
from mpiprof.trace import Trace

TEXT_COLUMNS = ("operation", "matched", "algorithm", "other_algorithm")
NUMBER_COLUMNS = tuple(name for name in COLUMNS if name not in (*TEXT_COLUMNS, "sites"))
CHANGE_COLUMNS = ("before_ns", "after_ns", "added_ns", "time_change", "interval_ns", "certain")
PLACE_COLUMNS = tuple(f"place.{name}" for name in CHANGE_COLUMNS)
CAUSE_COLUMNS = tuple(
    f"cause.{name}" for name in (*CHANGE_COLUMNS, "before_saved_ns", "after_saved_ns")
)
# Totals of the runs: of the first run, of the other run, and the change.
RUN_NAMES = tuple(
    name
    for total in json.TOTAL_NAMES
    for name in (f"run.{total}", f"run.other_{total}", f"run.{total}_change")
)
NUMBERS = (*NUMBER_COLUMNS, *RUN_NAMES, *PLACE_COLUMNS, *CAUSE_COLUMNS)  # of --fail-on
TEXTS = (*TEXT_COLUMNS, "place.kind", "cause.cause")


@dataclass(frozen=True)
class ComparedRuns:
    """Verdict on another trace, or on the runs `to`: its difference and its paragraphs.

    ledgers: changes of work, calls and causes, empty if the runs cannot be compared.
    """

    difference: Difference
    paragraphs: list[str]
    ledgers: LedgerChanges

    @property
    def is_comparable(self) -> bool:
        """Return whether the runs can be compared with the first."""
        return self.difference.outcome != INCOMPARABLE


Verdicts = Mapping[int, ComparedRuns]  # by the number of the other trace


def comparison_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a comparison as data, with None for unknown values."""
    convert = dict.fromkeys(COLUMNS, plain_number) | {"sites": locations_of}
    convert |= dict.fromkeys(TEXT_COLUMNS, lambda text: text)
    rows = table.to_dict("records")
    return [{name: convert[name](row[name]) for name in COLUMNS} for row in rows]


def compare_runs(first: Trace, other: Trace) -> dict[str, Any]:
    """Return the totals of two traces as `run.NAME`; a change is other / first - 1, or None."""
    totals: dict[str, Any] = {}
    other_totals = totals_as_data(other)
    for name, value in totals_as_data(first).items():
        totals |= {f"run.{name}": value, f"run.other_{name}": other_totals[name]}
        comparable = value and other_totals[name] is not None
        totals[f"run.{name}_change"] = other_totals[name] / value - 1 if comparable else None
    return totals


def make_verdicts(traces: Sequence[Trace], to: Sequence[Trace], table: pd.DataFrame) -> Verdicts:
    """Return the verdict on each other trace, or on the runs `to`."""
    verdicts = {}
    for number, difference, reference, compared in _list_comparisons(traces, to, table):
        name, ledgers = chr(ord("A") + number), NO_CHANGES
        if incomparable_sentence(difference, reference, compared, name):
            stated = drop_changes(difference)
        else:
            stated, ledgers = difference, compare_ledgers(reference, compared)
        paragraphs = in_words(difference, compared, len(reference), name, reference, ledgers)
        verdicts[number] = ComparedRuns(stated, paragraphs, ledgers)
    return verdicts


def _list_comparisons(
    traces: Sequence[Trace], to: Sequence[Trace], table: pd.DataFrame
) -> Iterator[tuple[int, Difference, Sequence[Trace], Sequence[Trace]]]:
    """Yield the number of each other trace, its difference, and the runs of both sides."""
    for number in sorted(set(table["other"].tolist())) or [1]:
        difference = judge_difference(table[table["other"] == number])
        reference, compared = (traces, to) if to else (traces[:1], traces[number : number + 1])
        yield number, difference, reference, compared


def comparison_data(
    traces: Sequence[Trace], to: Sequence[Trace], table: pd.DataFrame, verdicts: Verdicts
) -> dict[str, Any]:
    """Return a comparison as data: verdicts, runs, and one row per call site and other trace.

    Traces that cannot be compared have no rows.
    """
    return {
        "version": json.VERSION,
        "verdicts": [
            {
                "other": number,
                "text": verdict.paragraphs,
                "outcome": verdict.difference.outcome,
                "effect_ns": round(verdict.difference.effect_ns),
                "certainty": verdict.difference.certainty,
                **_variation_as_data(verdict.difference, len(traces) if to else 1, len(to) or 1),
                "sites": [
                    {"operation": c.row["operation"], "sites": locations_of(c.row["sites"])}
                    for c in verdict.difference.changed
                ],
                "places": places_as_data(verdict.ledgers.places),
                "causes": causes_as_data(verdict.ledgers.causes),
            }
            for number, verdict in verdicts.items()
        ],
        "traces": [json.run_as_data(trace) for trace in [*traces, *to]],
        "callsites": comparison_rows(table[table["other"].isin(list_comparable(verdicts))]),
    }


def list_comparable(verdicts: Verdicts) -> list[int]:
    """Return the numbers of the other traces that can be compared with the first."""
    return [number for number, verdict in verdicts.items() if verdict.is_comparable]


def judged_rows(table: pd.DataFrame, number: int, verdicts: Verdicts) -> list[dict[str, Any]]:
    """Return the rows that --fail-on judges: call sites, places and causes of another trace."""
    ledgers = verdicts[number].ledgers
    rows = comparison_rows(table[table["other"] == number])
    rows += label_rows("place", places_as_data(ledgers.places), map(format_place, ledgers.places))
    labels = (finding_title(change.trace, change.finding) for change in ledgers.causes)
    return rows + label_rows("cause", causes_as_data(ledgers.causes), labels)


def refuse_incomparable(traces: Sequence[Trace], to: Sequence[Trace], table: pd.DataFrame) -> None:
    """Raise UsageError if --fail-on cannot judge a comparison."""
    for number, difference, reference, compared in _list_comparisons(traces, to, table):
        name = chr(ord("A") + number)
        if reason := incomparable_sentence(difference, reference, compared, name):
            raise UsageError(f"--fail-on: {reason.rstrip('.')}")


def _variation_as_data(difference: Difference, runs: int, other_runs: int) -> dict[str, Any]:
    """Return the usual difference between runs, and the recommended number of repetitions."""
    change, count = recommend_repetitions(difference, runs, other_runs) or (math.nan, math.nan)
    return {
        "added_ns": round(difference.added_ns),
        "usual_ns": round(difference.usual_ns),
        "repetitions": plain_number(count),
        "detected_change": plain_number(change),
    }


def run_table(traces: Sequence[Trace], to: Sequence[Trace] = ()) -> str:
    """Return one row per run, labelled A, B, ... or, for groups, A1, A2, ..., B1, ..."""
    names = [chr(ord("A") + i) for i in range(len(traces))]
    if to:
        names = [f"A{i + 1}" for i in range(len(traces))] + [f"B{i + 1}" for i in range(len(to))]
    traces = [*traces, *to]
    times = [
        (of.collective.value, of.total_wait.value, of.whole_ns)
        for of in (trace.run_times for trace in traces)
    ]
    coverages = [trace.derive("coverage") for trace in traces]
    recorded = ["all" if coverage is None else coverage_time(coverage) for coverage in coverages]
    coverage_columns = [TableColumn("recorded", recorded, left=True)] if any(coverages) else []
    return render(
        TableColumn("", names, left=True),
        TableColumn("trace", [str(trace.path) for trace in traces], left=True, shrink=True),
        TableColumn("ranks", [format_count(trace.ranks) for trace in traces]),
        TableColumn("run time", [format_time(trace.run_ns) for trace in traces]),
        *coverage_columns,
        TableColumn("in collectives", [_time_and_percent(c, w) for c, _, w in times]),
        TableColumn("waiting", [_time_and_percent(v, w) for _, v, w in times]),
    )


def change_table(table: pd.DataFrame) -> str:
    """Return the call sites of the first trace and another trace, with their changes."""
    rows: list[dict[Any, Any]] = table.to_dict("records")
    counts = [
        _both_values(row | callsite_sentences.instance_counts(row), "count", str) for row in rows
    ]
    columns = [
        *metric_columns(rows, "operation", "sites"),
        TableColumn("instances", counts, drop=1),
        TableColumn("time", [_both_values(row, "total_elapsed_ns", format_time) for row in rows]),
    ]
    for name in MEAN_COLUMNS:
        head = find(name).heading
        columns.append(
            TableColumn(head, [_both_values(row, name, format_time) for row in rows], drop=2)
        )
        columns.append(TableColumn(f"Δ{head}", [_format_change(row, name) for row in rows]))
    if any({row["algorithm"], row["other_algorithm"]} - {"native", ""} for row in rows):
        algorithms = [_both_values(row, "algorithm", str) for row in rows]
        columns.append(TableColumn("algorithm", algorithms, left=True))
    return render(*columns)


def _time_and_percent(time_ns: float, whole: float) -> str:
    return f"{format_time(time_ns)} {format_percent(time_ns, whole)}"


def _both_values(row: dict[Any, Any], name: str, format_value: Any) -> str:
    before = "-" if row["callsite"] < 0 else str(format_value(row[name]))
    after = "-" if row["other_callsite"] < 0 else str(format_value(row[f"other_{name}"]))
    return before if before == after else f"{before} → {after}"


def _format_change(row: dict[Any, Any], name: str) -> str:
    value, p = row[f"{name}_change"], row[f"{name}_p"]
    if math.isnan(value):
        return ""
    text = format_change(value)
    if math.isnan(p):
        return f"({text})"
    return text + ("*" if row["significant"] and p < 0.05 else "")
