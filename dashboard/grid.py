"""Grid of call sites: its columns (of metrics/columns.py), sort order and filters.

The URL contains the order, `sort=-wait_share,sites` (minus: descending), and the filters,
`where={"bytes": 65536}`. A filter is a substring of a text column or the minimum of a number.
"""

from __future__ import annotations

import json
from typing import Any

import dash_ag_grid as dag
from dash.development.base_component import Component

from mpiprof.interface.format_units import UNKNOWN, shorten_text
from mpiprof.metrics import columns
from mpiprof.metrics.columns import Column
from mpiprof.reports import late_rank_sentences
from mpiprof.reports.json import plain_number
from mpiprof.reports.tokens import SIZE

from . import filtered_tables
from .trace_data import TraceData
from .url_state import PageState

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
        wanted = state.get("columns").split(",")
        return [column.name for column in choices if column.name in wanted]
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
    known = {column.name for column in shown() if column.quantity != "picture"}
    words = [word for word in state.get("sort").split(",") if word.removeprefix("-") in known]
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
            least = {"filterType": "number", "type": "greaterThanOrEqual"}
            model[column.name] = least | {"filter": value}
    return model


def _as_text(column: Column) -> bool:
    """Return whether cells are sent as text; the browser formats cells that are numbers."""
    return column.is_text or column.quantity == "rank"


def make_grid_rows(data: TraceData, state: PageState) -> list[dict[str, Any]]:
    """Return the rows of the grid, costliest first, of collectives and of messages."""
    sparks = filtered_tables.get_sparklines(data)
    rows = filtered_tables.all_callsites(data, state)[:MAX_ROWS]
    made, causes = [], late_rank_sentences.name_causes(data.derive("findings"))
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
                known = column.text(row) != UNKNOWN
                cells[column.name] = plain_number(row[column.name]) if known else None
        made.append(cells)
    return made


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
