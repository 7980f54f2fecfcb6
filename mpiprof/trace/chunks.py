"""The chunks of all logs of a trace: of each thread, in order."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace.current_function import CurrentFunction, find_function
from mpiprof.trace.files import list_files
from mpiprof.trace.layout import MAGIC, OUTSIDE_CLASSES
from mpiprof.trace.log import IS_TIMED, LogFile
from mpiprof.trace.types import (
    CALL,
    COMPLETION,
    EXTENSION,
    LONGEST_CALL,
    MESSAGE_COUNT,
    SENDER_UNIT,
    STATISTICS,
    SUMMARY,
    Array,
    Problems,
)
from mpiprof.trace.writer import RECORD_TYPE

SEARCHED_RECORDS = 64  # at the begin of a chunk, of which one has a time
MESSAGES, PACKED = 1, 2  # content of a chunk: messages, plain or packed, not calls of collectives
WINDOW_UNIT = 1 << 32  # in the header of a packed chunk: one window


@dataclass(frozen=True)
class Chunk:
    """Location of one chunk of a thread's records.

    windows: number of windows whose records it has; `serial` is that of the first one.
    packed_bytes: bytes of packed records; -1 if its records are not packed.
    """

    log: LogFile
    index: int
    serial: int
    live: bool
    thread: int = 0
    windows: int = 1
    packed_bytes: int = -1

    @cached_property
    def capacity(self) -> int:
        """Upper bound of its records."""
        each = self.log.layout.capacity
        return each if self.packed_bytes < 0 else min(self.windows * each, self.packed_bytes)

    def read(self, most: int = sys.maxsize) -> Array:
        """Return its first records, or all of them."""
        if self.packed_bytes < 0:
            return self.log.read([(self.index, 0, min(most, self.log.layout.capacity))])
        found, count = [np.zeros(0, RECORD_TYPE)], 0
        for records in self.log.read_packed(self.index, self.packed_bytes):
            found.append(records[0].copy())
            count += len(found[-1])
            if count >= most:
                break
        return np.concatenate(found)[:most]

    def begin_ns(self) -> int | None:
        """Return the first known begin of a call or an interval, on its node's clock, or None."""
        begins = self.log.begins if self.packed_bytes < 0 else self.log.packed_begins
        if not self.live and self.index in begins:
            return begins[self.index]
        records = self.read(SEARCHED_RECORDS)
        timed = records["enter_ns"][IS_TIMED.take(records["kind"], mode="clip")]
        begins[self.index] = int(timed[0]) if len(timed) else None
        return begins[self.index]

    def last_ns(self) -> int:
        """Return the end of its last call on its node's clock, or 0 if unknown."""
        records = self.read()
        calls = _select_calls(records)
        if len(calls):
            # Not the maximum, because one damaged time would become the length of the run.
            return max(int(calls["enter_ns"][-1]), int(calls["exit_ns"][-1]))
        longest = (records["kind"] == EXTENSION) & (records["sequence"] == LONGEST_CALL)
        return int(records["enter_ns"][longest].max(initial=0))

    def is_summed(self) -> bool:
        """Return whether the chunk begins with totals. Events are in other threads' chunks."""
        if self.packed_bytes >= 0:
            return False
        kinds = self.read(1)["kind"] if self.live else self.log.first_kinds[[self.index]]
        return any(kind in (SUMMARY, STATISTICS, MESSAGE_COUNT) for kind in kinds.tolist())

    def was_reused(self) -> bool:
        """Return whether a live window was reused for the next chunk since its header was read."""
        if not self.live or self.log.layout.ring_bytes:
            return False
        return self.log.read_header(self.index).get("serial") != self.serial


def count_capacity(chunks: Iterable[Chunk]) -> int:
    """Return how many records some chunks have room for."""
    return sum(chunk.capacity for chunk in chunks)


def _select_calls(records: Array) -> Array:
    return records[(records["kind"] >= CALL) & (records["kind"] <= COMPLETION)]


@dataclass
class Logs:
    """All logs of a trace: chunks in order per (rank, thread), and each thread's dropped records.

    messages: chunks with messages, in order per (rank, thread).
    spent: ns of each thread in the calls of OUTSIDE_CLASSES, from logs with these fields.
    functions: the call that a thread is in, unless it has an open record of a collective.
    signals: the signal that ended a rank, if recorded. senders: who sent it (SENDER_* of
    trace.types).
    tasks: the system's id of each thread, 0 if it has ended; from logs with this field.
    unused: number of each rank's chunks for packed messages that have none yet.
    """

    threads: dict[tuple[int, int], list[Chunk]] = field(default_factory=dict)
    messages: dict[tuple[int, int], list[Chunk]] = field(default_factory=dict)
    dropped: dict[tuple[int, int], int] = field(default_factory=dict)
    truncated: bool = False
    outside_ns: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    opened: list[LogFile] = field(default_factory=list)
    functions: dict[tuple[int, int], CurrentFunction | None] = field(default_factory=dict)
    signals: dict[int, int] = field(default_factory=dict)
    senders: dict[int, int] = field(default_factory=dict)
    tasks: dict[tuple[int, int], int] = field(default_factory=dict)
    unused: Counter[int] = field(default_factory=Counter)

    @property
    def is_damaged(self) -> bool:
        """True if any log was found damaged while it was read."""
        return any(log.damaged for log in self.opened)


