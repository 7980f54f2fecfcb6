"""Temporary files of the timeline's preparation: records, and segments sorted by rank."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

import numpy as np

from mpiprof.trace.types import Array, Int

from .segments import PIECE_SEGMENTS, SEGMENT

NEAR_NUMBERS = 1 << 14  # records; nearer records in a scratch file are read at once


class Scratch:
    """Records in an unnamed temporary file."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any]) -> None:
        self.file, self.dtype = file, dtype

    def write(self, at: int, records: Array) -> None:
        """Write records from a position on."""
        self.file.seek(at * self.dtype.itemsize)
        # `tofile` hides that the disk is full.
        self.file.write(np.ascontiguousarray(records).view(np.uint8).data)

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

    def read_in_order(self, order: Int) -> Iterator[Array]:
        """Yield the records at positions order[0], order[1], ..., PIECE_SEGMENTS at a time."""
        for first in range(0, len(order), PIECE_SEGMENTS):
            piece = order[first : first + PIECE_SEGMENTS]
            by_position = np.argsort(piece, kind="stable")
            positions = piece[by_position]
            rows = np.empty(len(piece), self.dtype)
            edges = np.flatnonzero(np.diff(positions) > NEAR_NUMBERS) + 1
            for group in np.split(np.arange(len(positions)), edges):
                low, high = int(positions[group[0]]), int(positions[group[-1]]) + 1
                rows[by_position[group]] = self.read(low, high)[positions[group] - low]
            yield rows


class SegmentRuns:
    """Segments in a scratch file, in runs that are each sorted by rank.

    A run has about PIECE_SEGMENTS segments, except the last one. Segments of a rank keep the order
    in which they were added. A thread of `pool` writes a run while the next one is filled.
    """

    def __init__(self, file: IO[bytes], ranks: int, pool: ThreadPoolExecutor) -> None:
        self.scratch = Scratch(file, SEGMENT)
        self._pool = pool
        self._writing: Future[None] | None = None
        self.count = 0  # segments
        self.counts = np.zeros(ranks, np.int64)  # written segments of each rank
        self.edges: list[Int] = []  # for each run, the position of each rank and of the end
        self._segments = np.empty(PIECE_SEGMENTS, SEGMENT)
        # NumPy sorts 16-bit integers by radix, wider ones by comparison.
        self._ranks = np.empty(PIECE_SEGMENTS, np.int16 if ranks < 1 << 15 else np.int32)
        self._pending_count = 0

    def extend(self, count: int) -> tuple[Array, Array]:
        """Return space for further segments and their ranks, to be filled before the next call."""
        if self._pending_count + count > len(self._segments):
            self._write_run()
        if count > len(self._segments):
            self._segments = np.empty(count, SEGMENT)
            self._ranks = np.empty(count, self._ranks.dtype)
        space = slice(self._pending_count, self._pending_count + count)
        self._pending_count += count
        self.count += count
        return self._segments[space], self._ranks[space]

    def _write_run(self) -> None:
        """Begin to write the pending segments as a run, after the last run has been written."""
        if not self._pending_count:
            return
        segments, ranks = self._segments[: self._pending_count], self._ranks[: self._pending_count]
        segments = np.take(segments, np.argsort(ranks, kind="stable"))
        counts = np.bincount(ranks, minlength=len(self.counts))
        self.counts += counts
        end = self.count - self._pending_count
        self._pending_count = 0
        self.edges.append(end + np.concatenate([[0], np.cumsum(counts)]))
        self._finish_writing()
        self._writing = self._pool.submit(self.scratch.write, end, segments)

    def _finish_writing(self) -> None:
        """Wait until the last run has been written; raises OSError if it could not be."""
        if self._writing is not None:
            self._writing.result()

    def read_in_order(self) -> Iterator[tuple[Array, Int]]:
        """Yield all segments by rank and time, with ranks, about PIECE_SEGMENTS at a time.

        Only the last yield of a rank may have an incomplete block of segments.
        """
        self._write_run()
        self._finish_writing()
        ends = np.cumsum(self.counts)
        first = 0
        while first < len(self.counts):
            before = int(ends[first] - self.counts[first])
            last = int(np.searchsorted(ends, before + PIECE_SEGMENTS, "right"))
            if last > first:
                if ends[last - 1] > before:
                    yield self._sort_ranks(first, last)
            else:
                last = first + 1
                for part in self._sort_long_rank(first):
                    yield part, np.full(len(part), first)
            first = last

    def _sort_ranks(self, first: int, last: int) -> tuple[Array, Int]:
        """Return the segments of the ranks first .. last - 1 by rank and time, with ranks."""
        runs = [edges for edges in self.edges if edges[first] < edges[last]]
        parts = [self.scratch.read(int(edges[first]), int(edges[last])) for edges in runs]
        counts = [np.diff(edges[first : last + 1]) for edges in runs]
        segments = np.concatenate([np.zeros(0, SEGMENT), *parts])
        ranks = np.concatenate([np.zeros(0, np.int64), *(_repeat(first, n) for n in counts)])
        order = _sort_by_rank_and_time(ranks, np.ascontiguousarray(segments["enter"]))
        return np.take(segments, order), ranks[order]

    def _sort_long_rank(self, rank: int) -> Iterator[Array]:
        """Yield the segments of one rank in order of time, PIECE_SEGMENTS at a time."""
        spans = np.array([edges[rank : rank + 2] for edges in self.edges])
        enter = np.concatenate([self.scratch.read_column("enter", a, b) for a, b in spans.tolist()])
        order = np.argsort(enter, kind="stable")
        ends = np.cumsum(spans[:, 1] - spans[:, 0])
        for first in range(0, len(order), PIECE_SEGMENTS):
            piece = order[first : first + PIECE_SEGMENTS]
            run = np.searchsorted(ends, piece, "right")
            yield from self.scratch.read_in_order(piece - ends[run] + spans[run, 1])


def _sort_by_rank_and_time(ranks: Int, enter: Int) -> Int:
    """Return the stable order by rank and time."""
    if not len(enter):
        return np.zeros(0, np.int64)
    begin, first = int(enter.min()), int(ranks.min())
    span = int(enter.max()) - begin + 1
    if (int(ranks.max()) - first + 1) * span >= 1 << 63:
        return np.lexsort((enter, ranks))
    # One key is sorted in a quarter of the time of two.
    return np.argsort((ranks - first) * span + (enter - begin), kind="stable")


def _repeat(first: int, counts: Int) -> Int:
    return np.repeat(np.arange(first, first + len(counts)), counts)
