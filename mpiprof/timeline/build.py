"""Builds the timeline's file of segments and instances (timeline/segments.py).

Two passes: segments and instances go to scratch files in matching order, then to the entry in order
of time. Memory is a batch of the trace, a piece of the scratch files, and 24 bytes per instance.
A rank with segments matched out of order adds 16 bytes per segment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from mpiprof.metrics.coverage import first_recorded
from mpiprof.metrics.instance_metrics import InstanceMetrics
from mpiprof.metrics.instance_rows import Rows
from mpiprof.store import cache
from mpiprof.timeline.segments import (
    BLOCK_SEGMENTS,
    BLOCKS,
    COMPLETION,
    INSTANCE,
    OPEN,
    PIECE_SEGMENTS,
    SEGMENT,
    Events,
    Progress,
)
from mpiprof.trace import Trace
from mpiprof.trace.batch import Batch
from mpiprof.trace.types import Array, Int

ENTRY_NAME = "timeline"
OPEN_CALLS_SHARE = 64  # run time over the drawn length of a recently entered open call
NEAR_NUMBERS = 1 << 14  # records; nearer records in a scratch file are read at once


def open_or_build(trace: Trace, key: str, progress: Progress = lambda _: None) -> Events:
    """Return the segments of a trace, from its cache if the entry is valid, else newly built."""
    entry = cache.find(trace.path, ENTRY_NAME, key)
    if entry is not None:
        try:
            return Events(entry, trace)
        except cache.DamagedError:
            entry.close()
    return Events(
        cache.make(trace.path, ENTRY_NAME, key, lambda w: build(trace, w, progress)), trace
    )


def build(trace: Trace, writer: cache.Writer, progress: Progress) -> dict[str, Any]:
    """Fill a cache entry with a trace's segments and instances."""
    max_segments = [_max_segments(trace, rank) for rank in range(trace.ranks)]
    firsts = np.concatenate([[0], np.cumsum(max_segments)]).astype(np.int64)
    writer.reserve("segments", SEGMENT, int(firsts[-1]))
    folder = writer.path.parent
    with (
        tempfile.TemporaryFile(dir=folder) as segments_file,
        tempfile.TemporaryFile(dir=folder) as instances_file,
    ):
        segments, instances = _Scratch(segments_file, SEGMENT), _Scratch(instances_file, INSTANCE)
        pass_one = _MatchingPass(trace, segments, instances, firsts, progress)
        # In wrapped rings, the first recorded instance of a call site has a number above 0.
        sites = range(len(pass_one.measure.callsites))
        first_numbers = {callsite: first_recorded(trace, callsite) for callsite in sites}
        number = _sort_instances(writer, instances, pass_one.count, first_numbers)
        blocks = []
        for rank in range(trace.ranks):
            first, count = int(firsts[rank]), int(pass_one.used[rank])
            blocks.append(_sort_rank_segments(writer, segments, first, count, rank, number))
            progress(0.7 + 0.3 * (rank + 1) / trace.ranks)
    writer.write_array("blocks", np.concatenate(blocks))
    with np.errstate(invalid="ignore"):
        writer.write_array("lateness", pass_one.late_ns / pass_one.late_count)
    writer.write_array("calls", pass_one.calls)
    return {
        "begin_ns": trace.calls_start_ns,
        "end_ns": pass_one.end_ns,
        "segments": int(pass_one.used.sum()),
        "algorithms": list(pass_one.measure.algorithms),
        "instances": [first_numbers.get(callsite, 0) for callsite in sites],
        "callsites": [
            [k.operation, sorted(k.sites), k.started] for k in pass_one.measure.callsites
        ],
    }


