"""One instance of a call site beside the pattern: its figure, and links to other instances."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
import numpy as np
import pandas as pd
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.account.instance_series import find_worst_instance
from mpiprof.interface.format_units import capitalise, format_instance, format_time, shorten_text
from mpiprof.reports.pictures.rank_rows import HEIGHT_PX
from mpiprof.reports.words import captions

from . import components, filtered_tables, trace_figures
from . import url_state as states
from .trace_data import TraceContext, TraceData

WINDOW_MARGIN = 0.3  # margin around an instance in the timeline, as a fraction of its length


def choose_position(table: pd.DataFrame, state: states.PageState) -> int:
    """Return the position of the URL's instance in the table, or of that with most waiting."""
    number = state.get_number("instance", -1)
    if number < 0:
        return find_worst_instance(table)
    return min(int(np.searchsorted(table["number"], number)), len(table) - 1)


def make_section(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return the figure of the chosen instance, with links to its neighbours."""
    table = filtered_tables.filtered_instances(data, callsite, state)
    if not len(table):
        return html.P("No instance passes the filters.")
    at = choose_position(table, state)
    row = filtered_tables.table_records(table.iloc[[at]])[0]
    title = capitalise(format_instance(int(row["number"]), count_instances(data, callsite)))
    return html.Section(
        [
            html.H2(["How often ", html.Span("instances, same axis")], className="upper-title"),
            html.H2(
                [title, html.Span(" same rows"), _neighbour_links(table, at, state)],
                className="lower-title",
            ),
            components.make_graph(
                lambda drawn_state: trace_figures.draw_instance(data, drawn_state, callsite, row),
                state,
                "callsite-instance-figure",
            ),
            html.Div(
                [
                    html.P([_instance_note(data, row), _timeline_link(state, data, row)],
                           className="instance-note"),
                    components.how_to_read(captions.INSTANCE_PAGE),
                ],
                className="below",
            ),
        ],
        className="callsite-picture",
    )  # fmt: skip


def count_instances(data: TraceData, callsite: int) -> int:
    """Return the number of recorded instances of a call site."""
    return int((data.instances["callsite"] == callsite).sum())


def _instance_note(data: TraceData, row: dict[str, Any]) -> str:
    last = "" if pd.isna(row["last_rank"]) else f", rank {row['last_rank']} is last"
    completeness = "" if row["complete"] else ", incomplete: some ranks are missing or not back yet"
    spread = row["worst_imbalance_ns"]
    about = f": ω {format_time(float(spread))}" if not pd.isna(spread) else ""
    begin = format_time(float(row["first_arrival_ns"] - data.trace.calls_start_ns))
    name = f"instance {row['number']} at {begin}{about}{last}{completeness}; {row['algorithm']}. "
    return shorten_text(name)


def _neighbour_links(table: pd.DataFrame, at: int, state: states.PageState) -> Component:
    numbers = table["number"].to_numpy()

    def to(name: str, index: int) -> Component:
        if not 0 <= index < len(numbers):
            return html.Span(name, className="off")
        query = state.set_keys(instance=int(numbers[index])).format_query()
        return dcc.Link(name, href="/callsites" + query)

    links = [
        to("‹ previous", at - 1),
        to("next ›", at + 1),
        to("most waiting", find_worst_instance(table)),
    ]
    return html.Div(links, className="steps")


def _timeline_link(state: states.PageState, data: TraceData, row: dict[str, Any]) -> Component:
    begin = int(row["first_arrival_ns"]) - int(data.trace.calls_start_ns)
    end = row["last_exit_ns"]
    length = 1_000_000 if pd.isna(end) else int(end) - int(row["first_arrival_ns"])
    margin = int(WINDOW_MARGIN * length) + 1
    instance_key = f"{row['communicator']}:{row['sequence']}:{row['start']}"
    window = {"from": max(begin - margin, 0), "to": begin + length + margin}
    timeline = state.link_to("/timeline", callsite=row["callsite"], instance=instance_key, **window)
    return dcc.Link("In the timeline", href=timeline)


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the instance: its figure, the band, and the rows in view."""

    @components.state_callback(app, Output("callsite-instance", "children"), Input("url", "search"))
    def show(_: Any, state: states.PageState) -> Any:
        callsite = state.get_number("callsite", -1)
        if callsite < 0:
            raise PreventUpdate
        return components.make_or_message(
            "an instance", partial(make_section, context.latest_data(state), state, callsite)
        )

    @components.query_callback(
        app,
        Input("callsite-instance-figure", "selectedData"),
        Input("callsite-instance-figure", "clickData"),
    )
    def choose_band(dragged: Any, clicked: Any, state: states.PageState) -> str:
        """Write the band of the selected bars, or of the clicked bar, into the URL."""
        way = dash.ctx.triggered[0]["prop_id"].partition(".")[2]
        try:
            points = (dragged if way == "selectedData" else clicked)["points"]
            bars = [point["customdata"] for point in points if len(point["customdata"]) == 2]
            low = min((low for low, _ in bars), key=float)
            high = max((high for _, high in bars), key=float)
        except (TypeError, KeyError, IndexError, ValueError):
            raise PreventUpdate from None
        return state.set_keys(band=f"{low}-{high}", instance=None).format_query()

    @app.callback(
        Output("callsite-instance-figure", "figure"),
        Input("callsite-pattern", "relayoutData"),
        State("callsite-instance-figure", "id"),
        prevent_initial_call=True,
    )
    def follow_rows(layout: Any, _: str) -> Any:
        """Show the rows of ranks that are in view at the left."""
        layout = layout or {}
        ends = [layout.get(f"yaxis2.range[{i}]") for i in (0, 1)]
        if None in ends and not layout.get("yaxis2.autorange") and "autosize" not in layout:
            raise PreventUpdate
        if None in ends:
            ends = [HEIGHT_PX, 0]
        changed = dash.Patch()
        changed["layout"]["yaxis2"]["range"] = ends
        return changed
