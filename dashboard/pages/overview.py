"""Overview page: the run, the composition of its time, findings, and wait times per rank."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash.development.base_component import Component

from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.reports import colours, phrases

from .. import components, explanations, filtered_tables, trace_figures
from .. import url_state as states
from ..figures import overview as figures
from ..trace_data import TraceContext, TraceData
from . import live

TITLE, PATH = "Overview", "/"
MAX_SITES = 12
SKELETON = (130, 220, 150, 360)


def make_layout(context: TraceContext, state: states.PageState) -> Component:
    """Return the page with the facts that need no pass over the trace."""
    data = context.latest_data(state)
    # A running job is incomplete as a matter of course, and the frame shows that it runs.
    lines = [] if live.make_strip(data, state) else phrases.incompleteness_lines(data.trace)
    findings = components.deferred_container("findings", className="findings")
    gains = components.deferred_container("gains")
    return components.stack(
        *[components.warning_line(line) for line in lines],
        html.Section([html.H2("Verdict"), findings, gains], className="stack"),
        components.deferred_container("overview-time"),
        components.deferred_container("overview-waiting"),
    )


def time_card(data: TraceData, state: states.PageState) -> Component:
    """Return the composition of all ranks' time, or a note if no operation was recorded."""
    if not filtered_tables.all_callsites(data, state):
        how = "passes the filters" if len(data.callsites) else "was recorded"
        return components.empty_state(f"No collective operation {how}", "")
    parts = filtered_tables.time_composition(data, state)
    whole = max(float(parts["ns"].sum()), 1.0)
    legend = []
    for part, ns in parts[parts["ns"] > 0].itertuples(index=False):
        title, colour = figures.TIME_PART_STYLES[part]
        legend.append((colour, f"{title} {format_share(ns / whole)}", format_time(ns)))
    return components.make_card(
        "Time of all ranks",
        components.make_graph(figures.draw_time_bar(parts), state, id="time"),
        components.make_legend(legend),
    )


def waiting_card(data: TraceData, state: states.PageState) -> Component | None:
    """Return the wait time by call site and rank; for a summary, the elapsed time."""
    rows = filtered_tables.all_callsites(data, state)
    if not rows:
        return None
    whole = max(float(filtered_tables.time_composition(data, state)["ns"].sum()), 1.0)
    summary = data.trace.record == "summary"
    title, quantity = ("Time", "elapsed") if summary else ("Waiting", "wait")
    bars = callsite_bars(rows, state, quantity, whole)
    sites = components.make_card(f"{title} by call site", *bars)
    if summary:
        return components.side_by_side(sites)
    ranks = components.make_card(
        "Waiting by rank",
        components.make_graph(trace_figures.draw_ranks(data, state), state, id="ranks"),
        note="Up: waiting of the rank. Down: waiting of other ranks for it.",
    )
    return components.side_by_side(sites, ranks)


def callsite_bars(
    rows: list[dict[str, Any]], state: states.PageState, quantity: str, whole_ns: float
) -> list[Component]:
    """Return the costliest call sites by "wait" or "elapsed" as bars with links."""
    column = f"total_{quantity}_ns"
    ordered = sorted(rows, key=lambda row: -row[column] if row[column] >= 0 else 1)
    largest = float(ordered[0][column]) or 1.0
    bars: list[Component] = []
    for row in ordered[:MAX_SITES]:
        value = float(row[column])
        known = quantity == "elapsed" or row.get("complete_instances", value >= 0)
        value_text = f"{format_time(value)} · {format_share(value / whole_ns)}"
        bars.append(
            components.make_bar_link(
                row["place"],
                row["operation"],
                value_text if known else "not known",
                value / largest,
                colours.operation_colour(row["operation"]),
                state.link_to("/callsites", callsite=row["callsite"]),
            )
        )
    if len(rows) > MAX_SITES:
        more = f"and {format_count(len(rows) - MAX_SITES)} more call sites"
        bars.append(dcc.Link(more, href=state.link_to("/callsites")))
    return bars


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks that fill in cards which need at least one pass over the trace."""
    for name, make in (
        ("overview-time", time_card),
        ("overview-waiting", waiting_card),
        ("findings", explanations.findings_cards),
        ("gains", explanations.gain_cards),
    ):
        _register_card(app, context, name, make)


def _register_card(app: dash.Dash, context: TraceContext, name: str, make: Any) -> None:
    @components.state_callback(app, Output(name, "children"), Input(name, "id"))
    def show(_: str, state: states.PageState) -> Any:
        return components.make_or_message(name, lambda: make(context.latest_data(state), state))
