"""Call sites page: a grid of all call sites, or the page of one.

The URL contains the order of the grid, `sort=-wait_share,sites` (minus: descending), and its
filters, `where={"bytes": 65536}`. A filter is a substring of a text column or the minimum of a
number. The columns are those of account/columns.py.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import dash
import dash_ag_grid as dag
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.account import columns
from mpiprof.account.columns import Column
from mpiprof.interface.format_units import UNKNOWN, shorten_text
from mpiprof.interface.tokens import SIZE
from mpiprof.reports.json import plain_number
from mpiprof.reports.words import callsite_sentences, captions

from .. import (
    callsite_detail,
    components,
    filtered_tables,
    message_detail,
    message_tables,
    sampled_functions,
)
from .. import url_state as states
from ..trace_data import TraceContext, TraceData
from ..url_state import PageState

# Limit of rows sent; limit of rows that the grid shows unscrolled.
MAX_ROWS, LOW_GRID_ROWS = 5000, 20
COLUMN_FEATURES = ("sortable", "filter", "resizable")  # of all columns
VISIBLE_PX = 1210  # width of the columns that are shown at first
FIRST_COLUMNS = ("sites", "operation")  # always shown
ROW_PX, HEADER_PX = SIZE["row_sites"], 30
MAX_HEIGHT_PX = 640
ROW_SELECTION = {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True}


def shown() -> list[Column]:
    """Return the columns of the grid, the most important first."""
    return sorted(columns.of_view(columns.GRID), key=lambda column: column.priority)


def list_choices(rows: list[dict[str, Any]]) -> list[Column]:
    """Return the columns that the user may show or hide.

    Columns without any values, such as columns of messages in a run without messages, are left out.
    """
    return [column for column in _present_columns(rows) if column.name not in FIRST_COLUMNS]


def _present_columns(rows: list[dict[str, Any]]) -> list[Column]:
    names = {name for row in rows for name in row}
    return [column for column in shown() if column.name in names or not rows]


def chosen_columns(rows: list[dict[str, Any]], state: PageState) -> list[str]:
    """Return the visible columns: those of the URL, or else those that fit into VISIBLE_PX."""
    choices = list_choices(rows)
    if state.get("columns"):
        chosen = state.get("columns").split(",")
        return [column.name for column in choices if column.name in chosen]
    first = [column for column in _present_columns(rows) if column.name in FIRST_COLUMNS]
    width = sum(column.width for column in first)
    names = []
    for column in choices:
        width += column.width
        if width <= VISIBLE_PX:
            names.append(column.name)
    return names


def make_columns(rows: list[dict[str, Any]], state: PageState) -> list[dict[str, Any]]:
    """Return the definitions of the columns; those that are not chosen are hidden."""
    sorts, visible = sort_model(state), {*chosen_columns(rows, state), *FIRST_COLUMNS}
    return [
        definition(column) | {"hide": column.name not in visible} | sorts.get(column.name, {})
        for column in _present_columns(rows)
    ]


def make_grid(rows: list[dict[str, Any]], state: PageState) -> Component:
    """Return the grid of call sites."""
    low = len(rows) <= LOW_GRID_ROWS
    return dag.AgGrid(
        id="callsite-grid",
        columnDefs=make_columns(rows, state),
        filterModel=filter_model(state),
        eventListeners={key: ["arranged(params)"] for key in ("sortChanged", "filterChanged")},
        rowData=rows,
        getRowId="params.data.callsite",
        defaultColDef=dict.fromkeys(COLUMN_FEATURES, True),
        dashGridOptions={
            "rowSelection": ROW_SELECTION,
            "rowHeight": ROW_PX,
            "headerHeight": HEADER_PX,
            "domLayout": "autoHeight" if low else "normal",
            "suppressDragLeaveHidesColumns": True,
            "tooltipShowDelay": 400,
        },
        className="ag-theme-quartz" + ("-dark" if state.dark else ""),
        style={"height": None if low else f"{MAX_HEIGHT_PX}px"},
    )


def sort_model(state: PageState) -> dict[str, dict[str, Any]]:
    """Return the sort order of the URL as parts of column definitions."""
    sortable = {column.name for column in shown() if column.quantity != "picture"}
    words = [word for word in state.get("sort").split(",") if word.removeprefix("-") in sortable]
    return {
        word.removeprefix("-"): {"sort": "desc" if word[0] == "-" else "asc", "sortIndex": index}
        for index, word in enumerate(words)
    }


def filter_model(state: PageState) -> dict[str, dict[str, Any]]:
    """Return the grid filters of the URL; invalid filters are left out."""
    try:
        requested = json.loads(state.get("where", "{}"))
    except (ValueError, RecursionError):
        return {}
    model: dict[str, dict[str, Any]] = {}
    for column in shown():
        value = requested.get(column.name) if isinstance(requested, dict) else None
        if column.quantity == "picture":
            continue
        if _as_text(column) and isinstance(value, str):
            model[column.name] = {"filterType": "text", "type": "contains", "filter": value}
        elif not _as_text(column) and isinstance(value, int | float) and abs(value) < 1e18:
            minimum = {"filterType": "number", "type": "greaterThanOrEqual"}
            model[column.name] = minimum | {"filter": value}
    return model


def _as_text(column: Column) -> bool:
    """Return whether cells are sent as text; the browser formats cells that are numbers."""
    return column.is_text or column.quantity == "rank"


def make_grid_rows(data: TraceData, state: PageState) -> list[dict[str, Any]]:
    """Return the rows of the grid, costliest first, of collectives and of messages."""
    sparks = filtered_tables.get_sparklines(data)
    rows = filtered_tables.all_callsites(data, state)[:MAX_ROWS]
    grid_rows, causes = [], callsite_sentences.name_causes(data.derive("findings"))
    for row in rows:
        row["cause"] = causes.get(row["callsite"], UNKNOWN)
        cells: dict[str, Any] = {"callsite": str(row["callsite"])}
        if "instances" in row:
            cells |= {"instances": int(row["instances"])}
        for column in shown():
            if column.quantity == "picture" and "instances" in row:
                cells[column.name] = sparks.get(int(row["callsite"]), [])
            elif column.name not in row:
                continue
            elif _as_text(column):
                cells[column.name] = shorten_text(column.text(row))
            else:
                has_value = column.text(row) != UNKNOWN
                cells[column.name] = plain_number(row[column.name]) if has_value else None
        grid_rows.append(cells)
    return grid_rows


def definition(column: Column) -> dict[str, Any]:
    """Return the grid's definition of one column."""
    defined: dict[str, Any] = {"field": column.name, "headerName": column.heading}
    defined |= {"width": column.width, "headerTooltip": column.meaning}
    if column.quantity == "picture":
        plain = {"sortable": False, "filter": False, "cellDataType": False}
        return defined | {"cellRenderer": "Sparkline", **plain}
    if _as_text(column):
        pinned = {"pinned": "left"} if column.quantity == "sites" else {}
        return defined | {"tooltipField": column.name, **pinned}
    return defined | {
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        "filterParams": {
            "defaultOption": "greaterThanOrEqual",
            "allowedCharPattern": "[0-9.a-zA-Zµ% ]",
            "numberParser": {"function": "quantity(params)"},
            "numberFormatter": {"function": f"quantityText(params, '{column.quantity}')"},
        },
        "valueFormatter": {"function": f"{column.quantity}(params.value, params)"},
        "sortingOrder": ["desc", "asc", None],
    }