def _max_segments(trace: Trace, rank: int) -> int:
    """Return an upper bound of a rank's segments, one per record, rounded up to whole blocks."""
    records = sum(c.log.layout.capacity for chunks in trace.thread_chunks(rank) for c in chunks)
    return -(-records // BLOCK_SEGMENTS) * BLOCK_SEGMENTS


class _Scratch:
    """Records in an unnamed temporary file."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any]) -> None:
        self.file, self.dtype = file, dtype

    def write(self, at: int, records: Array) -> None:
        """Write records from a position on."""
        self.file.seek(at * self.dtype.itemsize)
        self.file.write(records.tobytes())  # `tofile` hides that the disk is full

    def read(self, start: int, stop: int) -> Array:
        """Return the records start .. stop - 1."""
        self.file.seek(start * self.dtype.itemsize)
        return np.fromfile(self.file, self.dtype, stop - start)

    def read_column(self, name: str, start: int, stop: int) -> Int:
        """Return one field of the records start .. stop - 1."""
        parts = [
            self.read(first, min(first + PIECE_SEGMENTS, stop))[name]
            for first in range(start, stop, PIECE_SEGMENTS)
        ]
        return np.concatenate([*parts, np.zeros(0, np.int64)])

    def read_in_order(self, start: int, order: Int) -> Iterator[Array]:
        """Yield the records start + order[0], start + order[1], ..., PIECE_SEGMENTS at a time."""
        for first in range(0, len(order), PIECE_SEGMENTS):
            wanted = order[first : first + PIECE_SEGMENTS] + start
            by_position = np.argsort(wanted, kind="stable")
            positions = wanted[by_position]
            rows = np.empty(len(wanted), self.dtype)
            edges = np.flatnonzero(np.diff(positions) > NEAR_NUMBERS) + 1
            for group in np.split(np.arange(len(positions)), edges):
                low, high = int(positions[group[0]]), int(positions[group[-1]]) + 1
                rows[by_position[group]] = self.read(low, high)[positions[group] - low]
            yield rows

    def read_sorted(self, start: int, count: int, name: str) -> Iterator[Array]:
        """Yield `count` records from `start` on in order of a field, PIECE_SEGMENTS at a time."""
        if count > PIECE_SEGMENTS:
            column = self.read_column(name, start, start + count)
            yield from self.read_in_order(start, np.argsort(column, kind="stable"))
        elif count:
            rows = self.read(start, start + count)
            column = np.ascontiguousarray(rows[name])
            in_order = bool((column[1:] >= column[:-1]).all())
            yield rows if in_order else rows[np.argsort(column, kind="stable")]


class _MatchingPass:
    """First pass: writes segments and instances in matching order, and sums over them."""

    def __init__(
        self, trace: Trace, segments: _Scratch, instances: _Scratch, firsts: Int, progress: Progress
    ) -> None:
        self.segments, self.firsts = segments, firsts
        self.used = np.zeros(trace.ranks, np.int64)
        self.late_ns = np.zeros(trace.ranks)
        self.late_count = np.zeros(trace.ranks)
        self.calls = np.zeros(max(len(trace.tables.shapes), 1), np.int64)
        ended = len(trace.tables.ends) >= trace.ranks
        # An open call gets a visible length, even if it was entered recently.
        margin = 1 if ended else max(trace.duration_ns // OPEN_CALLS_SHARE, 1)
        self.end_ns = trace.calls_start_ns + trace.duration_ns + margin
        self.measure = InstanceMetrics(trace)
        self.count = 0
        for batch in trace.batches():
            self.measure.blocked = np.zeros(batch.arrival_ns.shape, np.int64)
            rows = self.measure.compute_rows(batch)
            self._add_segments(batch, self.measure.blocked)
            self._add_lateness(batch, rows)
            instances.write(self.count, _instance_rows(batch, rows))
            self.count += len(batch)
            progress(0.7 * float(self.used.sum()) / max(int(firsts[-1]), 1))

    def _add_segments(self, batch: Batch, blocked: Int) -> None:
        numbers = np.arange(self.count, self.count + len(batch))
        blocking = batch.begin_ns is batch.arrival_ns
        for row, rank in enumerate(batch.communicator.ranks.tolist()):
            present = np.flatnonzero(batch.shape[row] >= 0)
            enter, finish = batch.arrival_ns[row, present], batch.exit_ns[row, present]
            shape, instance = batch.shape[row, present], numbers[present]
            if blocking:
                self._write_segments(rank, enter, finish, blocked[row, present], 0, shape, instance)
                continue
            done = finish > 0
            begin = batch.begin_ns[row, present]
            inside = np.where(done, batch.elapsed_ns[row, present] - (finish - begin), 0)
            none = np.zeros(len(present), np.int64)
            self._write_segments(
                rank, enter, enter + np.maximum(inside, 0), none, 0, shape, instance
            )
            if done.any():
                begin, finish, wait = begin[done], finish[done], blocked[row, present][done]
                self._write_segments(
                    rank, begin, finish, wait, COMPLETION, shape[done], instance[done]
                )

    def _write_segments(
        self, rank: int, enter: Int, exit_: Int, wait: Int, flags: int, shape: Int, instance: Int
    ) -> None:
        part = np.empty(len(enter), SEGMENT)
        part["enter"], part["exit"] = enter, np.maximum(exit_, enter)
        part["wait"], part["flags"] = wait, flags
        part["shape"], part["instance"] = shape, instance
        open_ = exit_ == 0
        if open_.any():
            part["exit"][open_] = np.maximum(self.end_ns, enter[open_])
            part["flags"][open_] |= OPEN
        self.calls += np.bincount(shape, minlength=len(self.calls))
        at = self.firsts[rank] + self.used[rank]
        if at + len(part) > self.firsts[rank + 1]:  # the log has grown since it was opened
            part = part[: self.firsts[rank + 1] - at]
        self.segments.write(int(at), part)
        self.used[rank] += len(part)

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
        part["median_arrival"][rows.arrived] = np.median(arrival, axis=0)
    return part


def _sort_instances(
    writer: cache.Writer, scratch: _Scratch, count: int, next_numbers: dict[int, int]
) -> Array:
    """Write all instances in order of first arrival; return the new number of each."""
    order = np.argsort(scratch.read_column("first_arrival", 0, count), kind="stable")
    writer.reserve("instances", INSTANCE, count)
    at = 0
    for part in scratch.read_in_order(0, order):
        part["number"] = _number_instances(part["callsite"], next_numbers)
        writer.write("instances", at, part)
        at += len(part)
    number = np.empty(count, np.int32)
    number[order] = np.arange(count)
    return number


def _number_instances(callsite: Array, seen: dict[int, int]) -> Int:
    """Number instances within their call sites, continuing from the counts in `seen`."""
    sites, which, counts = np.unique(callsite, return_inverse=True, return_counts=True)
    starts = np.cumsum(counts) - counts
    number = np.empty(len(callsite), np.int64)
    number[np.argsort(which, kind="stable")] = np.arange(len(callsite)) - np.repeat(starts, counts)
    known = np.array([seen.get(site, 0) for site in sites.tolist()], np.int64)
    seen.update(zip(sites.tolist(), (known + counts).tolist(), strict=True))
    return number + known[which]


def _sort_rank_segments(
    writer: cache.Writer, scratch: _Scratch, first: int, count: int, rank: int, number: Array
) -> Array:
    """Write a rank's segments in order of time, with final instance numbers; return its blocks."""
    blocks = np.zeros(-(-count // BLOCK_SEGMENTS), BLOCKS)
    at = 0
    for part in scratch.read_sorted(first, count, "enter"):
        part["instance"] = number[part["instance"]]
        writer.write("segments", first + at, part)
        edges = np.arange(0, len(part), BLOCK_SEGMENTS)  # a piece has whole blocks
        into = blocks[at // BLOCK_SEGMENTS : at // BLOCK_SEGMENTS + len(edges)]
        into["enter"], into["exit"] = part["enter"][edges], np.maximum.reduceat(part["exit"], edges)
        into["at"], into["rank"] = first + at + edges, rank
        into["n"] = np.minimum(len(part) - edges, BLOCK_SEGMENTS)
        at += len(part)
    return blocks
