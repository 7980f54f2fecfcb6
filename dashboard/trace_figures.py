"""Figures of a trace, computed from its derived tables, for the pages and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.diagnosis.compare import compare as compared
from mpiprof.errors import MpiprofError
from mpiprof.metrics.rank_totals import lateness_picture, read_instance
from mpiprof.metrics.wait_matrix import MAX_ROWS, WaitMatrix
from mpiprof.reports.site_labels import places
from mpiprof.store import cached_trace
from mpiprof.timeline.build import open_or_build
from mpiprof.timeline.row_layout import label_ranks
from mpiprof.timeline.segments import Progress
from mpiprof.timeline.window import MissingTiles, Request, Timeline
from mpiprof.trace.types import Float, Int

from . import filtered_tables, message_tables, predictions, theme
from .figures import algorithms as races
from .figures import axes, distribution, overview, rank_pairs
from .figures import callsite as figures
from .figures import compare as pairs
from .figures import timeline as timelines
from .message_tables import MessageRows
from .trace_data import TraceData
from .url_state import PageState, parse_ranks

MAX_CANDIDATES = 40
MAX_CELLS = 1 << 22  # limit of arrivals in memory for a band


def draw_time(data: TraceData, state: PageState) -> go.Figure:
    """Return the composition of all ranks' time."""
    return overview.draw_time_bar(filtered_tables.time_composition(data, state))


def draw_ranks(data: TraceData, state: PageState) -> go.Figure:
    """Return the wait time of each rank and the wait time that each rank causes."""
    table = filtered_tables.totals_by_rank(data, state)
    table["total_wait_ns"] += table["message_wait_ns"]
    table["caused_ns"] += table["message_caused_ns"]
    return overview.draw_ranks(table)


def draw_message_ranks(data: TraceData, state: PageState, rows: MessageRows) -> go.Figure:
    """Return the wait of each rank in some calls on messages, and the wait that it causes."""
    ranks = data.filtered_ranks(state)
    sums = {
        name: rows.sum_waits(by).reindex(ranks, fill_value=0).to_numpy()
        for name, by in (("total_wait_ns", "rank"), ("caused_ns", "awaited"))
    }
    where = [data.describe_location(rank) for rank in ranks.tolist()]
    return overview.draw_ranks(pd.DataFrame({"rank": ranks, "where": where, **sums}))


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
    """Return a matrix of the messages between ranks; quantity: of PAIR_QUANTITIES."""
    matrix = message_tables.filtered_messages(data, state).make_matrix()
    cells = matrix.get_cells(quantity)
    return rank_pairs.draw_pair_matrix(matrix.ranks, cells, quantity, dark=state.dark)


def draw_factors(data: TraceData, state: PageState, callsite: int) -> go.Figure:
    """Return the imbalance factors of a call site over its instances."""
    instances = filtered_tables.filtered_instances(data, callsite, state)
    try:
        phases = data.derive("phases", callsite)
    except MpiprofError:
        phases = pd.DataFrame()
    return figures.draw_factors(instances, phases, filtered_tables.algorithm_changes(instances))


def draw_arrivals(data: TraceData, state: PageState, callsite: int) -> go.Figure:
    """Return a heat map of each rank's lateness in each instance of a call site."""
    return figures.draw_heat_map(
        *heat_map_lateness(data, state, callsite), latest_first=sorts_by_lateness(state)
    )


def sorts_by_lateness(state: PageState) -> bool:
    """Return whether the URL sorts ranks by lateness."""
    return state.get("order") == "late"


def heat_map_lateness(data: TraceData, state: PageState, callsite: int) -> tuple[Float, Int, Int]:
    """Return the lateness of the heat map, its ranks, and the numbers of its instances."""
    instances = filtered_tables.filtered_instances(data, callsite, state)
    members = _filtered_members(data, state, callsite)

    def make() -> Any:
        most = axes.MAX_ROWS, axes.MAX_COLUMNS
        return lateness_picture(data.trace, instances, {callsite: members}, *most)[callsite]

    chosen = state.without_page_keys().set_keys(band=state.get("band"))
    late = data.compute_once(("late", callsite, chosen.format_query()), make)
    return late, members, instances["number"].to_numpy(np.int64)


def _filtered_members(data: TraceData, state: PageState, callsite: int) -> Int:
    members = filtered_tables.callsite_members(data, callsite)
    return np.intersect1d(members, data.filtered_ranks(state))


def find_latest_in_cell(
    data: TraceData, state: PageState, callsite: int, number: int, ranks: str
) -> int:
    """Return the number of the instance that determines the colour of a heat map's cell.

    number: number of the first instance of the cell; ranks: its row, as in "8-15".
    """
    instances = filtered_tables.filtered_instances(data, callsite, state)
    starts = axes.run_starts(len(instances), axes.MAX_COLUMNS)
    firsts = instances["number"].to_numpy(np.int64)[starts]
    at = max(int(np.searchsorted(firsts, number, "right")) - 1, 0)
    run = instances.iloc[starts[at] : [*starts.tolist(), len(instances)][at + 1]]
    row = parse_ranks(ranks, data.trace.ranks) or []
    members = np.intersect1d(
        filtered_tables.callsite_members(data, callsite), np.array(row, np.int64)
    )
    if len(run) < 2 or not len(members):
        return number
    late = lateness_picture(data.trace, run, {callsite: members}, 1, len(run))[callsite][0]
    return int(run["number"].iloc[int(np.nan_to_num(late, nan=-1.0).argmax())])


