"""Detail view of one call site, shown below the grid of the call sites page."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
import numpy as np
import pandas as pd
from dash import Input, Output, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import UsageError
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.metrics import columns
from mpiprof.reports import phrases
from mpiprof.reports.site_labels import format_site

from . import components, explanations, filtered_tables, source_excerpt, trace_figures
from . import url_state as states
from .figures import callsite as figures
from .trace_data import TraceContext, TraceData

MAX_SOURCE_SITES = 4
TITLE = ("operation", "sites", "algorithm")  # columns that the title or a longer column replaces
# Limit of a band's instances over its nominal number, if many have equal values.
MAX_WINDOW_FACTOR = 1.2
WINDOW_MARGIN = 0.3  # margin around an instance in the timeline, as a fraction of its length


def make_layout(context: TraceContext, state: states.PageState, callsite: int) -> Component:
    """Return the detail view of a call site; callbacks fill in the slow parts."""
    data = context.latest_data(state)
    rows = data.callsites[data.callsites["callsite"] == callsite]
    if not len(rows):
        raise UsageError(f"no call site {callsite} in this trace")
    row = filtered_tables.table_records(rows)[0]
    site = filtered_tables.shorten_text(format_site((row["sites"] or [{}])[0]))
    head: list[Component] = [html.H1([row["operation"], " at ", site])]
    if row["total_wait_ns"] > 0:
        cost = phrases.cost_sentence(row, data.trace.process_time_ns)
        head.append(html.P(cost, className="lead"))
    head.append(components.fact_list(callsite_facts(row)))
    if data.trace.record == "summary" or not row["instances"]:
        note = html.P("Recorded as summary: totals, but no single instances.", className="note")
        return components.stack(*head, note, source_card(context, row))
    instances = filtered_tables.filtered_instances(data, callsite, state)
    if not len(instances):
        way = [_band_links(data, state, callsite)] if state.get("band") else []
        return html.Div([*head, components.empty_state("No instance passes the filters", ""), *way])
    instance, causes, algorithms = (
        components.deferred_container(f"callsite-{name}")
        for name in ("instance", "causes", "algorithms")
    )
    return components.stack(
        html.Div(head, className="detail-head"),
        components.side_by_side(
            source_card(context, row), components.make_card("One instance", instance)
        ),
        _imbalance_card(data, state, callsite),
        _instances_card(data, state, callsite),
        _ranks_cards(data, state, callsite),
        components.side_by_side(causes, algorithms),
    )


def callsite_facts(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the metrics of a call site as pairs of name and text: the columns with headings."""
    known = columns.recorded() if "instances" in row else columns.of_messages()
    return [
        (column.meaning, filtered_tables.shorten_text(column.text(row)))
        for column in known
        if column.heading and column.name not in TITLE and column.informs([row])
    ]


def source_card(context: TraceContext, row: dict[str, Any]) -> Component:
    """Return the source lines around a call site, if its files exist and are allowed."""
    parts: list[Component] = []
    for site in row["sites"][:MAX_SOURCE_SITES]:
        for frame in [site, *site.get("stack", [])[:MAX_SOURCE_SITES]]:
            parts.append(html.H3(filtered_tables.shorten_text(format_site(frame))))
            file, line = frame.get("file"), frame.get("line")
            if not line:
                continue
            excerpt = source_excerpt.read_excerpt(str(file), int(line), context.sources)
            if excerpt is not None:
                parts.append(components.source_lines(excerpt))
            else:
                path = html.Code(filtered_tables.shorten_text(file))
                parts.append(html.P(["not below --source: ", path]))
    if len(row["sites"]) > MAX_SOURCE_SITES:
        parts.append(html.P(f"and {len(row['sites']) - MAX_SOURCE_SITES} more places"))
    return components.make_card("Source", *parts or [html.P("The location is unknown.")])


def _imbalance_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    spread = trace_figures.draw_spread(data, state, callsite)
    return components.make_card(
        "Imbalance of its instances",
        _band_links(data, state, callsite),
        components.make_graph(spread, state, id="callsite-spread"),
        note=(
            "Drag over a range of bars, or click one: the figures on this page then show "
            "only the instances in that range."
        ),
    )


