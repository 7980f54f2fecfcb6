"""Messages page: who waits for whose messages, with links to timeline and call sites."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
import plotly.graph_objects as go
from dash import Input, Output, Patch, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.account.message_callsite_sums import are_waits_known
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports.pictures import pair_matrix
from mpiprof.reports.words import captions, message_sentences

from .. import components, pair_tables
from .. import url_state as states
from ..figures import rank_pairs
from ..trace_data import TraceContext, TraceData

TITLE, PATH = "Messages", "/messages"
PAGE_KEYS = frozenset((pair_tables.CELL, pair_tables.SHOWN))
SKELETON = (420, 240)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page with outlines of its contents, which need a pass over the trace."""
    if context.latest_data(state).trace.record == "summary":
        return components.empty_state(
            "This trace does not show who waits for whom",
            "It has only totals: record without --record summary.",
        )
    sentence = components.deferred_container("messages-sentence", className="messages-sentence")
    pairs = components.deferred_container("messages-pairs")
    picture = components.deferred_container("messages-picture")
    return html.Div([components.stack(sentence, pairs), picture], className="messages")


def make_sentence(data: TraceData, state: states.PageState) -> list[Component]:
    """Return the cause of the waiting, or the pair of ranks that waits most, and its links."""
    pairs = pair_tables.filtered_pairs(data, state)
    cause = None
    if states.clear_filters(state) == state:  # findings are about the whole run
        cause = message_sentences.find_message_cause(data.derive("findings"), pairs)
    words: list[Any] = [
        html.Span(text, className=style) if style else text
        for text, style in message_sentences.headline(data.trace, pairs, cause)
    ]
    if not len(pairs):
        has_waits = are_waits_known(data.trace) or not len(data.trace.message_sums)
        remedy = f"Record with {format_command('run', '--messages', 'all', 'PROGRAM')}."
        why = [] if has_waits else [html.P(remedy)]
        return [html.H1(words, className="good" if has_waits else ""), *why]
    row, name = pairs.iloc[0], "the longest wait of this pair"
    if cause is not None:
        direct = pairs[pairs["awaited"].isin(cause.finding.ranks)]
        row = direct.iloc[0] if len(direct) else row
        name = f"the longest wait for rank {row['awaited']}"
    timeline = pair_tables.link_to_longest(data, state, row)
    return [
        html.H1(words),
        *map(html.P, message_sentences.further_sentences(data.trace, pairs, cause)),
        html.Div(
            [
                dcc.Link(f"Show {name} in the timeline", href=timeline, className="primary"),
                dcc.Link("Open its call site", href=pair_tables.link_to_callsite(state, row)),
            ],
            className="messages-links",
        ),
    ]


def make_picture(data: TraceData, state: states.PageState) -> Component | None:
    """Return the matrix of ranks with its choice of quantity, or None if all are zero."""
    matrices = pair_tables.list_matrices(data, state)
    if not matrices:
        return None
    chosen = pair_tables.chosen_quantity(state, matrices)
    ranks, cells = matrices[chosen]
    choices = {name: pair_tables.QUANTITIES[name] for name in matrices}
    quantity = "wait" if chosen == "all" else chosen

    def draw(drawn_state: states.PageState) -> go.Figure:
        figure = rank_pairs.draw_pair_matrix(ranks, cells, quantity, dark=drawn_state.dark)
        return figure.update_layout(shapes=_outline(drawn_state, figure))

    return html.Section(
        [
            html.H2(pair_matrix.QUANTITIES[quantity].title),
            components.choice_links(choices, chosen, partial(pair_tables.link_to_quantity, state)),
            components.make_graph(draw, state, "messages-matrix"),
            components.how_to_read(captions.MESSAGES_PAGE),
        ]
    )


def _outline(state: states.PageState, figure: Any) -> list[Any]:
    """Return the mark of the selected cell; none if no cell of the matrix is selected."""
    names = list(figure["data"][0]["y"]) if figure["data"] else []
    selected = pair_tables.selected_cell(state)
    if selected is None:
        return []
    down, across = (rank_pairs.name_run(run) for run in selected)
    if down not in names or across not in names:
        return []
    return [rank_pairs.outline_cell(names.index(down), names.index(across), dark=state.dark)]


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill in the page, and select a cell of the matrix."""
    _register_part(app, context, "messages-sentence", make_sentence)
    _register_part(app, context, "messages-picture", make_picture)
    _register_part(app, context, "messages-pairs", pair_tables.make_pair_list, PAGE_KEYS)

    @components.query_callback(app, Input("messages-matrix", "clickData"))
    def choose(clicked: Any, state: states.PageState) -> str:
        """Write the clicked cell into the URL."""
        try:
            point = clicked["points"][0]
            cell = f"{point['y']}:{point['x']}"
        except (TypeError, KeyError, IndexError):
            raise PreventUpdate from None
        return state.set_keys(**{pair_tables.CELL: cell}).format_query()

    @components.state_callback(
        app,
        Output("messages-matrix", "figure", allow_duplicate=True),
        Input("url", "search"),
        State("messages-matrix", "figure"),
        prevent_initial_call=True,
    )
    def mark(_: str, figure: Any, state: states.PageState) -> Any:
        """Outline the selected cell."""
        if not figure:
            raise PreventUpdate
        patch = Patch()
        patch["layout"]["shapes"] = _outline(state, figure)
        return patch


def _register_part(
    app: dash.Dash, context: TraceContext, name: str, make: Any, keys: frozenset[str] = frozenset()
) -> None:
    """Fill in a container when the page opens, and again when one of the URL's keys changes."""
    follows = (Input("url", "search"),) if keys else ()

    @components.state_callback(app, Output(name, "children"), Input(name, "id"), *follows)
    def show(*values: Any) -> Any:
        state = values[-1]
        return components.make_or_message(name, lambda: make(context.latest_data(state), state))
