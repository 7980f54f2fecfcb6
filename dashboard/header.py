"""Head of every page: brand, navigation, filters, search, choice of trace and theme, run facts."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.reports.pictures import icons

from . import components
from . import url_state as states
from .picture import Picture
from .trace_data import TraceContext

MAX_TRACES = 200  # in the menu of the traces
MAX_TABS = 4  # pages in the bar of a phone, beside the menu of the others

FILTERS = {
    "communicators": "All communicators",
    "operations": "All operations",
    "nodes": "All nodes",
}
KEYS = (
    ("/", "search"),
    ("1 … 9", "the pages, in the order of the navigation"),
    ("j, k, Enter", "next row, previous row, open it"),
    ("c", "copy the command"),
    ("t", "light or dark"),
    ("Esc", "back: close what is open, clear the filter, leave a detail"),
    ("?", "these keys"),
)


def make_header(pages: Sequence[ModuleType]) -> Component:
    """Return the bar at the top of every page."""
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
            html.Div(id="trace-choice"),
            theme,
        ]
    )


def make_navigation(
    pages: Sequence[ModuleType], path: str, state: states.PageState
) -> list[Component]:
    """Return the links to the pages, with the same trace and filters.

    A narrow page shows MAX_TABS of them, and a menu of the others.
    """
    query = state.without_page_keys().format_query()
    links: list[Component] = [
        html.Span(
            dcc.Link(page.TITLE, href=page.PATH + query),
            className=" ".join(["here"] * (path == page.PATH) + ["further"] * (i >= MAX_TABS)),
            **(components.aria_attributes(current="page") if path == page.PATH else {}),
        )
        for i, page in enumerate(pages)
    ]
    further = [
        (page.TITLE, page.PATH + query, path == page.PATH) for page in list(pages)[MAX_TABS:]
    ]
    current = next((title for title, _, is_here in further if is_here), "More")
    menu = components.link_menu("More pages", current, further)
    return [*links, html.Div(menu, className="more here" if current != "More" else "more")]


def make_trace_menu(context: TraceContext, path: str, state: states.PageState) -> Component | None:
    """Return the menu of the traces, or None for a single trace.

    Another trace has other communicators, ranks and call sites, so its link has no filters.
    """
    names = context.names
    if len(names) == 1:
        return None
    traces = {"" if name == names[0] and not context.lists_runs else name: name for name in names}
    current = state.trace or names[0]
    links = [
        (text, path + states.PageState(name).format_query(), text == current)
        for name, text in list(traces.items())[:MAX_TRACES]
    ]
    if len(names) > MAX_TRACES:
        links.append((f"All {len(names)} traces", "/runs", False))
    return components.link_menu("Trace", current, links)


def _make_filter_button() -> Component:
    """Return the button that names the active filters and unfolds their menus."""
    menus = [components.search_menu(text, f"filter-{name}") for name, text in FILTERS.items()]
    field = dcc.Input(id="filter-ranks", placeholder="0-3, 7", debounce=True)
    ranks = components.labelled_field("Ranks", field)
    button = html.Summary(
        [Picture(icons.draw_icon("filter")), html.Span("All ranks", id="filter-names")],
        className="control",
        title="Filters",
    )
    clear = html.Button("×", id="filter-clear", n_clicks=0, title="Show all ranks", hidden=True)
    panel = html.Div([ranks, *menus], className="panel")
    return html.Div(
        [html.Details([button, panel], id="filters", className="unfolds"), clear],
        className="filter-choice",
    )


def _make_search() -> Component:
    icon = Picture(icons.draw_icon("search"), className="search-icon")
    label = "Find rank, file, function or algorithm"
    name = html.Label(label, htmlFor="search", className="hidden-label")
    field = dcc.Input(id="search", placeholder="Find rank, file, function", debounce=0.15)
    results = html.Div(id="search-found")
    return html.Div([icon, name, field, html.Kbd("/"), results], className="search", role="search")


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
    communicators = [names.get(identity, identity) for identity in state.communicators]
    parts: list[Any] = [*state.nodes, *([f"rank{plural} {ranks}"] if ranks else [])]
    parts += [*state.operations, *communicators]
    listed = ", ".join(str(part)[:40] for part in parts[:3])
    further = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return listed + further or "All ranks"
