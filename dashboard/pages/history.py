"""History page: one program over its runs, with the changes of lost time and run time marked."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.interface.svg import DataPicture
from mpiprof.reports.history import History, make_history
from mpiprof.reports.history_report import history_columns, mark_changes
from mpiprof.reports.pictures.history import list_values, make_history_picture
from mpiprof.reports.run_summary import RunSummary
from mpiprof.reports.words import history_sentences

from .. import components
from ..trace_data import TraceContext
from ..url_state import PageState

TITLE, PATH = "History", "/history"
FOLLOWS = True
SKELETON = (80, 360)
REFRESH_MS = 1000
READING = (
    "Each mark is a run, the newest on the right; lines are medians between changes. A dashed line "
    f"is before the first run after a change, with its commit. {history_sentences.METHOD}"
)


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
            components.how_to_read(READING),
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
