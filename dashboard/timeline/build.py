"""Builds the timeline's file of segments and instances (dashboard/timeline/segments.py).

Two passes: segments and instances go to scratch files in matching order, then to the entry in order
of time. Memory is a batch of the trace, a piece of the scratch files, and 24 bytes per instance.
A rank with more than PIECE_SEGMENTS segments adds 16 bytes per segment. The tiles of a request are
built when it is first resolved.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mpiprof.account.coverage import first_recorded
from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import Rows
from mpiprof.account.variance_components import median_before_last
from mpiprof.errors import MpiprofError
from mpiprof.formats import cache
from mpiprof.trace import Trace
from mpiprof.trace.batch import Batch
from mpiprof.trace.types import Array, Bool, Int

from .row_layout import COLOURS, SORTS
from .scratch import Scratch, SegmentRuns
from .segments import (
    BLOCK_SEGMENTS,
    BLOCKS,
    COMPLETION,
    INSTANCE,
    OPEN,
    SEGMENT,
    Events,
    Progress,
    read_ahead,
)
from .window import MAX_PIXELS, MissingTiles, Request, ResolvedRequest, Timeline

ENTRY_NAME = "timeline"
OPEN_CALLS_SHARE = 64  # run time over the drawn length of a recently entered open call
FILLED_SEGMENTS = 1 << 14  # that are filled at a time, so that they remain in the cache
BATCH_RECORDS = 1 << 22  # records in memory; a short read per rank costs more than its records


def find_events(trace: Trace, key: str) -> Events | None:
    """Return the segments of a trace from its cache, or None without a valid entry."""
    entry = cache.find(trace.path, ENTRY_NAME, key)
    if entry is not None:
        try:
            return Events(entry, trace)
        except cache.DamagedError:
            entry.close()
    return None


def open_or_build(trace: Trace, key: str, progress: Progress = lambda _: None) -> Events:
    """Return the segments of a trace, from its cache if the entry is valid, else newly built."""
    return find_events(trace, key) or Events(
        cache.make(trace.path, ENTRY_NAME, key, lambda w: build(trace, w, progress)), trace
    )


def build(trace: Trace, writer: cache.Writer, progress: Progress) -> dict[str, Any]:
    """Fill a cache entry with a trace's segments and instances."""
    folder = writer.path.parent
    with (
        tempfile.TemporaryFile(dir=folder) as segments_file,
        tempfile.TemporaryFile(dir=folder) as instances_file,
        ThreadPoolExecutor(1) as pool,
    ):
        runs = SegmentRuns(segments_file, trace.ranks, pool)
        instances = Scratch(instances_file, INSTANCE)
        pass_one = _MatchingPass(trace, runs, instances, progress)
        # In wrapped rings, the first recorded instance of a call site has a number above 0.
        sites = range(len(pass_one.measure.callsites))
        first_numbers = {callsite: first_recorded(trace, callsite) for callsite in sites}
        has_one_member = np.array([c.has_one_member for c in trace.tables.communicators], np.bool_)
        number = _sort_instances(writer, instances, pass_one.count, (first_numbers, has_one_member))
        blocks = _write_in_order(writer, runs, number, progress)
    writer.write_array("blocks", blocks)
    with np.errstate(invalid="ignore"):
        writer.write_array("lateness", pass_one.late_ns / pass_one.late_count)
    writer.write_array("calls", pass_one.calls)
    return {
        "begin_ns": trace.calls_start_ns,
        "end_ns": pass_one.end_ns,
        "segments": runs.count,
        "algorithms": list(pass_one.measure.algorithms),
        "instances": [first_numbers.get(callsite, 0) for callsite in sites],
        "callsites": [
            [k.operation, sorted(k.sites), k.started] for k in pass_one.measure.callsites
        ],
    }


