"""Catalogue of algorithms: requirements, cost and a space-time diagram of each algorithm."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
import numpy as np
from dash import Input, Output, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import UsageError
from mpiprof.interface.format_units import format_size, format_time
from mpiprof.model import draw, problem_spec
from mpiprof.model.catalogue import Algorithm
from mpiprof.model.message_rounds import applies_to
from mpiprof.model.simulate import Timing, simulate

from . import components
from . import url_state as states
from .figures import algorithms as figures

STATE_KEYS = ("of", "name", "p", "bytes", "late")
MAX_PROCESSES, MAX_ROUNDS = 32, 4000
SIZES = (8, 1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24)
LATE = ("nobody late", "the last rank late", "ranks late one after the other")


def make_layout(state: states.PageState) -> Component:
    """Return the catalogue's controls and the containers of their results."""
    shown = view_state(state)
    remote = " + remote group" * shown["algorithm"].intercommunicator
    controls = [
        _make_select("catalogue-of", "Operation", problem_spec.list_operations(), shown["of"]),
        _make_select("catalogue-name", "Algorithm", _algorithm_names(shown["of"]), shown["name"]),
        dmc.NumberInput(
            id="catalogue-p", label=f"Processes{remote}", value=shown["p"], min=2,
            max=MAX_PROCESSES, debounce=300, className="choice narrow",
        ),
        _make_select(
            "catalogue-bytes", "Data",
            [{"value": str(n), "label": format_size(n)} for n in SIZES], str(shown["bytes"]),
        ),
        _make_select(
            "catalogue-late", "Arrivals",
            [{"value": str(i), "label": text} for i, text in enumerate(LATE)], str(shown["late"]),
        ),
    ]  # fmt: skip
    return components.make_card(
        "Catalogue",
        html.Div(controls, className="controls"),
        html.Div(id="catalogue-entry"),
        note="Lines are messages, from their start at the sender to their end at the receiver; "
        "successive rounds differ in colour.",
    )


def _make_select(name: str, label: str, data: Any, value: str) -> Component:
    return dmc.Select(
        id=name, label=label, data=data, value=value, allowDeselect=False, searchable=True,
        className="choice",
    )  # fmt: skip


def _algorithm_names(operation: str) -> list[dict[str, str]]:
    return [
        {"value": a.name, "label": a.name + " (inter-communicator)" * a.intercommunicator}
        for a in {a.name: a for a in problem_spec.list_algorithms(operation)}.values()
    ]


def view_state(state: states.PageState) -> dict[str, Any]:
    """Return the catalogue state of the URL; invalid values are replaced by valid ones."""
    operation = state.get("of")
    if operation not in problem_spec.list_operations():
        operation = "allgatherv"
    known = {a.name: a for a in problem_spec.list_algorithms(operation)}
    algorithm = known.get(state.get("name")) or next(iter(known.values()))
    processes = min(max(state.get_number("p", 8), 2), MAX_PROCESSES)
    wanted = state.get_number("bytes", 1 << 13)
    return {
        "of": operation,
        "name": algorithm.name,
        "algorithm": algorithm,
        "p": processes,
        "remote": processes // 2 if algorithm.intercommunicator else 0,
        "bytes": wanted if wanted in SIZES else 1 << 13,
        "late": min(max(state.get_number("late"), 0), len(LATE) - 1),
    }


def make_entry(state: states.PageState) -> list[Component]:
    """Return an algorithm's facts and its space-time diagram."""
    shown = view_state(state)
    a: Algorithm = shown["algorithm"]
    facts = components.fact_list(
        [
            ("needs", a.restrictions or "nothing"),
            ("cost", a.cost),
            ("parameters", a.parameters or "none"),
            ("source", a.source),
        ]
    )
    timing = _simulate_timing(a, shown)
    if isinstance(timing, str):
        return [facts, html.P(timing, className="note")]
    names = draw.name_processes(shown["p"], shown["remote"])
    details = f"The last process ends at {format_time(float(timing.finish.max()))}"
    if shown["late"]:
        details += f", {format_time(timing.after_last)} after the last arrival"
    return [
        facts,
        html.P(details + "."),
        components.make_graph(figures.draw_space_time(timing, names), state),
    ]


def _simulate_timing(a: Algorithm, shown: dict[str, Any]) -> Timing | str:
    """Return the simulated times, or the reason why the simulation is impossible."""
    spec = problem_spec.ProblemSpec(shown["p"], shown["remote"], shown["bytes"])
    problem = problem_spec.make_problem(a.operation, spec)
    if not applies_to(a, problem):
        return f"requires {a.restrictions or 'another number of processes'}"
    processes = shown["p"] + shown["remote"]
    alone = simulate(a, problem)
    step = float(alone.finish.max()) * 0.5
    late = [np.zeros(processes), np.zeros(processes), np.arange(processes) * step / processes]
    late[1][-1] = step
    try:
        return simulate(a, problem, arrivals=late[shown["late"]], trace=True)
    except UsageError as error:
        return str(error)


def register_callbacks(app: dash.Dash) -> None:
    """Add the callbacks of the catalogue."""

    @components.query_callback(app, *[Input(f"catalogue-{key}", "value") for key in STATE_KEYS])
    def choose(*values: Any) -> str:
        """Write the chosen values into the URL."""
        *chosen, state = values
        new = state.set_keys(**dict(zip(STATE_KEYS, chosen, strict=True)))
        if view_state(new) == view_state(state):
            raise PreventUpdate
        return new.format_query()

    @components.state_callback(
        app,
        Output("catalogue-entry", "children"),
        Output("catalogue-name", "data"),
        Output("catalogue-name", "value"),
        Input("url", "search"),
    )
    def show(_: str, state: states.PageState) -> Any:
        """Show the algorithm that the URL names."""
        shown = view_state(state)
        content = components.make_or_message("an algorithm", lambda: make_entry(state))
        return content, _algorithm_names(shown["of"]), shown["name"]
