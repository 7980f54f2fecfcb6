"""Runs page: the traces of a folder with program, ranks, date, verdict and share of lost time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.interface.format_units import UNKNOWN, format_count, format_share, format_time
from mpiprof.reports.run_summary import RunSummary
from mpiprof.reports.words.history_sentences import COMMIT_LENGTH

from .. import components
from ..trace_data import TraceContext
from ..url_state import PageState

TITLE, PATH = "Runs", "/runs"
FOLLOWS = True
PAGE_KEYS = frozenset({"find"})
SKELETON = (44, 480)
MAX_ROWS = 300
REFRESH_MS = 1000
HEADINGS = ("started (UTC)", "program", "ranks", "run time", "lost", "verdict", "commit", "trace")
NUMBERS = ("ranks", "run time")


def make_layout(context: TraceContext, state: PageState) -> Component:
    """Return the page; a timer adds the verdicts as they become known."""
    context.run_list.start()
    field = dcc.Input(
        id="runs-find",
        placeholder="Program, trace, commit, date or verdict",
        value=state.get("find"),
        debounce=0.3,
    )
    find = components.labelled_field("Filter", field, "wide")
    return html.Div(
        [
            html.H1(f"{format_count(len(context.names))} runs", className="runs-sentence"),
            html.Div([find, html.Span(id="runs-progress", role="status")], className="runs-head"),
            html.Div(make_rows(context, state.get("find")), id="runs-table"),
            dcc.Interval(id="runs-tick", interval=REFRESH_MS),
            dcc.Store(id="runs-done", data=-1),
        ],
        className="runs",
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the filter and of the timer."""

    @components.query_callback(app, Input("runs-find", "value"))
    def store_filter(text: str, state: PageState) -> str:
        """Store the filter in the address."""
        return state.set_keys(find=str(text or "")[:200]).format_query()

    @components.state_callback(
        app,
        Output("runs-table", "children"),
        Output("runs-progress", "children"),
        Output("runs-tick", "disabled"),
        Input("runs-tick", "n_intervals"),
        Input("url", "search"),
    )
    def update(_: int, search: str, state: PageState) -> Any:  # noqa: ARG001 (a trigger)
        """Show the runs that pass the filter, with the values that are known now."""
        done, count = context.run_list.done, len(context.names)
        progress = "" if done == count else f"Reading {done + 1} of {count} traces …"
        return make_rows(context, state.get("find")), progress, done == count


def make_rows(context: TraceContext, find: str) -> Component:
    """Return the table of the runs that contain all words of `find`."""
    runs = filter_runs(context.run_list.runs, find)
    if not runs:
        return components.empty_state("No run matches", "Remove words from the filter.")
    rows = [_make_row(name, run) for name, run in runs[:MAX_ROWS]]
    heads = [
        html.Th(heading, scope="col", className="runs-number" if heading in NUMBERS else "")
        for heading in HEADINGS
    ]
    head = html.Thead(html.Tr(heads))
    parts: list[Component] = [html.Table([head, html.Tbody(rows)], className="table runs-list")]
    if len(runs) > MAX_ROWS:
        fact = f"The newest {MAX_ROWS} of {format_count(len(runs))} runs."
        parts.append(html.P(f"{fact} Filter to see the others.", className="note"))
    return html.Div(parts, className="runs-scroll", tabIndex=0)


def filter_runs(runs: dict[str, RunSummary], find: str) -> list[tuple[str, RunSummary]]:
    """Return the runs of which name, program, date, commit and verdict contain all words."""
    words = find.lower().split()
    matching = []
    for name, run in runs.items():
        text = f"{name} {run.program} {run.date} {run.commit} {run.ranks} {run.verdict}".lower()
        if all(word in text for word in words):
            matching.append((name, run))
    return matching


def _make_row(name: str, run: RunSummary) -> Component:
    link = PageState(name).link_to("/")
    lost: Sequence[Any] = [UNKNOWN if run.is_complete else "…"]
    if not math.isnan(run.lost):
        style = {"width": f"{min(max(run.lost, 0.0), 1.0) * 60:.1f}px"}
        lost = [html.Span(className="runs-bar", style=style), format_share(run.lost)]
    return html.Tr(
        [
            html.Td(run.date or UNKNOWN),
            html.Td(dcc.Link(run.program[:200], href=link)),
            html.Td(format_count(run.ranks) if run.ranks else UNKNOWN, className="runs-number"),
            html.Td(
                format_time(run.run_s * 1e9) if run.is_complete else "…", className="runs-number"
            ),
            html.Td(lost),
            html.Td(run.verdict[:300] if run.is_complete else "…", className="runs-verdict"),
            html.Td(run.commit[:COMMIT_LENGTH] or UNKNOWN, className="runs-commit"),
            html.Td(name[:200], className="runs-name"),
        ]
    )
