"""Page of one call site of messages: who causes its waiting, who waits, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.account.rank_pairs import list_waiting_pairs
from mpiprof.causes.finding import MIN_PARTIAL_SHARE, Finding
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import (
    format_count,
    format_share,
    format_size,
    format_time,
    shorten_text,
)
from mpiprof.reports.overview import proof
from mpiprof.reports.pictures.caused_waits import CausedWaits, draw_caused_waits
from mpiprof.reports.site_labels import format_site
from mpiprof.reports.words import callsite_sentences, captions

from . import (
    callsite_table,
    components,
    filtered_tables,
    finding_links,
    message_tables,
    pair_tables,
)
from .figures.rank_pairs import draw_pair_matrix
from .message_tables import MessageTableRows
from .picture import Picture
from .trace_data import TraceContext, TraceData
from .url_state import PageState, clear_filters

NOTES = {
    "wait": "Waiting of each rank (down) for each rank (across).",
    "bytes": "Bytes from each rank (down) to each rank (across).",
    "messages": "Number of messages from each rank (down) to each rank (across).",
}
SIZES = {"wide": (590.0, 300.0), "narrow": (366.0, 230.0)}  # by class: of the picture in px
NO_IMBALANCE = (
    "Calls on messages have no instance that all ranks enter, so there is no imbalance ω, and no "
    "algorithm to choose."
)


def make_layout(context: TraceContext, state: PageState, callsite: str, back: Any) -> Component:
    """Return the page of the call site with this key; raises UsageError without one.

    back: makes the line that leads back to the call sites, from the rest of the line.
    """
    data = context.latest_data(state)
    table = message_tables.filtered_message_callsites(data, state)
    records = filtered_tables.table_records(table[table["callsite"] == callsite])
    if not records:
        raise UsageError(f"no call site {callsite} of messages passes the filters")
    row = records[0]
    rows = message_tables.filtered_messages(data, state).at_callsite(
        row["operation"], int(row["site_id"])
    )
    causes = finding_links.find_causes(data, (str(row["operation"]), int(row["site_id"])))
    pictures = [
        _make_ranks(data, state, rows, row, causes),
        _make_matrix(rows, state, "message-pairs", ("wait", "bytes", "messages")),
    ]
    return html.Div(
        [
            _make_head(data, state, rows, row, causes, back),
            html.Div(pictures, className="message-pictures"),
            callsite_table.make_details(context, row),
            html.P(NO_IMBALANCE, className="note"),
        ],
        className="callsite",
    )


def _make_head(
    data: TraceData,
    state: PageState,
    rows: MessageTableRows,
    row: dict[str, Any],
    causes: list[Finding],
    back: Any,
) -> Component:
    """Return the sentence on the cause, the key numbers and the way to the longest wait."""
    site = html.Code(shorten_text(format_site(row["sites"][0])))
    size = row.get("bytes", np.nan)
    facts = [str(row["operation"]), *([format_size(float(size))] if size >= 0 else [])]
    site_key = str(row["operation"]), int(row["site_id"])
    partial = finding_links.find_causes(data, site_key, MIN_PARTIAL_SHARE)
    phrases = callsite_sentences.message_headline(row, causes, partial)
    sentence = html.Div(
        [
            back([site, f" · {', '.join(facts)}"]),
            html.H1(
                [html.Span(text, className=style) if style else text for text, style in phrases],
                className="headline",
            ),
            *finding_links.list_causes(data, state, causes),
        ]
    )
    parts = [sentence, _make_numbers(data, state, row)]
    pairs = list_waiting_pairs(rows.waits)
    if len(pairs):
        longest = pairs.iloc[int(pairs["longest_ns"].to_numpy(np.float64).argmax())]
        href = pair_tables.link_to_longest(data, state, longest)
        parts.append(dcc.Link("Show the longest wait", href=href, className="primary-button"))
    return html.Div(parts, className="callsite-head")


def _make_numbers(data: TraceData, state: PageState, row: dict[str, Any]) -> Component:
    """Return the key numbers. Waiting is the mean over the passing ranks."""
    ranks = max(len(data.filtered_ranks(state)), 1)
    wait, share = float(row["total_wait_ns"]), float(row["wait_share"])
    numbers = [
        (format_time(wait / ranks), f"waiting, {format_share(share)}", "late" * (share >= 0.01)),
        (format_count(int(row["calls"])), "calls", ""),
        (format_time(float(row["mean_elapsed_ns"])), "mean time", ""),
    ]
    return callsite_table.show_numbers(numbers, "Waiting is a mean over the ranks.")


def _make_ranks(
    data: TraceData,
    state: PageState,
    rows: MessageTableRows,
    row: dict[str, Any],
    causes: list[Finding],
) -> Component:
    """Return the waiting by rank, as the overview draws it: causes above, waits below."""
    waits, note = find_caused_waits(data, state, rows, row, causes)
    pictures = [
        Picture(draw_caused_waits(waits, *size), className=f"picture {name}")
        for name, size in SIZES.items()
    ]
    parts = [html.H2("Waiting by rank"), *pictures, components.picture_menu(waits.list_values())]
    return html.Section([*parts, components.how_to_read(note)], className="callsite-waits")


def find_caused_waits(
    data: TraceData,
    state: PageState,
    rows: MessageTableRows,
    row: dict[str, Any],
    causes: list[Finding],
) -> tuple[CausedWaits, str]:
    """Return the waiting at a call site by rank, and how to read its picture.

    The causes are known for the whole run alone; with filters, the ranks waited for directly are
    drawn. causes: findings at the call site; the first one is blamed.
    """
    blamed = np.zeros(data.trace.ranks, np.bool_)
    if causes:
        blamed = proof.mark_blamed(data.trace, causes[0])
    if clear_filters(state) == state and data.trace.record != "summary":
        waits = data.derive("rank_waits")((str(row["operation"]), int(row["site_id"])))
        if waits is not None:
            caused, waited = waits
            return CausedWaits(caused, waited, blamed), captions.CAUSED_WAITS
    awaited, waited = (
        rows.sum_waits(by).reindex(range(data.trace.ranks), fill_value=0).to_numpy(np.float64)
        for by in ("awaited", "rank")
    )
    return CausedWaits(awaited, waited, blamed & False, "awaited"), captions.AWAITED_WAITS


def _make_matrix(
    rows: MessageTableRows, state: PageState, graph: str, quantities: Sequence[str]
) -> Component | None:
    """Return the matrix of messages by rank with its choice of quantity, or None if it is empty.

    graph: id of the graph. quantities: in the order of the choice.
    """
    matrix = rows.make_matrix()
    available = [name for name in quantities if matrix.get_cells(name).any()]
    if not available:
        return None
    quantity = state.get(pair_tables.QUANTITY)
    chosen = quantity if quantity in available else available[0]
    choices = {name: pair_tables.QUANTITIES[name] for name in available}
    links = components.choice_links(choices, chosen, partial(pair_tables.link_to_quantity, state))
    cells = matrix.get_cells(chosen)

    def draw(drawn_state: PageState) -> go.Figure:
        return draw_pair_matrix(matrix.ranks, cells, chosen, dark=drawn_state.dark)

    return html.Section(
        [
            html.H2("Messages between ranks"),
            *[links] * (len(choices) > 1),
            components.make_graph(draw, state, graph),
            components.how_to_read(f"{NOTES[chosen]} A click shows both on the timeline."),
        ]
    )
