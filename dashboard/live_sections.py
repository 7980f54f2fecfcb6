"""Sections of the live page: verdict with remedy, pictures of a hang, pending collectives, ranks.

The content of a section changes only with the state of the job, so that an unchanged section is not
sent again. Only the section "state" contains durations up to now.
"""

from __future__ import annotations

import hashlib
import json
import socket
from dataclasses import dataclass
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from mpiprof.hang import hang_pictures, rank_state, status
from mpiprof.hang.processes import find_alive, trace_now_ns
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.wait_graph import took_part
from mpiprof.hang.words import job_state, verdict_text
from mpiprof.interface.format_units import format_count, format_ranks, format_time, shorten_text
from mpiprof.interface.format_units import format_runs as ranks_of
from mpiprof.interface.svg import DataPicture
from mpiprof.reports.site_labels import communicator_name, describe_site, site_as_data
from mpiprof.reports.words import trace_sentences
from mpiprof.reports.words.ranks_and_steps import describe_location
from mpiprof.trace import Trace

from . import components, source_excerpt
from .trace_data import TraceContext, TraceData
from .url_state import PageState

SECTIONS = (
    *("state", "verdict", "actions", "source", "cells"),
    *("graph", "moments", "pending", "ranks"),
)
MAX_PENDING, MAX_ROWS, MAX_MISSING = 20, 60, 16
MAX_SENTENCES = 2000  # characters
LAST_NS = 10**9  # length of the window that "Show the last second" opens
CORE_HOUR_NS = 3600e9


@dataclass(frozen=True)
class LiveJob:
    """State of a job at one moment; now_ns is None if no process of it runs on this machine."""

    data: TraceData
    positions: list[rank_state.Position]
    pending: list[rank_state.Pending]
    verdict: HangVerdict
    now_ns: int | None

    @property
    def trace(self) -> Trace:
        """The trace of the job."""
        return self.data.trace

    @property
    def unfinished(self) -> list[rank_state.Position]:
        """The ranks that have not ended in MPI_Finalize."""
        return [position for position in self.positions if not position.finished]


def observe_job(
    data: TraceData,
    positions: list[rank_state.Position],
    pending: list[rank_state.Pending],
    verdict: HangVerdict,
) -> LiveJob:
    """Return the state of a job now."""
    running = status.is_running(data.trace, positions, verdict)
    now_ns = trace_now_ns(data.trace) if running else None
    return LiveJob(data, positions, pending, verdict, now_ns)


def make_sections(
    job: LiveJob, state: PageState, context: TraceContext | None = None
) -> dict[str, list[Component]]:
    """Return the content of each section; an empty list if a section has none."""
    chosen = set(job.data.filtered_ranks(state).tolist())
    return {
        "state": _state_lines(job),
        "verdict": _verdict_sentences(job),
        "actions": _actions(job, state),
        "source": _source_lines(job, context),
        "cells": _cells(job),
        "graph": _graph(job),
        "moments": _moments(job),
        "pending": _pending_cards(job, chosen),
        "ranks": [_rank_table(job, chosen)],
    }


