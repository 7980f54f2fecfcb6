"""Live page: state of a running, hung or killed job, its missing ranks and their last calls."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import MpiprofError, TraceError
from mpiprof.hang import job_verdict, rank_state, status
from mpiprof.hang.processes import trace_now_ns
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text
from mpiprof.interface.format_units import format_runs as ranks_of
from mpiprof.interface.format_units import format_time, shorten_text
from mpiprof.reports.site_labels import describe_site

from .. import components, live_sections
from ..trace_data import MAX_RANKS, TraceContext, TraceData
from ..url_state import PageState

TITLE, PATH = "Live", "/live"
FOLLOWS = True
SKELETON = (160, 320)
SECTIONS = live_sections.SECTIONS
VERDICT_LIFETIME_NS = 3 * 10**9


def make_layout(context: TraceContext, state: PageState) -> Component:
    """Return the page; the timer of the frame refreshes its sections."""
    data = context.latest_data(state)
    if data.is_removed:
        why = (
            f"{data.path} was removed, moved or renamed, so the last calls cannot be read. "
            "Put the trace back, or start `view` again with its new path."
        )
        return components.empty_state("The state of the job is unknown", why)
    return make_view(data, state, context)


def make_view(data: TraceData, state: PageState, context: TraceContext | None = None) -> Component:
    """Return the current state of the job, with the digests of its sections."""
    sections = read_sections(data, state, context)
    digests = {name: live_sections.digest_section(sections[name]) for name in SECTIONS}
    state_line, verdict, actions, source, *below = (
        html.Section(sections[name], id=f"live-{name}") for name in SECTIONS
    )
    head = html.Div([html.Div([verdict, actions]), source], className="live-head")
    store = dcc.Store(id="live-digests", data=digests)
    follow = [] if data.ended else [_make_follow_bar()]
    return html.Div([*follow, html.Div([state_line, head, *below, store], id="live")])


def _make_follow_bar() -> Component:
    """Return the age of the page's content, and the button that stops its refresh."""
    pause = html.Button("Pause", id="live-pause", className="control", n_clicks=0)
    age = html.Span(id="live-age")
    second = dcc.Interval(id="live-second", interval=1000)
    return html.Div(
        [age, pause, second, dcc.Store(id="live-updated", data=0)], className="live-bar"
    )


def read_sections(
    data: TraceData, state: PageState, context: TraceContext | None = None
) -> dict[str, list[Component]]:
    """Return the current content of all sections; TraceError above MAX_RANKS ranks."""
    job = live_sections.observe_job(data, *find_positions(data), cached_verdict(data))
    return live_sections.make_sections(job, state, context)


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callback that replaces the sections that have changed, and no others."""

    @components.state_callback(
        app,
        *[Output(f"live-{name}", "children") for name in SECTIONS],
        Output("live-digests", "data"),
        Output("live-updated", "data"),
        Input("tick", "n_intervals"),
        State("live-digests", "data"),
        State("live-pause", "n_clicks"),
        prevent_initial_call=True,
    )
    def refresh(
        tick: int, digests: dict[str, str] | None, clicks: int | None, state: PageState
    ) -> Any:
        """Replace the changed sections; an odd number of clicks on Pause stops that."""
        if (clicks or 0) % 2:
            raise PreventUpdate
        try:
            sections = read_sections(context.latest_data(state), state, context)
        except MpiprofError:  # the page keeps its last content
            raise PreventUpdate from None
        content, new = live_sections.changed_sections(sections, digests or {}, dash.no_update)
        return (*content, new, tick)

    app.clientside_callback(  # type: ignore[no-untyped-call]
        dash.ClientsideFunction("mpiprof", "showAge"),
        Output("live-age", "children"),
        Output("live-pause", "children"),
        Input("live-second", "n_intervals"),
        Input("live-updated", "data"),
        Input("live-pause", "n_clicks"),
    )


def find_positions(data: TraceData) -> tuple[list[rank_state.Position], list[rank_state.Pending]]:
    """Return each rank's state and the pending instances; TraceError above MAX_RANKS ranks."""
    if data.trace.ranks > MAX_RANKS:
        raise TraceError(f"{data.trace.ranks} ranks are too many to show one by one")
    return data.compute_once("positions", lambda: rank_state.find(data.trace))


def cached_verdict(data: TraceData) -> HangVerdict:
    """Return the verdict of `status`, cached for VERDICT_LIFETIME_NS, as it changes with time."""
    moment = (trace_now_ns(data.trace) or 0) // VERDICT_LIFETIME_NS
    return data.compute_once(
        ("hang", moment), lambda: job_verdict.status_verdict(data.trace, *find_positions(data))
    )


def is_running(data: TraceData) -> bool:
    """Return whether a process of the job runs on this machine; False above MAX_RANKS ranks."""
    if data.ended or data.trace.ranks > MAX_RANKS:
        return False
    return status.is_running(data.trace, find_positions(data)[0], cached_verdict(data))


def make_strip(data: TraceData, state: PageState) -> Component | None:
    """Return a one-line summary of a running job for all pages, or None.

    A job that ended without MPI_Finalize has a summary if its last calls show a fault.
    """
    if data.trace.is_finalised or data.trace.ranks > MAX_RANKS:
        return None
    positions, pending = find_positions(data)
    verdict = cached_verdict(data)
    running = is_running(data)
    if not running and not verdict.is_bad:
        return None
    time_ns = trace_now_ns(data.trace) if running else None
    if verdict.is_bad:
        sentences = f"{verdict_text.verdict_title(verdict).capitalize()}: "
        sentences += verdict_text.format_verdict(data.trace, positions, verdict, time_ns)
    else:
        sentences = f"running, {format_time(float(data.trace.run_ns))} recorded"
        stuck = next((instance for instance in pending if instance.missing), None)
        if stuck is not None:
            where = describe_site(data.trace, stuck.sites[0]) if stuck.sites else ""
            since = _format_since(data, stuck.since_ns, time_ns)
            sentences += f"; {stuck.operations[0]} at {where or 'unknown place'} waits for rank "
            sentences += f"{ranks_of(stuck.missing)}, entered {since}"
    classes: dict[str, Any] = {"className": "state dead"} if verdict.is_bad else {}
    text = shorten_text(sentences)
    return dcc.Link(text, href=state.link_to(PATH), **classes)


def _format_since(data: TraceData, at_ns: int, time_ns: int | None) -> str:
    if time_ns is not None:
        return f"{format_time(float(max(time_ns - at_ns, 0)))} ago"
    return live_sections.format_since(data, at_ns)
