"""Every segment of every rank in order of time, in one file: what the timeline is drawn from.

A segment is a stretch of time inside an MPI call: a blocking collective; of a nonblocking or
started one the call, and its share of the Wait that completed it. Segments stand rank by rank, in
blocks of BLOCK, with the times of each block in memory: any window of time is a few reads.
Instances are numbered as the rows of `trace.instances`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mpiprof.analysis.measure import Measure, Rows
from mpiprof.trace import Trace
from mpiprof.trace.match import Batch
from mpiprof.trace.types import Array, Bool, Int

from . import cache

NAME = "timeline"
BLOCK = 128
OPEN_SHARE = 64  # of the run: how long a call is shown that was entered last and is open
PIECE = 1 << 20  # segments in memory at a time
OPEN, COMPLETION = 1, 2  # flags; what is open has not ended when the trace does
Progress = Callable[[float], None]

SEGMENT = np.dtype(
    [
        ("enter", "<i8"),  # ns on the joint clock
        ("exit", "<i8"),
        ("wait", "<f4"),  # ns from `enter` on in which only another rank was missing
        ("flags", "<u4"),
        ("shape", "<i4"),
        ("instance", "<i4"),
    ]
)
INSTANCE = np.dtype(
    [
        ("first_arrival", "<i8"),  # ns on the joint clock, as the next two
        ("last_arrival", "<i8"),  # -1 where somebody is absent
        ("last_exit", "<i8"),  # -1 while one is open
        ("sequence", "<i8"),
        ("start", "<i8"),
        ("communicator", "<i4"),
        ("callsite", "<i4"),
        ("algorithm", "<i4"),
        ("first_rank", "<i4"),
        ("last_rank", "<i4"),
        ("wait", "<f8"),  # summed over ranks; NaN unless complete, as the next
        ("worst_imbalance", "<f8"),
        ("worst_factor", "<f8"),
        ("bytes", "<f8"),
    ]
)
BLOCKS = np.dtype([("enter", "<i8"), ("exit", "<i8"), ("at", "<i8"), ("rank", "<i4"), ("n", "<i4")])


def build(trace: Trace, writer: cache.Writer, progress: Progress) -> dict[str, Any]:
    """Fill an entry with a trace's segments and instances; memory is that of a batch or a rank."""
    room = [_room(trace, rank) for rank in range(trace.ranks)]
    firsts = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    writer.reserve("segments", SEGMENT, int(firsts[-1]))
    collected = _Collected(trace, writer, firsts, progress)
    order = collected.instances()
    blocks = []
    for rank in range(trace.ranks):
        blocks.append(_settle(writer, int(firsts[rank]), int(collected.used[rank]), rank, order))
        progress(0.8 + 0.2 * (rank + 1) / trace.ranks)
    writer.put("blocks", np.concatenate(blocks))
    with np.errstate(invalid="ignore"):
        lateness = collected.late_ns / collected.late_count
    writer.put("lateness", lateness)
    writer.put("calls", collected.calls)
    return collected.meta


