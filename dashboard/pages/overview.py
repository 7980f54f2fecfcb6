"""Overview page: the answer with its picture, the time of the run, findings and call sites."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, html
from dash.development.base_component import Component

from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import format_time
from mpiprof.reports.pictures import time_split
from mpiprof.reports.pictures.time_split import BlamedTime, TimePart
from mpiprof.reports.site_labels import format_callsite

from .. import components, filtered_tables, overview_tables, predictions, verdict_view
from .. import url_state as states
from ..picture import Picture
from ..trace_data import TraceContext, TraceData

TITLE, PATH = "Overview", "/"
SKELETON = (330, 90, 200, 260)
WIDTHS = {"wide": 1232.0, "narrow": 366.0}  # by class: of the bar of time in px
TIME_PARTS = {  # name, colour and whether ranks wait, by part of filtered_tables.time_composition
    "outside": ("computing", "q1", False),
    "point to point": ("messages", "q2", False),
    "work": ("collectives", "q3", False),
    "unknown": ("collectives, waiting unknown", "q3", False),
    "other collectives": ("filtered out", "line2", False),
    "waiting for messages": ("for messages", "late", True),
    "waiting": ("in collectives", "late", True),
}


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page; callbacks fill in what needs a pass over the trace."""
    context.latest_data(state)  # an unreadable trace is reported once, in place of the page
    answer, proof = map(components.deferred_container, ("findings", "overview-proof"))
    return html.Div(
        [
            html.Section([answer, proof], className="hero", **_label("Answer")),
            components.deferred_container("overview-time"),
            components.deferred_container("overview-findings"),
            components.deferred_container("gains"),
            components.deferred_container("overview-sites"),
        ],
        className="overview",
    )


def _label(text: str) -> dict[str, Any]:
    return components.aria_attributes(label=text)


def time_section(data: TraceData, state: states.PageState) -> Component:
    """Return the composition of the run's time, or a note if no operation was recorded."""
    if not filtered_tables.all_callsites(data, state):
        how = "passes the filters" if len(data.callsites) else "was recorded"
        return components.empty_state(f"No collective operation {how}", "")
    parts = list_time_parts(data, state)
    blamed = None if states.clear_filters(state) != state else find_blamed_time(data)
    pictures = [
        Picture(time_split.draw_split(parts, blamed, width), className=f"picture {name}")
        for name, width in WIDTHS.items()
    ]
    ranks = len(data.filtered_ranks(state))
    of = "all ranks" if ranks == data.trace.ranks else f"{ranks} ranks"
    total = format_time(sum(part.time_ns for part in parts))
    title = html.H2(f"Where the {total} went")
    heading = html.Div([title, html.Span(f"mean of {of}")], className="heading")
    return html.Section([heading, *pictures, components.picture_menu()])


def list_time_parts(data: TraceData, state: states.PageState) -> list[TimePart]:
    """Return the parts of the time as means of the ranks that pass the filters."""
    ranks = max(len(data.filtered_ranks(state)), 1)
    table = filtered_tables.time_composition(data, state)
    parts = [(*TIME_PARTS[name], float(ns) / ranks) for name, ns in table.itertuples(index=False)]
    return [TimePart(name, ns, colour, waits) for name, colour, waits, ns in parts]


def find_blamed_time(data: TraceData) -> BlamedTime | None:
    """Return the waiting that the worst finding causes, mean of the ranks, or None."""
    finding: Finding | None = verdict_view.find_verdict(data).worst
    if finding is None or not verdict_view.is_blamed(finding):
        return None
    names = verdict_view.name_blamed(finding)
    sites = [format_callsite(data.trace, callsite) for callsite in finding.callsites[:1]]
    site = sites[0].partition(" at ")[2] if sites else ""  # messages alone carry some delays
    where = f" at {site.partition(' ')[0]}" if site else ""
    return BlamedTime(f"for {names}{where}", finding.cost_ns / max(data.trace.ranks, 1))


def findings_section(data: TraceData, state: states.PageState) -> Component | None:
    """Return the findings as rows, without those that need a simulation."""
    return overview_tables.make_findings(data, state, data.derive("findings"))


def gains_section(data: TraceData, state: states.PageState) -> Component | None:
    """Return rows of call sites where the simulator predicts a gain. Takes seconds."""
    findings = data.derive("findings", tuple(predictions.find_gains(data)))
    gains = [finding for finding in findings if finding.cause == "algorithm"]
    return overview_tables.make_findings(data, state, gains, title="Other algorithms")


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill in parts which need at least one pass over the trace."""
    for name, make in (
        ("findings", verdict_view.make_answer),
        ("overview-proof", verdict_view.make_picture),
        ("overview-time", time_section),
        ("overview-findings", findings_section),
        ("gains", gains_section),
        ("overview-sites", overview_tables.make_callsites),
    ):
        _register_part(app, context, name, make)


def _register_part(app: dash.Dash, context: TraceContext, name: str, make: Any) -> None:
    @components.state_callback(app, Output(name, "children"), Input(name, "id"))
    def show(_: str, state: states.PageState) -> Any:
        return components.make_or_message(name, lambda: make(context.latest_data(state), state))
