"""Call sites page: a grid of all call sites, or the page of one."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from .. import callsite_detail, components, message_detail, message_tables, sampled_functions
from .. import grid as grids
from .. import url_state as states
from ..trace_data import TraceContext

TITLE, PATH = "Call sites", "/callsites"
PAGE_KEYS = frozenset(("instance", "sort", "where", "columns", sampled_functions.KEY))
SKELETON = (56, 560, 160)
GRID_HINT = (
    "Select a call site by click, or with the arrow keys and space. Headings sort, and their "
    "menus filter by text, or by least value, such as 2ms, 64K, 10%."
)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the grid, or the page of the call site that the URL names."""
    chosen, messages = state.get_number("callsite", -1), state.get("callsite")
    if message_tables.parse_callsite(messages) is not None:
        crumb = callsite_detail.make_crumb(state, ["messages"])
        return html.Div([crumb, message_detail.make_layout(context, state, messages)])
    if chosen >= 0:
        return callsite_detail.make_layout(context, state, chosen)
    return _make_grid_page(context, state)


def _make_grid_page(context: TraceContext, state: states.PageState) -> Component:
    data = context.latest_data(state)
    rows = grids.make_grid_rows(data, state)
    if not rows:
        return components.empty_state("No call site passes the filters", "Clear them above.")
    title = f"{len(rows)} call site" + "s" * (len(rows) > 1)
    options = [
        dmc.Checkbox(label=column.heading, value=column.name, size="xs", description=column.meaning)
        for column in grids.list_choices(rows)
    ]
    chooser = dmc.Popover(
        [
            dmc.PopoverTarget(html.Button("Columns", className="quiet-button", id="column-button")),
            dmc.PopoverDropdown(
                dmc.CheckboxGroup(
                    html.Div(options, className="column-list"),
                    id="column-choice",
                    value=grids.chosen_columns(rows, state),
                )
            ),
        ],
        position="bottom-end",
        withRoles=False,  # they would be on a wrapper of the button
        withinPortal=True,
        shadow="md",
    )
    hint = html.P(GRID_HINT, className="note")
    head = html.Div([html.H2(title), hint, chooser], className="grid-head")
    return html.Div([head, grids.make_grid(rows, state)], className="callsite-list")


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
        Output("url", "search", allow_duplicate=True),
        Input("column-choice", "value"),
        prevent_initial_call=True,
    )
    def choose_columns(names: Any, state: states.PageState) -> Any:
        """Show the chosen columns, and write them into the URL."""
        data = context.latest_data(state)
        rows = grids.make_grid_rows(data, state)
        if not isinstance(names, list) or sorted(names) == sorted(
            grids.chosen_columns(rows, state)
        ):
            raise PreventUpdate
        state = state.set_keys(columns=",".join(map(str, names)) or "-")
        return grids.make_columns(rows, state), state.format_query()

    callsite_detail.register_callbacks(app, context)
    components.link_matrix_to_timeline(app, "message-pairs")
