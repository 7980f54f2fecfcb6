"""Call sites page: a grid of all call sites, or the page of one."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from .. import callsite_detail, components, message_detail, message_tables, sampled_functions
from .. import grid as grids
from .. import url_state as states
from ..trace_data import TraceContext

TITLE, PATH = "Call sites", "/callsites"
PAGE_KEYS = frozenset(("instance", "sort", "where", "columns", *sampled_functions.KEYS))
SKELETON = (56, 560, 160)
GRID_HINT = (
    "Waits are sums over all ranks (overview: mean). Select a call site by click, or by arrow keys "
    "and space. Headings sort; their menus filter by text, or least value: 2ms, 64K, 10%."
)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the grid, or the page of the call site that the URL names."""
    chosen, messages = state.get_number("callsite", -1), state.get("callsite")
    if message_tables.parse_callsite(messages) is not None:
        crumb = partial(callsite_detail.make_crumb, state)
        return message_detail.make_layout(context, state, messages, crumb)
    if chosen >= 0:
        return callsite_detail.make_layout(context, state, chosen)
    return _make_grid_page(context, state)


def _make_grid_page(context: TraceContext, state: states.PageState) -> Component:
    data = context.latest_data(state)
    rows = grids.make_grid_rows(data, state)
    if not rows:
        return components.empty_state("No call site passes the filters", "Clear them above.")
    title = f"{len(rows)} call site" + "s" * (len(rows) > 1)
    links = list_column_links(rows, state)
    chooser = components.link_menu("Shown columns", "Columns", links, "column-list", stays=True)
    made = dcc.Store(id="columns-shown", data=state.get("columns"))
    hint = html.P(GRID_HINT, className="note")
    head = html.Div([html.H2(title), hint, chooser], className="grid-head")
    return html.Div([head, grids.make_grid(rows, state), made], className="callsite-list")


def list_column_links(rows: Any, state: states.PageState) -> list[components.MenuLink]:
    """Return the links of the columns; each link shows or hides a column."""
    shown = grids.chosen_columns(rows, state)
    links: list[components.MenuLink] = []
    for column in grids.list_choices(rows):
        others = [name for name in shown if name != column.name]
        names = others if column.name in shown else [*shown, column.name]
        address = PATH + state.set_keys(columns=",".join(names) or "-").format_query()
        content = [html.B(column.heading), html.Small(column.meaning)]
        links.append((content, address, column.name in shown))
    return links


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks: selection of a row, the columns, and the page of one call site."""

    @components.query_callback(app, Input("callsite-grid", "selectedRows"))
    def choose(rows: Any, state: states.PageState) -> str:
        """Write the selected row into the URL."""
        chosen = rows[0].get("callsite") if isinstance(rows, list) and rows else None
        if chosen is None or str(chosen) == state.get("callsite"):
            raise PreventUpdate
        return state.set_keys(callsite=chosen, instance=None, band=None, pairs=None).format_query()

    @components.state_callback(
        app,
        Output("callsite-grid", "columnDefs"),
        Output("column-list", "children"),
        Output("columns-shown", "data"),
        Input("url", "search"),
        State("columns-shown", "data"),
        prevent_initial_call=True,
    )
    def show_columns(_: str, shown: str, state: states.PageState) -> Any:
        """Show the columns that the URL names."""
        if state.get("columns") == (shown or ""):
            raise PreventUpdate
        rows = grids.make_grid_rows(context.latest_data(state), state)
        links = list_column_links(rows, state)
        return grids.make_columns(rows, state), components.link_items(links), state.get("columns")

    callsite_detail.register_callbacks(app, context)
    components.link_matrix_to_timeline(app, "message-pairs")
