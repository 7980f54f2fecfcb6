"""Section on the functions that ranks execute between collectives, as a flame graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import dash
import numpy as np
import plotly.graph_objects as go
from dash import Input, Output, Patch, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.causes import sampled_code
from mpiprof.causes.sampled_code import StackTree
from mpiprof.interface.format_units import format_ranks
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports.words import stack_sentences

from . import components, filtered_tables
from . import url_state as states
from .figures import stacks as figures
from .trace_data import TraceContext, TraceData

KEY = "code"  # key of the URL: DIFFERENCE, LATE, ALL, or the number of a rank
BOX = "box"  # key of the URL: the enlarged box, a node of the tree
KEYS = frozenset((KEY, BOX))
DIFFERENCE, LATE, ALL = "difference", "late", "all"
ROOT = "0"  # node of the tree
CLICK = " A click enlarges a box, a click on the top box goes back."


@dataclass(frozen=True)
class Choice:
    """Contents of a flame graph: ranks, and the ranks that they are compared with, or []."""

    name: str
    ranks: list[int]
    others: list[int]


def make_section(data: TraceData, state: states.PageState, callsite: int | None) -> Component:
    """Return the flame graph of the calls of a call site, or of the whole run."""
    trace = data.trace
    if not trace.tables.presite_samples:
        return _section(_explain_missing(data), callsite)
    late = find_late_ranks(data, callsite)
    choice = find_choice(data, state, callsite)
    tree = read_tree(data, choice, callsite)
    links = _make_links(state, choice, late, callsite)
    if not tree.samples[0, 0]:
        ranks_text = format_ranks(choice.ranks) or "the ranks"
        why = (
            f"No sample of {ranks_text} precedes these calls: the code there takes too little time."
        )
        return _section([html.P(why), links], callsite)
    compared = bool(choice.others)

    def draw(drawn_state: states.PageState) -> go.Figure:
        return figures.draw_stacks(
            tree, compared=compared, dark=drawn_state.dark, box=state.get(BOX)
        )

    names = stack_sentences.name_groups([choice.ranks, *[choice.others] * compared])
    parts: list[Component] = []
    if compared:
        words = stack_sentences.excess_phrases(tree, choice.ranks)
        spans = [html.Span(text, className=style) if style else text for text, style in words]
        parts.append(html.P(spans, className="functions-sentence"))
    elif not late:
        why = (
            "No finding is about a late rank"
            if callsite is None
            else "No rank is late consistently"
        )
        parts.append(html.P(f"{why}, so no ranks are compared."))
    note = stack_sentences.sample_note(tree, names) + stack_sentences.caller_note(tree)
    return _section(
        [
            *parts,
            links,
            components.make_graph(draw, state, "functions-graph"),
            dcc.Store(id="functions-box", data=state.get(BOX)),
            html.P(note, className="note"),
            components.how_to_read(describe_boxes(choice) + CLICK),
        ],
        callsite,
    )


def describe_boxes(choice: Choice) -> str:
    """Return the explanation of the boxes of one group of ranks, or of two."""
    return stack_sentences.HOW_TO_READ if choice.others else stack_sentences.HOW_TO_READ_ONE


def find_late_ranks(data: TraceData, callsite: int | None) -> list[int]:
    """Return the late ranks of a call site, or of the whole run."""
    return data.compute_once(
        ("late ranks", callsite), lambda: sampled_code.find_late_ranks(data.trace, callsite)
    )


def find_choice(data: TraceData, state: states.PageState, callsite: int | None) -> Choice:
    """Return what the URL chooses; by default, the difference if ranks are late."""
    late = find_late_ranks(data, callsite)
    members = data.filtered_ranks(state)
    if callsite is not None:
        members = np.intersect1d(members, filtered_tables.callsite_members(data, callsite))
    ranks = members.tolist()
    other_ranks = [rank for rank in ranks if rank not in set(late)]
    name = state.get(KEY, DIFFERENCE)
    if name.isdecimal() and int(name) < data.trace.ranks:
        return Choice(name, [int(name)], [])
    if name == LATE and late:
        return Choice(LATE, late, [])
    if name == ALL or not (late and other_ranks):
        return Choice(ALL, ranks, [])
    return Choice(DIFFERENCE, late, other_ranks)


def read_tree(data: TraceData, choice: Choice, callsite: int | None) -> StackTree:
    """Return the tree of a choice, with one group of ranks or two."""
    groups = [choice.ranks, *[choice.others] * bool(choice.others)]
    trace = data.trace

    def make() -> StackTree:
        sites = None if callsite is None else sampled_code.list_sites(trace, callsite)
        return sampled_code.make_stack_tree(trace, groups, sites)

    key = ("stacks", callsite, tuple(choice.ranks), tuple(choice.others))
    return data.compute_once(key, make)


def _section(parts: list[Component], callsite: int | None) -> Component:
    note = "from samples" if callsite is None else "from samples, before calls of this site"
    title = stack_sentences.TITLE
    return html.Section([html.H2([f"{title} ", html.Span(note)]), *parts], className="functions")


def _explain_missing(data: TraceData) -> list[Component]:
    """Return why there are no samples, and the remedy."""
    reasons = sampled_code.explain_missing_samples(data.trace)
    if reasons:
        rank, reason = next(iter(sorted(reasons.items())))
        return [html.P(f"No samples: {reason} (rank {rank}).")]
    command = format_command("run", "--where", "PROGRAM", ranks=data.trace.ranks)
    why = "This trace has no samples of the code between calls. Record them with --where:"
    return [html.P(why), components.show_command(command)]


def _make_links(
    state: states.PageState, choice: Choice, late: list[int], callsite: int | None
) -> Component:
    names = {
        DIFFERENCE: "late and other ranks",
        LATE: f"late {stack_sentences.name_groups([late])[0]}",
        ALL: "all ranks",
    }
    items: list[Any] = []
    for name, text in names.items():
        if name == choice.name:
            items.append(html.B(text))
        elif name == ALL or late:
            items.append(dcc.Link(text, href=_choose(state, name)))
    number = int(choice.name) if choice.name.isdecimal() else None
    rank = dcc.Input(
        id="functions-rank", type="number", min=0, step=1, value=number, debounce=True,
        className="functions-rank",
    )  # fmt: skip
    label = html.Label(["rank ", rank], className="functions-one")
    if callsite is not None:
        items.append(dcc.Link("whole run", href=state.link_to("/functions")))
    return html.Div([*items, label], className="steps", role="group")


def _choose(state: states.PageState, name: object) -> str:
    """Return the query of a choice; another choice has other boxes."""
    return state.set_keys(**{KEY: name, BOX: None}).format_query()


def make_outline(name: str) -> list[Component]:
    """Return the container of a section, and the store of the choice that it shows."""
    return [dcc.Store(id=f"{name}-choice"), components.deferred_container(name)]


def register_section(
    app: dash.Dash,
    context: TraceContext,
    name: str,
    choose_callsite: Callable[[states.PageState], int | None],
) -> None:
    """Fill in a section when its page opens, and again when the URL chooses other ranks."""

    @components.state_callback(
        app,
        Output(name, "children"),
        Output(f"{name}-choice", "data"),
        Input("url", "search"),
        Input(name, "id"),
        State(f"{name}-choice", "data"),
    )
    def show(_: str, __: str, current: Any, state: states.PageState) -> Any:
        chosen = state.get(KEY, DIFFERENCE)
        if current == chosen:
            raise PreventUpdate
        data = context.latest_data(state)
        make = partial(make_section, data, state, choose_callsite(state))
        return components.make_or_message(name, make), chosen


def register_choice(app: dash.Dash) -> None:
    """Let the field of a rank's number choose that rank, and a click enlarge a box."""

    @components.query_callback(app, Input("functions-rank", "value"))
    def choose(rank: Any, state: states.PageState) -> str:
        """Write the number into the URL."""
        if not isinstance(rank, int) or rank < 0 or str(rank) == state.get(KEY):
            raise PreventUpdate
        return _choose(state, rank)

    @components.query_callback(app, Input("functions-graph", "clickData"))
    def enlarge(clicked: Any, state: states.PageState) -> str:
        """Write the box that the click enlarges into the URL."""
        return enlarge_box(clicked, state).format_query()

    @components.state_callback(
        app,
        Output("functions-graph", "figure"),
        Output("functions-box", "data"),
        Input("url", "search"),
        State("functions-box", "data"),
        prevent_initial_call=True,
    )
    def follow(_: str, current: str | None, state: states.PageState) -> tuple[Patch, str]:
        """Enlarge the box of the URL, after a step back in the browser's history."""
        box = state.get(BOX)
        if box == (current or ""):
            raise PreventUpdate
        figure = Patch()
        figure["data"][0]["level"] = box
        return figure, box


def enlarge_box(clicked: Any, state: states.PageState) -> states.PageState:
    """Return the state after a click on a box; a click on the top box goes back to its caller."""
    try:
        point = clicked["points"][0]
        node, (_, caller, has_callees) = str(point["id"]), point["customdata"]
    except (KeyError, IndexError, TypeError, ValueError):
        raise PreventUpdate from None
    if node == (state.get(BOX) or ROOT):
        node = ROOT if node == ROOT else str(caller)
    elif not has_callees:
        raise PreventUpdate
    return state.set_keys(**{BOX: None if node == ROOT else node})
