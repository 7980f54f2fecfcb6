"""Every segment of every rank in order of time, in one file from which the timeline is drawn.

A segment is a time span inside an MPI call. A blocking collective has one segment. A nonblocking or
started one has a segment for the call and one for its share of the completing Wait. Segments are
stored rank by rank in blocks of BLOCK_SEGMENTS, and the times of all blocks are in memory. So any
window of time needs a few reads. Instances are numbered like the rows of `trace.instances`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from mpiprof.formats import cache
from mpiprof.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

BLOCK_SEGMENTS = 128
PIECE_SEGMENTS = 1 << 20  # segments in memory at a time
NEAR_INSTANCES = 1024  # instances between two that are read in one step
OPEN, COMPLETION = 1, 2  # flags; an OPEN segment has not ended when the trace ends
Progress = Callable[[float], None]
Item = TypeVar("Item")

SEGMENT = np.dtype(
    [
        ("enter", "<i8"),  # ns on the joint clock
        ("exit", "<i8"),
        ("wait", "<f4"),  # ns from `enter` in which only another rank was missing
        ("flags", "<u4"),
        ("shape", "<i4"),
        ("instance", "<i4"),
    ]
)
INSTANCE = np.dtype(
    [
        ("first_arrival", "<i8"),  # ns on the joint clock, like the next two
        ("last_arrival", "<i8"),  # -1 if a member is absent
        ("median_arrival", "<i8"),  # of all but the last rank; -1 if a member is absent
        ("last_exit", "<i8"),  # -1 while a member is open
        ("sequence", "<i8"),
        ("start", "<i8"),
        ("communicator", "<i4"),
        ("callsite", "<i4"),
        ("algorithm", "<i4"),
        ("first_rank", "<i4"),
        ("last_rank", "<i4"),
        ("choice", "<i4"),  # index into CHOICES
        ("number", "<i4"),  # within its call site, by first arrival
        ("wait", "<f8"),  # summed over ranks; NaN unless complete, like the next ones
        ("worst_imbalance", "<f8"),
        ("worst_factor", "<f8"),
        ("bytes", "<f8"),
    ]
)
BLOCKS = np.dtype([("enter", "<i8"), ("exit", "<i8"), ("at", "<i8"), ("rank", "<i4"), ("n", "<i4")])


@contextlib.contextmanager
def read_ahead(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Yield the items; another thread computes the next item while the caller uses one."""
    with ThreadPoolExecutor(1) as pool:

        def iterate() -> Iterator[Item]:
            future = pool.submit(next, items, None)
            while (item := future.result()) is not None:
                future = pool.submit(next, items, None)
                yield item

        yield iterate()


