"""Algorithms page: predictions at a call site, the selector's history, and the catalogue."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.interface.format_units import count, size

from .. import (
    algorithm_view,
    components,
    explanations,
    filtered_tables,
    predictions,
    selection_history,
    trace_figures,
)
from .. import url_state as states
from ..figures import algorithms as figures
from ..trace_data import Context, Data

TITLE, PATH = "Algorithms", "/algorithms"
OWN = frozenset(algorithm_view.KEYS)
MOST_SITES, MOST_KEYS = 200, 20
SKELETON = (420, 320)


def layout(context: Context, state: states.State) -> Component:
    """Return the page; its callbacks fill in the predictions later."""
    data = context.data(state)
    shown = set(filtered_tables.by_callsite(data, state)["callsite"])
    works = [
        w for w in components.or_else(lambda: predictions.works(data), []) if w.callsite in shown
    ]
    options = {
        str(w.callsite): f"{w.operation} at {filtered_tables.text_of(w.place)}" for w in works
    }
    parts: list[Component] = []
    if options:
        wanted = str(state.number("callsite", -1))
        choice = dmc.Select(
            id="race-callsite",
            label="Call site",
            data=[{"value": v, "label": t} for v, t in list(options.items())[:MOST_SITES]],
            value=wanted if wanted in options else next(iter(options)),
            allowDeselect=False,
            searchable=True,
            className="choice wide",
        )
        parts += [
            components.card("Algorithms at a call site", choice, components.later("race-now")),
            components.columns(components.later("race-sizes"), components.later("race-history")),
        ]
    else:
        note = "No call site within these filters has other algorithms."
        parts.append(components.card("Algorithms at a call site", note=note))
    return html.Div([*parts, algorithm_view.layout(state)], className="stack")


def race_now(data: Data, state: states.State, callsite: int) -> Component:
    """Return the predicted scores of all candidates under the recorded arrivals."""
    asked = predictions.at_callsite(data, callsite)
    if asked is None:
        return html.P("No algorithm of the catalogue applies here.", className="note")
    found = predictions.simulated(data, asked)
    sizes = "" if asked.bytes is None else f", {size(asked.bytes[1])}"
    about = f"{count(asked.instances)} instances on {asked.members} ranks{sizes}; "
    about += f"{len(found.base)} of them simulated with their recorded arrivals."
    return html.Div(
        [
            html.P(about, className="note"),
            components.graph(trace_figures.algorithms(data, callsite), state),
            html.P(explanations.expectation(predictions.verdict(data, found))),
        ]
    )


def race_sizes(data: Data, state: states.State, callsite: int) -> Component:
    """Return the predicted scores at larger numbers of processes."""
    asked = predictions.at_callsite(data, callsite)
    if asked is None:
        return components.card(
            "On more processes", note="No algorithm of the catalogue applies here."
        )
    return components.card(
        "On more processes",
        components.graph(figures.race_over_sizes(predictions.sizes(data, asked)), state),
        note="Simulated; arrivals are drawn from the recorded ones.",
    )


def selector_history(data: Data, state: states.State, callsite: int) -> Component:
    """Return the history of the selector's choices at a call site, per key."""
    title = "The selector's history"
    keys = selection_history.keys_of(data, callsite)
    if not keys:
        note = "No algorithm was selected while the program ran: record with `run --switch auto`."
        return components.card(title, note=note)
    known = selection_history.selection(data)
    parts: list[Component] = []
    for key in keys[:MOST_KEYS]:
        choices = known["choice"][known["choice"]["key"] == key]
        ends, phases = (t[t["key"] == key] for t in (known["end"], known["phase"]))
        row = known["key"][known["key"]["key"] == key].iloc[0]
        instances = int(ends["instances"].max()) if len(ends) else 0
        parts += [
            html.H3(f"{row['operation']}, {size(float(row['bytes']))}"),
            components.graph(figures.history(choices, instances), state),
            html.P(
                f"{count(len(phases))} phases: "
                + ", ".join(f"from {p.instance} ({p.why})" for p in phases.head(10).itertuples()),
                className="note",
            ),
        ]
    tried = selection_history.tried(data, callsite)
    columns = [("phase", "phase"), ("algorithm", "tried"), ("instances", "instances")]
    columns += [("score_ns", "score"), ("error_ns", "±")]
    parts += [
        html.H3("Tried"),
        components.table(tried.head(trace_figures.MOST_CANDIDATES), columns),
    ]
    return components.card(title, *parts, note="Its keys are groups of calls that share a choice.")


def register(app: dash.Dash, context: Context) -> None:
    """Add the callbacks of this page."""
    for name, make in (
        ("race-now", race_now),
        ("race-sizes", race_sizes),
        ("race-history", selector_history),
    ):
        _fill(app, context, name, make)

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("race-callsite", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(callsite: str, search: str) -> str:
        """Write the call site into the URL."""
        state = states.parse(search)
        if not callsite or callsite == state.get("callsite"):
            raise PreventUpdate
        return state.with_own(callsite=callsite).query()

    algorithm_view.register(app)


def _fill(app: dash.Dash, context: Context, name: str, make: Any) -> None:
    @app.callback(
        Output(name, "children"),
        Input("race-callsite", "value"),
        State("url", "search"),
        State("scheme", "data"),
    )
    def show(callsite: str, search: str, scheme: str) -> Any:
        if not str(callsite or "").isdecimal():
            raise PreventUpdate
        state = states.parse(search, dark=scheme == "dark")
        return components.guarded(name, partial(make, context.data(state), state, int(callsite)))
