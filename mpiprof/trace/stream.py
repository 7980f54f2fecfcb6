"""The records of one rank, block by block, in order, merged with their extensions.

Memory is bounded by a block, however long the log is. Impossible records (a call that ends before
it begins, a shape without a table row) are skipped and noted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mpiprof.trace.chunks import Chunk
from mpiprof.trace.clock import Clock
from mpiprof.trace.log import LogFile
from mpiprof.trace.rank_arrays import Block, concatenate, get_column
from mpiprof.trace.types import (
    CALL,
    CHOICES,
    COMPLETION,
    EXTENSION,
    EXTENSION_COLUMNS,
    START,
    STATISTICS,
    STATISTICS_CODES,
    SUMMARY,
    Array,
    Bool,
    Int,
    Problems,
)

FOREVER_NS = 1 << 61
SKIP_MARGIN = 64  # records before the time to which a reader skips
Piece: TypeAlias = tuple[int, int, int]  # chunk, first record, and the record after the last
BEFORE_FIELDS = ("before_enter", "before_exit", "before_shape", "before_sequence")
SLACK_NS = 60 * 10**9  # a time farther outside its process's life is damage


@dataclass(frozen=True)
class Source:
    """Properties of one rank that are needed to read it: its shapes, lifetime and clock."""

    rank: int
    shape_map: Int  # joint id of each shape, and -1 for shapes beyond the tables
    earliest_ns: int = 1 - FOREVER_NS
    latest_ns: int = FOREVER_NS
    clock: Clock | None = None  # None if it is the requested clock
    before: bool = False  # whether to add each record's previous record
    since_ns: int | None = None  # on the requested clock; earlier closed records are skipped
    until_ns: int | None = None  # the same; later records are skipped

    def to_local(self, time_ns: int) -> int:
        """Return the time of the rank's clock at a time of the requested clock."""
        return time_ns if self.clock is None else self.clock.to_local(time_ns)