def _band_links(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return links to common bands and to all instances, and the current band."""
    every = filtered_tables.filtered_instances(data, callsite, state.set_keys(band=None))
    values = every["worst_imbalance_ns"].dropna().to_numpy(np.float64)
    parts: list[Component] = []
    if len(values) > 1:
        parts.append(_step("all instances", state.set_keys(band=None, instance=None)))
        ordered = np.sort(values).astype(np.int64)
        tenth, half = max(len(ordered) // 10, 1), len(ordered) // 2
        for name, low, high, wanted in (
            ("the largest tenth", ordered[-tenth], ordered[-1] + 1, tenth),
            ("the smaller half", ordered[0], ordered[half - 1] + 1, half),
        ):
            count = int(((values >= low) & (values < high)).sum())
            if count <= MAX_WINDOW_FACTOR * wanted:  # many equal values make the band too large
                parts.append(_step(name, state.set_keys(band=f"{low}-{high}", instance=None)))
    if (band := filtered_tables.parse_band(state)) is not None:
        shown = int(((values >= band[0]) & (values < band[1])).sum())
        share = f"{format_count(shown)} of {format_count(len(values))} instances"
        parts.append(html.B(f"{share}, ω from {format_time(band[0])} to {format_time(band[1])}"))
    return html.Div(parts, className="steps")


def _step(name: str, state: states.PageState | None) -> Component:
    """Return a link to a state of this page, or the name alone if `state` is None."""
    if state is None:
        return html.Span(name, className="off")
    return dcc.Link(name, href="/callsites" + state.format_query())


def _instances_card(data: TraceData, state: states.PageState, callsite: int) -> Component:
    lines = trace_figures.draw_factors(data, state, callsite)
    heat = trace_figures.draw_arrivals(data, state, callsite)
    note = figures.heat_map_note(*trace_figures.heat_map_lateness(data, state, callsite))
    return components.make_card(
        "Over its instances",
        components.make_graph(lines, state, id="callsite-factors"),
        html.H3("Lateness of each rank after the first rank of the instance"),
        _order_links(state),
        components.make_graph(heat, state, id="callsite-heat"),
        html.P(note, className="note"),
        note="Click an instance in either figure to see it in full.",
    )


def _order_links(state: states.PageState) -> Component:
    """Return links that sort the ranks of the heat map, and the link back to all ranks."""
    late = trace_figures.sorts_by_lateness(state)
    links = [
        _step("by rank", state.set_keys(order=None) if late else None),
        _step("latest first", None if late else state.set_keys(order="late")),
    ]
    if state.ranks:
        links.append(_step("all ranks", states.change_filters(state, {"ranks": ""})))
    return html.Div(links, className="steps")


def _ranks_cards(data: TraceData, state: states.PageState, callsite: int) -> Component:
    late = components.make_graph(trace_figures.draw_late_ranks(data, state, callsite), state)
    factors = components.make_graph(trace_figures.draw_distribution(data, state, callsite), state)
    note = "Left of the line all ranks arrive within the time of one message (Faraj, Figure 2)."
    return components.side_by_side(
        components.make_card("Share of instances in which a rank is last", late),
        components.make_card("Imbalance against the balanced limit", factors, note=note),
    )


def instance_card(data: TraceData, state: states.PageState, callsite: int) -> list[Component]:
    """Return one instance as in the paper's Figure 1, with links to its neighbours."""
    table = filtered_tables.filtered_instances(data, callsite, state)
    if not len(table):
        return [html.P("No instance passes the filters.")]
    wanted = state.get_number("instance", -1)
    at = trace_figures.find_worst(table)
    if wanted >= 0:
        at = min(int(np.searchsorted(table["number"], wanted)), len(table) - 1)
    row = filtered_tables.table_records(table.iloc[[at]])[0]
    figure = trace_figures.draw_instance(data, state, callsite, row)
    return [
        html.P(_instance_note(row), className="note"),
        _neighbour_links(table, at, state, data, row),
        components.make_graph(figure, state, id="callsite-instance-figure"),
    ]


def _instance_note(row: dict[str, Any]) -> str:
    last = "" if pd.isna(row["last_rank"]) else f"; rank {row['last_rank']} arrived last"
    wait = row["wait_ns"]
    waited = "" if np.isnan(wait) else f"; {format_time(wait)} of waiting"
    return f"instance {format_count(row['number'])} on {row['algorithm']}{last}{waited}"


def _neighbour_links(
    table: pd.DataFrame, at: int, state: states.PageState, data: TraceData, row: dict[str, Any]
) -> Component:
    numbers = table["number"].to_numpy()

    def to(name: str, index: int) -> Component:
        exists = 0 <= index < len(numbers)
        return _step(name, state.set_keys(instance=int(numbers[index])) if exists else None)

    begin = int(row["first_arrival_ns"]) - int(data.trace.calls_start_ns)
    end = row["last_exit_ns"]
    length = 1_000_000 if pd.isna(end) else int(end) - int(row["first_arrival_ns"])
    margin = int(WINDOW_MARGIN * length) + 1
    named = f"{row['communicator']}:{row['sequence']}:{row['start']}"
    window = {"from": max(begin - margin, 0), "to": begin + length + margin}
    timeline = state.link_to("/timeline", callsite=row["callsite"], instance=named, **window)
    return html.Div(
        [
            to("‹ previous", at - 1),
            to("next ›", at + 1),
            to("the worst", trace_figures.find_worst(table)),
            dcc.Link("in the timeline", href=timeline),
        ],
        className="steps",
    )


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the detail view."""
    for name, make, trigger in (
        ("callsite-causes", explanations.causes_card, Input("callsite-causes", "id")),
        ("callsite-algorithms", explanations.algorithms_card, Input("callsite-algorithms", "id")),
        ("callsite-instance", instance_card, Input("url", "search")),
    ):
        _register_card(app, context, name, make, trigger)

    @components.query_callback(
        app, Input("callsite-spread", "selectedData"), Input("callsite-spread", "clickData")
    )
    def choose_band(dragged: Any, clicked: Any, state: states.PageState) -> str:
        """Write the band of the selected bars, or of the clicked bar, into the URL."""
        way = dash.ctx.triggered[0]["prop_id"].partition(".")[2]
        try:
            chosen = (dragged if way == "selectedData" else clicked)["points"]
            ends = [[int(value) for value in point["customdata"]] for point in chosen]
            low, high = min(a for a, _ in ends), max(b for _, b in ends)
        except (TypeError, KeyError, IndexError, ValueError):
            raise PreventUpdate from None
        return state.set_keys(band=f"{low}-{high}", instance=None).format_query()

    @components.query_callback(
        app, Input("callsite-factors", "clickData"), Input("callsite-heat", "clickData")
    )
    def choose_instance(factors_click: Any, heat_click: Any, state: states.PageState) -> str:
        """Write the clicked instance into the URL, and its ranks if the row is a run of ranks."""
        clicked = factors_click if dash.ctx.triggered_id == "callsite-factors" else heat_click
        try:
            point = clicked["points"][0]
            number = round(float(point["x"]))
            band = str(point["y"]) if clicked is heat_click else ""
        except (TypeError, KeyError, IndexError, ValueError):
            raise PreventUpdate from None
        if band:
            data, callsite = context.latest_data(state), state.get_number("callsite", -1)
            number = trace_figures.find_latest_in_cell(data, state, callsite, number, band)
        state = state.set_keys(instance=number)
        if "-" in band:
            state = states.change_filters(state, {"ranks": band})
        return state.format_query()


def _register_card(
    app: dash.Dash, context: TraceContext, where: str, make: Any, trigger: Input
) -> None:
    """Add the callback that fills one card of the detail view; `trigger` starts the callback."""

    @components.state_callback(app, Output(where, "children"), trigger)
    def show(_: Any, state: states.PageState) -> Any:
        callsite = state.get_number("callsite", -1)
        if callsite < 0:
            raise PreventUpdate
        return components.make_or_message(
            where, partial(make, context.latest_data(state), state, callsite)
        )