class _MatchingPass:
    """First pass: writes segments and instances in matching order, and sums over them."""

    def __init__(
        self, trace: Trace, runs: SegmentRuns, instances: Scratch, progress: Progress
    ) -> None:
        self.runs = runs
        self.late_ns = np.zeros(trace.ranks)
        self.late_count = np.zeros(trace.ranks)
        self.calls = np.zeros(max(len(trace.tables.shapes), 1), np.int64)
        ended = len(trace.tables.ends) >= trace.ranks
        # An open call gets a visible length, even if it was entered recently.
        margin = 1 if ended else max(trace.duration_ns // OPEN_CALLS_SHARE, 1)
        self.end_ns = trace.calls_start_ns + trace.duration_ns + margin
        self.measure = InstanceMetrics(trace)
        self.count = added = 0
        capacity = max(trace.record_capacity, 1)
        with read_ahead(trace.batches(batch=BATCH_RECORDS)) as batches:
            for batch in batches:
                self.measure.blocked = np.zeros(batch.arrival_ns.shape, np.int64)
                rows = self.measure.compute_rows(batch)
                self._add_segments(batch, self.measure.blocked)
                self._add_lateness(batch, rows)
                instances.write(self.count, _instance_rows(batch, rows))
                self.count += len(batch)
                added += batch.shape.size
                progress(0.7 * min(added / capacity, 1.0))

    def _add_segments(self, batch: Batch, blocked: Int) -> None:
        """Add the segments of a batch, about FILLED_SEGMENTS at a time."""
        step = max(FILLED_SEGMENTS // max(len(batch), 1), 1)
        is_blocking = batch.begin_ns is batch.arrival_ns
        add = self._add_whole_rows if is_blocking and batch.complete else self._add_rows
        for first in range(0, len(batch.shape), step):
            add(batch, blocked, slice(first, first + step))
        shapes = batch.shape.ravel()
        if not batch.complete:
            shapes = shapes[shapes >= 0]
        self.calls += np.bincount(shapes, minlength=len(self.calls))
        if not is_blocking:
            done = batch.shape[(batch.shape >= 0) & (batch.exit_ns > 0)]
            self.calls += np.bincount(done, minlength=len(self.calls))

    def _add_whole_rows(self, batch: Batch, blocked: Int, rows: slice) -> None:
        """Add the segments of some rows of a batch of blocking calls that all ranks have left."""
        ranks = batch.communicator.ranks[rows, None]
        numbers = np.arange(self.count, self.count + len(batch))
        enter, exit_ = batch.arrival_ns[rows], batch.exit_ns[rows]
        self._add(ranks, enter, exit_, blocked[rows], 0, batch.shape[rows], numbers)

    def _add_rows(self, batch: Batch, blocked: Int, rows: slice) -> None:
        """Add the segments of some rows of a batch."""
        shapes = batch.shape[rows].ravel()
        present = np.flatnonzero(shapes >= 0)

        def take(matrix: Array) -> Array:
            return matrix[rows].ravel()[present]

        ranks = np.repeat(batch.communicator.ranks[rows], len(batch))[present]
        numbers = np.arange(self.count, self.count + len(batch))
        instance = np.tile(numbers, len(shapes) // len(batch))[present]
        shape, enter, finish = shapes[present], take(batch.arrival_ns), take(batch.exit_ns)
        if batch.begin_ns is batch.arrival_ns:
            self._add(ranks, enter, finish, take(blocked), 0, shape, instance)
            return
        done = finish > 0
        begin = take(batch.begin_ns)
        inside = np.where(done, take(batch.elapsed_ns) - (finish - begin), 0)
        none = np.zeros(len(enter), np.int64)
        self._add(ranks, enter, enter + np.maximum(inside, 0), none, 0, shape, instance)
        if done.any():
            begin, finish, wait = begin[done], finish[done], take(blocked)[done]
            self._add(ranks[done], begin, finish, wait, COMPLETION, shape[done], instance[done])

    def _add(
        self, ranks: Int, enter: Int, exit_: Int, wait: Int, flags: int, shape: Int, instance: Int
    ) -> None:
        """Add segments; `ranks` and `instance` may be spread over the others' shape."""
        part, ranks_of = (column.reshape(enter.shape) for column in self.runs.extend(enter.size))
        ranks_of[...] = ranks
        part["enter"], part["exit"] = enter, np.maximum(exit_, enter)
        part["wait"], part["flags"] = wait, flags
        part["shape"], part["instance"] = shape, instance
        open_ = exit_ == 0
        if open_.any():
            part["exit"][open_] = np.maximum(self.end_ns, enter[open_])
            part["flags"][open_] |= OPEN

    def _add_lateness(self, batch: Batch, rows: Rows) -> None:
        """Add each rank's lateness after the mean arrival of its instances."""
        ranks = batch.communicator.ranks
        if len(ranks) < 2 or not rows.arrived.any():
            return
        arrival = batch.arrival_ns if rows.arrived.all() else batch.arrival_ns[:, rows.arrived]
        late = arrival - arrival[0]
        self.late_ns[ranks] += late.sum(1) - late.mean(0).sum()
        self.late_count[ranks] += arrival.shape[1]


def _instance_rows(batch: Batch, rows: Rows) -> Array:
    part = np.zeros(len(batch), INSTANCE)
    part["sequence"], part["start"] = batch.sequence, batch.start
    part["communicator"] = batch.communicator.index
    part["choice"] = 0 if batch.choice is None else batch.choice
    for name in INSTANCE.names or ():
        if hasattr(rows, name):
            part[name] = getattr(rows, name)
    part["median_arrival"] = -1
    if rows.arrived.any():
        arrival = batch.arrival_ns if rows.arrived.all() else batch.arrival_ns[:, rows.arrived]
        part["median_arrival"][rows.arrived] = median_before_last(arrival)
    return part


def _sort_instances(
    writer: cache.Writer, scratch: Scratch, count: int, numbering: tuple[dict[int, int], Bool]
) -> Array:
    """Write all instances in order of first arrival; return the new number of each.

    numbering: next number within each call site, which this function advances, and a mask of the
    communicators of one rank, whose calls have the number -1.
    """
    next_numbers, has_one_member = numbering
    order = np.argsort(scratch.read_column("first_arrival", 0, count), kind="stable")
    writer.reserve("instances", INSTANCE, count)
    at = 0
    for part in scratch.read_in_order(order):
        part["number"] = -1
        counted = ~has_one_member[part["communicator"]]
        part["number"][counted] = _number_instances(part["callsite"][counted], next_numbers)
        writer.write("instances", at, part)
        at += len(part)
    number = np.empty(count, np.int32)
    number[order] = np.arange(count)
    return number


def _number_instances(callsite: Array, count_before: dict[int, int]) -> Int:
    """Number instances within their call sites, continuing from the counts in `seen`."""
    sites, which, counts = np.unique(callsite, return_inverse=True, return_counts=True)
    starts = np.cumsum(counts) - counts
    number = np.empty(len(callsite), np.int64)
    number[np.argsort(which, kind="stable")] = np.arange(len(callsite)) - np.repeat(starts, counts)
    before = np.array([count_before.get(site, 0) for site in sites.tolist()], np.int64)
    count_before.update(zip(sites.tolist(), (before + counts).tolist(), strict=True))
    return number + before[which]


def _write_in_order(
    writer: cache.Writer, runs: SegmentRuns, number: Array, progress: Progress
) -> Array:
    """Write all segments by rank and time, with final instance numbers; return their blocks."""
    segment_count = runs.count
    writer.reserve("segments", SEGMENT, segment_count)
    blocks = [np.zeros(0, BLOCKS)]
    at = 0
    with read_ahead(runs.read_in_order()) as parts:
        for part, ranks in parts:
            part["instance"] = number[part["instance"]]
            writer.write("segments", at, part)
            blocks.append(_make_blocks(part, ranks, at))
            at += len(part)
            progress(0.7 + 0.3 * at / segment_count)
    return np.concatenate(blocks)


def _make_blocks(part: Array, ranks: Int, at: int) -> Array:
    """Return the blocks of segments that are sorted by rank and time."""
    first = np.flatnonzero(np.diff(ranks, prepend=-1))
    counts = np.diff(first, append=len(ranks))
    per_rank = -(-counts // BLOCK_SEGMENTS)
    within = np.arange(per_rank.sum()) - np.repeat(np.cumsum(per_rank) - per_rank, per_rank)
    edges = np.repeat(first, per_rank) + within * BLOCK_SEGMENTS
    blocks = np.zeros(len(edges), BLOCKS)
    if len(edges):
        blocks["enter"] = part["enter"][edges]
        blocks["exit"] = np.maximum.reduceat(part["exit"], edges)
        blocks["at"], blocks["rank"] = at + edges, ranks[edges]
        blocks["n"] = np.diff(edges, append=len(part))
    return blocks


# ---- tiles


TILE_SETS = 2  # of all ranks, and of the ranks that rows show


def resolve_with_tiles(
    timeline: Timeline, request: Request, build: Callable[[MissingTiles], None]
) -> ResolvedRequest:
    """Return a resolved request; `build` builds missing tiles before.

    Raises MpiprofError if the cache lacks tiles after they have been built.
    """
    for _ in range(TILE_SETS):
        resolved = timeline.resolve(request)
        if not isinstance(resolved, MissingTiles):
            return resolved
        build(resolved)
    resolved = timeline.resolve(request)
    if isinstance(resolved, MissingTiles):
        raise MpiprofError("the cache of the trace cannot be written: check the free disk space")
    return resolved


def build_first_tiles(timeline: Timeline, progress: Progress) -> None:
    """Build the tiles of the whole run of all ranks, with which a timeline opens."""
    ranks = np.arange(timeline.trace.ranks, dtype=np.int64)
    request = Request(0, timeline.length_ns, MAX_PIXELS, COLOURS[0], SORTS[0], frozenset(), ranks)
    done = 0

    def build(need: MissingTiles) -> None:
        nonlocal done
        timeline.build_tiles(need, lambda share: progress((done + share) / TILE_SETS))
        done += 1

    resolve_with_tiles(timeline, request, build)
    progress(1.0)