class ThreadStream:
    """The records of one thread of one rank, read in blocks."""

    def __init__(self, source: Source, chunks: list[Chunk], problems: Problems) -> None:
        self.source, self.chunks, self.problems = source, chunks, problems
        self.position = (0, 0)
        self.pending: Array | None = None  # extensions of records in the next block
        self.unread: Array | None = None  # raw records of the next block
        self.before = [-1] * 4  # enter, exit, shape and sequence of the last record
        self.end = False

    @property
    def is_between_records(self) -> bool:
        """Whether its next records depend on none that were read."""
        return not self.end and self.pending is None and self.unread is None

    @property
    def last_chunk(self) -> Chunk:
        """The chunk of the last piece that was taken."""
        index, start = self.position
        return self.chunks[index if start else index - 1]

    def find_chunk(self, time_ns: int) -> int:
        """Return the last chunk that begins up to a time of its node's clock, or the first one."""

        def begins_later(chunk: Chunk) -> bool:
            first = chunk.begin_ns()
            return first is None or first > time_ns

        return bisect_left(self.chunks, True, 1, key=begins_later) - 1

    def skip_to(self, index: int, first: int) -> None:
        """Skip the records that are well before a record of a chunk; first: -1 if it is unknown."""
        first -= SKIP_MARGIN
        # A record's extensions may be in the previous chunk.
        self.position = (index, first) if first > 0 else (max(index - 1, 0), 0)

    def take_pieces(self, count: int) -> tuple[LogFile | None, list[Piece]]:
        """Return the next pieces of one log with at most `count` records, (None, []) at the end."""
        log = None
        pieces: list[Piece] = []
        while count > 0 and self.position[0] < len(self.chunks):
            index, start = self.position
            chunk = self.chunks[index]
            if log is not None and chunk.log is not log:
                break
            if start == 0 and not chunk.log.is_intact(chunk.index):
                self._note_damage("a chunk has a wrong checksum and is ignored")
                self.position = (index + 1, 0)
                continue
            log = chunk.log
            stop = min(start + count, log.layout.capacity)
            pieces.append((chunk.index, start, stop))
            count -= stop - start
            self.position = (index + 1, 0) if stop == log.layout.capacity else (index, stop)
        return log, pieces

    def read_pieces(self, log: LogFile, pieces: Sequence[Piece]) -> Array:
        """Return the records of the pieces that were taken last."""
        records = log.read(list(pieces))
        if len(records) and not records["kind"][-1]:
            self.note_empty()
        if self.chunks[-1].index == pieces[-1][0] and self.chunks[-1].was_reused():
            effect = "its newest records are missing"
            self.problems.add(f"the job continued while its log was read, so {effect}")
            records = records[: len(records) - (pieces[-1][2] - pieces[-1][1])]
        return records

    def note_empty(self) -> None:
        """Note that the last record read is empty: records that are not written yet come last."""
        if self.position[0] >= len(self.chunks) - 1:
            self.position = (len(self.chunks), 0)

    def read(self, count: int) -> Block | None:
        """Return the next block of about `count` records, or None at the end."""
        while not self.end:
            records, self.unread = self.unread, None
            if records is None:
                log, pieces = self.take_pieces(count)
                records = None if log is None else self.read_pieces(log, pieces)
            if records is None:
                self.end = True
                if self.pending is None:
                    break
                records = self.pending[:0]
            block = self._decode(records)
            if self.chunks[0].thread:
                block.thread = np.full(len(block), self.chunks[0].thread, np.int64)
            if len(block):
                if self.source.before:
                    self._note_before(block)
                return block
        return None

    def _note_damage(self, damage: str) -> None:
        """Note an impossible value, and mark the trace as damaged."""
        self.chunks[0].log.damaged = True
        self.problems.add(f"rank {self.source.rank}: {damage}")

    def _note_before(self, block: Block) -> None:
        exits = block.exit_ns
        if block.kind is not None:
            exits = np.where(block.kind == START, block.enter_ns, exits)  # MPI_Start is not timed
        columns = (block.enter_ns, exits, block.shape, block.sequence)
        for name, values, first in zip(BEFORE_FIELDS, columns, self.before, strict=True):
            setattr(block, name, np.concatenate([[first], values[:-1].astype(np.int64)]))
        self.before = [int(values[-1]) for values in columns]

    def _decode(self, records: Array) -> Block:
        if self.pending is not None:
            records, self.pending = np.concatenate([self.pending, records]), None
        elif bool((records["kind"] == CALL).all()):
            return self._check_block(make_plain_block(records))
        if not self.end:
            whole = _count_before_last_wait(records)
            if whole < len(records):
                records, self.pending = records[:whole], records[whole:]
        kind = records["kind"]
        if bool((kind == STATISTICS).any()):  # sums instead of times (trace/insitu_statistics.py)
            extends = (kind == EXTENSION) & np.isin(records["sequence"], STATISTICS_CODES)
            records = records[(kind != STATISTICS) & ~extends]
            kind = records["kind"]
        used = np.flatnonzero((kind != EXTENSION) & (kind != 0))
        extensions = np.flatnonzero(kind == EXTENSION)
        block = make_plain_block(records[used])
        block.kind = np.ascontiguousarray(kind[used])
        # A summary is updated in place, so its extensions follow it.
        target = np.searchsorted(used, extensions) - bool((block.kind == SUMMARY).any())
        later = target == len(used)
        if later.any():
            self.pending = records[extensions[later][-8:]]
        known = ~later & (target >= 0)
        _apply_extensions(block, target[known], records[extensions[known]])
        block.share = _count_wait_completions(block)
        return self._check_block(block)

    def _check_block(self, block: Block) -> Block:
        """Drop impossible records, and convert shapes to joint ids and times to the joint clock."""
        source = self.source
        if not len(block):
            return block
        bad = self._find_impossible(block)
        if bad is not None:
            self._note_damage("damaged records are ignored")
            block = block.take(~bad)
        joint = source.shape_map.take(block.shape, mode="clip")
        block.shape = joint.astype(np.int32)
        if len(block) and int(joint.min()) < 0:
            self._note_damage("records of a shape that is missing from the tables are ignored")
            block = block.take(joint >= 0)
        if source.clock is not None and len(block):
            summary = None if block.kind is None else block.kind == SUMMARY
            if summary is None or not summary.any():
                open_ = block.exit_ns == 0
                block.enter_ns = source.clock.to_global(block.enter_ns)
                block.exit_ns = source.clock.to_global(block.exit_ns)
                if open_.any():
                    block.exit_ns[open_] = 0
        if source.since_ns is not None and len(block):
            block = block.take((block.enter_ns >= source.since_ns) | (block.exit_ns == 0))
        if source.until_ns is not None and len(block):
            block = block.take(block.enter_ns <= source.until_ns)
        return block

    def _find_impossible(self, block: Block) -> Bool | None:
        """Return a mask of impossible records, or None if there are none."""
        low, high = self.source.earliest_ns, self.source.latest_ns
        enter, exit_ = block.enter_ns, block.exit_ns
        if (
            block.kind is None
            and int(enter.min()) >= low
            and int(exit_.max()) <= high
            and int((exit_ - enter).min()) >= 0
        ):
            return None
        bad: Bool = (enter < low) | (enter > high) | (exit_ > high)
        bad |= (exit_ < enter) & (exit_ != 0)
        if block.kind is not None:
            kind = block.kind
            bad |= (kind == COMPLETION) & (exit_ == 0)
            bad[kind == SUMMARY] = False
            unknown = kind > SUMMARY
            if unknown.any():
                self._note_damage("records of an unknown kind")
            bad |= unknown
        return bad if bad.any() else None


