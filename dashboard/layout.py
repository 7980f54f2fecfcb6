"""Frame of every page (navigation, filters, facts of the run), and the choice of page by URL."""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any

import dash
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import MpiprofError
from mpiprof.facts.library_algorithms import mpi_name
from mpiprof.interface.format_units import format_time, shorten_text
from mpiprof.reports import text
from mpiprof.reports.words import trace_sentences

from . import components, header
from . import url_state as states
from .header import FILTERS
from .pages import list_pages, list_unlisted, live, runs
from .trace_data import TraceContext, TraceData

MAX_HOSTS = 4


def make_line(data: TraceData) -> list[Component]:
    """Return the line; it needs no pass over the trace."""
    trace = data.trace
    program = shorten_text(trace.program)
    parts: list[Any] = [html.H1(program), *trace_sentences.list_facts(trace)]
    facts = components.fact_list(list_facts(data))
    about = html.Details(
        [html.Summary("About this trace"), html.Div(facts, className="panel")],
        id="about",
        className="unfolds",
    )
    return [*[html.Span(part) for part in parts], about]


def list_facts(data: TraceData) -> list[tuple[str, Any]]:
    """Return all facts as pairs of name and text, with the recorder's notes."""
    trace = data.trace
    partial = bool((trace.meta.get("options") or {}).get("partial"))
    hidden_count = len(data.hosts) - MAX_HOSTS
    hosts = ", ".join(data.hosts[:MAX_HOSTS]) + (
        f" and {hidden_count} more" if hidden_count > 0 else ""
    )
    clocks = trace_sentences.clock_sentence(
        float(trace.clock_error_ns), trace.node_count, partial=partial
    )
    facts = [
        ("ranks", trace_sentences.count_ranks(trace)),
        ("hosts", shorten_text(hosts)),
        ("MPI", mpi_name(trace.mpi)),
        ("started", trace_sentences.started(trace) or "–"),
        ("run time", format_time(float(trace.run_ns))),
        ("clocks", clocks),
        ("message times", trace_sentences.message_time_source(trace)),
        ("trace", shorten_text(data.path)),
    ]
    if trace.sampling_interval > 1:
        facts.append(("sampled", trace_sentences.sampling_text(trace.sampling_interval)))
    if record := trace_sentences.message_record(trace):
        facts.append(("messages", record))
    facts += [("call sites", reason) for reason in text.explain_addresses(trace)]
    facts += [("attention", line) for line in trace_sentences.incompleteness_lines(trace)]
    notes = text.recorder_notes(trace)
    return [*facts, *(("note", shorten_text(note)) for note in notes)]


REFRESH_MS = 2000


def make_layout(context: TraceContext) -> Component:
    """Return the frame, which stays while pages change."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="scheme-choice", storage_type="local"),
            dcc.Store(id="scheme"),
            dcc.Store(id="shown"),
            dcc.Store(id="trace"),
            dcc.Store(id="version"),
            dcc.Store(id="scripts"),
            dcc.Interval(id="tick", interval=REFRESH_MS),
            header.make_header(list_pages(of_folder=context.lists_runs)),
            html.Section(id="run-facts", **components.aria_attributes(label="Facts of the run")),
            html.Div(id="live-strip", role="status"),
            html.Main(components.deferred_container("page"), tabIndex=-1),
            header.make_key_list(),
        ]
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the frame."""
    pages = list_pages(of_folder=context.lists_runs)
    _register_filters(app, context, pages)
    every = [*pages, *list_unlisted()]
    header.register_filter_callbacks(app, context)
    _register_page(app, context, {page.PATH: page for page in every})
    _register_growth(app, context)
    _register_head(app, context)
    for page in every:
        page.register_callbacks(app, context)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        dash.ClientsideFunction("mpiprof", "scheme"),
        Output("scheme", "data"),
        Output("scheme-choice", "data"),
        Input("theme-switch", "n_clicks"),
        State("scheme-choice", "data"),
        State("scheme", "data"),
    )
    # The script of the grid, a third of a megabyte, is loaded before the first page that needs it.
    app.clientside_callback(  # type: ignore[no-untyped-call]
        dash.ClientsideFunction("mpiprof", "loadScripts"),
        Output("scripts", "data"),
        Input("url", "pathname"),
    )


