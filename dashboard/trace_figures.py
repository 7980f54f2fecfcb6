"""Figures of a trace, computed from its derived tables, for the pages and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from mpiprof.diagnosis.compare import compare as compared
from mpiprof.errors import MpiprofError
from mpiprof.metrics.instance_series import find_worst_instance
from mpiprof.metrics.wait_matrix import MAX_ROWS, WaitMatrix
from mpiprof.reports.changes_chart import name_places
from mpiprof.store import cached_trace
from mpiprof.timeline.row_layout import label_ranks
from mpiprof.timeline.segments import Progress
from mpiprof.timeline.tile_requests import resolve_with_tiles
from mpiprof.timeline.window import Request, Timeline

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
from .figures import timeline as timelines
from .timeline_process import build_tiles, open_events
from .trace_data import TraceData
from .url_state import PageState

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
    cells: Any = message_tables.filtered_messages(data, chosen).make_matrix(MAX_ROWS).wait_ns
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
    shown = callsite_arrivals.read_arrivals(data, state, callsite)
    if not len(shown.instances):
        return axes.empty_figure("no instance passes the filters")
    try:
        phases = data.derive("phases", callsite)
    except MpiprofError:
        phases = pd.DataFrame()
    changes = filtered_tables.algorithm_changes(shown.instances)
    at = shown.numbers[find_worst_instance(shown.instances)] if chosen is None else chosen
    return figures.draw_pattern(shown, phases, changes, int(at), dark=state.dark)


def draw_instance(
    data: TraceData, state: PageState, callsite: int, row: dict[str, Any]
) -> go.Figure:
    """Return one instance in full, given its row of `filtered_tables.filtered_instances`."""
    shown = callsite_arrivals.read_arrivals(data, state, callsite)
    table = callsite_arrivals.read_instance_table(data, state, callsite, row)
    return instances.draw_instance(shown, table, filtered_tables.parse_band(state), dark=state.dark)


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
    wanted = Request(
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
    shown = resolve_with_tiles(
        timeline, wanted, lambda need: build_tiles(timeline, need, lambda _: None)
    )
    head, cells = timeline.render_cells(wanted, shown)
    names = head["states"]
    rows = [label_ranks(ranks) for ranks in shown.rows.ranks]
    return timelines.draw_cells(head, cells, rows, theme.state_colours("operation", names))
