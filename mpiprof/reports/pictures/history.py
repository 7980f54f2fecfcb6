"""Picture of a program's history: lost time, run time and efficiency over its runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mpiprof.interface.svg import (
    TableRow,
    fill,
    make_line,
    make_picture,
    make_rectangle,
    make_text,
    measure_text,
    stroke,
)
from mpiprof.reports.history import METRICS, History, Metric
from mpiprof.reports.words.history_sentences import COMMIT_LENGTH, verdict_lines

WIDTH, LEFT, RIGHT = 920.0, 176.0, 16.0
ROW, GAP, TOP, BOTTOM = 92.0, 18.0, 22.0, 24.0
MARK = 7.0  # largest side of the mark of a run
ROWS = (*METRICS, Metric("parallel", "parallel efficiency"))


def make_history_picture(history: History) -> str:
    """Return the values of each run in order of time, with the changes as vertical lines."""
    rows = [row for row in ROWS if any(map(math.isfinite, map(row.read, history.runs)))]
    height = TOP + len(rows) * (ROW + GAP) + BOTTOM
    parts = list(_draw_changes(history, height - BOTTOM - GAP))
    for number, row in enumerate(rows):
        parts += _draw_row(history, row, TOP + number * (ROW + GAP))
    parts += _draw_dates(history, height - 6)
    return make_picture(WIDTH, height, " ".join(verdict_lines(history)), parts)


def list_values(history: History) -> list[TableRow]:
    """Return the data of the picture: the values of each run."""
    head: TableRow = ("date", "commit", *(row.name for row in ROWS))
    rows: list[TableRow] = [
        (run.date, run.commit, *(row.read(run) for row in ROWS)) for run in history.runs
    ]
    return [head, *rows]


def _x(history: History, index: float) -> float:
    """Return the position of a run, or of the border before it (index - 0.5)."""
    return LEFT + (index + 0.5) * (WIDTH - LEFT - RIGHT) / len(history.runs)


def _draw_row(history: History, row: Metric, top: float) -> Iterator[str]:
    values = [row.read(run) for run in history.runs]
    known = [value for value in values if math.isfinite(value)]
    # Efficiencies are drawn from their least value, because they differ little; others from 0.
    low = 0.0 if row in METRICS else max(min(known) - 0.1, 0.0)
    high = 1.0 if row not in METRICS else max(max(known) * 1.08, 1e-9)

    def y(value: float) -> float:
        return top + ROW * (1 - (value - low) / (high - low))

    colour = "late" if row.name == "lost" else "q3"
    yield make_text(0, top + 12, row.title, "ink", size=13, bold=True)
    yield make_text(0, top + 30, f"newest {row.format(known[-1])}", "ink2", size=12)
    for value in (low, high if row not in METRICS else max(known)):
        yield make_text(LEFT - 8, y(value) + 4, row.format(value), anchor="end")
        yield make_line(LEFT, y(value), WIDTH - RIGHT, y(value), stroke("line"))
    side = min(MARK, 0.7 * (WIDTH - LEFT - RIGHT) / len(values))
    for index, (run, value) in enumerate(zip(history.runs, values, strict=True)):
        if math.isfinite(value):
            commit = f" {run.commit[:COMMIT_LENGTH]}" if run.commit else ""
            note = f"{run.date}{commit}: {row.title} {row.format(value)}"
            x = _x(history, index) - side / 2
            yield make_rectangle(x, y(value) - side / 2, side, side, fill(colour), note)
    bounds = [0, *_change_indices(history, row), len(values)]
    for begin, end in itertools.pairwise(bounds):
        part = [value for value in values[begin:end] if math.isfinite(value)]
        if part:
            level = y(float(np.median(part)))
            start, stop = _x(history, begin - 0.5), _x(history, end - 0.5)
            yield make_line(start, level, stop, level, stroke("ink", 1.5))


def _change_indices(history: History, row: Metric) -> list[int]:
    """Return the changes of a metric; of all metrics for a row without changes of its own."""
    changes = [c for c in history.changes if c.metric == row or row not in METRICS]
    return sorted({change.point.index for change in changes})


def _draw_changes(history: History, bottom: float) -> Iterator[str]:
    right = -math.inf
    for index in dict.fromkeys(change.point.index for change in history.changes):
        run, x = history.runs[index], _x(history, index - 0.5)
        yield make_line(x, TOP - 4, x, bottom, stroke("ink2", 1, "3 3"))
        text = run.commit[:COMMIT_LENGTH] or run.started[:10]
        width = measure_text(text, 12)
        x = min(x, WIDTH - width)
        if x > right:  # labels do not overlap
            yield make_text(x, TOP - 9, text, "ink", size=12, bold=True)
            right = x + width + 8


def _draw_dates(history: History, y: float) -> Iterator[str]:
    dates = [run.started[:10] for run in (history.runs[0], history.runs[-1])]
    yield make_text(LEFT, y, dates[0])
    if len(history.runs) > 1:
        yield make_text(WIDTH - RIGHT, y, dates[1], anchor="end")