def open_logs(folder: Path, limit: int, problems: Problems, live: bool = False) -> Logs:
    """Open every *.log of a folder; ranks at or beyond `limit` count as damage.

    live: whether the job may be running.
    """
    logs = Logs()
    for file in list_files(folder, ".log"):
        try:
            log = LogFile(file, problems, live)
        except TraceError as error:
            problems.add(str(error))
            logs.truncated = True
            continue
        logs.opened.append(log)
        logs.truncated |= log.cut
        _add_chunks(log, limit, logs, problems)
    for threads in (logs.threads, logs.messages):
        for key, chunks in threads.items():
            chunks = threads[key] = _sort_by_serial(key, chunks, problems)
            if chunks[-1].log.layout.ring_bytes:
                threads[key] = _after_last_gap(chunks)
            elif (lost := _count_end(chunks[-1]) - sum(c.windows for c in chunks)) > 0:
                problems.add(f"rank {key[0]}: {lost} chunks of thread {key[1]} are missing")
                logs.truncated = True
    return logs


def _add_chunks(log: LogFile, limit: int, logs: Logs, problems: Problems) -> None:
    headers = log.headers
    fields = set(headers.dtype.names or ())
    valid = headers["magic"] == MAGIC
    known = valid & (headers["rank"] < limit)
    for count, problem in (
        ((~valid & (headers["magic"] != 0)).sum(), "are damaged and"),
        ((valid & ~known).sum(), "of ranks that do not exist are"),
    ):
        if count:
            problems.add(f"{log.name}: {count} chunks {problem} ignored")
            logs.truncated = True
    has_outside = fields >= {f"{name}_ns" for name in OUTSIDE_CLASSES}
    for index in np.flatnonzero(known).tolist():
        head = headers[index]
        key = rank, thread = int(head["rank"]), int(head["thread"])
        chunk = Chunk(log, index, int(head["serial"]), int(head["window"]) != 0, thread)
        content = int(head["content"]) if "content" in fields else 0
        if content == MESSAGES:
            logs.messages.setdefault(key, []).append(chunk)
            continue
        if content == PACKED and "packed" in fields:
            chunk = _describe_packed(chunk, head)
            if not 0 <= chunk.windows <= chunk.packed_bytes <= log.layout.chunk_bytes:
                problems.add(f"{log.name}: a chunk has a damaged number of packed records")
                logs.truncated = True
            elif chunk.windows == 0:
                logs.unused[rank] += 1
            else:
                logs.messages.setdefault(key, []).append(chunk)
            continue
        logs.threads.setdefault(key, []).append(chunk)
        if chunk.live and "signal" in fields:
            logs.functions[key] = find_function(log.layout, head)
            if int(head["signal"]):
                logs.senders[rank], logs.signals[rank] = divmod(int(head["signal"]), SENDER_UNIT)
            if "task" in fields:
                logs.tasks[key] = int(head["task"])
        dropped = int(head["dropped"])
        if dropped < 1 << 48:
            logs.dropped[key] = max(logs.dropped.get(key, 0), dropped)
        else:
            problems.add(f"{log.name}: a chunk has a damaged count of dropped records")
        if has_outside:
            spent = [int(head[f"{name}_ns"]) for name in OUTSIDE_CLASSES]
            if all(0 <= ns < 1 << 62 for ns in spent):
                logs.outside_ns[key] = list(map(max, spent, logs.outside_ns.get(key, spent)))
            else:
                problems.add(f"{log.name}: a chunk has damaged times")


def _describe_packed(chunk: Chunk, head: Any) -> Chunk:
    windows, length = divmod(int(head["packed"]), WINDOW_UNIT)
    first = int(head["first_window"])
    return replace(chunk, serial=first, windows=windows, packed_bytes=length)


def _count_end(chunk: Chunk) -> int:
    """Return the serial number of the window after a chunk."""
    return chunk.serial + chunk.windows


def _sort_by_serial(key: tuple[int, int], chunks: list[Chunk], problems: Problems) -> list[Chunk]:
    """Sort chunks by serial number; a chunk replaces the live window that it was copied from.

    A packed chunk replaces the window that was packed into it.
    """
    best: dict[int, Chunk] = {}
    for chunk in chunks:
        known = best.get(chunk.serial)
        if known is None or (known.live and not chunk.live):
            best[chunk.serial] = chunk
        elif known.live == chunk.live:
            problems.add(f"rank {key[0]}: two chunks have the same number; the second is ignored")
    ordered = sorted(best.values(), key=lambda c: c.serial)
    ends = itertools.accumulate(map(_count_end, ordered), max, initial=0)
    return [c for c, end in zip(ordered, ends, strict=False) if c.serial >= end or not c.live]


def _after_last_gap(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks of a ring after its last gap; earlier chunks are being overwritten."""
    first = len(chunks) - 1
    while first > 0 and chunks[first - 1].serial == chunks[first].serial - 1:
        first -= 1
    return chunks[first:]