def _room(trace: Trace, rank: int) -> int:
    """Return an upper bound of a rank's segments, whole blocks: one a record."""
    records = sum(c.log.layout.records for chunks in trace.threads_of(rank) for c in chunks)
    return -(-records // BLOCK) * BLOCK


class _Collected:
    """The first pass: segments as they are matched, and what is known of instances and ranks."""

    def __init__(self, trace: Trace, writer: cache.Writer, firsts: Int, progress: Progress) -> None:
        self.trace, self.writer, self.firsts = trace, writer, firsts
        self.used = np.zeros(trace.ranks, np.int64)
        self.late_ns = np.zeros(trace.ranks)
        self.late_count = np.zeros(trace.ranks)
        self.calls = np.zeros(max(len(trace.tables.shapes), 1), np.int64)
        self.parts: list[Array] = []
        ended = len(trace.tables.ends) >= trace.ranks
        # What is open has a length that can be seen, however recently it was entered.
        margin = 1 if ended else max(trace.duration_ns // OPEN_SHARE, 1)
        self.end_ns = trace.started_ns + trace.duration_ns + margin
        measure = Measure(trace)
        count = 0
        for batch in trace.batches():
            measure.blocked = np.zeros(batch.arrival.shape, np.int64)
            rows = measure.rows(batch)
            self._segments(batch, measure.blocked, count)
            self._lateness(batch, rows)
            self.parts.append(_instances(batch, rows))
            count += len(batch)
            progress(0.8 * float(self.used.sum()) / max(int(firsts[-1]), 1))
        self.measure = measure

    def _segments(self, batch: Batch, blocked: Int, first: int) -> None:
        numbers = np.arange(first, first + len(batch))
        blocking = batch.begin is batch.arrival
        for row, rank in enumerate(batch.communicator.ranks.tolist()):
            here = np.flatnonzero(batch.shape[row] >= 0)
            if not len(here):
                continue
            enter, finish = batch.arrival[row, here], batch.finish[row, here]
            shape, instance = batch.shape[row, here], numbers[here]
            if blocking:
                self._put(rank, enter, finish, blocked[row, here], 0, shape, instance)
                continue
            done = finish > 0
            begin = batch.begin[row, here]
            inside = np.where(done, batch.elapsed[row, here] - (finish - begin), 0)
            none = np.zeros(len(here), np.int64)
            self._put(rank, enter, enter + np.maximum(inside, 0), none, 0, shape, instance)
            if done.any():
                begin, finish, wait = begin[done], finish[done], blocked[row, here][done]
                self._put(rank, begin, finish, wait, COMPLETION, shape[done], instance[done])

    def _put(
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
        self.writer.write("segments", int(at), part)
        self.used[rank] += len(part)

    def _lateness(self, batch: Batch, rows: Rows) -> None:
        """Add how long after the mean arrival of its instances each rank came."""
        ranks = batch.communicator.ranks
        if len(ranks) < 2 or not rows.arrived.any():
            return
        arrival = batch.arrival if rows.arrived.all() else batch.arrival[:, rows.arrived]
        late = arrival - arrival[0]
        self.late_ns[ranks] += late.sum(1) - late.mean(0).sum()
        self.late_count[ranks] += arrival.shape[1]

    def instances(self) -> Int:
        """Write all instances by their first arrival; return the new number of each."""
        found = np.concatenate([*self.parts, np.zeros(0, INSTANCE)])
        self.parts = []
        order = np.argsort(found["first_arrival"], kind="stable")
        found = found[order]
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        self.writer.reserve("instances", INSTANCE, len(found))
        self.writer.write("instances", 0, found)
        callsites, first = np.unique(found["callsite"], return_index=True)
        keys = list(self.measure.callsites)
        self.meta = {
            "begin_ns": self.trace.started_ns,
            "end_ns": self.end_ns,
            "segments": int(self.used.sum()),
            "algorithms": list(self.measure.algorithms),
            "first_of": dict(zip(map(str, callsites.tolist()), first.tolist(), strict=True)),
            "callsites": [[k.operation, sorted(k.sites), k.started] for k in keys],
        }
        return number


def _instances(batch: Batch, rows: Rows) -> Array:
    part = np.zeros(len(batch), INSTANCE)
    part["sequence"], part["start"] = batch.sequence, batch.start
    part["communicator"] = batch.communicator.index
    for name in INSTANCE.names or ():
        if name not in ("sequence", "start", "communicator"):
            part[name] = getattr(rows, name)
    return part


def _settle(writer: cache.Writer, first: int, count: int, rank: int, order: Int) -> Array:
    """Put a rank's segments in order of time, with their final instances; return its blocks."""
    segments = writer.read("segments", first, first + count, SEGMENT)
    enter = segments["enter"]
    if (enter[1:] < enter[:-1]).any():
        segments = segments[np.argsort(enter, kind="stable")]
    segments["instance"] = order[segments["instance"]]
    writer.write("segments", first, segments)
    edges = np.arange(0, count, BLOCK)
    blocks = np.zeros(len(edges), BLOCKS)
    if count:
        blocks["enter"] = segments["enter"][edges]
        blocks["exit"] = np.maximum.reduceat(segments["exit"], edges)
        blocks["at"], blocks["rank"] = first + edges, rank
        blocks["n"] = np.minimum(count - edges, BLOCK)
    return blocks


def open_or_build(trace: Trace, key: str, progress: Progress = lambda _: None) -> Events:
    """Return the segments of a trace, from its cache where that is good."""
    entry = cache.find(trace.path, NAME, key)
    if entry is not None:
        try:
            return Events(entry, trace)
        except cache.DamagedError:
            pass
    return Events(cache.make(trace.path, NAME, key, lambda w: build(trace, w, progress)), trace)


class Events:
    """The segments and instances of a trace, read where they are asked for."""

    def __init__(self, entry: cache.Entry, trace: Trace) -> None:
        self.entry = entry
        self.ranks = trace.ranks
        self.shapes = len(trace.tables.shapes)
        self.blocks = entry.array("blocks", BLOCKS)
        self.lateness = entry.array("lateness", "<f8")
        self.calls = entry.array("calls", "<i8")  # segments of each shape
        self.instances = entry.count("instances")
        self.meta = entry.meta
        b = self.blocks
        good = len(self.lateness) == self.ranks and len(self.calls) == max(self.shapes, 1)
        good = good and (
            not len(b)
            or (
                b["rank"].min() >= 0
                and b["rank"].max() < self.ranks
                and b["n"].min() > 0
                and b["n"].max() <= BLOCK
                and b["at"].min() >= 0
                and int((b["at"] + b["n"]).max()) <= entry.count("segments")
            )
        )
        if not good or not {"begin_ns", "end_ns", "segments", "algorithms"} <= set(self.meta):
            raise cache.DamagedError("blocks that cannot be")
        self.begin_ns, self.end_ns = int(self.meta["begin_ns"]), int(self.meta["end_ns"])

    def _hit(self, t0: int, t1: int, ranks: Bool | None) -> Int:
        b = self.blocks
        hit = (b["enter"] < t1) & (b["exit"] >= t0)
        if ranks is not None:
            hit &= ranks[b["rank"]]
        return np.flatnonzero(hit)

    def estimate(self, t0: int, t1: int, ranks: Bool | None = None) -> int:
        """Return an upper bound of the segments in a window; `ranks` says which of them count."""
        return int(self.blocks["n"][self._hit(t0, t1, ranks)].sum())

    def pieces(self, t0: int, t1: int, ranks: Bool | None = None) -> Iterator[tuple[Array, Int]]:
        """Yield all segments with a part in t0 <= t < t1, at most PIECE at a time, with ranks."""
        hit = self._hit(t0, t1, ranks)
        for first in range(0, len(hit), PIECE // BLOCK):
            yield self._read(self.blocks[hit[first : first + PIECE // BLOCK]], t0, t1)

    def window(self, t0: int, t1: int, ranks: Bool | None = None) -> tuple[Array, Int]:
        """Return all of `pieces`; see `estimate` for how many that may be."""
        found = [(np.zeros(0, SEGMENT), np.zeros(0, np.int64)), *self.pieces(t0, t1, ranks)]
        return np.concatenate([s for s, _ in found]), np.concatenate([r for _, r in found])

    def _read(self, blocks: Array, t0: int, t1: int) -> tuple[Array, Int]:
        ends = blocks["at"] + blocks["n"]
        new = np.flatnonzero(np.concatenate([[True], blocks["at"][1:] != ends[:-1]]))
        lasts = np.concatenate([new[1:], [len(blocks)]]) - 1
        parts, owners = [], []
        for a, b in zip(new.tolist(), lasts.tolist(), strict=True):
            part = self.entry.read("segments", int(blocks["at"][a]), int(ends[b]), SEGMENT)
            of = np.repeat(blocks["rank"][a : b + 1], blocks["n"][a : b + 1])
            inside = (part["enter"] < t1) & ((part["exit"] > t0) | (part["enter"] >= t0))
            if not inside.all():
                part, of = part[inside], of[inside]
            parts.append(part)
            owners.append(of)
        found = np.concatenate(parts)
        bad = (found["shape"] < 0) | (found["shape"] >= self.shapes)
        if bad.any() or (found["exit"] < found["enter"]).any():
            raise cache.DamagedError("segments that cannot be")
        return found, np.concatenate(owners).astype(np.int64)

    def instance(self, first: int, last: int) -> Array:
        """Return instances first .. last - 1, as far as there are any."""
        first, last = max(first, 0), max(min(last, self.instances), 0)
        return self.entry.read("instances", min(first, last), last, INSTANCE)

    def members(self, number: int) -> tuple[Array, Int]:
        """Return the segments of an instance, and their ranks."""
        row = self.instance(number, number + 1)[0]
        begin = int(row["first_arrival"])
        end = int(row["last_exit"]) if row["last_exit"] >= begin else self.end_ns
        found, ranks = self.window(begin, max(end, begin) + 1)
        of = found["instance"] == number
        return found[of], ranks[of]
