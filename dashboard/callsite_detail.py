"""Page of one call site: the late rank, its pattern over the instances, and one instance."""

from __future__ import annotations

from functools import partial
from typing import Any

import dash
import numpy as np
import pandas as pd
from dash import Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from mpiprof.errors import UsageError
from mpiprof.interface.format_units import (
    UNKNOWN,
    format_count,
    format_factor,
    format_share,
    format_size,
    format_time,
    shorten_text,
)
from mpiprof.reports.site_labels import format_site
from mpiprof.reports.words import callsite_sentences, captions

from . import (
    callsite_algorithms,
    callsite_arrivals,
    callsite_instance,
    callsite_lateness,
    callsite_table,
    components,
    filtered_tables,
    finding_links,
    sampled_functions,
    trace_figures,
)
from . import url_state as states
from .figures import callsite as figures
from .figures.instance import BAND_DIGITS
from .trace_data import TraceContext, TraceData

# Limit of a band's instances over its nominal number, if many have equal values.
MAX_WINDOW_FACTOR = 1.2


def make_layout(context: TraceContext, state: states.PageState, callsite: int) -> Component:
    """Return the page of a call site; callbacks fill in the slow parts."""
    data = context.latest_data(state)
    row, instances = find_row(data, state, callsite)
    details = callsite_table.make_details(context, row)
    if data.trace.record == "summary" or not row["instances"]:
        note = components.empty_state(
            "Totals only",
            "This trace was recorded as summary, without single instances. Record events to see "
            "who arrives when.",
        )
        return components.stack(_make_head(data, state, row, instances), note, details)
    if not len(instances):
        way = [_band_links(data, state, callsite)] if state.get("band") else []
        empty = components.empty_state("No instance passes the filters", "Clear them above.")
        return components.stack(_make_head(data, state, row, instances), empty, *way, details)
    lateness, algorithms = (
        components.deferred_container(f"callsite-{name}") for name in ("lateness", "algorithms")
    )
    return html.Div(
        [
            _make_head(data, state, row, instances),
            html.Div(
                [
                    _make_pattern(data, state, callsite, instances),
                    components.deferred_container("callsite-instance"),
                ],
                className="callsite-pictures",
            ),
            html.Div([lateness, algorithms], className="callsite-reasons"),
            *sampled_functions.make_outline("callsite-functions"),
            details,
        ],
        className="callsite",
    )


