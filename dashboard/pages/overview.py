"""Overview page: the answer with its picture, the time of the run, findings and call sites."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, html
from dash.development.base_component import Component

from mpiprof.interface.format_units import format_time
from mpiprof.reports.overview.time_sums import (
    WIDTHS,
    find_blamed_time,
    how_to_read,
    list_time_parts,
)
from mpiprof.reports.pictures import time_split

from .. import components, filtered_tables, overview_tables, predictions, verdict_view
from .. import url_state as states
from ..picture import Picture
from ..trace_data import TraceContext, TraceData

TITLE, PATH = "Overview", "/"
SKELETON = (330, 90, 200, 260)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page; callbacks fill in what needs a pass over the trace."""
    context.latest_data(state)  # an unreadable trace is reported once, in place of the page
    names = ("overview-share", "findings", "overview-proof")
    share, answer, proof = map(components.deferred_container, names)
    return html.Div(
        [
            html.Section([html.Div([share, answer]), proof], className="hero", **_label("Answer")),
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
    ranks = len(data.filtered_ranks(state))
    parts = list_time_parts(data.trace, filtered_tables.divide_filtered_time(data, state), ranks)
    blamed = None
    if states.clear_filters(state) == state:
        blamed = find_blamed_time(data.trace, verdict_view.find_verdict(data).worst)
    pictures = [
        Picture(time_split.draw_split(parts, blamed, width), className=f"picture {name}")
        for name, width in WIDTHS.items()
    ]
    of = "all ranks" if ranks == data.trace.ranks else f"{ranks} ranks"
    total = format_time(sum(part.time_ns for part in parts))
    title = html.H2(f"Where the {total} went")
    heading = html.Div([title, html.Span(f"mean of {of}")], className="heading")
    menu = components.picture_menu(time_split.list_values(parts, blamed))
    note = components.how_to_read(how_to_read(parts, blamed))
    return html.Section([heading, *pictures, menu, note])


def findings_section(data: TraceData, state: states.PageState) -> Component | None:
    """Return the findings as rows, without those that need a simulation."""
    return overview_tables.make_findings(data, state, data.derive("findings"))


def gains_section(data: TraceData, state: states.PageState) -> Component | None:
    """Return rows of call sites where the simulator predicts a gain. Takes seconds."""
    data.derive("findings")  # the answer comes first: the simulation occupies the processor
    findings = data.derive("findings", tuple(predictions.find_gains(data)))
    gains = [finding for finding in findings if finding.cause == "algorithm"]
    return overview_tables.make_findings(data, state, gains, title="Other algorithms")


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill in parts which need at least one pass over the trace."""
    for name, make in (
        ("overview-share", verdict_view.make_early_answer),
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
