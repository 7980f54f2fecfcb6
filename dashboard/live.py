"""State of a running, hung or killed job: missing ranks, their last calls and their times."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.errors import TraceError
from mpiprof.hang import rank_state, status, verdict_text
from mpiprof.hang.job_verdict import Verdict
from mpiprof.hang.processes import now_ns
from mpiprof.interface.format_units import count, duration
from mpiprof.interface.format_units import ranks as ranks_of
from mpiprof.reports.site_labels import communicator_name, place, site_of

from . import components, filtered_tables
from .trace_data import MOST_RANKS, Data
from .url_state import State

MOST_PENDING, MOST_ROWS, MOST_MISSING = 20, 60, 16
FRESH_NS = 3 * 10**9


def found_in(data: Data) -> tuple[list[rank_state.Position], list[rank_state.Pending]]:
    """Return each rank's state and the pending instances; TraceError above MOST_RANKS ranks."""
    if data.trace.ranks > MOST_RANKS:
        raise TraceError(f"{data.trace.ranks} ranks are too many to show one by one")
    return data.once("positions", lambda: rank_state.find(data.trace))


def verdict_of(data: Data) -> Verdict:
    """Return the verdict of `status` on the job, cached for FRESH_NS as it changes with time."""
    moment = (now_ns(data.trace) or 0) // FRESH_NS
    return data.once(("hang", moment), lambda: verdict_text.of_job(data.trace, *found_in(data)))


def strip(data: Data, state: State) -> Component | None:
    """Return a one-line summary of a running job for all pages, or None if no job is running."""
    if data.ended or data.trace.ranks > MOST_RANKS:
        return None
    found, pending = found_in(data)
    if not status.is_running(data.trace, found):
        return None
    time_ns = now_ns(data.trace)
    verdict = verdict_of(data)
    if verdict.is_bad:
        told = f"{verdict_text.title(verdict).capitalize()}: "
        told += verdict_text.text(data.trace, found, verdict, time_ns)
        link = "/live" + state.shared().query()
        return dcc.Link(filtered_tables.text_of(told), href=link, className="state dead")
    told = f"running, {duration(float(data.trace.run_ns))} recorded"
    stuck = next((one for one in pending if one.missing), None)
    if stuck is not None:
        where = ", ".join(place(site_of(data.trace, site)) for site in stuck.sites[:1])
        told += f"; {stuck.operations[0]} at {where or 'unknown place'} waits for rank "
        told += f"{ranks_of(stuck.missing)}, entered {_since(data, stuck.since_ns, time_ns)}"
    return dcc.Link(filtered_tables.text_of(told), href="/live" + state.shared().query())


def now(data: Data, state: State) -> list[Component]:
    """Return the current state of the job."""
    trace = data.trace
    found, pending = found_in(data)
    running = status.is_running(trace, found)
    time_ns = now_ns(trace) if running else None
    left = [p for p in found if not p.finished]
    verdict = verdict_of(data)
    if not left:
        told, kind = "The job has ended.", "ended"
    elif running and verdict.is_bad:
        told, kind = f"The job is {status.state_of(verdict)}.", "dead"
    elif running:
        told, kind = "The job is running.", "running"
    else:
        told, kind = (
            "The job did not end, and none of its processes is alive on this machine.",
            "dead",
        )
    facts = [
        ("job", filtered_tables.text_of(trace.program)),
        ("state", html.Span(told, className=f"state {kind}")),
        ("ranks", count(trace.ranks)),
        ("ended", count(trace.ranks - len(left))),
        ("recorded", duration(float(trace.run_ns))),
    ]
    chosen = set(data.ranks(state).tolist())
    shown = [one for one in pending if chosen & {*one.arrived, *one.missing}]
    cards = [_pending(data, one, found, time_ns, verdict) for one in shown[:MOST_PENDING]]
    if not cards:
        cards = [html.P("No collective is pending.", className="note")]
    table = _table(data, [p for p in found if p.rank in chosen], time_ns)
    cause = verdict_text.text(trace, found, verdict, time_ns)
    top = [_verdict(verdict, cause)] if verdict.is_bad else []
    return [
        html.Div(
            [
                *top,
                components.card("Status", components.facts(facts)),
                html.Section([html.H2("Pending collectives"), *cards], className="stack"),
                components.card("State of each rank", table),
            ],
            className="stack",
        )
    ]


