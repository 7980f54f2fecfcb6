"""History page: one program over its runs, with the changes of lost time and run time marked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import dash
import numpy as np
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.interface.svg import (
    DataPicture,
    TableRow,
    fill,
    make_line,
    make_picture,
    make_rectangle,
    make_text,
    measure_text,
    stroke,
)
from mpiprof.reports.history import METRICS, History, Metric, make_history
from mpiprof.reports.history_report import history_columns, mark_changes
from mpiprof.reports.run_summary import RunSummary
from mpiprof.reports.words import history_sentences
from mpiprof.reports.words.history_sentences import COMMIT_LENGTH, verdict_lines

from .. import components
from ..trace_data import TraceContext
from ..url_state import PageState

TITLE, PATH = "History", "/history"
FOLLOWS = True
SKELETON = (80, 360)
REFRESH_MS = 1000
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


def make_layout(context: TraceContext, state: PageState) -> Component:
    """Return the page; a timer draws it when all traces are read."""
    context.run_list.start()
    groups = dict.fromkeys(_group_of(run) for run in context.run_list.runs.values())
    chosen = state.get("program") or next(iter(groups))
    links = [
        (group, PATH + state.set_keys(program=group).format_query(), group == chosen)
        for group in groups
    ]
    choose = components.link_menu("Program and number of ranks", chosen, links)
    return html.Div(
        [
            choose,
            html.Div(make_view(context, state), id="history-view"),
            dcc.Interval(id="history-tick", interval=REFRESH_MS),
        ],
        className="runs",
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callback of the timer."""

    @components.state_callback(
        app,
        Output("history-view", "children"),
        Output("history-tick", "disabled"),
        Input("history-tick", "n_intervals"),
        Input("url", "search"),
    )
    def update(_: int, search: str, state: PageState) -> Any:  # noqa: ARG001 (a trigger)
        """Show the progress, and the history when all traces are read."""
        done = context.run_list.done == len(context.names)
        return make_view(context, state), done


def make_view(context: TraceContext, state: PageState) -> Component:
    """Return verdict, picture and table of the chosen program, or the progress before that."""
    run_list = context.run_list
    done, count = run_list.done, len(context.names)
    if done < count:
        progress = html.P(
            f"Reading {done + 1} of {count} traces …", className="note", role="status"
        )
        return html.Div([html.H1(TITLE, className="runs-sentence"), progress])
    return components.make_or_message(TITLE, lambda: _make_history(run_list.runs, state))


def _make_history(summaries: dict[str, RunSummary], state: PageState) -> Component:
    groups = dict.fromkeys(map(_group_of, summaries.values()))
    group = state.get("program")
    group = group if group in groups else next(iter(groups))
    chosen = [(name, run) for name, run in summaries.items() if _group_of(run) == group][::-1]
    history = make_history([run for _, run in chosen])
    first, *further = history_sentences.verdict_lines(history)
    return html.Div(
        [
            html.H1(first, className="runs-sentence"),
            *(html.P(components.mark_code(line)) for line in further),
            components.show_picture(
                DataPicture(make_history_picture(history), list_values(history)),
                className="history-picture",
            ),
            components.how_to_read(history_sentences.HISTORY_PAGE),
            _make_table(history, [name for name, _ in chosen]),
            html.P(history_sentences.LEGEND, className="note"),
        ]
    )  # fmt: skip


def _make_table(history: History, names: list[str]) -> Component:
    """Return the runs, the newest first; a row after which a change came is marked."""
    columns = history_columns(history)
    marks = mark_changes(history)
    classes = ["" if column.left else "runs-number" for column in columns]
    head = [
        html.Th(column.head, scope="col", className=name)
        for column, name in zip(columns, classes, strict=True)
    ]
    rows = []
    for index in reversed(range(len(history.runs))):
        cells = [column.cells[index] for column in columns]
        link = dcc.Link(cells[0], href=PageState(names[index]).link_to("/"))
        values = [html.Td(cell, className=name) for cell, name in zip(cells, classes, strict=True)][
            1:
        ]
        rows.append(html.Tr([html.Td(link), *values]))
        if marks[index]:
            text = f"Change: {marks[index]}"
            rows.append(html.Tr(html.Td(text, colSpan=len(columns)), className="history-change"))
    table = html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className="table runs-list")
    return html.Div(table, className="runs-scroll", tabIndex=0)


def _group_of(run: RunSummary) -> str:
    return f"{run.program} on {run.ranks} ranks"