def make_plain_block(records: Array) -> Block:
    """Return the records' columns without extensions; one pass while the records are in cache."""
    return Block(
        np.ascontiguousarray(records["sequence"]),
        records["enter_ns"].astype(np.int64),
        records["exit_ns"].astype(np.int64),
        np.ascontiguousarray(records["shape"]),
        records["outside_ns"].astype(np.int64),
        choice=take_choices(records["choice"]),
    )


def take_choices(choice: Array) -> Array | None:
    """Return the choices of calls, 0 for unknown ones, or None if all are 0."""
    return np.where(choice < len(CHOICES), choice, 0) if bool(choice.any()) else None


def _apply_extensions(block: Block, target: Int, extensions: Array) -> None:
    which, value = extensions["sequence"], extensions["exit_ns"].astype(np.int64)
    for code, name in enumerate(EXTENSION_COLUMNS, 1):
        chosen = (which == code) & (value >= 0)
        if name == "start":
            chosen &= value < 1 << 62
        if chosen.any():
            filled = get_column(block, name).astype(np.int64)
            filled[target[chosen]] = value[chosen]
            setattr(block, name, filled)


def _count_before_last_wait(records: Array) -> int:
    """Return the number of records before records of a Wait call that may continue after them."""
    used = np.flatnonzero((records["kind"] != EXTENSION) & (records["kind"] != 0))
    if not len(used) or records["kind"][used[-1]] != COMPLETION:
        return len(records)
    call = records[["kind", "enter_ns", "exit_ns"]][used]
    others = used[call != call[-1]]
    return int(others[-1]) + 1 if len(others) else 0


def _count_wait_completions(block: Block) -> Int | None:
    """Return how many completions each Wait call made: adjacent ones with equal enter and exit."""
    assert block.kind is not None
    done = np.flatnonzero(block.kind == COMPLETION)
    if not len(done):
        return None
    enter, exit_ = block.enter_ns[done], block.exit_ns[done]
    new = np.ones(len(done), np.bool_)
    new[1:] = (enter[1:] != enter[:-1]) | (exit_[1:] != exit_[:-1])
    group = np.cumsum(new) - 1
    share = np.ones(len(block), np.int64)
    share[done] = np.bincount(group)[group]
    return share


def _read_events(thread: ThreadStream, count: int) -> Block | None:
    """Return the next block without totals, which have no times and a separate thread."""
    while (block := thread.read(count)) is not None:
        if block.kind is None or not bool((block.kind == SUMMARY).any()):
            return block
        block = block.take(block.kind != SUMMARY)
        if len(block):
            return block
    return None


class RankStream:
    """The records of all threads of one rank, merged by entry time."""

    def __init__(self, source: Source, threads: list[list[Chunk]], problems: Problems) -> None:
        self.threads = [ThreadStream(source, chunks, problems) for chunks in threads]
        limits = source.since_ns, source.until_ns
        # Whether its records may be read with those of other ranks.
        self.is_plain = len(threads) == 1 and threads[0][0].thread == 0 and limits == (None, None)
        self.waiting: list[Block | None] = [None] * len(self.threads)  # read, not yet returned

    def read(self, count: int) -> Block | None:
        """Return the next block of about `count` records, or None at the end."""
        if len(self.threads) == 1:
            return _read_events(self.threads[0], count)
        for i, thread in enumerate(self.threads):
            if self.waiting[i] is None:
                self.waiting[i] = _read_events(thread, max(count // len(self.threads), 64))
        waiting = {i: block for i, block in enumerate(self.waiting) if block is not None}
        if not waiting:
            return None
        # A thread's next record is not earlier than the last one that it returned.
        unfinished = [block for i, block in waiting.items() if not self.threads[i].end]
        horizon = min((int(block.enter_ns[-1]) for block in unfinished), default=FOREVER_NS)
        parts = []
        for i, block in waiting.items():
            ready = int(np.searchsorted(block.enter_ns, horizon, "right"))
            if ready:
                parts.append(block.take(slice(0, ready)))
            self.waiting[i] = block.take(slice(ready, None)) if ready < len(block) else None
        if not parts:  # In a damaged log, times may go backwards; then return all waiting records.
            parts = list(waiting.values())
            self.waiting = [None] * len(self.threads)
        joined = concatenate(parts)
        return joined.take(np.argsort(joined.enter_ns, kind="stable"))

    def iterate_blocks(self, count: int) -> Iterator[Block]:
        """Yield all blocks to the end."""
        while (block := self.read(count)) is not None:
            yield block
