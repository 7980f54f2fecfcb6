"""Live page: state of a running, hung or killed job, its missing ranks and their last calls."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.errors import TraceError
from mpiprof.hang import rank_state, status, verdict_text
from mpiprof.hang.processes import trace_now_ns
from mpiprof.hang.verdict import Verdict
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.interface.format_units import format_runs as ranks_of
from mpiprof.reports.site_labels import communicator_name, describe_site

from .. import components, filtered_tables
from ..trace_data import MAX_RANKS, TraceContext, TraceData
from ..url_state import PageState

TITLE, PATH = "Live", "/live"
FOLLOWS = True
SKELETON = (160, 320)
MAX_PENDING, MAX_ROWS, MAX_MISSING = 20, 60, 16
VERDICT_LIFETIME_NS = 3 * 10**9


def make_layout(context: TraceContext, state: PageState) -> Component:
    """Return the page; the timer of the frame refreshes it."""
    data = context.latest_data(state)
    return html.Div(components.make_or_message(TITLE, partial(make_view, data, state)), id="live")


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callback that refreshes the page."""

    @components.state_callback(
        app, Output("live", "children"), Input("tick", "n_intervals"), prevent_initial_call=True
    )
    def refresh(_: int, state: PageState) -> Any:
        return components.make_or_message(
            TITLE, lambda: make_view(context.latest_data(state), state)
        )


def find_positions(data: TraceData) -> tuple[list[rank_state.Position], list[rank_state.Pending]]:
    """Return each rank's state and the pending instances; TraceError above MAX_RANKS ranks."""
    if data.trace.ranks > MAX_RANKS:
        raise TraceError(f"{data.trace.ranks} ranks are too many to show one by one")
    return data.compute_once("positions", lambda: rank_state.find(data.trace))


def cached_verdict(data: TraceData) -> Verdict:
    """Return the verdict of `status`, cached for VERDICT_LIFETIME_NS, as it changes with time."""
    moment = (trace_now_ns(data.trace) or 0) // VERDICT_LIFETIME_NS
    return data.compute_once(
        ("hang", moment), lambda: verdict_text.status_verdict(data.trace, *find_positions(data))
    )


def make_strip(data: TraceData, state: PageState) -> Component | None:
    """Return a one-line summary of a running job for all pages, or None if no job is running."""
    if data.ended or data.trace.ranks > MAX_RANKS:
        return None
    positions, pending = find_positions(data)
    if not status.is_running(data.trace, positions):
        return None
    time_ns = trace_now_ns(data.trace)
    verdict = cached_verdict(data)
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
    text = filtered_tables.shorten_text(sentences)
    return dcc.Link(text, href=state.link_to(PATH), **classes)


def make_view(data: TraceData, state: PageState) -> Component:
    """Return the current state of the job."""
    trace = data.trace
    positions, pending = find_positions(data)
    running = status.is_running(trace, positions)
    time_ns = trace_now_ns(trace) if running else None
    unfinished = [p for p in positions if not p.finished]
    verdict = cached_verdict(data)
    if not unfinished:
        sentences, kind = "The job has ended.", "ended"
    elif running and verdict.is_bad:
        sentences, kind = f"The job is {status.state_word(verdict)}.", "dead"
    elif running:
        sentences, kind = "The job is running.", "running"
    else:
        sentences = "The job did not end, and none of its processes is alive on this machine."
        kind = "dead"
    facts = [
        ("job", filtered_tables.shorten_text(trace.program)),
        ("state", html.Span(sentences, className=f"state {kind}")),
        ("ranks", format_count(trace.ranks)),
        ("ended", format_count(trace.ranks - len(unfinished))),
        ("recorded", format_time(float(trace.run_ns))),
    ]
    chosen = set(data.filtered_ranks(state).tolist())
    shown = [instance for instance in pending if chosen & {*instance.arrived, *instance.missing}]
    cards = [
        _pending_card(data, instance, positions, time_ns, verdict)
        for instance in shown[:MAX_PENDING]
    ]
    if not cards:
        cards = [html.P("No collective is pending.", className="note")]
    table = _rank_table(data, [p for p in positions if p.rank in chosen], time_ns)
    cause = verdict_text.format_verdict(trace, positions, verdict, time_ns)
    top = []
    if verdict.is_bad:
        title = html.H2(verdict_text.verdict_title(verdict).capitalize(), className="state dead")
        sentence = html.P(filtered_tables.shorten_text(cause), className="missing")
        top = [html.Section([title, sentence], className="card")]
    return components.stack(
        *top,
        components.make_card("Status", components.fact_list(facts)),
        html.Section([html.H2("Pending collectives"), *cards], className="stack"),
        components.make_card("State of each rank", table),
    )


