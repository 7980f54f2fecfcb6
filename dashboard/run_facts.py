"""Facts of the run: one line below the head, and the rest in "About this trace"."""

from __future__ import annotations

from typing import Any

from dash import html
from dash.development.base_component import Component

from mpiprof.interface.format_units import format_time, shorten_text
from mpiprof.libraries import mpi_name
from mpiprof.reports import phrases, text
from mpiprof.reports.overview import run_line

from . import components
from .trace_data import TraceData

MAX_HOSTS = 4


def make_line(data: TraceData) -> list[Component]:
    """Return the line; it needs no pass over the trace."""
    trace = data.trace
    program = shorten_text(trace.program)
    parts: list[Any] = [html.H1(program), *run_line.list_facts(trace)]
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
    more = len(data.hosts) - MAX_HOSTS
    hosts = ", ".join(data.hosts[:MAX_HOSTS]) + (f" and {more} more" if more > 0 else "")
    clocks = phrases.clock_sentence(float(trace.clock_error_ns), trace.node_count, partial=partial)
    facts = [
        ("ranks", run_line.count_ranks(trace)),
        ("hosts", shorten_text(hosts)),
        ("MPI", mpi_name(trace.mpi)),
        ("started", phrases.started(trace) or "–"),
        ("run time", format_time(float(trace.run_ns))),
        ("clocks", clocks),
        ("message times", text.message_time_source(trace)),
        ("trace", shorten_text(data.path)),
    ]
    if trace.sampling_interval > 1:
        facts.append(("sampled", text.sampling_text(trace.sampling_interval)))
    if record := phrases.message_record(trace):
        facts.append(("messages", record))
    facts += [("call sites", reason) for reason in text.explain_addresses(trace)]
    facts += [("attention", line) for line in phrases.incompleteness_lines(trace)]
    notes = text.recorder_notes(trace)
    return [*facts, *(("note", shorten_text(note)) for note in notes)]
