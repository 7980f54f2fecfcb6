"""Algorithms page: predictions at a call site, the selector's history, and the catalogue."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_count, format_size

from .. import algorithm_view, components, explanations, filtered_tables, predictions, trace_figures
from .. import url_state as states
from ..figures import algorithms as figures
from ..trace_data import TraceContext, TraceData

TITLE, PATH = "Algorithms", "/algorithms"
PAGE_KEYS = frozenset(algorithm_view.STATE_KEYS)
MAX_SITES, MAX_KEYS = 200, 20
SKELETON = (420, 320)
NOT_APPLICABLE = "No algorithm of the catalogue applies here."


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page; its callbacks fill in the predictions later."""
    data = context.latest_data(state)
    shown = set(filtered_tables.filtered_callsites(data, state)["callsite"])
    try:
        works = predictions.list_works(data)
    except MpiprofError:
        works = []
    options = {
        str(w.callsite): f"{w.operation} at {filtered_tables.shorten_text(w.label)}"
        for w in works
        if w.callsite in shown
    }
    parts: list[Component] = []
    if options:
        wanted = str(state.get_number("callsite", -1))
        choice = dmc.Select(
            id="race-callsite",
            label="Call site",
            data=[{"value": v, "label": t} for v, t in list(options.items())[:MAX_SITES]],
            value=wanted if wanted in options else next(iter(options)),
            allowDeselect=False,
            searchable=True,
            className="choice wide",
        )
        parts += [
            components.make_card(
                "Algorithms at a call site", choice, components.deferred_container("race-now")
            ),
            components.side_by_side(
                components.deferred_container("race-sizes"),
                components.deferred_container("race-history"),
            ),
        ]
    else:
        note = "No call site within these filters has other algorithms."
        parts.append(components.make_card("Algorithms at a call site", note=note))
    return components.stack(*parts, algorithm_view.make_layout(state))


def prediction_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the predicted scores of all candidates under the recorded arrivals."""
    work = predictions.work_at_callsite(data, callsite)
    if work is None:
        return html.P(NOT_APPLICABLE, className="note")
    predicted = predictions.simulate_work(data, work)
    sizes = "" if work.bytes is None else f", {format_size(work.bytes[1])}"
    about = f"{format_count(work.instances)} instances on {work.members} ranks{sizes}; "
    about += f"{len(predicted.base_scores)} of them simulated with their recorded arrivals."
    return html.Div(
        [
            html.P(about, className="note"),
            components.make_graph(trace_figures.draw_algorithms(data, state, callsite), state),
            html.P(explanations.expectation_text(predictions.judge_prediction(data, predicted))),
        ]
    )


def sizes_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the predicted scores at larger numbers of processes."""
    work = predictions.work_at_callsite(data, callsite)
    if work is None:
        return components.make_card("On more processes", note=NOT_APPLICABLE)
    figure = figures.draw_scores_over_sizes(predictions.predict_sizes(data, work))
    note = "Simulated; arrivals are drawn from the recorded ones."
    return components.make_card(
        "On more processes", components.make_graph(figure, state), note=note
    )


def history_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the history of the selector's choices at a call site, per key."""
    title = "The selector's history"
    keys = filtered_tables.callsite_keys(data, callsite)
    if not keys:
        note = "No algorithm was selected while the program ran: record with `run --switch auto`."
        return components.make_card(title, note=note)
    known = data.trace.selection
    parts: list[Component] = []
    for key in keys[:MAX_KEYS]:
        choices = known["choice"][known["choice"]["key"] == key]
        ends, phases = (t[t["key"] == key] for t in (known["end"], known["phase"]))
        row = known["key"][known["key"]["key"] == key].iloc[0]
        instances = int(ends["instances"].max()) if len(ends) else 0
        parts += [
            html.H3(f"{row['operation']}, {format_size(float(row['bytes']))}"),
            components.make_graph(figures.draw_history(choices, instances), state),
            html.P(
                f"{format_count(len(phases))} phases: "
                + ", ".join(f"from {p.instance} ({p.why})" for p in phases.head(10).itertuples()),
                className="note",
            ),
        ]
    tried = filtered_tables.callsite_trials(data, callsite).head(trace_figures.MAX_CANDIDATES)
    parts += [html.H3("Tried"), explanations.trial_table(tried, "tried")]
    note = "Its keys are groups of calls that share a choice."
    return components.make_card(title, *parts, note=note)


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of this page."""
    for name, make in (
        ("race-now", prediction_card),
        ("race-sizes", sizes_card),
        ("race-history", history_card),
    ):
        _register_card(app, context, name, make)

    @components.query_callback(app, Input("race-callsite", "value"))
    def choose(callsite: str, state: states.PageState) -> str:
        """Write the call site into the URL."""
        if not callsite or callsite == state.get("callsite"):
            raise PreventUpdate
        return state.set_keys(callsite=callsite).format_query()

    algorithm_view.register_callbacks(app)


def _register_card(app: dash.Dash, context: TraceContext, name: str, make: Any) -> None:
    @components.state_callback(app, Output(name, "children"), Input("race-callsite", "value"))
    def show(callsite: str, state: states.PageState) -> Any:
        if not str(callsite or "").isdecimal():
            raise PreventUpdate
        return components.make_or_message(
            name, partial(make, context.latest_data(state), state, int(callsite))
        )