def _verdict(verdict: Verdict, text: str) -> Component:
    """Return the card that states the job's fault."""
    title = verdict_text.title(verdict).capitalize()
    told = html.P(filtered_tables.text_of(text), className="missing")
    return html.Section([html.H2(title, className="state dead"), told], className="card")


def _pending(
    data: Data,
    one: rank_state.Pending,
    found: list[rank_state.Position],
    time_ns: int | None,
    verdict: Verdict,
) -> Component:
    places = ", ".join(place(site_of(data.trace, site)) for site in one.sites[:4])
    since = _since(data, one.since_ns, time_ns)
    head = f"{one.operations[0]} at {filtered_tables.text_of(places) or 'unknown place'}"
    about = f"sequence {one.sequence} on {communicator_name(data.trace, one.communicator)}"
    lines: list[Component] = [
        html.P(f"{filtered_tables.text_of(about)}, first entered {since}", className="note"),
        html.P(["arrived: ", ranks_of(one.arrived) or "nobody"]),
    ]
    if len(one.operations) > 1:
        mismatch = f"Ranks call different operations here: {', '.join(one.operations[:8])}"
        lines.append(components.warning(mismatch))
    if one.missing:
        lines.append(html.P(["not arrived: ", html.B(ranks_of(one.missing))], className="missing"))
        lines.append(
            html.Ul([_missing(data, found[r], time_ns) for r in one.missing[:MOST_MISSING]])
        )
    else:
        lines.append(html.P(f"{status.state_of_arrived(verdict).capitalize()}."))
    return components.card(head, *lines)


def _missing(data: Data, position: rank_state.Position, time_ns: int | None) -> Component:
    call = position.current
    who = f"rank {position.rank} on {filtered_tables.text_of(data.where(position.rank))} "
    if call is None:
        return html.Li(who + "has called no collective yet")
    if position.finished:
        return html.Li(who + "has finished")
    doing = "is in" if position.open else "last left"
    where = filtered_tables.text_of(place(site_of(data.trace, call.site)))
    since = _since(data, call.exit_ns or call.enter_ns, time_ns)
    return html.Li(f"{who}{doing} {call.operation} at {where}, {since}")


def _since(data: Data, at_ns: int, time_ns: int | None) -> str:
    if time_ns is not None:
        return f"{duration(float(max(time_ns - at_ns, 0)))} ago"
    return f"{duration(float(at_ns - data.trace.run_started_ns))} after the start"


def _table(data: Data, found: list[rank_state.Position], time_ns: int | None) -> Component:
    """Return a table of ranks; ranks in the same state, call and location share a row."""
    groups: dict[tuple[str, str, str], list[rank_state.Position]] = {}
    for position in found:
        call = position.current
        doing = "no collective yet" if call is None else call.operation
        doing = f"after {doing}" if call is not None and not position.open else doing
        where = "" if call is None else place(site_of(data.trace, call.site))
        groups.setdefault((position.state, doing, where), []).append(position)
    head = html.Thead(html.Tr([html.Th(h) for h in ("ranks", "state", "call", "place", "since")]))
    rows = []
    for (state, doing, where), members in list(groups.items())[:MOST_ROWS]:
        times = [c.exit_ns or c.enter_ns for p in members if (c := p.current) is not None]
        since = _since(data, min(times), time_ns) if times else ""
        cells = (
            ranks_of([p.rank for p in members]),
            state,
            doing,
            filtered_tables.text_of(where),
            since,
        )
        rows.append(html.Tr([html.Td(cell) for cell in cells]))
    return html.Table([head, html.Tbody(rows)], className="table")
