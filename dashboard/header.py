"""Head of every page: brand, navigation, filters, search, choice of trace and theme, run facts."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.reports.pictures import icons

from . import components
from . import url_state as states
from .picture import Picture
from .trace_data import TraceContext

FILTERS = {
    "communicators": "All communicators",
    "operations": "All operations",
    "nodes": "All nodes",
}
KEYS = (
    ("/", "search"),
    ("1 … 6", "the pages, in the order of the navigation"),
    ("j, k, Enter", "next row, previous row, open it"),
    ("c", "copy the command"),
    ("t", "light or dark"),
    ("Esc", "close what is open"),
    ("?", "these keys"),
)


def make_header(context: TraceContext, pages: Sequence[ModuleType]) -> Component:
    """Return the bar at the top of every page."""
    choose = dmc.Select(
        id="trace",
        data=context.names,
        allowDeselect=False,
        searchable=True,
        **components.aria_attributes(label="Trace"),
        className="trace-choice" + (" single" if len(context.names) == 1 else ""),
    )
    theme = html.Button(
        Picture(icons.draw_icon("theme")),
        id="theme-switch",
        title="Light or dark (t)",
        n_clicks=0,
        className="control icon",
        **components.aria_attributes(label="Light or dark"),
    )
    return html.Header(
        [
            html.A("Skip to the content", href="#page", className="skip"),
            html.Div([Picture(icons.draw_brand()), "mpiprof"], className="brand"),
            html.Nav(
                make_navigation(pages, "", states.PageState()),
                id="navigation",
                **components.aria_attributes(label="Pages"),
            ),
            _make_filter_button(),
            _make_search(),
            choose,
            theme,
        ]
    )


def make_navigation(
    pages: Sequence[ModuleType], path: str, state: states.PageState
) -> list[Component]:
    """Return the links to the pages, with the same trace and filters."""
    query = state.without_page_keys().format_query()
    return [
        html.Span(
            dcc.Link(page.TITLE, href=page.PATH + query),
            className="here" if path == page.PATH else "",
            **(components.aria_attributes(current="page") if path == page.PATH else {}),
        )
        for page in pages
    ]


def _make_filter_button() -> Component:
    """Return the button that names the active filters and unfolds their inputs."""
    inputs: list[Component] = [
        dmc.MultiSelect(
            id=f"filter-{name}",
            value=[],
            placeholder=text,
            searchable=True,
            clearable=True,
            limit=200,
            comboboxProps={"withinPortal": False},
            **components.aria_attributes(label=text),
        )
        for name, text in FILTERS.items()
    ]
    ranks = dmc.TextInput(
        id="filter-ranks", placeholder="Ranks, as 0-3, 7", debounce=True,
        **components.aria_attributes(label="Ranks"),
    )  # fmt: skip
    button = html.Summary(
        [Picture(icons.draw_icon("filter")), html.Span("All ranks", id="filter-names")],
        className="control",
        title="Filters",
    )
    clear = html.Button("×", id="filter-clear", n_clicks=0, title="Show all ranks", hidden=True)
    panel = html.Div([ranks, *inputs], className="panel")
    return html.Div(
        [html.Details([button, panel], id="filters", className="unfolds"), clear],
        className="filter-choice",
    )


def _make_search() -> Component:
    field = dmc.TextInput(
        id="search",
        placeholder="Find rank, file, function",
        debounce=150,
        leftSection=Picture(icons.draw_icon("search")),
        rightSection=html.Kbd("/"),
        **components.aria_attributes(label="Find rank, file, function or algorithm"),
    )
    return html.Div([field, html.Div(id="search-found")], className="search", role="search")


def make_key_list() -> Component:
    """Return the dialog that lists the keys; assets/shell.js opens it."""
    rows = [html.Tr([html.Th(html.Kbd(key), scope="row"), html.Td(text)]) for key, text in KEYS]
    close = html.Form(html.Button("Close", className="control"), method="dialog")
    return html.Dialog(
        [html.H2("Keys"), html.Table(html.Tbody(rows)), close],
        id="key-list",
        **components.aria_attributes(label="Keys"),
    )


def name_filters(state: states.PageState, names: dict[str, str]) -> str:
    """Return the active filters as text, or "All ranks". `names`: of communicators."""
    ranks = state.ranks.strip()
    plural = "s" if any(mark in ranks for mark in "-,") else ""
    communicators = [names.get(one, one) for one in state.communicators]
    parts: list[Any] = [*state.nodes, *([f"rank{plural} {ranks}"] if ranks else [])]
    parts += [*state.operations, *communicators]
    shown = ", ".join(str(part)[:40] for part in parts[:3])
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return shown + more or "All ranks"
