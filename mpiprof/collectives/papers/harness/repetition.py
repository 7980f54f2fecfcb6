"""Repeats a whole study: several runs of its job, and one table of their medians with intervals.

Repetitions within a job share its connections, its memory and its place on the machine. Runs of the
job do not, so that only they show how far another run may differ.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.collectives.papers.harness.intervals import (
    FEWEST_VALUES,
    IntervalEstimate,
    median_interval,
)
from mpiprof.collectives.papers.harness.study import Report, Row, print_table, write

INTERVAL = "95 %"
TEXT_RESULTS = ("took", "ms")  # texts that are no labels
StoredTable = dict[str, Any]  # as `study.write` stores it in JSON
Start = Callable[[Path], int]  # runs the study, which writes its files; returns an exit code


def repeat_study(start: Start, runs: int, folder: Path, output: Path | None) -> int:
    """Run a study several times, print and write the table of all runs, and return an exit code."""
    stem = folder / "study" if output is None else output.with_suffix("")
    tables = []
    for number in range(1, runs + 1):
        print(f"\n---- run {number} of {runs}\n", flush=True)
        path = stem.with_name(f"{stem.name}-run{number}")
        code = start(path)
        if code:
            return code
        tables.append(json.loads(Path(f"{path}.json").read_text()))
    report = combine_tables(tables)
    print(f"\n---- {report.conditions['runs']}\n")
    print_table(report)
    if output is not None:
        print(f"\nwritten: {', '.join(map(str, write(report, tables[0]['title'], output)))}")
    return 0


def combine_tables(tables: Sequence[StoredTable]) -> Report:
    """Return the table of several runs, from the rows that all of them have."""
    columns: list[str] = tables[0]["columns"]
    labels = find_labels(tables[0])
    by_run = [{_identify(row, labels): row for row in table["rows"]} for table in tables]
    common = [key for key in by_run[0] if all(key in rows for rows in by_run)]
    rows = [_combine_rows([run[key] for run in by_run], columns, labels) for key in common]
    count = len(tables)
    interval = "with their range" if count < FEWEST_VALUES else "with intervals of 95 %"
    conditions = {**tables[0]["conditions"], "runs": f"{count}, medians {interval}"}
    notes = []
    if len(common) < len(by_run[0]):
        notes.append(f"{len(by_run[0]) - len(common)} rows are not in all runs, and left out.")
    return Report(columns, rows, notes, conditions=conditions)


def find_labels(table: StoredTable) -> list[str]:
    """Return the columns that identify a row: all before the first column of results."""
    labels = []
    for name in table["columns"]:
        values = [row.get(name) for row in table["rows"]]
        is_label = all(isinstance(value, int | str) for value in values)
        if not is_label or name in TEXT_RESULTS:
            break
        labels.append(name)
    return labels


def _identify(row: Row, labels: Sequence[str]) -> tuple[str, ...]:
    """Return a row's labels, without block sizes, which follow from measured message times."""
    return tuple(re.sub(r":\s*(\w+=)?\d+", "", str(row[name])) for name in labels)


def _combine_rows(rows: Sequence[Row], columns: Sequence[str], labels: Sequence[str]) -> Row:
    combined: Row = {name: rows[0][name] for name in labels}
    newest: IntervalEstimate | None = None  # the value before a column of intervals
    for name in columns[len(labels) :]:
        values = [row.get(name, "") for row in rows]
        numbers = [_read_number(value) for value in values]
        if name.endswith(INTERVAL) and newest is not None:
            combined[name] = newest.interval_text
        elif all(number is not None for number in numbers):
            combined[name] = newest = median_interval(np.array(numbers, np.float64))
        elif any(number is not None for number in numbers):
            combined[name] = math.nan
        else:
            combined[name] = _combine_texts([str(value) for value in values])
    return combined


def _read_number(value: Any) -> float | None:
    if isinstance(value, dict):
        value = value["value"]
    return float(value) if isinstance(value, int | float) else None


def _combine_texts(texts: Sequence[str]) -> str:
    """Return the most frequent text, and in how many runs it occurred, unless in all."""
    counts = Counter(filter(None, texts))
    if not counts:
        return ""
    text, times = counts.most_common(1)[0]
    return text if times == len(texts) else f"{text} ({times} of {len(texts)})"
