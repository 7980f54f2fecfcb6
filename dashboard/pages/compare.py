"""Compare: two traces side by side on the same scale, call site by call site."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
import numpy as np
import pandas as pd
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.analysis.difference import difference
from mpiprof.reports.difference import verdict as in_words
from mpiprof.units import UNKNOWN, change, duration

from .. import components, pictures, tables
from .. import state as states
from ..data import Context, Data
from ..figures import compare as figures
from ..shell import operations

TITLE, PATH = "Compare", "/compare"
MOST_ROWS = 200


def layout(context: Context, state: states.State) -> Component:
    """Return the page: the trace of the frame against another one."""
    data = context.data(state)
    others = [name for name in context.names if name != data.name]
    if not others:
        why = "Start the view with two traces or more: python -m mpiprof view BEFORE AFTER"
        return components.empty("There is only one trace", why)
    wanted = state.get("other")
    other = context.data(wanted if wanted in others else others[0])
    choice = dmc.Select(
        id="compare-other", label=f"A is {data.name[:60]}, and B:", data=others, value=other.name,
        allowDeselect=False, className="choice wide",
    )  # fmt: skip
    pair = (data, other)
    names = ("A", "B")
    parts = [
        tables.time_parts(one, _fitting(one, state)).assign(trace=name)
        for one, name in zip(pair, names, strict=True)
    ]
    table = pictures.changes(data, other, state)
    times = components.card(
        "Where the time of all ranks went", components.graph(figures.times(pd.concat(parts)), state)
    )
    bars = [
        components.card(title, components.graph(figures.callsites(table, *of, names), state))
        for title, of in (
            ("Waiting", ("wait_ns", "waiting an instance")),
            ("Time in the call", ("mean_elapsed_ns", "mean time of a call")),
        )
    ]
    spread = components.card(
        "Imbalance against the balanced limit",
        components.graph(figures.distributions((_factors(data, state), _factors(other, state)),
                                               names), state),
    )  # fmt: skip
    grid = components.card(
        "Call sites",
        comparison(table.head(MOST_ROWS), state),
        note="By the change of time, largest first; ω: last minus first arrival. "
        "Bold: differs by more than chance.",
    )
    said = components.card(
        "Verdict",
        choice,
        html.Div([html.P(tables.text_of(line)) for line in verdict(other, table)]),
        className="card verdict",
    )
    return html.Div([said, times, components.columns(*bars), spread, grid], className="stack")


def verdict(other: Data, table: pd.DataFrame) -> list[str]:
    """Return what changed, where, how sure that is and what to do, as `compare` prints it."""
    return in_words(difference(table), [other.trace])


def _fitting(data: Data, state: states.State) -> states.State:
    """Return the filters that mean something in a trace; communicators are a trace's own."""
    known = {identity for identity, _ in data.communicators}
    kept = tuple(c for c in state.communicators if c in known)
    named = tuple(o for o in state.operations if o in operations(data))
    return states.State(data.name, kept, named, state.nodes, state.ranks, {}, state.dark)


def _factors(data: Data, state: states.State) -> Any:
    instances = data.instances
    return instances["worst_factor"].to_numpy(np.float64)[data.passing(instances, state)]


def comparison(table: pd.DataFrame, state: states.State) -> Component:
    """Return the table of call sites in both traces."""
    heads = ("call site", "operation", "instances", "time", "waiting", "ω", "algorithm")
    rows = []
    for row in tables.records(table):
        name: Any = row["place"]
        if row["callsite"] >= 0:
            there = state.shared().with_own(callsite=row["callsite"])
            name = dcc.Link(name, href="/callsites" + there.query())
        cells = [
            [name, html.Span(_only(row), className="faint")],
            row["operation"],
            f"{row['instances']} → {row['other_instances']}",
            *[_change(row, c) for c in ("mean_elapsed_ns", "wait_ns", "worst_imbalance_ns")],
            _algorithms(row),
        ]
        rows.append(html.Tr([_cell(*one) for one in zip(heads, cells, strict=True)]))
    head = html.Thead(html.Tr([html.Th(text, scope="col") for text in heads]))
    return html.Table([head, html.Tbody(rows)], className="table unfolding")


def _cell(head: str, content: Any) -> Component:
    """Return a cell that says what it is where a narrow page has no heads."""
    named: dict[str, Any] = {"data-head": head}
    return html.Td(content, **named)


def _only(row: dict[str, Any]) -> str:
    if row["callsite"] < 0:
        return " only in B"
    return " only in A" if row["other_callsite"] < 0 else ""


def _change(row: dict[str, Any], column: str) -> Any:
    values = [float(row[column]), float(row[f"other_{column}"])]
    told = " → ".join(duration(value) for value in values)
    value = float(row[f"{column}_change"])
    if np.isnan(value):
        return told
    text = f"{told} ({change(value)})"
    return html.B(text) if row["significant"] and row[f"{column}_p"] < 0.05 else text


def _algorithms(row: dict[str, Any]) -> str:
    first, other = (tables.text_of(row[c] or UNKNOWN) for c in ("algorithm", "other_algorithm"))
    return first if first == other else f"{first} → {other}"


def register(app: dash.Dash, _: Context) -> None:
    """Add the callback that writes the other trace into the address."""

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("compare-other", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(other: str, search: str) -> str:
        state = states.parse(search)
        if not other or other == (state.get("other") or other):
            raise PreventUpdate
        return state.with_own(other=other).query()