def _register_filters(app: dash.Dash, context: TraceContext, pages: list[ModuleType]) -> None:
    @app.callback(
        Output("url", "search"),
        Output("trace", "data"),
        Output("trace-choice", "children"),
        *[Output(f"filter-{name}-chosen", "children") for name in FILTERS],
        Output("filter-ranks", "value"),
        Output("filter-names", "children"),
        Output("filter-clear", "hidden"),
        Output("navigation", "children"),
        Input("url", "search"),
        Input("url", "pathname"),
        Input("filter-ranks", "value"),
        Input("filter-clear", "n_clicks"),
    )
    def follow_filters(search: str, path: str, ranks: str, _: int) -> Any:
        """Synchronise the URL and the filters, whichever of the two was changed."""
        state = states.parse(search)
        changed = {trigger["prop_id"].partition(".")[0] for trigger in dash.ctx.triggered}
        if "filter-clear" in changed:
            state = states.clear_filters(state)
        elif "url" not in changed:
            state = states.change_filters(state, {"ranks": ranks})
        new = state.format_query()
        return (
            new if new != states.parse(search).format_query() else dash.no_update,
            state.trace or context.names[0],
            header.make_trace_menu(context, path, state),
            *header.name_choices(context, state),
            state.ranks,
            *_name_filters(context, state),
            header.make_navigation(pages, page_path(context, path, state), state),
        )


def _register_page(app: dash.Dash, context: TraceContext, by_path: dict[str, ModuleType]) -> None:
    @app.callback(
        Output("page", "children"),
        Output("shown", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("scheme", "data"),
        Input("version", "data"),
        Input("scripts", "data"),
        State("shown", "data"),
    )
    def show_page(path: str, search: str, scheme: str, version: str, _: Any, current: Any) -> Any:
        """Rebuild the page, unless only keys that the page's own callbacks handle have changed."""
        if not scheme:
            raise PreventUpdate
        state = states.parse(search, dark=scheme == "dark")
        page = by_path.get(page_path(context, path, state))
        if page is None:
            return components.empty_state("No such page", "Choose one above."), None
        page_keys: frozenset[str] = getattr(page, "PAGE_KEYS", frozenset())
        query = state.set_keys(**dict.fromkeys(page_keys)).format_query()
        # All pictures take the colours of the theme by themselves.
        now = [path, query, None if getattr(page, "FOLLOWS", False) else version]
        if now == current:
            raise PreventUpdate
        return components.make_or_message(page.TITLE, lambda: page.make_layout(context, state)), now


def page_path(context: TraceContext, path: str, state: states.PageState) -> str:
    """Return the path of the page to show: of a folder of traces, the list comes first."""
    return runs.PATH if context.lists_runs and path == "/" and not state.trace else path


def _register_growth(app: dash.Dash, context: TraceContext) -> None:
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
            data = context.latest_data(state)
            if data.is_removed:
                return dash.no_update, True, [_make_notice(data)]
            strip = [live.make_strip(data, state)]
            strip += [] if live.is_running(data) else [_make_notice(data)]
        except MpiprofError:
            raise PreventUpdate from None
        return data.version if data.version != version else dash.no_update, data.ended, strip


def _register_head(app: dash.Dash, context: TraceContext) -> None:
    @components.state_callback(
        app, Output("run-facts", "children"), Input("trace", "data"), Input("version", "data")
    )
    def show_facts(_trace: str, _version: str, state: states.PageState) -> Any:
        try:
            return make_line(context.latest_data(state))
        except MpiprofError:  # the page reports the error
            return None

    @components.state_callback(
        app, Output("search-found", "children"), Input("search", "value"), prevent_initial_call=True
    )
    def find(query: str | None, state: states.PageState) -> Any:
        try:
            targets = header.find_targets(context.latest_data(state), state, query or "")
        except MpiprofError:
            targets = []
        return header.make_results(targets, query or "")


def _name_filters(context: TraceContext, state: states.PageState) -> tuple[str, bool]:
    """Return the text of the filter button, and whether the button that clears it is hidden."""
    names: dict[str, str] = {}
    if state.communicators:
        with contextlib.suppress(MpiprofError):
            names = dict(context.latest_data(state).communicators)
    text = header.name_filters(state, names)
    return text, states.clear_filters(state) == state


def _make_notice(data: TraceData) -> Component | None:
    """Return a sentence on what the trace lacks, for all pages, or None if it is complete."""
    sentence = trace_sentences.state_sentence(data.trace)
    if data.is_removed:
        sentence = (
            f"{data.path} was removed, moved or renamed. The pages show only values that were "
            "computed before. Put the trace back, or start `view` again with its new path."
        )
    if not sentence:
        return None
    return html.P(components.mark_code(shorten_text(sentence)), className="notice")