def find_row(
    data: TraceData, state: states.PageState, callsite: int
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the row of a call site within the filters, and its passing instances."""
    rows = filtered_tables.filtered_callsites(data, state)
    rows = rows[rows["callsite"] == callsite]
    if not len(rows):
        rows = filtered_tables.filtered_callsites(data, states.PageState())
        rows = rows[rows["callsite"] == callsite]
    if not len(rows):
        raise UsageError(f"no call site {callsite} in this trace")
    row = filtered_tables.table_records(rows)[0]
    if data.trace.record == "summary":
        return row, pd.DataFrame()
    return row, filtered_tables.filtered_instances(data, callsite, state)


def make_crumb(state: states.PageState, further: list[Any]) -> Component:
    """Return the line that leads back to the grid of call sites."""
    back = dcc.Link("Call sites", href=state.link_to("/callsites"))
    return html.Div([back, " › ", *further], className="crumb")


def _make_head(
    data: TraceData, state: states.PageState, row: dict[str, Any], instances: pd.DataFrame
) -> Component:
    callsite = int(row["callsite"])
    late = callsite_arrivals.get_late_rank(data, callsite)
    causes = finding_links.find_causes(data, callsite)
    clock_ns = float(data.trace.clock_error_ns)
    phrases = callsite_sentences.callsite_headline(row, late, clock_ns, causes)
    site = shorten_text(format_site((row["sites"] or [{}])[0]))
    further = f" and {len(row['sites']) - 1} more places" if len(row["sites"]) > 1 else ""
    facts = [row["operation"], *_size_facts(data, row, instances)]
    sentence = html.Div(
        [
            make_crumb(state, [html.Code(site), f"{further} · {', '.join(facts)}"]),
            html.H2(
                [html.Span(text, className=style) if style else text for text, style in phrases],
                className="headline",
            ),
            *finding_links.list_causes(data, state, causes),
        ]
    )
    return html.Div([sentence, _make_numbers(data, state, row), *_timeline_button(state, row)],
                    className="callsite-head")  # fmt: skip


def _size_facts(data: TraceData, row: dict[str, Any], instances: pd.DataFrame) -> list[str]:
    facts = []
    if row.get("bytes", np.nan) >= 0:
        facts.append(format_size(float(row["bytes"])))
    if len(instances):
        names = dict(data.communicators)
        used = list(dict.fromkeys(names.get(c, "?") for c in instances["communicator"].unique()))
        facts.append(used[0] if len(used) == 1 else f"{len(used)} communicators")
    if row.get("algorithm"):
        facts.append(str(row["algorithm"]))
    return [shorten_text(fact) for fact in facts]


def _make_numbers(data: TraceData, state: states.PageState, row: dict[str, Any]) -> Component:
    """Return the key numbers. Wall times are means over the passing ranks."""
    ranks = max(len(data.filtered_ranks(state)), 1)
    wait = float(row["total_wait_ns"])
    waited = UNKNOWN if pd.isna(row.get("wait_ns", 0)) else format_time(wait / ranks)
    share = UNKNOWN if pd.isna(wait) else format_share(float(row["wait_share"]))
    numbers = [
        (waited, f"waiting, {share}", "late" if row["wait_share"] >= 0.01 else ""),
        (format_count(int(row["total_instances"])), "instances", ""),
        (format_time(float(row["worst_imbalance_ns"])), "spread ω", ""),
        (format_factor(float(row["worst_factor"])), "ω / T", ""),
        (format_share(float(row["balanced_share"])), "balanced", ""),
    ]
    return callsite_table.show_numbers(numbers, "Times are means over the ranks.")


def _timeline_button(state: states.PageState, row: dict[str, Any]) -> list[Component]:
    href = state.link_to("/timeline", callsite=row["callsite"])
    return [dcc.Link("Show in the timeline", href=href, className="primary-button")]


def _make_pattern(
    data: TraceData, state: states.PageState, callsite: int, instances: pd.DataFrame
) -> Component:
    arrivals = callsite_arrivals.read_arrivals(data, state, callsite)
    chosen = callsite_instance.choose_position(instances, state)
    number = int(instances["number"].iloc[chosen])
    limit = format_time(figures.colour_limit(arrivals))
    upper = "spread ω in message times T, each instance"
    if not arrivals.has_factors:
        upper = "spread ω of each instance; measure message times with calibrate"
    scale = html.Span(
        [f"{limit} early", html.I(className="colour-scale"), f"late {limit} or more"],
        className="scale",
    )
    return html.Section(
        [
            html.H2(["How imbalanced ", html.Span(upper)], className="upper-title"),
            html.H2(
                ["Who arrives when ", html.Span(_row_note(arrivals)), scale],
                className="lower-title",
            ),
            components.make_graph(
                lambda arrivals: trace_figures.draw_arrivals(data, arrivals, callsite, number),
                state,
                "callsite-pattern",
            ),
            html.Div([_band_links(data, state, callsite),
                      components.how_to_read(captions.ARRIVALS_PAGE)], className="below"),
        ],
        className="callsite-picture",
    )  # fmt: skip


def _row_note(arrivals: figures.CallsiteArrivals) -> str:
    """Return what a cell of the heat map stands for."""
    ranks = int(arrivals.rows.counts.max(initial=1))
    columns = max(arrivals.arrivals.late_ns.shape[1], 1)
    instances = -(-len(arrivals.instances) // columns)
    several = [f"{n} {name}" for n, name in ((ranks, "ranks"), (instances, "instances")) if n > 1]
    note = "rank × instance, from the median"
    if several:
        note += f"; a cell is the latest of up to {' × '.join(several)}"
    late = arrivals.late
    if late is not None and arrivals.rows.late_row is not None and late.instances > 1:
        # First, because a narrow page cuts the end of the line.
        note = f"rank {late.rank} is last in {format_share(late.last_share)}; {note}"
    return note


def _band_links(data: TraceData, state: states.PageState, callsite: int) -> Component:
    """Return links to common bands and to all instances, and the current band."""
    every = filtered_tables.filtered_instances(data, callsite, state.set_keys(band=None))
    column = filtered_tables.imbalance_column(every)
    values = every[column].dropna().to_numpy(np.float64)
    digits, text = (BAND_DIGITS, format_factor) if column == "worst_factor" else (0, format_time)
    step = 10.0**-digits
    parts: list[Component] = []
    if len(values) > 1:
        parts.append(_step("all instances", state.set_keys(band=None, instance=None)))
        ordered = np.sort(values)
        tenth, half = max(len(ordered) // 10, 1), len(ordered) // 2
        for name, first, last, is_linked in (
            ("the largest tenth", ordered[-tenth], ordered[-1], tenth),
            ("the smaller half", ordered[0], ordered[half - 1], half),
        ):
            low, high = max(float(first) - step, 0.0), float(last) + step
            count = int(((values >= low) & (values < high)).sum())
            if count <= MAX_WINDOW_FACTOR * is_linked:  # many equal values make the band too large
                band = f"{low:.{digits}f}-{high:.{digits}f}"
                parts.append(_step(name, state.set_keys(band=band, instance=None)))
    if (chosen := filtered_tables.parse_band(state)) is not None:
        count = int(((values >= chosen[0]) & (values < chosen[1])).sum())
        share = f"{format_count(count)} of {format_count(len(values))} instances"
        unit = "ω/T" if column == "worst_factor" else "ω"
        parts.append(html.B(f"{share}, {unit} from {text(chosen[0])} to {text(chosen[1])}"))
    if state.ranks:
        parts.append(_step("all ranks", states.change_filters(state, {"ranks": ""})))
    return html.Div(parts, className="steps")


def _step(name: str, state: states.PageState) -> Component:
    """Return a link to a state of this page."""
    return dcc.Link(name, href="/callsites" + state.format_query())


def register_callbacks(app: dash.Dash, context: TraceContext) -> None:
    """Add the callbacks of the page of a call site."""
    for name, make in (
        ("callsite-lateness", lambda data, _, number: callsite_lateness.make_section(data, number)),
        ("callsite-algorithms", callsite_algorithms.make_section),
    ):
        _register_section(app, context, name, make)
    sampled_functions.register_section(
        app, context, "callsite-functions", lambda state: state.get_number("callsite", -1)
    )
    callsite_instance.register_callbacks(app, context)

    @components.query_callback(app, Input("callsite-pattern", "clickData"))
    def choose_instance(clicked: Any, state: states.PageState) -> str:
        """Write the clicked instance into the URL, and its ranks if the row is a run of ranks."""
        try:
            point = clicked["points"][0]
            place = float(point["x"])
            y = float(point["y"]) if "z" in point else None
        except (TypeError, KeyError, IndexError, ValueError):
            raise PreventUpdate from None
        data, callsite = context.latest_data(state), state.get_number("callsite", -1)
        arrivals = callsite_arrivals.read_arrivals(data, state, callsite)
        ranks = ""
        if y is None:
            number = callsite_arrivals.find_instance_at(arrivals, place)
        else:
            number, ranks = callsite_arrivals.find_latest_in_cell(data, arrivals, place, y)
        state = state.set_keys(instance=number)
        if ranks:
            state = states.change_filters(state, {"ranks": ranks})
        return state.format_query()

    @components.state_callback(
        app,
        Output("callsite-pattern", "figure"),
        Input("url", "search"),
        State("callsite-pattern", "id"),
        prevent_initial_call=True,
    )
    def mark_instance(_: str, __: str, state: states.PageState) -> Any:
        """Move the marks of the chosen instance."""
        data, callsite = context.latest_data(state), state.get_number("callsite", -1)
        if callsite < 0 or state.get_number("instance", -1) < 0:
            raise PreventUpdate
        arrivals = callsite_arrivals.read_arrivals(data, state, callsite)
        if not len(arrivals.instances):
            raise PreventUpdate
        number = state.get_number("instance", -1)
        changed = dash.Patch()
        for i, shape in enumerate(figures.make_cursor(arrivals, number, dark=state.dark)):
            for name in ("x0", "x1"):
                changed["layout"]["shapes"][i][name] = shape[name]
        return changed


def _register_section(app: dash.Dash, context: TraceContext, where: str, make: Any) -> None:
    """Add the callback that fills one section after the page has been shown."""

    @components.state_callback(app, Output(where, "children"), Input(where, "id"))
    def show(_: Any, state: states.PageState) -> Any:
        callsite = state.get_number("callsite", -1)
        if callsite < 0:
            raise PreventUpdate
        return components.make_or_message(
            where, partial(make, context.latest_data(state), state, callsite)
        )
