"""Section of the page of a call site: whether another algorithm would help."""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.collectives.tune import result
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import (
    UNKNOWN,
    capitalise,
    format_count,
    format_share,
    format_size,
    format_time,
)
from mpiprof.interface.shell_hints import format_command, switch_value
from mpiprof.reports.words import captions

from . import components, filtered_tables, predictions
from . import url_state as states
from .figures import algorithms as figures
from .trace_data import TraceData

MAX_TRIED, MAX_CANDIDATES, MAX_KEYS = 12, 12, 20
MAX_TEXT = 1000  # characters of a command
SIZES_KEY = "sizes"  # key of the URL: whether larger numbers of processes are simulated
TITLE = "Would another algorithm help?"


def make_section(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the algorithms simulated and tried at a call site."""
    work = predictions.work_at_callsite(data, callsite)
    parts: list[Any] = []
    note = "time after the last arrival, log axis"
    if work is None:
        parts.append(html.P("There is no other algorithm for this operation, or its sizes vary."))
    else:
        try:
            parts += _simulation_parts(data, state, callsite)
        except UsageError as error:
            parts.append(html.P(components.mark_code(f"{capitalise(str(error))}.")))
    parts += _selector_parts(data, state, callsite)
    if work is not None:
        parts.append(_make_links(data, state, callsite))
        if state.get(SIZES_KEY):
            parts += _size_parts(data, state, callsite)
    return html.Section(
        [html.H2([f"{TITLE} ", html.Span(note)]), *parts], className="callsite-race"
    )


def _simulation_parts(data: TraceData, state: states.PageState, callsite: int) -> list[Any]:
    work = predictions.work_at_callsite(data, callsite)
    assert work is not None
    predicted = predictions.simulate_work(data, work)
    table = predictions.prediction_table(predicted)
    candidates = pd.concat([table[~table["is_now"]].head(MAX_CANDIDATES), table[table["is_now"]]])
    ordered = candidates.sort_values("score_ns", kind="stable")
    wait_ns = predictions.mean_wait_ns(data, callsite)

    def draw(theme_state: states.PageState) -> go.Figure:
        return figures.draw_scores(ordered, wait_ns, dark=theme_state.dark)

    sizes = "" if work.bytes is None else f", {format_size(work.bytes[1])}"
    plural = "s" if work.instances != 1 else ""
    about = f"{format_count(work.instances)} instance{plural} on {work.members} ranks{sizes}; "
    about += f"{len(predicted.base_scores)} of them simulated with their recorded arrivals."
    return [
        components.make_graph(draw, state, "callsite-race"),
        html.P(expectation_text(predictions.judge_prediction(data, predicted))),
        html.P(about, className="note"),
        components.how_to_read(captions.ALGORITHM_TIMES),
    ]


def _make_links(data: TraceData, state: states.PageState, callsite: int) -> Component:
    work = predictions.work_at_callsite(data, callsite)
    assert work is not None
    catalogue = state.link_to("/algorithms", of=work.operation)
    links = [dcc.Link(f"Algorithms of {work.operation} in the catalogue", href=catalogue)]
    if not state.get(SIZES_KEY):
        larger = state.set_keys(**{SIZES_KEY: 1}).format_query()
        links.append(dcc.Link("Simulate larger jobs", href="/callsites" + larger))
    return html.Div(links, className="steps")


def _size_parts(data: TraceData, state: states.PageState, callsite: int) -> list[Any]:
    """Return the predicted scores at larger numbers of processes."""
    work = predictions.work_at_callsite(data, callsite)
    assert work is not None
    try:
        scores = predictions.predict_sizes(data, work)
    except UsageError as error:
        return [html.P(f"{error}.")]
    note = "simulated; arrivals drawn from the recorded ones"
    return [
        html.H3(["On more processes ", html.Span(note)]),
        components.make_graph(
            lambda theme_state: figures.draw_scores_over_sizes(scores, dark=theme_state.dark),
            state,
            "callsite-sizes",
        ),
        components.how_to_read(captions.ALGORITHM_SIZES),
    ]


def _selector_parts(data: TraceData, state: states.PageState, callsite: int) -> list[Any]:
    """Return what the selector chose and tried at a call site while the program ran."""
    keys = filtered_tables.callsite_keys(data, callsite)
    parts: list[Any] = []
    selection = data.trace.selection
    for number, key in enumerate(keys[:MAX_KEYS]):
        choices = selection["choice"][selection["choice"]["key"] == key]
        ends, phases = (t[t["key"] == key] for t in (selection["end"], selection["phase"]))
        row = selection["key"][selection["key"]["key"] == key].iloc[0]
        instances = int(ends["instances"].max()) if len(ends) else 0

        def draw(
            theme_state: states.PageState,
            choices: pd.DataFrame = choices,
            instances: int = instances,
        ) -> go.Figure:
            return figures.draw_history(choices, instances, dark=theme_state.dark)

        begins = ", ".join(f"from {p.instance} ({p.why})" for p in phases.head(10).itertuples())
        parts += [
            html.H3(f"Selected for {row['operation']}, {format_size(float(row['bytes']))}"),
            components.make_graph(draw, state, f"callsite-choices-{number}"),
            components.how_to_read(captions.ALGORITHM_CHOICES),
            html.P(f"{format_count(len(phases))} phases: {begins}", className="note"),
        ]
    tried = filtered_tables.callsite_trials(data, callsite).head(MAX_TRIED)
    return [*parts, trial_table(tried, "tried while it ran")] if len(tried) else parts


def trial_table(trials: pd.DataFrame, heading: str) -> Component:
    """Return the selector's trials as a table; `heading` titles the column of algorithms."""
    columns = [("phase", "phase"), ("algorithm", heading), ("instances", "instances")]
    return components.make_table(trials, [*columns, ("score_ns", "score"), ("error_ns", "±")])


def expectation_text(verdict: result.TuningVerdict) -> Any:
    """Return the verdict of the simulation as text, with the command that tries the algorithm."""
    if verdict.worth == result.NO:
        return f"Not worth a change: {verdict.reason or UNKNOWN}."
    work = verdict.result.work
    share = format_share(verdict.gain_ns / verdict.base_ns)
    gain = f"{verdict.best} would save {share} of the time in the call without the waiting"
    sure = "" if verdict.worth == result.YES else f", which is doubtful: {verdict.reason}"
    where = (work.sites or (work.operation,))[0]
    line = format_command("run", "--switch", switch_value(where, verdict.best), "PROGRAM")
    sentence = f"{gain}, {format_time(verdict.total_saving(verdict.gain_ns))} in all{sure}."
    # Show the whole command or none: an unclosed quotation would swallow the user's next input.
    return [f"{sentence} Try: ", html.Code(line)] if len(line) < MAX_TEXT else sentence
