"""Figures of a trace, computed from its derived tables, for the pages and for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.account.instance_series import find_worst_instance
from mpiprof.account.rank_pairs import MAX_WAIT_ROWS, WaitMatrix
from mpiprof.causes.compare import compare as compared
from mpiprof.errors import MpiprofError
from mpiprof.formats import cached_trace
from mpiprof.interface.format_units import unit_of
from mpiprof.reports.changes_chart import name_places
from mpiprof.trace.types import Array

from . import (
    callsite_arrivals,
    filtered_tables,
    message_tables,
    predictions,
    sampled_functions,
    theme,
)
from .figures import algorithms as races
from .figures import axes, rank_pairs, stacks
from .figures import callsite as figures
from .figures import instance as instances
from .timeline.build import resolve_with_tiles
from .timeline.process import build_tiles, open_events
from .timeline.row_layout import label_ranks
from .timeline.segments import Progress
from .timeline.sums import NO_STATE
from .timeline.window import Request, Timeline
from .trace_data import TraceData
from .url_state import PageState

HALF_OPACITY = 128  # wait share (of 255) of a cell's collective time, above which the cell is pale


def draw_cells(
    head: Mapping[str, Any], cells: Mapping[str, Array], rows: Sequence[str], colours: Sequence[str]
) -> go.Figure:
    """Draw the result of `Timeline.cells`, given its row labels and state colours.

    A cell has the colour of its longest state, and is pale if the state is mostly waiting.
    """
    columns, width = head["columns"], 1 << head["level"]
    state, share, wait = (
        cells[name].reshape(len(rows), columns) for name in ("state", "share", "wait")
    )
    nothing = state == NO_STATE
    if not columns or nothing.all():
        return axes.empty_figure("no rank is in a collective here")
    scale_end = (head["first"] + columns) * width
    unit, scale = unit_of(float(scale_end))
    names = np.array([*head["states"], ""], object)[np.where(nothing, len(head["states"]), state)]
    hover_text = np.stack([names, np.rint(share / 2.55), np.rint(wait / 2.55)], 2)
    value = np.where(nothing, np.nan, 2.0 * state + (wait >= HALF_OPACITY))
    steps = [shade for colour in colours for shade in (colour, _pale_colour(colour))]
    count = len(steps)
    figure = go.Figure()
    figure.add_heatmap(
        z=value.astype(np.float32),
        x=(head["first"] + np.arange(columns) + 0.5) * width / scale,
        y=list(rows),
        zmin=-0.5,
        zmax=count - 0.5,
        colorscale=[[at, steps[i]] for i in range(count) for at in (i / count, (i + 1) / count)],
        showscale=False,
        customdata=hover_text,
        hovertemplate=f"rank %{{y}} at %{{x}} {unit}<br>mostly %{{customdata[0]}}<br>"
        "%{customdata[1]} % of the time in collectives, %{customdata[2]} % of that waiting"
        "<extra></extra>",
    )
    for name, colour in zip(head["states"], colours, strict=True):
        marker = {"color": colour, "symbol": "square", "size": 10}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker)
    figure.update_layout(
        height=int(min(max(130 + 22 * len(rows), 220), 620)),
        xaxis={"title": f"time since the start ({unit}); pale: mostly waiting", "showgrid": False},
        yaxis={**axes.RANK_ROWS, "nticks": 40},
    )
    return figure


def _pale_colour(colour: str) -> str:
    """Return the pale shade of a colour that marks waiting."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(0.38 * part + 0.62 * 255):02x}" for part in parts)


MAX_CANDIDATES = 40


def draw_whom(data: TraceData, state: PageState, callsites: tuple[int, ...] = ()) -> go.Figure:
    """Return the matrix of wait times at some call sites of collectives.

    Without call sites, it is of all collectives and messages of the filtered operations.
    """
    if callsites:
        matrix = data.derive("waiting_for", callsites)
        return rank_pairs.draw_wait_matrix(matrix, dark=state.dark)
    table = data.callsites
    callsites = tuple(table[table["operation"].isin(state.operations)]["callsite"].tolist())
    chosen = PageState(operations=state.operations)
    cells: Any = message_tables.filtered_messages(data, chosen).make_matrix(MAX_WAIT_ROWS).wait_ns
    matrix = data.derive("waiting_for", callsites)
    if callsites or not state.operations:
        cells = cells + matrix.total_wait_ns
    return rank_pairs.draw_wait_matrix(WaitMatrix(matrix.ranks, cells), dark=state.dark)