def digest_section(content: list[Component]) -> str:
    """Return a text that changes when the content of a section changes."""
    text = json.dumps(content, default=lambda part: part.to_plotly_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---- the verdict and what to do


def _state_lines(job: LiveJob) -> list[Component]:
    """Return the state in a few words with its duration, and the facts of the job in one line."""
    trace, verdict = job.trace, job.verdict
    if not job.unfinished:
        words, colour = "The job has ended", "ended"
    elif verdict.is_bad:
        words, colour = verdict_text.verdict_title(verdict).capitalize(), "dead"
    elif job.now_ns is not None:
        words, colour = "The job runs", "running"
    else:
        words, colour = "The job did not end in MPI_Finalize", "dead"
    since = _hang_begin(job)
    cost = ""
    if job.now_ns is not None and since is not None:
        lasting = float(max(job.now_ns - since, 0))
        words += f", for {format_time(lasting)}"
        hours = lasting * trace.ranks / CORE_HOUR_NS
        cost = f"{hours:.2g} core-hours since then" if hours >= 0.01 else ""
    alive = find_alive(trace)
    living = f"{sum(alive.values())} of {len(alive)} processes alive here" if alive else ""
    ended = trace.ranks - len(job.unfinished)
    facts = [
        f"{format_count(ended)} of {format_count(trace.ranks)} ranks ended",
        living if job.unfinished else "",
        f"recorded {format_time(float(trace.run_ns))}",
        cost,
    ]
    line = [html.Span(fact) for fact in facts if fact]
    title = html.H2(words, className=f"state {colour}")
    return [html.P(line, className="live-facts"), title]


def _hang_begin(job: LiveJob) -> int | None:
    """Return the time since which the ranks of the verdict wait, or None without a fault."""
    verdict = job.verdict
    if not verdict.is_bad:
        return None
    if verdict.disagreement is not None:
        return verdict.disagreement.since_ns
    links = [link.call.enter_ns for link in (*verdict.cycle, *verdict.chain)]
    if links:
        return max(links) if verdict.cycle else links[0]
    return None if verdict.pending is None else verdict.pending.since_ns


def _verdict_sentences(job: LiveJob) -> list[Component]:
    """Return the verdict as in `status`, or the state of the job with its remedy."""
    if job.verdict.is_bad:
        text = verdict_text.format_verdict(job.trace, job.positions, job.verdict)
        return [html.P(components.mark_code(text[:MAX_SENTENCES]), className="live-sentence")]
    if not job.unfinished:
        sentence = "All ranks ended in MPI_Finalize. The overview shows where their time went."
    elif job.now_ns is not None:
        sentence = "No sign of a fault. The page follows the job, and reports a hang here."
    else:
        sentence = (
            "No process of the job is alive on this machine, and no fault is visible. If the job "
            "runs elsewhere, run `mpiprof status` there. If it was ended, its last calls are below."
        )
    marked = components.mark_code(sentence)
    lines: list[Component] = [html.P(marked, className="live-sentence")]
    if not job.unfinished or job.now_ns is None:
        lines += [
            components.warning_line(line)
            for line in trace_sentences.incompleteness_lines(job.trace)
        ]
    return lines


def _actions(job: LiveJob, state: PageState) -> list[Component]:
    """Return the commands for a hung job, and the link to its last second."""
    if not job.unfinished:
        return [dcc.Link("Show the overview", href=state.link_to("/"), className="button")]
    end = int(job.trace.run_ns)
    window = {"from": max(end - LAST_NS, 0), "to": end}
    link = dcc.Link(
        "Show the last second", href=state.link_to("/timeline", **window), className="button"
    )
    awaited = sorted(hang_pictures.awaited_ranks(job.verdict)) if job.verdict.is_bad else []
    commands: list[Component] = [link]
    if job.now_ns is None:
        return commands
    if awaited and (command := _process_command(job.trace, awaited[0], "gdb -batch -ex bt -p")):
        commands.append(components.show_command(command, f"stack of rank {awaited[0]}"))
    first = job.unfinished[0].rank
    if command := _process_command(job.trace, first, "kill"):
        words = (
            "This page never changes or ends a job. Press Ctrl-C in the launcher's terminal, "
            f"cancel the job in the batch system, or end rank {first}:"
        )
        content = [html.Summary("End the job"), html.P(words), components.show_command(command)]
        commands.append(html.Details(content, className="end-job"))
    return commands


def _process_command(trace: Trace, rank: int, command: str) -> str:
    """Return a command on the process of a rank, through ssh if it is on another host."""
    process = trace.tables.processes.get(rank, {})
    pid, host = process.get("pid"), str(process.get("host") or "")
    if not pid:
        return ""
    is_here = host == socket.gethostname()
    return f"{command} {int(pid)}" if is_here else f"ssh {host[:200]} {command} {int(pid)}"


def _source_lines(job: LiveJob, context: TraceContext | None) -> list[Component]:
    """Return the source lines at which the first named rank is, if they are allowed."""
    awaited = sorted(hang_pictures.awaited_ranks(job.verdict)) if job.verdict.is_bad else []
    call = job.positions[awaited[0]].current if awaited else None
    if call is None or context is None:
        return []
    site = site_as_data(job.trace, call.site)
    if not site["file"] or not site["line"]:
        return []
    excerpt = source_excerpt.read_excerpt(str(site["file"]), int(site["line"]), context.sources)
    if excerpt is None:
        return []
    head = html.H2(f"Where rank {awaited[0]} {'was last' if call.exit_ns else 'is'}")
    return [head, components.source_lines(excerpt)]


# ---- pictures


def _cells(job: LiveJob) -> list[Component]:
    return _show(hang_pictures.draw_strip(job.trace, job.positions, job.verdict))


def _graph(job: LiveJob) -> list[Component]:
    if not job.verdict.is_bad:
        return []
    return _show(hang_pictures.draw_hang(job.trace, job.positions, job.pending, job.verdict))


def _moments(job: LiveJob) -> list[Component]:
    if not job.verdict.is_bad and (not job.unfinished or job.now_ns is not None):
        return []
    return _show(hang_pictures.draw_moments(job.trace, job.positions, job.verdict))


def _show(drawn: DataPicture | None) -> list[Component]:
    """Return a picture below its title, with its explanation; nothing without a picture."""
    if drawn is None:
        return []
    picture = components.wide_picture(drawn)
    return [html.H2(drawn.title), picture, components.how_to_read(drawn.how_to_read)]


# ---- pending collectives and ranks


def _pending_cards(job: LiveJob, chosen: set[int]) -> list[Component]:
    pending = [p for p in job.pending if chosen & {*p.arrived, *p.missing}]
    cards = [_pending_card(job, instance) for instance in pending[:MAX_PENDING]]
    if len(pending) > MAX_PENDING:
        cards.append(html.P(f"and {len(pending) - MAX_PENDING} more", className="note"))
    none = html.P("No collective is pending.", className="note")
    return [html.H2("Pending collectives"), *(cards or [none])]


def _pending_card(job: LiveJob, instance: rank_state.Pending) -> Component:
    locations = ", ".join(describe_site(job.trace, site) for site in instance.sites[:4])
    place = shorten_text(locations) or "unknown place"
    name = communicator_name(job.trace, instance.communicator)
    about = shorten_text(f"sequence {instance.sequence} on {name}")
    since = format_since(job.data, instance.since_ns)
    lines: list[Component] = [
        html.P(f"{about}, first entered {since}", className="note"),
        html.P(["arrived: ", ranks_of(instance.arrived) or "nobody"]),
    ]
    arrived = instance.arrived
    leaving = [rank for rank in arrived if not took_part(job.positions[rank], instance)]
    if leaving and instance.operations != ["finalize"]:
        text = f"Of these, {format_ranks(leaving)} called MPI_Finalize instead."
        lines.append(components.warning_line(text))
    elif len(instance.operations) > 1:
        mismatch = f"Ranks call different operations here: {', '.join(instance.operations[:8])}"
        lines.append(components.warning_line(mismatch))
    if instance.missing:
        ranks = html.P(["not arrived: ", html.B(ranks_of(instance.missing))], className="missing")
        missing = instance.missing[:MAX_MISSING]
        lines += [ranks, html.Ul([_missing_line(job, job.positions[rank]) for rank in missing])]
    elif not leaving:
        arrived_state = job_state.arrived_state(job.verdict)
        lines.append(html.P(f"{arrived_state[:1].upper()}{arrived_state[1:]}."))
    title = f"{instance.operations[0]} at {place}"
    return html.Section([html.H3(title), *lines], className="pending")


def _missing_line(job: LiveJob, position: rank_state.Position) -> Component:
    call = position.current
    location = shorten_text(describe_location(job.trace, position.rank))
    rank_text = f"rank {position.rank} on {location} "
    if call is None:
        return html.Li(rank_text + "has called no collective yet")
    if position.finished:
        return html.Li(rank_text + "has finished")
    doing = "last left" if call.exit_ns else "is in"
    where = shorten_text(describe_site(job.trace, call.site))
    since = format_since(job.data, call.exit_ns or call.enter_ns)
    return html.Li(f"{rank_text}{doing} {call.operation} at {where}, {since}")


def format_since(data: TraceData, at_ns: int) -> str:
    """Return a time after the start of the run, which does not change between refreshes."""
    return f"{format_time(float(at_ns - data.trace.run_start_ns))} after the start"


def _rank_table(job: LiveJob, chosen: set[int]) -> Component:
    """Return a table of ranks; ranks in the same state, call and location share a row."""
    groups: dict[tuple[str, str, str], list[rank_state.Position]] = {}
    for position in (p for p in job.positions if p.rank in chosen):
        call = position.current
        doing = "no collective yet" if call is None else call.operation
        doing = f"after {doing}" if call is not None and call.exit_ns else doing
        where = "" if call is None else describe_site(job.trace, call.site)
        groups.setdefault((position.state, doing, where), []).append(position)
    head = html.Thead(html.Tr([html.Th(h) for h in ("ranks", "state", "call", "place", "since")]))
    rows = []
    for (state, doing, where), members in list(groups.items())[:MAX_ROWS]:
        times = [c.exit_ns or c.enter_ns for p in members if (c := p.current) is not None]
        since = format_since(job.data, min(times)) if times else ""
        ranks, place = ranks_of([p.rank for p in members]), shorten_text(where)
        rows.append(html.Tr([html.Td(cell) for cell in (ranks, state, doing, place, since)]))
    table = html.Table([head, html.Tbody(rows)], className="table")
    return html.Div([html.H2("State of each rank"), table])


def changed_sections(
    sections: dict[str, list[Component]], digests: dict[str, str], unchanged: Any
) -> tuple[list[Any], dict[str, str]]:
    """Return the content of the sections that differ from the digests, and the new digests."""
    new = {name: digest_section(content) for name, content in sections.items()}
    content = [sections[name] if digests.get(name) != new[name] else unchanged for name in SECTIONS]
    return content, new
