"""Binary event logs: a self-describing first chunk (trace/layout.py), then chunks of records.

Files are read in pieces, not mapped. A mapped page counts as memory of the reader, and a file that
a live recorder truncates would kill the reader (SIGBUS).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace.checksum import compute_checksum
from mpiprof.trace.current_function import CurrentFunction, find_function
from mpiprof.trace.files import Content, File, MemoryFile, list_files, read_bytes
from mpiprof.trace.layout import MAGIC, MAX_HEAD_BYTES, OUTSIDE_CLASSES, SIGNAL, parse_layout
from mpiprof.trace.pack import MAX_CHUNKS
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

MESSAGES = 1  # content of a chunk: messages, not calls of collectives
READ_CHUNKS = 8  # that are read at a time, so that their records remain in the cache
MAX_RING = 1 << 16  # chunks of a log of rings, which is copied into memory
COPY_ATTEMPTS = 20  # attempts to copy a ring that is overwritten meanwhile


class LogFile:
    """One open log: its layout, and its chunk headers (structured array, chunk 0 first).

    live: whether its processes may be writing. A ring is then copied at once, before it is
    overwritten.
    """

    def __init__(self, file: File, problems: Problems, live: bool = False) -> None:
        self.file, self.source, self.name = file, file, file.name  # source: present state
        try:
            with file.open() as content:
                head = read_bytes(content, 0, MAX_HEAD_BYTES)
                if head[:1] in (b"", b"\0") and not head.strip(b"\0"):
                    raise TraceError(f"{self.name}: empty: its process is starting, or died")
                self.layout = parse_layout(head, self.name)
                self.chunks, rest = divmod(content.size, self.layout.chunk_bytes)
                if self.chunks > MAX_CHUNKS or (self.layout.ring_bytes and self.chunks > MAX_RING):
                    raise TraceError(f"{self.name}: larger than any log, so it cannot be read")
                self.headers = self._read_headers(content)
                if live and self.layout.ring_bytes:
                    self._copy_ring(content)
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        self.damaged = False  # set while chunks are read
        self._intact: dict[int, bool] = {}
        self.cut = rest != 0
        if self.cut:
            problems.add(
                f"{self.name}: truncated inside a chunk; {rest} bytes at its end are ignored"
            )

    def _read_headers(self, content: Content) -> Array:
        """Read the header of every chunk except the first, which describes the file."""
        layout = self.layout
        headers: Array = np.zeros(self.chunks, layout.header)
        width = layout.header_bytes
        view = headers.view(np.uint8).data
        for chunk in range(1, self.chunks):
            content.read(view[chunk * width : (chunk + 1) * width], chunk * layout.chunk_bytes)
        return headers

    def _copy_ring(self, content: Content) -> None:
        """Copy a ring into memory in a consistent state; drop chunks that change in every attempt.

        During a window change, the moved chunk is in both locations, or only in the old one.
        """
        size = self.layout.chunk_bytes
        changed = np.zeros(0, np.bool_)
        for _ in range(COPY_ATTEMPTS):
            copy = read_bytes(content, 0, self.chunks * size)
            self.chunks = len(copy) // size
            self.file = MemoryFile(self.name, copy)
            before = self.headers[: self.chunks]
            self.headers = self._read_headers(content)
            changed = (before["magic"] != self.headers["magic"]) | (
                before["serial"] != self.headers["serial"]
            )
            if not changed.any():
                return
        self.headers["magic"][changed] = 0

    def read_signal(self) -> tuple[int, int] | None:
        """Return the present time of the first fatal signal of its ranks, None if it has none.

        Also return the number of the launcher's children at that time, 0 if it is unknown.
        """
        if not self.layout.signal_offset:
            return None
        signal = np.zeros(1, SIGNAL)
        with contextlib.suppress(OSError), self.source.open() as content:
            content.read(signal.view(np.uint8).data, self.layout.signal_offset)
        at_ns, siblings = (int(value) for value in signal[0])
        return (at_ns, max(siblings, 0)) if 0 < at_ns < 1 << 62 else None

    def read_header(self, chunk: int) -> dict[str, int]:
        """Return the present header fields of a chunk, or {} if it no longer exists."""
        layout = self.layout
        try:
            with self.source.open() as content:
                head = read_bytes(content, chunk * layout.chunk_bytes, layout.header_bytes)
        except OSError:
            return {}
        if len(head) < layout.header_bytes:
            return {}
        fields = np.frombuffer(head, layout.header)[0]
        return {str(name): int(fields[name]) for name in layout.header.names or ()}

    def is_intact(self, chunk: int) -> bool:
        """Return whether a chunk is intact as far as detectable; checks each chunk once.

        A live window has no checksum, nor has the window of a process that died.
        """
        if chunk not in self._intact:
            size = self.layout.chunk_bytes
            buffer, filled = np.empty(size, np.uint8), 0  # filled without the copies of read_bytes
            with contextlib.suppress(OSError), self.file.open() as content:
                filled = content.read(buffer.data, chunk * size)
            self._check(chunk, buffer[:filled])
        return self._intact[chunk]

    def _check(self, chunk: int, read: Array) -> bool:
        """Return whether a chunk is intact. read: its bytes."""
        if chunk not in self._intact:
            size = self.layout.chunk_bytes
            self._intact[chunk] = self.file.is_intact(chunk * size, size) and (
                not self.layout.has_checksums or self._matches_checksum(chunk, read)
            )
            self.damaged |= not self._intact[chunk]
        return self._intact[chunk]

    def _matches_checksum(self, chunk: int, read: Array) -> bool:
        head, size = self.headers[chunk], self.layout.chunk_bytes
        expected = int(head["check"])
        if expected == 0:
            return int(head["window"]) != 0
        whole = len(read) == size and size % 8 == 0
        return whole and compute_checksum(read, self.layout.checksum_offset) == expected

    def read_intact(self, chunks: Sequence[int]) -> Iterator[Array]:
        """Yield the records of intact chunks, chunks x records, which are valid until the next.

        A chunk that is truncated comes alone.
        """
        layout = self.layout
        raw = np.empty((min(len(chunks), READ_CHUNKS), layout.chunk_bytes), np.uint8)
        begin, width = layout.header_bytes, layout.record.itemsize
        records = raw[:, begin : begin + layout.capacity * width].view(layout.record)
        filled = 0
        try:
            with self.file.open() as content:
                for chunk in chunks:
                    size = content.read(raw[filled].data, chunk * layout.chunk_bytes)
                    if not self._check(chunk, raw[filled, :size]):
                        continue
                    if size < layout.chunk_bytes:
                        yield records[:filled]
                        yield records[filled : filled + 1, : max(size - begin, 0) // width]
                        filled = 0
                        continue
                    filled += 1
                    if filled == len(raw):
                        yield records
                        filled = 0
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        yield records[:filled]

    def read(self, pieces: list[tuple[int, int, int]]) -> Array:
        """Return records start..stop of each (chunk, start, stop) as one structured array.

        The array is shorter if the file was truncated.
        """
        layout = self.layout
        width = layout.record.itemsize
        raw = np.empty(sum(stop - start for _, start, stop in pieces) * width, np.uint8)
        view, filled = raw.data, 0
        try:
            with self.file.open() as content:
                for chunk, start, stop in pieces:
                    offset = chunk * layout.chunk_bytes + layout.header_bytes + start * width
                    part = view[filled : filled + (stop - start) * width]
                    filled += content.read(part, offset) // width * width
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        records: Array = raw[:filled].view(layout.record)
        return records


@dataclass(frozen=True)
class Chunk:
    """Location of one chunk of a thread's records."""

    log: LogFile
    index: int
    serial: int
    live: bool
    thread: int = 0

    def read(self, most: int = sys.maxsize) -> Array:
        """Return its first records, or all of them."""
        return self.log.read([(self.index, 0, min(most, self.log.layout.capacity))])

    def first_ns(self) -> int | None:
        """Return the entry time of its first call on its node's clock, or None without calls."""
        calls = _select_calls(self.read(16))
        return int(calls["enter_ns"][0]) if len(calls) else None

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
        totals = (SUMMARY, STATISTICS, MESSAGE_COUNT)
        return bool(np.isin(self.read(1)["kind"], totals).any())

    def was_reused(self) -> bool:
        """Return whether a live window was reused for the next chunk since its header was read."""
        is_copy = self.log.file is not self.log.source
        if not self.live or is_copy:
            return False
        return self.log.read_header(self.index).get("serial") != self.serial


def count_capacity(chunks: Iterable[Chunk]) -> int:
    """Return how many records some chunks have room for."""
    return sum(chunk.log.layout.capacity for chunk in chunks)


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
            elif lost := chunks[-1].serial + 1 - len(chunks):
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
        if "content" in fields and int(head["content"]) == MESSAGES:
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


def _sort_by_serial(key: tuple[int, int], chunks: list[Chunk], problems: Problems) -> list[Chunk]:
    """Sort chunks by serial number; a chunk replaces the live window that it was copied from."""
    best: dict[int, Chunk] = {}
    for chunk in chunks:
        known = best.get(chunk.serial)
        if known is None or (known.live and not chunk.live):
            best[chunk.serial] = chunk
        elif known.live == chunk.live:
            problems.add(f"rank {key[0]}: two chunks have the same number; the second is ignored")
    return sorted(best.values(), key=lambda c: c.serial)


def _after_last_gap(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks of a ring after its last gap; earlier chunks are being overwritten."""
    first = len(chunks) - 1
    while first > 0 and chunks[first - 1].serial == chunks[first].serial - 1:
        first -= 1
    return chunks[first:]