def _pending_card(
    data: TraceData,
    instance: rank_state.Pending,
    positions: list[rank_state.Position],
    time_ns: int | None,
    verdict: Verdict,
) -> Component:
    locations = ", ".join(describe_site(data.trace, site) for site in instance.sites[:4])
    place = filtered_tables.shorten_text(locations) or "unknown place"
    name = communicator_name(data.trace, instance.communicator)
    about = filtered_tables.shorten_text(f"sequence {instance.sequence} on {name}")
    since = _format_since(data, instance.since_ns, time_ns)
    lines: list[Component] = [
        html.P(f"{about}, first entered {since}", className="note"),
        html.P(["arrived: ", ranks_of(instance.arrived) or "nobody"]),
    ]
    if len(instance.operations) > 1:
        mismatch = f"Ranks call different operations here: {', '.join(instance.operations[:8])}"
        lines.append(components.warning_line(mismatch))
    if instance.missing:
        ranks = html.P(["not arrived: ", html.B(ranks_of(instance.missing))], className="missing")
        missing = instance.missing[:MAX_MISSING]
        lines += [ranks, html.Ul([_missing_line(data, positions[r], time_ns) for r in missing])]
    else:
        lines.append(html.P(f"{status.arrived_state(verdict).capitalize()}."))
    return components.make_card(f"{instance.operations[0]} at {place}", *lines)


def _missing_line(data: TraceData, position: rank_state.Position, time_ns: int | None) -> Component:
    call = position.current
    location = filtered_tables.shorten_text(data.describe_location(position.rank))
    who = f"rank {position.rank} on {location} "
    if call is None:
        return html.Li(who + "has called no collective yet")
    if position.finished:
        return html.Li(who + "has finished")
    doing = "last left" if call.exit_ns else "is in"
    where = filtered_tables.shorten_text(describe_site(data.trace, call.site))
    since = _format_since(data, call.exit_ns or call.enter_ns, time_ns)
    return html.Li(f"{who}{doing} {call.operation} at {where}, {since}")


def _format_since(data: TraceData, at_ns: int, time_ns: int | None) -> str:
    if time_ns is not None:
        return f"{format_time(float(max(time_ns - at_ns, 0)))} ago"
    return f"{format_time(float(at_ns - data.trace.run_start_ns))} after the start"


def _rank_table(
    data: TraceData, positions: list[rank_state.Position], time_ns: int | None
) -> Component:
    """Return a table of ranks; ranks in the same state, call and location share a row."""
    groups: dict[tuple[str, str, str], list[rank_state.Position]] = {}
    for position in positions:
        call = position.current
        doing = "no collective yet" if call is None else call.operation
        doing = f"after {doing}" if call is not None and call.exit_ns else doing
        where = "" if call is None else describe_site(data.trace, call.site)
        groups.setdefault((position.state, doing, where), []).append(position)
    head = html.Thead(html.Tr([html.Th(h) for h in ("ranks", "state", "call", "place", "since")]))
    rows = []
    for (state, doing, where), members in list(groups.items())[:MAX_ROWS]:
        times = [c.exit_ns or c.enter_ns for p in members if (c := p.current) is not None]
        since = _format_since(data, min(times), time_ns) if times else ""
        ranks, place = ranks_of([p.rank for p in members]), filtered_tables.shorten_text(where)
        rows.append(html.Tr([html.Td(cell) for cell in (ranks, state, doing, place, since)]))
    return html.Table([head, html.Tbody(rows)], className="table")
