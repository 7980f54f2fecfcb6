"""Head of every page: brand, navigation, filters, search, choice of trace and theme, run facts."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.account.tables import communicator_names
from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_count, format_ranks, shorten_text
from mpiprof.reports.pictures import icons
from mpiprof.reports.site_labels import routine_at
from mpiprof.reports.words.ranks_and_steps import host_of
from mpiprof.trace import Trace

from . import components, filtered_tables
from . import url_state as states
from .picture import Picture
from .trace_data import TraceContext, TraceData
from .url_state import PageState, change_filters, parse_ranks

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
MAX_TEXT, MAX_OF_GROUP = 100, 6  # characters of a query; results of one group
RANKS = re.compile(r"(?:ranks?\s*)?(\d{1,9}(?:\s*-\s*\d{1,9})?)")
MAX_CHOICES = 300  # of a menu; more links make the browser slow
FEW_CHOICES = 12  # up to which a menu has no field for a search


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


# ---- menus of the filters


def register_filter_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill the menus, and search in their choices."""
    for name in FILTERS:
        _register_menu(app, context, name)


def _register_menu(app: dash.Dash, context: TraceContext, name: str) -> None:
    @components.state_callback(
        app,
        Output(f"filter-{name}", "children"),
        Output(f"filter-{name}-search", "hidden"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input(f"filter-{name}-text", "value"),
    )
    def show(path: str, _: str, text: str | None, state: states.PageState) -> Any:
        choices = list_choices(context, state, name)
        items = make_items(path, state, name, choices, text or "")
        return items, len(choices) <= FEW_CHOICES


def make_items(
    path: str, state: states.PageState, name: str, choices: dict[str, str], text: str
) -> list[Component]:
    """Return the links of a menu, of which only those that contain a text.

    known: list_choices. The choices of the address come first.
    """
    chosen: tuple[str, ...] = getattr(state, name)
    labels = {value: choices.get(value, value) for value in chosen} | choices
    matching = {
        value: label for value, label in labels.items() if text.casefold() in label.casefold()
    }
    links: list[components.MenuLink] = []
    for value, label in list(matching.items())[:MAX_CHOICES]:
        remaining = tuple(choice for choice in chosen if choice != value)
        changed = {name: remaining if value in chosen else (*chosen, value)}
        address = path + states.change_filters(state, changed).format_query()
        links.append((shorten_text(label), address, value in chosen))
    items = components.link_items(links)
    hidden_count = len(matching) - len(links)
    if hidden_count > 0:
        note = f"and {format_count(hidden_count)} more: type a part of the name above"
        items.append(html.Li(note, className="note"))
    return items or [html.Li(f"Nothing contains {text[:40]!r}.", className="note")] * bool(text)


def name_choices(context: TraceContext, state: states.PageState) -> list[str]:
    """Return the text of each menu's button: what it has chosen, or that it passes everything."""
    texts = []
    for name, every in FILTERS.items():
        chosen: tuple[str, ...] = getattr(state, name)
        choices = list_choices(context, state, name) if chosen else {}
        texts.append(", ".join(choices.get(value, value)[:40] for value in chosen) or every)
    return texts


def list_choices(context: TraceContext, state: states.PageState, name: str) -> dict[str, str]:
    """Return the name of each choice of a filter by its value in the address."""
    with contextlib.suppress(MpiprofError):  # the page reports the error
        data = context.latest_data(state)
        if name == "communicators":
            return data.compute_once("communicators", lambda: name_communicators(data.trace))
        if name == "operations":
            return {operation: operation for operation in filtered_tables.list_operations(data)}
        return {host: host for host in data.hosts}
    return {}


def name_communicators(trace: Trace) -> dict[str, str]:
    """Return the name of each communicator by identity; equal names have the size and the ranks."""
    communicators = trace.tables.communicators
    names = {c.identity: n for c, n in zip(communicators, communicator_names(trace), strict=True)}
    counts = Counter(names.values())
    for communicator in communicators:
        name = names[communicator.identity]
        if counts[name] > 1:
            ranks = format_ranks(communicator.ranks.tolist())
            names[communicator.identity] = (
                f"{name}: {format_count(communicator.size)} ranks, {ranks}"
            )
    return names


# ---- search


@dataclass(frozen=True)
class SearchTarget:
    """One result: the name of its group, its text and its address."""

    group: str
    text: str
    href: str


def find_targets(data: TraceData, state: PageState, query: str) -> list[SearchTarget]:
    """Return the results for a query; all its words must occur, whatever their case."""
    text = query[:MAX_TEXT].strip().lower()
    if not text:
        return []
    words = text.split()
    groups = (
        _find_ranks(data, state, text),
        _find_hosts(data, state, words),
        _find_callsites(data, state, words),
        _find_algorithms(state, words),
        _find_functions(state, words),
    )
    return [target for group in groups for target in islice(group, MAX_OF_GROUP)]


def _find_ranks(data: TraceData, state: PageState, text: str) -> Iterator[SearchTarget]:
    match = RANKS.fullmatch(text)
    ranks = parse_ranks(match[1], data.trace.ranks) if match else None
    if match and ranks:
        name = match[1] if len(ranks) > 1 else str(ranks[0])
        where = f" on {host_of(data.trace, ranks[0])}" if len(ranks) == 1 else ""
        query = change_filters(state.without_page_keys(), {"ranks": name}).format_query()
        yield SearchTarget(
            "rank", f"rank{'s' * (len(ranks) > 1)} {name}{where}", "/timeline" + query
        )


def _find_hosts(data: TraceData, state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    for host in data.hosts:
        if all(word in host.lower() for word in words):
            query = change_filters(state.without_page_keys(), {"nodes": [host]}).format_query()
            yield SearchTarget("node", shorten_text(host), "/" + query)


def _find_callsites(data: TraceData, state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    table = data.callsites.sort_values("total_elapsed_ns", ascending=False, kind="stable")
    for row in filtered_tables.table_records(table):
        name = routine_at(row)
        if all(word in name.lower() for word in words):
            href = state.link_to("/callsites", callsite=row["callsite"])
            yield SearchTarget("call site", shorten_text(name), href)


def _find_algorithms(state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    names = dict.fromkeys((entry.operation, entry.name) for entry in load_catalogue())
    for operation, algorithm in names:
        text = f"{algorithm} of {operation}"
        if all(word in f"algorithm {text}" for word in words):
            href = state.link_to("/algorithms", of=operation, name=algorithm)
            yield SearchTarget("algorithm", text, href)


def _find_functions(state: PageState, words: list[str]) -> Iterator[SearchTarget]:
    text = "functions between collectives: flame graph"
    if all(word in text for word in words):
        yield SearchTarget("page", text, state.link_to("/functions"))


def make_results(targets: list[SearchTarget], query: str) -> Component | None:
    """Return the results as a list of links, or None without a query."""
    if not query.strip():
        return None
    if not targets:
        return html.P("No rank, node, file, function or algorithm matches.", className="panel note")
    items = [
        html.Li(dcc.Link([html.Span(target.group), html.B(target.text)], href=target.href))
        for target in targets
    ]
    return html.Ul(items, className="panel")