def draw_late_ranks(data: TraceData, state: PageState, callsite: int) -> go.Figure:
    """Return which ranks are late at a call site, how often and by how much."""
    if filtered_tables.parse_band(state) is not None:
        return figures.draw_late_ranks(*_late_in_band(data, state, callsite))
    totals = filtered_tables.filtered_totals(data, state)
    rows = totals[totals["callsite"] == callsite]
    table = rows.groupby("rank")[["last", "lateness_ns"]].sum().reset_index()
    table["where"] = [data.describe_location(rank) for rank in table["rank"].tolist()]
    complete = int(filtered_tables.filtered_instances(data, callsite, state)["complete"].sum())
    return figures.draw_late_ranks(table, complete)


def _late_in_band(data: TraceData, state: PageState, callsite: int) -> tuple[pd.DataFrame, int]:
    """Return the late ranks of a band, from evenly spaced instances if there are too many."""
    instances = filtered_tables.filtered_instances(data, callsite, state)
    members = _filtered_members(data, state, callsite)
    most = max(MAX_CELLS // max(len(members), 1), 1)
    some = instances.iloc[axes.run_starts(len(instances), most)]
    size = len(members), len(some)
    late = lateness_picture(data.trace, some, {callsite: members}, *size)[callsite]
    known = np.nan_to_num(late.astype(np.float64))
    last = np.bincount(known.argmax(0)[known.max(0) > data.trace.clock_error_ns], None, size[0])
    where = [data.describe_location(rank) for rank in members.tolist()]
    sums = {"rank": members, "where": where, "last": last, "lateness_ns": known.sum(1)}
    return pd.DataFrame(sums), size[1]


def draw_spread(data: TraceData, state: PageState, callsite: int) -> go.Figure:
    """Return the histogram of a call site's imbalances, with the selected band highlighted."""
    every = filtered_tables.filtered_instances(data, callsite, state.set_keys(band=None))
    values = every["worst_imbalance_ns"].to_numpy(np.float64)
    return distribution.draw_spread(values, filtered_tables.parse_band(state))


def draw_distribution(data: TraceData, state: PageState, callsite: int) -> go.Figure:
    """Return how many instances of a call site are balanced (Faraj et al. 2008, Figure 2)."""
    instances = filtered_tables.filtered_instances(data, callsite, state)
    return distribution.draw_distribution(instances["worst_factor"].to_numpy(np.float64))


def draw_instance(
    data: TraceData, state: PageState, callsite: int, row: dict[str, Any]
) -> go.Figure:
    """Return one instance in full, given its row of `filtered_tables.filtered_instances`."""
    communicator, first_arrival_ns = str(row["communicator"]), int(row["first_arrival_ns"])
    sequence, start = int(row["sequence"]), int(row["start"])
    instance = data.compute_once(
        ("instance", callsite, int(row["number"])),
        lambda: read_instance(data.trace, communicator, sequence, start, first_arrival_ns),
    )
    chosen = np.isin(instance.ranks, data.filtered_ranks(state))
    ranks = instance.ranks[chosen]
    members = pd.DataFrame(
        {
            "rank": ranks,
            "where": [data.describe_location(rank) for rank in ranks.tolist()],
            "arrival_ns": instance.arrival[chosen],
            "exit_ns": instance.finish[chosen],
            "wait_ns": instance.wait[chosen],
        }
    )
    return figures.draw_instance(members, message_ns=float(row["message_time_ns"]))


def draw_algorithms(data: TraceData, _: PageState, callsite: int) -> go.Figure:
    """Return the predicted scores of all candidates under a call site's recorded arrivals."""
    work = predictions.work_at_callsite(data, callsite)
    if work is None:
        return axes.empty_figure("no algorithm of the catalogue applies here")
    table = predictions.prediction_table(predictions.simulate_work(data, work))
    return races.draw_scores(table.head(MAX_CANDIDATES))


def compare_callsites(
    first: Sequence[TraceData], to: Sequence[TraceData], state: PageState
) -> pd.DataFrame:
    """Return the call sites of two sets of runs compared by operation, with `place`."""
    key = ("compare", len(first), *((data.name, data.version) for data in (*first, *to)))
    sides = [data.trace for data in first], [data.trace for data in to]
    table = first[0].compute_once(key, lambda: compared(*sides))
    if state.operations:
        table = table[table["operation"].isin(state.operations)]
    place = [text if isinstance(text, str) else places(text) for text in table["sites"]]
    return table.assign(place=[filtered_tables.shorten_text(p) for p in place])


def draw_compare(data: TraceData, state: PageState, other: TraceData) -> go.Figure:
    """Return the wait time of the call sites of two traces, A and B, side by side."""
    table = compare_callsites([data], [other], state)
    return pairs.draw_callsites(table, *pairs.WAITING, ("A", "B"))


def open_timeline(data: TraceData, progress: Progress) -> Timeline:
    """Return the timeline of a trace, from the trace's cache if possible."""
    key = cached_trace.cache_key(data.trace)
    return Timeline(data.trace, open_or_build(data.trace, key, progress), key)


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
    shown = timeline.resolve(wanted)
    if isinstance(shown, MissingTiles):
        timeline.build_tiles(shown, lambda _: None)
        shown = timeline.resolve(wanted)
    assert not isinstance(shown, MissingTiles)
    head, cells = timeline.render_cells(wanted, shown)
    names = head["states"]
    rows = [label_ranks(ranks) for ranks in shown.rows.ranks]
    return timelines.draw_cells(head, cells, rows, theme.state_colours("operation", names))


def find_worst(instances: pd.DataFrame) -> int:
    """Return the position of the instance with the largest worst-case imbalance."""
    return int(instances["worst_imbalance_ns"].fillna(-1).to_numpy().argmax())
