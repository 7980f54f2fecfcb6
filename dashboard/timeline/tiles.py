"""Tiles: sums of segments over spans of time, at every power-of-two length.

A tile is TILE_BINS bins of 2^level ns, for all rows. Sums are stored in a file if many segments
begin in a tile, and computed from the segments otherwise. So the file is small, dense bursts have
fine tiles, and a query reads a bounded number of segments and sums for any zoom. Sums are stored by
row, bin and class. A class is a combination of operation, communicator and algorithm, by which rows
are filtered and coloured.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mpiprof.formats import cache
from mpiprof.trace.types import Array, Float, Int

from .segments import BLOCK_SEGMENTS, PIECE_SEGMENTS, SEGMENT, Events, Progress, read_ahead

TILE_BINS = 256
MAX_ROWS = 128  # maximum number of rows; more ranks are joined to groups
MAX_CLASSES = 64
DIRECT_SEGMENTS = 1 << 17  # tiles in which fewer segments begin are not stored
SUM = np.dtype([("key", "<u4"), ("count", "<u4"), ("inside", "<f4"), ("wait", "<f4")])
# Dense sums are arrays of SUMS x rows x bins x classes: calls that begin, ns inside, ns of waiting.
# In memory, the bins of a row are contiguous, because sums run along them.
SUMS = ("count", "inside", "wait")
CACHED_CELLS = 1 << 15  # dense sums that are computed at a time, so that they remain in the cache
DENSITY_BINS = 1 << 18  # bins over the run in which begins are counted
DENSITY_POINTS = 32  # per block of segments, over which its begins are spread


def _covered_ns(
    row: Int, a: Int, b: Int, cls: Int, level: int, size: tuple[int, int, int]
) -> Float:
    """Return the ns that the spans a <= t < b cover: classes x rows x bins.

    Times are from the first bin.
    """
    rows, bins, classes = size
    wide = classes * rows * (bins + 2)
    base = (cls * rows + row) * (bins + 2)
    ia, ib = base + (a >> level), base + (b >> level)
    mask = (1 << level) - 1
    shape = (classes, rows, bins + 2)
    full_count = np.bincount(ia + 1, minlength=wide)
    full_count -= np.bincount(ib, minlength=wide)
    full = np.cumsum(full_count.reshape(shape), 2, out=full_count.reshape(shape)) * float(mask + 1)
    full += np.bincount(ia, (mask + 1) - (a & mask), wide).reshape(shape)
    full += np.bincount(ib, b & mask, wide).reshape(shape)
    return np.asarray(full[:, :, :bins], np.float64)


def sum_segments(
    segments: Array, row: Int, cls: Int, begin: int, level: int, size: tuple[int, int, int]
) -> Float:
    """Sum segments over `size` = (rows, bins, classes), with bins of 2^level ns from `begin` on.

    `row` and `cls` are per segment; negative values exclude a segment.
    """
    rows, bins, classes = size
    good = (row >= 0) & (cls >= 0)
    if not good.all():
        # NumPy indexes records five times as fast by `take` as by brackets.
        segments, row, cls = np.compress(good, segments), row[good], cls[good]
    sums = np.empty((len(SUMS), classes, rows, bins))
    step = max(CACHED_CELLS // (bins * classes), 1)
    if step >= rows:
        _sum_rows(segments, row, cls, begin, level, sums)
        return np.moveaxis(sums, 1, 3)
    if not bool((row[1:] >= row[:-1]).all()):
        order = np.argsort(row.astype(np.int16), kind="stable")
        segments, row, cls = np.take(segments, order), row[order], cls[order]
    for first in range(0, rows, step):
        a, b = np.searchsorted(row, [first, first + step]).tolist()
        part = sums[:, :, first : first + step]
        _sum_rows(segments[a:b], row[a:b] - first, cls[a:b], begin, level, part)
    return np.moveaxis(sums, 1, 3)


def _sum_rows(segments: Array, row: Int, cls: Int, begin: int, level: int, sums: Float) -> None:
    """Fill sums (SUMS x classes x rows x bins) with those of some segments."""
    classes, rows, bins = sums.shape[1:]
    size = rows, bins, classes
    end = bins << level
    enter = segments["enter"] - begin
    a, b = np.clip(enter, 0, end), np.clip(segments["exit"] - begin, 0, end)
    sums[1] = _covered_ns(row, a, b, cls, level, size)
    waits = np.flatnonzero(segments["wait"] > 0)
    waited = enter[waits] + segments["wait"][waits].astype(np.int64)
    c = np.clip(np.minimum(waited, b[waits]), a[waits], end)
    sums[2] = _covered_ns(row[waits], a[waits], c, cls[waits], level, size)
    where = (cls * rows + row) * bins + np.minimum(a >> level, bins - 1)
    sums[0] = np.bincount(where[enter >= 0], minlength=rows * bins * classes).reshape(sums[0].shape)


def _to_sparse(sums: Float) -> Array:
    """Return the non-zero sums, each with (row, bin, class) as its key."""
    count, inside, wait = (np.moveaxis(values, 2, 0).reshape(-1) for values in sums)
    rows, bins, classes = sums.shape[1:]
    used = np.flatnonzero((count > 0) | (inside > 0))
    cls, row, bin_ = np.unravel_index(used, (classes, rows, bins))
    sparse = np.empty(len(used), SUM)
    sparse["key"] = (row << 16) | (bin_ << 8) | cls
    for name, values in zip(SUMS, (count, inside, wait), strict=True):
        sparse[name] = values[used]
    return sparse


def _add_sparse(sparse: Array) -> Array:
    """Add up sums with equal keys."""
    if not len(sparse):
        return sparse
    sparse = sparse[np.argsort(sparse["key"], kind="stable")]
    keys, first = np.unique(sparse["key"], return_index=True)
    sums = np.empty(len(first), SUM)
    sums["key"] = keys
    for name in SUMS:
        sums[name] = np.add.reduceat(sparse[name].astype(np.float64), first)
    return sums


class _Density:
    """Approximate number of segments that begin before a time.

    The begins of a block are spread evenly until the rank's next block. In a trace of many ranks,
    a block is a large part of the run.
    """

    def __init__(self, blocks: Array, begin_ns: int, end_ns: int) -> None:
        self.begin_ns = begin_ns
        self.width_ns = max(-(-(end_ns - begin_ns) // DENSITY_BINS), 1)
        enter = np.ascontiguousarray(blocks["enter"])
        end = np.ascontiguousarray(blocks["exit"])
        has_next = np.flatnonzero(blocks["rank"][1:] == blocks["rank"][:-1])
        end[has_next] = enter[has_next + 1]
        step = np.maximum(end - enter, 0) // DENSITY_POINTS
        counts = np.zeros(DENSITY_BINS + 1)
        for point in range(DENSITY_POINTS):
            bin_ = (enter + point * step - begin_ns) // self.width_ns
            counts += np.bincount(np.clip(bin_, 0, DENSITY_BINS - 1), blocks["n"], DENSITY_BINS + 1)
        self.before = np.concatenate([[0.0], np.cumsum(counts)]) / DENSITY_POINTS

    def count_before(self, time_ns: int) -> float:
        """Return the number of segments that begin before a time."""
        bin_, within_bin = divmod(time_ns - self.begin_ns, self.width_ns)
        bin_ = min(max(bin_, 0), DENSITY_BINS)
        low, high = self.before[bin_ : bin_ + 2].tolist()
        return float(low + (high - low) * within_bin / self.width_ns)


class _Sweep:
    """Reads the segments of consecutive spans of time; each block is read once.

    edges_ns: begin of each span, ascending, and the end of the last one. Segments that begin in
    later spans stay in memory, as well as those that reach beyond a span.
    """

    def __init__(self, events: Events, row_of: Int) -> None:
        self.events = events
        blocks = np.compress(row_of[events.blocks["rank"]] >= 0, events.blocks)
        self.density = _Density(blocks, events.begin_ns, events.end_ns)
        self.count = int(blocks["n"].sum())
        self.blocks = np.take(blocks, np.argsort(blocks["enter"], kind="stable"))
        self.begins = np.ascontiguousarray(self.blocks["enter"])
        self.used = 0  # number of blocks whose segments have been distributed
        self.edges_ns = np.zeros(0, np.int64)
        self.pieces: Iterator[tuple[Array, Int, Array]] = iter(())
        self.later: dict[int, list[tuple[Array, Int]]] = {}  # by span
        self.beyond = np.zeros(0, SEGMENT), np.zeros(0, np.int64)

    def count_begun(self, begin: int, end: int) -> float:
        """Return the approximate number of segments that begin in a span."""
        return self.density.count_before(end) - self.density.count_before(begin)

    def take(self, span: int) -> tuple[Array, Int]:
        """Return the segments in a span, with ranks. Spans must be taken in order."""
        end = self.edges_ns[span + 1]
        while self.used < len(self.begins) and self.begins[self.used] < end:
            self._distribute(*next(self.pieces))
        parts = [self.beyond, *self.later.pop(span, [])]
        segments, ranks = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        longer = segments["exit"] > end
        self.beyond = np.compress(longer, segments), ranks[longer]
        return segments, ranks

    @contextlib.contextmanager
    def read_spans(self, edges_ns: Int) -> Iterator[None]:
        """Read the segments of spans while their tiles are built."""
        self.edges_ns = edges_ns
        with read_ahead(self._read_pieces()) as self.pieces:
            yield

    def _read_pieces(self) -> Iterator[tuple[Array, Int, Array]]:
        """Yield the segments of consecutive blocks sorted by span, with ranks and spans."""
        step = PIECE_SEGMENTS // BLOCK_SEGMENTS
        for at in range(0, len(self.blocks), step):
            blocks = self.blocks[at : at + step]
            order = np.argsort(blocks["at"], kind="stable")
            segments, ranks = self.events.read_blocks(np.take(blocks, order))
            span = np.searchsorted(self.edges_ns, segments["enter"], side="right") - 1
            span = np.clip(span, 0, len(self.edges_ns) - 2)
            # NumPy sorts 16-bit integers by radix, wider ones by comparison.
            span = span.astype(np.int16 if len(self.edges_ns) < 1 << 15 else np.int32)
            order = np.argsort(span, kind="stable")
            segments, ranks, span = np.take(segments, order), ranks[order], span[order]
            yield segments, ranks, span

    def _distribute(self, segments: Array, ranks: Int, span: Array) -> None:
        """Add the segments of the next blocks to their spans."""
        self.used += PIECE_SEGMENTS // BLOCK_SEGMENTS
        first = np.flatnonzero(np.diff(span, prepend=-1))
        for a, b in zip(first.tolist(), [*first[1:].tolist(), len(span)], strict=True):
            self.later.setdefault(int(span[a]), []).append((segments[a:b], ranks[a:b]))


class _Builder:
    """Builds tiles in order of time, the finest level first."""

    def __init__(
        self, events: Events, row_of: Int, class_of: Int, writer: cache.Writer, progress: Progress
    ) -> None:
        self.events, self.row_of, self.class_of = events, row_of, class_of
        self.writer, self.progress = writer, progress
        rows, classes = int(row_of.max(initial=0)) + 1, int(class_of.max(initial=0)) + 1
        self.size = (rows, TILE_BINS // 2, classes)
        self.sweep = _Sweep(events, row_of)
        self.tiles: list[tuple[int, int, int, int]] = []
        self.used = 0
        self.spans = 0  # number of spans that have been summed

    def is_stored(self, level: int, index: int) -> bool:
        """Return whether a tile is stored, because many segments begin in it."""
        width = TILE_BINS << level
        begin = self.events.begin_ns + index * width
        return self.sweep.count_begun(begin, begin + width) >= DIRECT_SEGMENTS

    def plan(self, level: int, index: int) -> Iterator[int]:
        """Yield the begins of the halves of a stored tile that are summed directly, in ns."""
        for side in (0, 1):
            below = level - 1, 2 * index + side
            if level > 0 and self.is_stored(*below):
                yield from self.plan(*below)
            else:
                yield self.events.begin_ns + (2 * index + side) * ((TILE_BINS // 2) << level)

    def build_all(self, level: int) -> None:
        """Build the tile of a level that covers the whole trace, and all tiles below it."""
        if self.is_stored(level, 0):
            end = self.events.begin_ns + (TILE_BINS << level)
            edges_ns = np.array([*self.plan(level, 0), end], np.int64)
            with self.sweep.read_spans(edges_ns):
                self.build_tile(level, 0)

    def build_tile(self, level: int, index: int) -> Array:
        """Build a stored tile and all tiles below it."""
        halves = []
        for side in (0, 1):
            if level > 0 and self.is_stored(level - 1, 2 * index + side):
                below = self.build_tile(level - 1, 2 * index + side)
                bin_ = ((below["key"] >> 9) & 127) + 128 * side
                below["key"] = (below["key"] & ~np.uint32(0xFF00)) | (bin_ << 8)
                halves.append(_add_sparse(below))
            else:
                halves.append(self._build_direct(level, side))
        tile = np.concatenate(halves)
        self.writer.write("sums", self.used, tile)
        self.tiles.append((level, index, self.used, len(tile)))
        self.used += len(tile)
        length = max(self.events.end_ns - self.events.begin_ns, 1)
        self.progress(min((index + 1) * (TILE_BINS << level) / length, 1.0))
        return tile

    def _build_direct(self, level: int, side: int) -> Array:
        first = int(self.sweep.edges_ns[self.spans])
        segments, ranks = self.sweep.take(self.spans)
        self.spans += 1
        row, cls = self.row_of[ranks], self.class_of[segments["shape"]]
        tile = _to_sparse(sum_segments(segments, row, cls, first, level, self.size))
        tile["key"] += np.uint32((TILE_BINS // 2 * side) << 8)
        return tile


def build(
    events: Events, row_of: Int, class_of: Int, writer: cache.Writer, progress: Progress
) -> dict[str, Any]:
    """Fill a cache entry with the tiles of a trace, for a mapping to rows and classes."""
    builder = _Builder(events, row_of, class_of, writer, progress)
    # Every level has at most one sum per segment.
    writer.reserve("sums", SUM, 64 * max(builder.sweep.count, 1))
    # At this level, one tile covers the whole trace.
    level = max((events.end_ns - events.begin_ns) // TILE_BINS, 1).bit_length()
    builder.build_all(level)
    writer.shrink("sums", builder.used)
    writer.write_array("tiles", np.array(sorted(builder.tiles), np.int64).reshape(-1, 4))
    return {}


class Tiles:
    """The tiles of a trace under one mapping of ranks to rows and shapes to classes."""

    def __init__(
        self, events: Events, entry: cache.CacheEntry | None, row_of: Int, class_of: Int
    ) -> None:
        self.events, self.entry, self.row_of, self.class_of = events, entry, row_of, class_of
        self.size = (int(row_of.max(initial=0)) + 1, int(class_of.max(initial=0)) + 1)
        tiles = [] if entry is None else entry.read_array("tiles", "<i8").tolist()
        # By level and index: the place of the tile in the file, and its length.
        self.stored = {tuple(tile[:2]): tuple(tile[2:]) for tile in tiles}

    def read_sums(self, level: int, first: int, last: int, state_of: Array, states: int) -> Float:
        """Return SUMS x rows x bins x states, for bins first .. last - 1 of a level.

        state_of: state of each class; a negative state excludes a class.
        """
        total = np.moveaxis(np.zeros((len(SUMS), states, self.size[0], last - first)), 1, 3)
        index = first // TILE_BINS
        while index * TILE_BINS < last:
            stop = index + 1
            if (level, index) in self.stored:
                read = self._read_tile
            else:
                read = self._sum_directly
                while stop * TILE_BINS < last and (level, stop) not in self.stored:
                    stop += 1
            bins = max(index * TILE_BINS, first), min(stop * TILE_BINS, last)
            part = read(level, bins, state_of, states)
            total[:, :, bins[0] - first : bins[1] - first] += part
            index = stop
        return total

    def _read_tile(self, level: int, bins: tuple[int, int], state_of: Array, states: int) -> Float:
        """Return the sums of some bins of one stored tile."""
        assert self.entry is not None
        index = bins[0] // TILE_BINS
        at, n = self.stored[level, index]
        sparse = self.entry.read("sums", at, at + n, SUM)
        key = sparse["key"]
        row, cls = (key >> 16).astype(np.int64), (key & 255).astype(np.int64)
        bin_ = ((key >> 8) & 255).astype(np.int64) + (index * TILE_BINS - bins[0])
        if len(key) and (row.max() >= self.size[0] or cls.max() >= self.size[1]):
            raise cache.DamagedError("sums that cannot be")
        state = state_of[cls]
        shape = (self.size[0], bins[1] - bins[0], states)
        good = (state >= 0) & (bin_ >= 0) & (bin_ < shape[1])
        if not good.all():
            sparse, row, bin_, state = np.compress(good, sparse), row[good], bin_[good], state[good]
        where = (state * shape[0] + row) * shape[1] + bin_
        sums = [np.bincount(where, sparse[name], math.prod(shape)) for name in SUMS]
        by_state = np.array(sums, np.float64).reshape(len(SUMS), states, *shape[:2])
        return np.moveaxis(by_state, 1, 3)

    def _sum_directly(
        self, level: int, bins: tuple[int, int], state_of: Array, states: int
    ) -> Float:
        """Return the sums of some bins, computed from the segments."""
        begin, end = (self.events.begin_ns + (edge << level) for edge in bins)
        size = (self.size[0], bins[1] - bins[0], states)
        total = np.moveaxis(np.zeros((len(SUMS), states, *size[:2])), 1, 3)
        is_shown = np.zeros(self.events.ranks, np.bool_)
        is_shown[: len(self.row_of)] = self.row_of >= 0
        for segments, ranks in self.events.read_pieces(
            begin, end, None if is_shown.all() else is_shown
        ):
            cls = self.class_of[segments["shape"]]
            state = np.where(cls >= 0, state_of[cls], -1)
            total += sum_segments(segments, self.row_of[ranks], state, begin, level, size)
        return total
