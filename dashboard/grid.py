"""Grid of call sites: its columns, their formats, sort order and filters.

The URL contains the order, `sort=-share,place` (minus: descending), and the filters,
`where={"bytes": 65536}`. A filter is a substring of a text column or the minimum of a number.
"""

from __future__ import annotations

import json
from typing import Any

import dash_ag_grid as dag
from dash.development.base_component import Component

from . import filtered_tables
from .trace_data import Data
from .url_state import State

MOST_ROWS, LOW_ROWS = 5000, 9  # limit of rows sent; limit of rows that the grid shows unscrolled

# (field, heading, format, width, tooltip)
COLUMNS: tuple[tuple[str, str, str, int, str], ...] = (
    ("place", "call site", "", 190, "file, line and function; how many more there are"),
    ("operation", "operation", "", 105, ""),
    ("total_instances", "count", "counted", 75, "instances; of a sample an estimate: ~"),
    ("bytes", "bytes", "size", 85, "sent by a rank, mean"),
    ("total_wait_ns", "Σ wait", "duration", 90, "of all ranks, over all instances"),
    ("share", "of time", "share", 75, "waiting, of all ranks' time"),
    ("spark", "ω over the run", "spark", 148, "last minus first arrival"),
    ("worst_imbalance_ns", "ω", "duration", 85, "last minus first arrival, mean"),
    ("worst_factor", "ω/T", "factor", 75, "ω in times of one message"),
    ("average_factor", "δ/T", "factor", 75, "δ in times of one message"),
    ("latest", "latest", "", 100, "the rank that comes last most often"),
    ("algorithms", "algorithm", "", 130, "that its instances ran on, and how many on each"),
    ("balanced_share", "balanced", "share", 85, "instances with ω/T < 1"),
    ("average_imbalance_ns", "δ", "duration", 85, "mean distance of arrivals from their mean"),
    ("mean_elapsed_ns", "ē", "duration", 85, "mean time in the call"),
    ("total_elapsed_ns", "time", "duration", 85, "of all ranks in the calls"),
    ("size", "ranks", "count", 70, "of its communicator, the largest"),
)


def grid(rows: list[dict[str, Any]], state: State) -> Component:
    """Return the grid of call sites, with the URL's call site selected."""
    chosen = str(state.number("callsite", -1))
    sorts = sorting(state)
    low = len(rows) <= LOW_ROWS
    return dag.AgGrid(
        id="callsite-grid",
        columnDefs=[column(*of) | sorts.get(of[0], {}) for of in COLUMNS],
        filterModel=filters(state),
        eventListeners={key: ["arranged(params)"] for key in ("sortChanged", "filterChanged")},
        rowData=rows,
        getRowId="params.data.callsite",
        selectedRows={"ids": [chosen]} if chosen != "-1" else None,
        defaultColDef={
            "sortable": True,
            "filter": True,
            "floatingFilter": True,
            "suppressHeaderFilterButton": True,
            "suppressFloatingFilterButton": True,
            "resizable": True,
        },
        dashGridOptions={
            "rowSelection": {
                "mode": "singleRow",
                "checkboxes": False,
                "enableClickSelection": True,
            },
            "rowHeight": 34,
            "headerHeight": 34,
            "domLayout": "autoHeight" if low else "normal",
            "suppressDragLeaveHidesColumns": True,
            "tooltipShowDelay": 400,
        },
        className="ag-theme-quartz" + ("-dark" if state.dark else ""),
        style={"height": None if low else "380px"},
    )


def sorting(state: State) -> dict[str, dict[str, Any]]:
    """Return the sort order of the URL as parts of column definitions."""
    known = {field for field, _, shown, *_ in COLUMNS if shown != "spark"}
    words = [word for word in state.get("sort").split(",") if word.removeprefix("-") in known]
    return {
        word.removeprefix("-"): {"sort": "desc" if word[0] == "-" else "asc", "sortIndex": index}
        for index, word in enumerate(words)
    }


def filters(state: State) -> dict[str, dict[str, Any]]:
    """Return the grid filters of the URL; invalid filters are left out."""
    try:
        asked = json.loads(state.get("where", "{}"))
    except (ValueError, RecursionError):
        return {}
    found: dict[str, dict[str, Any]] = {}
    for field, _, shown, *_ in COLUMNS:
        value = asked.get(field) if isinstance(asked, dict) else None
        if not shown and isinstance(value, str):
            found[field] = {"filterType": "text", "type": "contains", "filter": value}
        elif shown not in ("", "spark") and isinstance(value, int | float) and abs(value) < 1e18:
            least = {"filterType": "number", "type": "greaterThanOrEqual"}
            found[field] = least | {"filter": value}
    return found


def grid_rows(data: Data, state: State) -> list[dict[str, Any]]:
    """Return the rows of the grid, costliest first."""
    sparks = filtered_tables.sparklines(data)
    rows = []
    for row in filtered_tables.records(filtered_tables.by_callsite(data, state).head(MOST_ROWS)):
        shown = {
            field: filtered_tables.plain(row.get(field)) for field, *_ in COLUMNS if field in row
        }
        shown["callsite"] = str(row["callsite"])
        shown["instances"] = int(row["instances"])
        shown["spark"] = sparks.get(int(row["callsite"]), [])
        shown["latest"] = filtered_tables.latest(row)
        if not row["complete_instances"]:
            shown["total_wait_ns"] = shown["share"] = None
        rows.append(shown)
    return rows


def column(field: str, heading: str, shown: str, width: int, meaning: str) -> dict[str, Any]:
    """Return the grid's definition of one column."""
    defined: dict[str, Any] = {"field": field, "headerName": heading, "width": width}
    defined["headerTooltip"] = meaning
    if shown == "spark":
        plain = {"sortable": False, "filter": False, "cellDataType": False}
        return defined | {"cellRenderer": "Sparkline", **plain}
    if not shown:
        pinned = {"pinned": "left"} if field == "place" else {}
        return defined | {"tooltipField": field, **pinned}
    return defined | {
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        "filterParams": {
            "defaultOption": "greaterThanOrEqual",
            "allowedCharPattern": "[0-9.a-zA-Zµ% ]",
            "numberParser": {"function": "quantity(params)"},
            "numberFormatter": {"function": f"quantityText(params, '{shown}')"},
        },
        "valueFormatter": {"function": f"{shown}(params.value, params)"},
        "sortingOrder": ["desc", "asc", None],
    }
