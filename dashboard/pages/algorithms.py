"""Catalogue of algorithms: requirements, cost and a space-time diagram of each algorithm.

It is reached by URL, from a call site and from search, and needs no trace.
"""

from __future__ import annotations

from typing import Any

import dash
import numpy as np
from dash import Input, Output, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.collectives import draw, problem_spec
from mpiprof.collectives.catalogue import Algorithm
from mpiprof.collectives.round_simulator import applies_to
from mpiprof.collectives.simulate import Timing, simulate
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import format_size, format_time
from mpiprof.reports.words import captions

from .. import components
from .. import url_state as states
from ..figures import algorithms as figures
from ..trace_data import TraceContext

TITLE, PATH = "Algorithms", "/algorithms"

PAGE_KEYS = frozenset(("of", "name", "p", "bytes", "late"))
SKELETON = (420,)
MAX_PROCESSES, MAX_ROUNDS = 32, 4000
SIZES = (8, 1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24)
LATE = ("nobody late", "the last rank late", "ranks late one after the other")


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the catalogue's controls and the containers of their results."""
    del context
    view = view_state(state)
    remote = " + remote group" * view["algorithm"].intercommunicator
    processes = dcc.Input(
        id="catalogue-p", type="number", value=view["p"], min=2, max=MAX_PROCESSES, debounce=0.3
    )
    field = components.labelled_field(f"Processes{remote}", processes)
    menus = html.Div(make_menus(state), id="catalogue-menus", className="controls")
    return components.make_card(
        "Catalogue", html.Div([menus, field], className="controls"), html.Div(id="catalogue-entry")
    )


def make_menus(state: states.PageState) -> list[Component]:
    """Return the menus of operation, algorithm, size of the data and arrivals."""
    view = view_state(state)
    algorithms = {a.name: a for a in problem_spec.list_algorithms(view["of"])}
    choices: dict[tuple[str, str], dict[Any, str]] = {
        ("Operation", "of"): {name: name for name in problem_spec.list_operations()},
        ("Algorithm", "name"): {
            a.name: a.name + " (inter-communicator)" * a.intercommunicator
            for a in algorithms.values()
        },
        ("Data", "bytes"): {size: format_size(size) for size in SIZES},
        ("Arrivals", "late"): dict(enumerate(LATE)),
    }
    return [
        html.Div(
            [
                html.Span(label),
                components.link_menu(
                    label,
                    texts[view[key]],
                    [
                        (text, _link_to(state, key, value), value == view[key])
                        for value, text in texts.items()
                    ],
                ),
            ],
            className="field",
        )
        for (label, key), texts in choices.items()
    ]


def _link_to(state: states.PageState, key: str, value: Any) -> str:
    """Return the address with another choice; another operation has other algorithms."""
    changed = {"name": None, key: value} if key == "of" else {key: value}
    return "/algorithms" + state.set_keys(**changed).format_query()


def view_state(state: states.PageState) -> dict[str, Any]:
    """Return the catalogue state of the URL; invalid values are replaced by valid ones."""
    operation = state.get("of")
    if operation not in problem_spec.list_operations():
        operation = "allgatherv"
    algorithms = {a.name: a for a in problem_spec.list_algorithms(operation)}
    algorithm = algorithms.get(state.get("name")) or next(iter(algorithms.values()))
    processes = min(max(state.get_number("p", 8), 2), MAX_PROCESSES)
    size = state.get_number("bytes", 1 << 13)
    return {
        "of": operation,
        "name": algorithm.name,
        "algorithm": algorithm,
        "p": processes,
        "remote": processes // 2 if algorithm.intercommunicator else 0,
        "bytes": size if size in SIZES else 1 << 13,
        "late": min(max(state.get_number("late"), 0), len(LATE) - 1),
    }


def make_entry(state: states.PageState) -> list[Component]:
    """Return an algorithm's facts and its space-time diagram."""
    view = view_state(state)
    a: Algorithm = view["algorithm"]
    facts = components.fact_list(
        [
            ("needs", a.restrictions or "nothing"),
            ("cost", a.cost),
            ("parameters", a.parameters or "none"),
            ("source", a.source),
        ]
    )
    timing = _simulate_timing(a, view)
    if isinstance(timing, str):
        return [facts, html.P(timing, className="note")]
    names = draw.name_processes(view["p"], view["remote"])
    details = f"The last process ends at {format_time(float(timing.finish.max()))}"
    if view["late"]:
        details += f", {format_time(timing.after_last)} after the last arrival"
    return [
        facts,
        html.P(details + "."),
        components.make_graph(
            lambda theme_state: figures.draw_space_time(timing, names, dark=theme_state.dark),
            state,
            "catalogue-picture",
        ),
        components.how_to_read(captions.SCHEDULE_PAGE),
    ]


def _simulate_timing(a: Algorithm, view: dict[str, Any]) -> Timing | str:
    """Return the simulated times, or the reason why the simulation is impossible."""
    spec = problem_spec.ProblemSpec(view["p"], view["remote"], view["bytes"])
    problem = problem_spec.make_problem(a.operation, spec)
    if not applies_to(a, problem):
        return f"requires {a.restrictions or 'another number of processes'}"
    processes = view["p"] + view["remote"]
    alone = simulate(a, problem)
    step = float(alone.finish.max()) * 0.5
    late = [np.zeros(processes), np.zeros(processes), np.arange(processes) * step / processes]
    late[1][-1] = step
    try:
        return simulate(a, problem, arrivals=late[view["late"]], trace=True)
    except UsageError as error:
        return str(error)


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the catalogue."""
    del context

    @components.query_callback(app, Input("catalogue-p", "value"))
    def choose(processes: Any, state: states.PageState) -> str:
        """Write the chosen number of processes into the URL."""
        new = state.set_keys(p=processes)
        if view_state(new) == view_state(state):
            raise PreventUpdate
        return new.format_query()

    @components.state_callback(
        app,
        Output("catalogue-entry", "children"),
        Output("catalogue-menus", "children"),
        Input("url", "search"),
    )
    def show(_: str, state: states.PageState) -> Any:
        """Show the algorithm that the URL names."""
        content = components.make_or_message("an algorithm", lambda: make_entry(state))
        return content, make_menus(state)
