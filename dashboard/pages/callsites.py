"""Call sites page: a grid of all call sites, and the detail view of one."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
from dash import Input, Output, State, dcc
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from .. import callsite_detail, components, message_detail, message_tables
from .. import grid as grids
from .. import url_state as states
from ..trace_data import TraceContext

TITLE, PATH = "Call sites", "/callsites"
PAGE_KEYS = frozenset(("callsite", "instance", "sort", "where", "order", "band", "pairs"))
SKELETON = (260, 120, 420)
GRID_HINT = (
    "Select a call site by click, or with the arrow keys and space. Headings sort. The "
    "fields below them filter by text, or by least value, such as 2ms, 64K, 10%."
)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page: the grid, and a container for the selected call site."""
    data = context.latest_data(state)
    rows = grids.make_grid_rows(data, state)
    if not rows:
        return components.empty_state("No call site passes the filters", "Clear them above.")
    title = f"{len(rows)} call site" + "s" * (len(rows) > 1)
    return components.stack(
        components.make_card(title, grids.make_grid(rows, state), note=GRID_HINT),
        components.deferred_container("callsite-detail"),
        dcc.Store(id="callsite-key"),
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks: selection of a row, its detail view, and one of its instances."""

    @components.query_callback(app, Input("callsite-grid", "selectedRows"))
    def choose(rows: Any, state: states.PageState) -> str:
        """Write the selected row into the URL."""
        chosen = rows[0].get("callsite") if isinstance(rows, list) and rows else None
        if chosen is None or str(chosen) == state.get("callsite"):
            raise PreventUpdate
        return state.set_keys(callsite=chosen, instance=None, band=None, pairs=None).format_query()

    @components.state_callback(
        app,
        Output("callsite-detail", "children"),
        Output("callsite-key", "data"),
        Input("url", "search"),
        State("callsite-key", "data"),
    )
    def show(_: str, shown: str | None, state: states.PageState) -> Any:
        """Show the selected call site, unless only its selected instance has changed."""
        chosen, messages = state.get_number("callsite", -1), state.get("callsite")
        relevant = state.set_keys(instance=None, sort=None, where=None)
        now = f"{state.dark} {relevant.format_query()}"
        if now == shown:
            raise PreventUpdate
        if message_tables.parse_callsite(messages) is not None:
            make = partial(message_detail.make_layout, context, state, messages)
        elif chosen >= 0:
            make = partial(callsite_detail.make_layout, context, state, chosen)
        else:
            return None, now
        return components.make_or_message("a call site", make), now

    callsite_detail.register_callbacks(app, context)
    components.link_matrix_to_timeline(app, "message-pairs")