TITLE, PATH = "Call sites", "/callsites"
PAGE_KEYS = frozenset(("instance", "sort", "where", "columns", *sampled_functions.KEYS))
SKELETON = (56, 560, 160)


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
    rows = make_grid_rows(data, state)
    if not rows:
        return components.empty_state("No call site passes the filters", "Clear them above.")
    title = f"{len(rows)} call site" + "s" * (len(rows) > 1)
    links = list_column_links(rows, state)
    chooser = components.link_menu("Shown columns", "Columns", links, "column-list", stays=True)
    store = dcc.Store(id="columns-shown", data=state.get("columns"))
    hint = html.P(captions.CALLSITES_GRID, className="note")
    head = html.Div([html.H2(title), hint, chooser], className="grid-head")
    return html.Div([head, make_grid(rows, state), store], className="callsite-list")


def list_column_links(rows: Any, state: states.PageState) -> list[components.MenuLink]:
    """Return the links of the columns; each link shows or hides a column."""
    visible = chosen_columns(rows, state)
    links: list[components.MenuLink] = []
    for column in list_choices(rows):
        remaining = [name for name in visible if name != column.name]
        names = remaining if column.name in visible else [*visible, column.name]
        address = PATH + state.set_keys(columns=",".join(names) or "-").format_query()
        content = [html.B(column.heading), html.Small(column.meaning)]
        links.append((content, address, column.name in visible))
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
    def show_columns(_: str, current: str, state: states.PageState) -> Any:
        """Show the columns that the URL names."""
        if state.get("columns") == (current or ""):
            raise PreventUpdate
        rows = make_grid_rows(context.latest_data(state), state)
        links = list_column_links(rows, state)
        return make_columns(rows, state), components.link_items(links), state.get("columns")

    callsite_detail.register_callbacks(app, context)
    components.link_matrix_to_timeline(app, "message-pairs")