def draw_messages(data: TraceData, state: PageState, quantity: str) -> go.Figure:
    """Return a matrix of the messages between ranks; quantity: of pair_matrix.QUANTITIES."""
    matrix = message_tables.filtered_messages(data, state).make_matrix()
    cells = matrix.get_cells(quantity)
    return rank_pairs.draw_pair_matrix(matrix.ranks, cells, quantity, dark=state.dark)


def draw_arrivals(
    data: TraceData, state: PageState, callsite: int, chosen: int | None = None
) -> go.Figure:
    """Return imbalance and arrivals of a call site over its instances; marks the chosen one."""
    arrivals = callsite_arrivals.read_arrivals(data, state, callsite)
    if not len(arrivals.instances):
        return axes.empty_figure("no instance passes the filters")
    try:
        phases = data.derive("phases", callsite)
    except MpiprofError:
        phases = pd.DataFrame()
    changes = filtered_tables.algorithm_changes(arrivals.instances)
    at = arrivals.numbers[find_worst_instance(arrivals.instances)] if chosen is None else chosen
    return figures.draw_pattern(arrivals, phases, changes, int(at), dark=state.dark)


def draw_instance(
    data: TraceData, state: PageState, callsite: int, row: dict[str, Any]
) -> go.Figure:
    """Return one instance in full, given its row of `filtered_tables.filtered_instances`."""
    arrivals = callsite_arrivals.read_arrivals(data, state, callsite)
    table = callsite_arrivals.read_instance_table(data, state, callsite, row)
    return instances.draw_instance(
        arrivals, table, filtered_tables.parse_band(state), dark=state.dark
    )


def draw_algorithms(data: TraceData, state: PageState, callsite: int) -> go.Figure:
    """Return the predicted scores of all candidates under a call site's recorded arrivals."""
    work = predictions.work_at_callsite(data, callsite)
    if work is None:
        return axes.empty_figure("no algorithm of the catalogue applies here")
    table = predictions.prediction_table(predictions.simulate_work(data, work))
    wait_ns = predictions.mean_wait_ns(data, callsite)
    return races.draw_scores(table.head(MAX_CANDIDATES), wait_ns, dark=state.dark)


def draw_functions(data: TraceData, state: PageState, callsite: int | None) -> go.Figure:
    """Return the flame graph of the sampled functions before a call site, or before all."""
    if not data.trace.tables.presite_samples:
        return axes.empty_figure("no samples: record with run --where")
    choice = sampled_functions.find_choice(data, state, callsite)
    tree = sampled_functions.read_tree(data, choice, callsite)
    return stacks.draw_stacks(tree, compared=bool(choice.others), dark=state.dark)


def compare_callsites(
    first: Sequence[TraceData], to: Sequence[TraceData], state: PageState
) -> pd.DataFrame:
    """Return the call sites of two sets of runs compared by operation, with `place`."""
    key = ("compare", len(first), *((data.name, data.version) for data in (*first, *to)))
    sides = [data.trace for data in first], [data.trace for data in to]
    table = first[0].compute_once(key, lambda: compared(*sides))
    if state.operations:
        table = table[table["operation"].isin(state.operations)]
    return name_places(table)


def open_timeline(data: TraceData, progress: Progress) -> Timeline:
    """Return the timeline of a trace, from the trace's cache if possible."""
    key = cached_trace.cache_key(data.trace)
    return Timeline(data.trace, open_events(data.trace, key, progress), key)


def draw_timeline(data: TraceData, state: PageState, begin: int, end: int) -> go.Figure:
    """Return a heat map of ranks over time; each cell shows the state that fills most of it."""
    timeline = data.compute_once("timeline", lambda: open_timeline(data, lambda _: None))
    request = Request(
        begin,
        end or timeline.length_ns,
        axes.MAX_COLUMNS,
        "operation",
        "rank",
        frozenset(),
        data.filtered_ranks(state),
        state.communicators,
        state.operations,
    )
    resolved = resolve_with_tiles(
        timeline, request, lambda need: build_tiles(timeline, need, lambda _: None)
    )
    head, cells = timeline.render_cells(request, resolved)
    names = head["states"]
    rows = [label_ranks(ranks) for ranks in resolved.rows.ranks]
    return draw_cells(head, cells, rows, theme.state_colours("operation", names))
