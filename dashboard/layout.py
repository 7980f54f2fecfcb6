"""Layout around every page (navigation, filters, theme), and the choice of page by URL."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import MpiprofError

from . import components, live
from . import url_state as states
from .pages import pages
from .trace_data import Context, Data

REFRESH_MS = 2000
MOST_CHOICES = 500  # per filter; more choices make the browser slow
FILTERS = ("communicators", "operations", "nodes")


def layout(context: Context) -> Component:
    """Return the frame, which stays while pages change."""
    choose = dmc.Select(
        id="trace",
        data=context.names,
        allowDeselect=False,
        searchable=True,
        **components.aria(label="Trace"),
        className="trace-choice" + (" single" if len(context.names) == 1 else ""),
    )
    header = html.Header(
        [
            html.A("Skip to the content", href="#page", className="skip"),
            html.Div([html.Span("mpi"), html.B("prof")], className="brand"),
            html.Nav(
                _navigation(pages(), "", states.State()),
                id="navigation",
                **components.aria(label="Pages"),
            ),
            choose,
            html.Button("◐", id="theme-switch", title="Light or dark (shift T)", n_clicks=0),
        ]
    )
    return dmc.MantineProvider(
        id="theme",
        children=[
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="scheme-choice", storage_type="local"),
            dcc.Store(id="scheme"),
            dcc.Store(id="shown"),
            dcc.Store(id="version"),
            dcc.Interval(id="tick", interval=REFRESH_MS),
            header,
            html.Div([*_filters(), html.Span(id="filter-note")], id="filters", role="search"),
            html.Div(id="live-strip", role="status"),
            html.Main(components.later("page"), tabIndex=-1),
        ],
        theme={"primaryColor": "blue", "fontFamily": "Inter, system-ui, sans-serif"},
        defaultColorScheme="auto",
    )


def _filters() -> list[Component]:
    def many(name: str, text: str) -> Component:
        return dmc.MultiSelect(
            id=f"filter-{name}",
            placeholder=text,
            searchable=True,
            clearable=True,
            limit=200,
            size="xs",
            **components.aria(label=text),
        )

    ranks = dmc.TextInput(
        id="filter-ranks", placeholder="Ranks, as 0-3, 7", size="xs", debounce=True,
        **components.aria(label="Ranks"),
    )  # fmt: skip
    texts = ("All communicators", "All operations", "All nodes")
    return [*(many(n, t) for n, t in zip(FILTERS, texts, strict=True)), ranks]


def register(app: dash.Dash, context: Context) -> None:
    """Add the callbacks of the frame."""
    found = pages()
    _register_filters(app, context, found)
    _register_page(app, context, {page.PATH: page for page in found})
    _register_growth(app, context)
    for page in found:
        page.register(app, context)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        dash.ClientsideFunction("mpiprof", "scheme"),
        Output("theme", "forceColorScheme"),
        Output("scheme", "data"),
        Output("scheme-choice", "data"),
        Input("theme-switch", "n_clicks"),
        State("scheme-choice", "data"),
        State("scheme", "data"),
    )


def _register_filters(app: dash.Dash, context: Context, found: list[ModuleType]) -> None:
    @app.callback(
        Output("url", "search"),
        Output("trace", "value"),
        *[Output(f"filter-{name}", part) for name in FILTERS for part in ("value", "data")],
        Output("filter-ranks", "value"),
        Output("navigation", "children"),
        Input("url", "search"),
        Input("url", "pathname"),
        Input("trace", "value"),
        *[Input(f"filter-{name}", "value") for name in FILTERS],
        Input("filter-ranks", "value"),
    )
    def follow_filters(search: str, path: str, trace: str, *values: Any) -> Any:
        """Synchronise the URL and the filters, whichever of the two was changed."""
        state = states.parse(search)
        changed = {trigger["prop_id"].partition(".")[0] for trigger in dash.ctx.triggered}
        if "trace" in changed and trace and trace != (state.trace or context.names[0]):
            # Another trace has other communicators, ranks and call sites, so no filter applies.
            state = states.State(trace if trace != context.names[0] else "")
        elif "url" not in changed:
            # Take only the changed filters: the others may not show the URL's state yet.
            named = zip((*FILTERS, "ranks"), values, strict=True)
            given = {name: value for name, value in named if f"filter-{name}" in changed}
            state = states.changed(state, given)
        new = state.query()
        links = _navigation(found, path, state)
        lists: list[Any] = []
        for values_now, data in _choices(context, state):
            lists += [list(values_now), data]
        return (
            new if new != states.parse(search).query() else dash.no_update,
            state.trace or context.names[0],
            *lists,
            state.ranks,
            links,
        )


def _register_page(app: dash.Dash, context: Context, by_path: dict[str, ModuleType]) -> None:
    @app.callback(
        Output("page", "children"),
        Output("shown", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("scheme", "data"),
        Input("version", "data"),
        State("shown", "data"),
    )
    def show_page(path: str, search: str, scheme: str, version: str, shown: Any) -> Any:
        """Rebuild the page, unless only keys that the page's own callbacks handle have changed."""
        if not scheme:
            raise PreventUpdate
        page = by_path.get(path)
        state = states.parse(search, dark=scheme == "dark")
        if page is None:
            return components.empty("No such page", "Choose one above."), None
        own: frozenset[str] = getattr(page, "OWN", frozenset())
        kept = state.with_own(**dict.fromkeys(own)).query()
        now = [path, kept, scheme, None if getattr(page, "FOLLOWS", False) else version]
        if now == shown:
            raise PreventUpdate
        return components.guarded(page.TITLE, lambda: page.layout(context, state)), now


def _register_growth(app: dash.Dash, context: Context) -> None:
    @app.callback(
        Output("version", "data"),
        Output("tick", "disabled"),
        Output("live-strip", "children"),
        Input("tick", "n_intervals"),
        Input("url", "search"),
        State("version", "data"),
    )
    def follow_growth(_: int, search: str, version: str) -> Any:
        """Report to the pages that the trace has grown; stop polling when all ranks have ended."""
        state = states.parse(search)
        try:
            data = context.data(state)
            strip = live.strip(data, state)
        except MpiprofError:
            raise PreventUpdate from None
        return data.version if data.version != version else dash.no_update, data.ended, strip


def _navigation(found: list[ModuleType], path: str, state: states.State) -> list[Component]:
    query = state.shared().query()
    return [
        html.Span(
            dcc.Link(page.TITLE, href=page.PATH + query),
            className="here" if path == page.PATH else "",
            **(components.aria(current="page") if path == page.PATH else {}),
        )
        for page in found
    ]


def _choices(context: Context, state: states.State) -> list[tuple[tuple[str, ...], list[Any]]]:
    """Return the chosen values and the available options of each filter."""
    try:
        data = context.data(state)
    except MpiprofError:
        return [(state.communicators, []), (state.operations, []), (state.nodes, [])]
    return [
        (state.communicators, _options(data.communicators, state.communicators)),
        (state.operations, _options([(o, o) for o in operations(data)], state.operations)),
        (state.nodes, _options([(h, h) for h in data.hosts], state.nodes)),
    ]


def operations(data: Data) -> list[str]:
    """Return the operations that occur, in alphabetical order."""
    return sorted({shape.operation for shape in data.trace.tables.shapes})


def _options(known: list[tuple[str, str]], chosen: tuple[str, ...]) -> list[dict[str, str]]:
    shown = dict(known[:MOST_CHOICES])
    shown |= {value: dict(known).get(value, value) for value in chosen}
    return [{"value": value, "label": label[:300]} for value, label in shown.items()]
