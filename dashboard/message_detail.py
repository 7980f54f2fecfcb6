"""Detail view of one call site of messages, and the matrix of messages between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from mpiprof.errors import UsageError
from mpiprof.interface.format_units import shorten_text
from mpiprof.reports import late_rank_sentences
from mpiprof.reports.message_table import message_cost_sentence
from mpiprof.reports.site_labels import format_site

from . import (
    callsite_table,
    components,
    filtered_tables,
    finding_links,
    message_tables,
    pair_tables,
    trace_figures,
)
from .figures.rank_pairs import draw_pair_matrix
from .message_tables import MessageRows
from .trace_data import TraceContext
from .url_state import PageState

NOTES = {
    "wait": "Waiting of each rank (down) for each rank (across).",
    "bytes": "Bytes from each rank (down) to each rank (across).",
    "messages": "Number of messages from each rank (down) to each rank (across).",
}
RANKS_NOTE = (
    "Up: waiting of the rank here. Down: waiting of other ranks here for it. A rank with a long "
    "bar downwards and a short one upwards is late; a rank with both passes a delay on."
)
NO_IMBALANCE = (
    "Calls on messages have no instance that all ranks enter, so there is no imbalance ω, and no "
    "algorithm to choose."
)


def make_layout(context: TraceContext, state: PageState, callsite: str) -> Component:
    """Return the detail view of the call site with this key; raises UsageError without one."""
    data = context.latest_data(state)
    table = message_tables.filtered_message_callsites(data, state)
    found = filtered_tables.table_records(table[table["callsite"] == callsite])
    if not found:
        raise UsageError(f"no call site {callsite} of messages passes the filters")
    row = found[0]
    rows = message_tables.filtered_messages(data, state).at_callsite(
        row["operation"], int(row["site_id"])
    )
    site = shorten_text(format_site(row["sites"][0]))
    cost = message_cost_sentence(row)
    causes = finding_links.find_causes(data, (str(row["operation"]), int(row["site_id"])))
    phrases = late_rank_sentences.message_headline(row, causes)
    return components.stack(
        html.Div(
            [
                html.H1([row["operation"], " at ", site]),
                html.H2(
                    [html.Span(text, className=style) for text, style in phrases],
                    className="headline",
                ),
                *finding_links.list_causes(data, state, causes),
                *[html.P(cost, className="lead")] * bool(cost),
                html.P(NO_IMBALANCE, className="note"),
                components.fact_list(callsite_table.callsite_facts(row)),
            ],
            className="detail-head",
        ),
        components.side_by_side(
            callsite_table.source_card(context, row),
            components.make_card(
                "Waiting by rank",
                components.make_graph(
                    lambda shown: trace_figures.draw_message_ranks(data, shown, rows),
                    state,
                    "message-ranks",
                ),
                components.how_to_read(RANKS_NOTE),
            ),
        ),
        make_matrix_card(rows, state, "message-pairs", ("wait", "bytes", "messages")),
    )


def make_matrix_card(
    rows: MessageRows, state: PageState, graph: str, quantities: Sequence[str]
) -> Component | None:
    """Return the matrix of messages by rank with its choice of quantity, or None if it is empty.

    graph: id of the graph. quantities: in the order of the choice.
    """
    matrix = rows.make_matrix()
    available = [name for name in quantities if matrix.get_cells(name).any()]
    if not available:
        return None
    wanted = state.get(pair_tables.QUANTITY)
    chosen = wanted if wanted in available else available[0]
    choices = {name: pair_tables.QUANTITIES[name] for name in available}
    links = components.choice_links(choices, chosen, partial(pair_tables.link_to_quantity, state))
    cells = matrix.get_cells(chosen)

    def draw(shown: PageState) -> go.Figure:
        return draw_pair_matrix(matrix.ranks, cells, chosen, dark=shown.dark)

    return components.make_card(
        "Messages between ranks",
        *[links] * (len(choices) > 1),
        components.make_graph(draw, state, graph),
        components.how_to_read(f"{NOTES[chosen]} A click shows both on the timeline."),
    )