class Events:
    """Segments and instances of a trace, read on demand."""

    def __init__(self, entry: cache.CacheEntry, trace: Trace) -> None:
        self.entry = entry
        self.ranks = trace.ranks
        self.shapes = len(trace.tables.shapes)
        self.blocks = entry.read_array("blocks", BLOCKS)
        self.lateness = entry.read_array("lateness", "<f8")
        self.calls = entry.read_array("calls", "<i8")  # segments per shape
        self.instances = entry.count_elements("instances")
        self.meta = entry.meta
        b = self.blocks
        good = (b["rank"] >= 0) & (b["rank"] < self.ranks)
        good &= (b["n"] > 0) & (b["n"] <= BLOCK_SEGMENTS) & (b["at"] >= 0)
        good &= b["at"] + b["n"] <= entry.count_elements("segments")
        if not (
            good.all()
            and len(self.lateness) == self.ranks
            and len(self.calls) == max(self.shapes, 1)
            and {"begin_ns", "end_ns", "segments", "algorithms", "instances"} <= set(self.meta)
        ):
            raise cache.DamagedError("blocks that cannot be")
        self.begin_ns, self.end_ns = int(self.meta["begin_ns"]), int(self.meta["end_ns"])
        # Contiguous columns, because each request searches all blocks.
        self._enter, self._exit = np.ascontiguousarray(b["enter"]), np.ascontiguousarray(b["exit"])
        self._rank = np.ascontiguousarray(b["rank"])

    def _blocks_in_window(self, t0: int, t1: int, ranks: Bool | None) -> Int:
        hit = np.flatnonzero((self._enter < t1) & (self._exit >= t0))
        return hit if ranks is None else hit[ranks[self._rank[hit]]]

    def estimate(self, t0: int, t1: int, ranks: Bool | None = None) -> int:
        """Return an upper bound of the segments in a window, of all ranks or of a mask of ranks."""
        return int(self.blocks["n"][self._blocks_in_window(t0, t1, ranks)].sum())

    def read_pieces(
        self, t0: int, t1: int, ranks: Bool | None = None
    ) -> Iterator[tuple[Array, Int]]:
        """Yield the segments that overlap t0 <= t < t1 in pieces of PIECE_SEGMENTS, with ranks."""
        hit = self._blocks_in_window(t0, t1, ranks)
        step = PIECE_SEGMENTS // BLOCK_SEGMENTS
        for first in range(0, len(hit), step):
            yield self._read(np.take(self.blocks, hit[first : first + step]), t0, t1)

    def read_window(self, t0: int, t1: int, ranks: Bool | None = None) -> tuple[Array, Int]:
        """Return all of `read_pieces` at once; check `estimate` first."""
        pieces = [(np.zeros(0, SEGMENT), np.zeros(0, np.int64)), *self.read_pieces(t0, t1, ranks)]
        return np.concatenate([s for s, _ in pieces]), np.concatenate([r for _, r in pieces])

    def _read(self, blocks: Array, t0: int, t1: int) -> tuple[Array, Int]:
        rows, ranks = self.read_blocks(blocks)
        inside = (rows["enter"] < t1) & ((rows["exit"] > t0) | (rows["enter"] >= t0))
        return (rows, ranks) if inside.all() else (np.compress(inside, rows), ranks[inside])

    def read_blocks(self, blocks: Array) -> tuple[Array, Int]:
        """Return all segments of some blocks, with ranks."""
        ends = blocks["at"] + blocks["n"]
        new = np.flatnonzero(np.concatenate([[True], blocks["at"][1:] != ends[:-1]]))
        lasts = np.concatenate([new[1:], [len(blocks)]]) - 1
        spans = zip(blocks["at"][new].tolist(), ends[lasts].tolist(), strict=True)
        rows = self.entry.read_spans("segments", list(spans), SEGMENT)
        ranks = np.repeat(blocks["rank"].astype(np.int64), blocks["n"])
        bad = (rows["shape"] < 0) | (rows["shape"] >= self.shapes)
        if bad.any() or (rows["exit"] < rows["enter"]).any():
            raise cache.DamagedError("segments that cannot be")
        return rows, ranks

    def read_instances(self, first: int, last: int) -> Array:
        """Return instances first .. last - 1, clipped to the existing ones."""
        first, last = max(first, 0), max(min(last, self.instances), 0)
        return self.entry.read("instances", min(first, last), last, INSTANCE)

    def read_instances_of(self, segments: Array) -> Array:
        """Return the instance of each segment."""
        numbers, which = np.unique(segments["instance"], return_inverse=True)
        edges = np.flatnonzero(np.diff(numbers) > NEAR_INSTANCES) + 1
        rows = [self.read_instances(0, 0)]
        for near in np.split(numbers, edges) if len(numbers) else ():
            first = int(near[0])
            rows.append(self.read_instances(first, int(near[-1]) + 1)[near - first])
        return np.concatenate(rows)[which]

    def read_members(self, number: int) -> tuple[Array, Int]:
        """Return the segments of an instance, and their ranks."""
        row = self.read_instances(number, number + 1)[0]
        begin = int(row["first_arrival"])
        end = int(row["last_exit"]) if row["last_exit"] >= begin else self.end_ns
        segments, ranks = self.read_window(begin, max(end, begin) + 1)
        is_member = segments["instance"] == number
        return segments[is_member], ranks[is_member]
