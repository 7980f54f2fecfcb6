"""Matrices and the list of pairs of ranks on the page of messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.account.rank_pairs import MAX_WAIT_ROWS, PairMatrix, list_waiting_pairs, select_pairs
from mpiprof.interface.format_units import format_count, format_share, format_time, shorten_text
from mpiprof.reports.words import message_sentences
from mpiprof.reports.words.ranks_and_steps import describe_location
from mpiprof.trace.types import Float, Int

from . import filtered_tables, message_tables
from .figures.rank_pairs import name_run
from .trace_data import TraceData
from .url_state import PageState, change_filters

QUANTITY, CELL = "pairs", "cell"  # keys of the URL: the quantity of the matrix, and one cell of it
QUANTITIES = {
    "wait": "waiting for messages",
    "all": "waiting, collectives included",
    "messages": "messages",
    "bytes": "bytes",
}
CELL_PATTERN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?:(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
SHOWN = "listed"  # key of the URL: "all" lists up to MAX_LISTED pairs
MAX_PAIRS, MAX_LISTED = 20, 500
MARGIN = 0.3  # of the longest wait, which the timeline shows before and after it
Run = tuple[int, int]
Matrices = dict[str, tuple[Sequence[Run], Float | Int]]


def filtered_pairs(data: TraceData, state: PageState) -> pd.DataFrame:
    """Return the `list_waiting_pairs` of the waits that pass the filters."""
    key = ("waiting pairs", state.without_page_keys().format_query())
    waits = message_tables.filtered_messages(data, state).waits
    return data.compute_once(key, lambda: list_waiting_pairs(waits))


def list_matrices(data: TraceData, state: PageState) -> Matrices:
    """Return the ranks and cells of each quantity that is not zero everywhere."""
    matrix = message_tables.filtered_messages(data, state).make_matrix(MAX_WAIT_ROWS)
    matrices: Matrices = {}
    for name in QUANTITIES:
        cells = _sum_all(data, state, matrix) if name == "all" else matrix.get_cells(name)
        if cells is not None and cells.any():
            matrices[name] = matrix.ranks, cells
    return matrices


def _sum_all(data: TraceData, state: PageState, matrix: PairMatrix) -> Float | None:
    """Return the waiting in messages and collectives; None if the filters exclude collectives."""
    rows = filtered_tables.filtered_callsites(data, state)
    if state.ranks or state.nodes or not len(rows):
        return None  # the waiting in collectives is known for all ranks together
    callsites = tuple(rows["callsite"].tolist()) if state.communicators or state.operations else ()
    waits: Float = data.derive("waiting_for", callsites).total_wait_ns + matrix.wait_ns
    return waits


def link_to_quantity(state: PageState, quantity: str) -> str:
    """Return the address of this page with another quantity of the matrix."""
    return state.set_keys(**{QUANTITY: quantity}).format_query()


def chosen_quantity(state: PageState, matrices: Matrices) -> str:
    """Return the quantity of the URL if it has a matrix, and else the first one that has."""
    return state.get(QUANTITY) if state.get(QUANTITY) in matrices else next(iter(matrices))


def selected_cell(state: PageState) -> tuple[Run, Run] | None:
    """Return the runs of ranks, down and across, of the cell in the URL, or None."""
    match = CELL_PATTERN.fullmatch(state.get(CELL))
    if match is None:
        return None
    first, last, first_across, last_across = (int(text) if text else -1 for text in match.groups())
    return (first, max(first, last)), (first_across, max(first_across, last_across))


def make_pair_list(data: TraceData, state: PageState) -> Component | None:
    """Return the pairs of ranks that wait most, of all pairs or of the selected cell."""
    pairs = filtered_pairs(data, state)
    total_ns, cell = max(float(pairs["wait_ns"].sum()), 1.0), selected_cell(state)
    title: list[Any] = ["Pairs of ranks that wait most"]
    if cell is not None:
        pairs = _pairs_of_cell(state, pairs, cell)
        down, across = (_format_run(run) for run in cell)
        both = ", ".join(map(name_run, dict.fromkeys(cell)))
        shared = change_filters(state.without_page_keys(), {"ranks": both})
        title = [
            f"{down} and {across} ",
            dcc.Link("show in the timeline", href=shared.link_to("/timeline")),
            " ",
            dcc.Link("all pairs", href=state.set_keys(**{CELL: None}).format_query()),
        ]
    if not len(pairs):
        none = html.P("These ranks do not wait for messages of each other.", className="note")
        return html.Section([html.H2(title), none]) if cell else None
    max_pairs = MAX_LISTED if state.get(SHOWN) == "all" else MAX_PAIRS
    rows = [_make_row(data, state, row, total_ns) for _, row in pairs.head(max_pairs).iterrows()]
    names = ("waits", "for", "waiting", "of all", "longest", "call site")
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in names]))
    remainder = _describe_rest(state, len(pairs) - max_pairs, max_pairs == MAX_LISTED)
    table = html.Table([head, html.Tbody(rows)], className="table messages-table")
    return html.Section([html.H2(title), html.Div(table, className="messages-scroll"), *remainder])


def _describe_rest(state: PageState, hidden_count: int, is_whole: bool) -> list[Component]:
    """Return the link to the pairs that are not listed, or their number if most are listed."""
    if hidden_count <= 0:
        return []
    text = f"and {format_count(hidden_count)} more pairs"
    if is_whole:
        return [
            html.P(f"{text}; a click on a cell of the matrix lists its pairs", className="note")
        ]
    href = state.set_keys(**{SHOWN: "all"}).format_query()
    return [html.P(dcc.Link(text, href=href), className="note")]


def _pairs_of_cell(state: PageState, pairs: pd.DataFrame, cell: tuple[Run, Run]) -> pd.DataFrame:
    """Return the pairs of a cell; where the matrix shows messages, in both directions."""
    chosen = select_pairs(pairs, *cell)
    if state.get(QUANTITY) not in ("messages", "bytes") or cell[0] == cell[1]:
        return chosen
    both = pd.concat([chosen, select_pairs(pairs, cell[1], cell[0])])
    return both.sort_values("wait_ns", ascending=False, kind="stable", ignore_index=True)


def _make_row(data: TraceData, state: PageState, row: Any, total_ns: float) -> Component:
    site = shorten_text(message_sentences.format_pair_site(data.trace, row))
    wait, longest = float(row["wait_ns"]), format_time(float(row["longest_ns"]))
    cells = [
        html.Td(f"rank {row['rank']}", title=describe_location(data.trace, int(row["rank"]))),
        html.Td(f"rank {row['awaited']}", title=describe_location(data.trace, int(row["awaited"]))),
        html.Td(html.B(format_time(wait)), className="number"),
        html.Td(format_share(wait / total_ns), className="number"),
        html.Td(dcc.Link(longest, href=link_to_longest(data, state, row)), className="number"),
        html.Td(dcc.Link(site, href=link_to_callsite(state, row))),
    ]
    return html.Tr(cells)


def link_to_callsite(state: PageState, row: Any) -> str:
    """Return the address of the call site of a row of `list_waiting_pairs`."""
    return state.link_to("/callsites", callsite=f"{row['operation']}:{row['site_id']}")


def link_to_longest(data: TraceData, state: PageState, row: Any) -> str:
    """Return the address of the timeline at the longest wait of a pair, with its two ranks."""
    begin = int(row["begin_ns"]) - int(data.trace.calls_start_ns)
    length = int(row["until_ns"]) - int(row["begin_ns"])
    margin = int(MARGIN * length) + 1
    ranks = {"ranks": f"{row['rank']}, {row['awaited']}"}
    shared = change_filters(state.without_page_keys(), ranks)
    window = {"from": max(begin - margin, 0), "to": max(begin + length + margin, 1)}
    return shared.link_to("/timeline", **window)


def _format_run(run: Run) -> str:
    return f"Rank {run[0]}" if run[0] == run[1] else f"Ranks {run[0]}–{run[1]}"
