"""The binary event logs: a self-describing head (see layout), then chunks of fixed-size records.

Files are read piece by piece into arrays rather than mapped: a mapped page counts towards our
memory, and a file that a live recorder cuts shorter would kill the reader (SIGBUS).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace.check import chunk_sum
from mpiprof.trace.files import Content, File, Kept, files_in, read_bytes
from mpiprof.trace.layout import INSIDE, LONGEST_HEAD, MAGIC, SPENT, parse_layout
from mpiprof.trace.types import (
    CALL,
    COMPLETION,
    EXTENSION,
    LONGEST,
    STATISTICS,
    SUMMARY,
    Array,
    Problems,
)

COPIES = 20  # of a ring that turns while it is read


class LogFile:
    """One open log: its layout, and the headers of its chunks (structured array, chunk 0 first).

    live: its processes may be writing. A ring is then read at once, before it turns.
    """

    def __init__(self, file: File, problems: Problems, live: bool = False) -> None:
        self.file, self.source, self.name = file, file, file.name  # source: as it is now
        try:
            with file.open() as content:
                head = read_bytes(content, 0, LONGEST_HEAD)
                if head[:1] in (b"", b"\0") and not head.strip(b"\0"):
                    raise TraceError(f"{self.name}: empty; its process is starting, or it died")
                self.layout = parse_layout(head, self.name)
                self.chunks, rest = divmod(content.size, self.layout.chunk_bytes)
                self.headers = self._read_headers(content)
                if live and self.layout.ring_bytes:
                    self._copy(content)
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        self.damaged = False  # found while it was read
        self._sound: dict[int, bool] = {}
        self.cut = rest != 0
        if self.cut:
            problems.note(
                f"{self.name}: cut off inside a chunk; {rest} bytes at its end are unread"
            )

    def _read_headers(self, content: Content) -> Array:
        """Read the head of every chunk but the first, which is the file's.

        Not through a map: the kernel would map what lies around each head too, the whole file.
        """
        layout = self.layout
        headers: Array = np.zeros(self.chunks, layout.header)
        width = layout.header_bytes
        view = headers.view(np.uint8).data
        for chunk in range(1, self.chunks):
            room = view[chunk * width : (chunk + 1) * width]
            content.read(room, chunk * layout.chunk_bytes)
        return headers

    def _copy(self, content: Content) -> None:
        """Keep all that is there, as it was between two turns; what turns all the time is left out.

        While one is under way, what it moves stands in both places, or in the old one alone.
        """
        size = self.layout.chunk_bytes
        changed = np.zeros(0, np.bool_)
        for _ in range(COPIES):
            held = read_bytes(content, 0, self.chunks * size)
            self.chunks = len(held) // size
            self.file = Kept(self.name, held)
            before = self.headers[: self.chunks]
            self.headers = self._read_headers(content)
            changed = (before["magic"] != self.headers["magic"]) | (
                before["serial"] != self.headers["serial"]
            )
            if not changed.any():
                return
        self.headers["magic"][changed] = 0

    def head(self, chunk: int) -> dict[str, int]:
        """Return the fields that a chunk's head holds now; none when it is gone."""
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

    def serial(self, chunk: int) -> int:
        """Return the serial number that a chunk has now, -1 when it is gone."""
        return self.head(chunk).get("serial", -1)

    def is_sound(self, chunk: int) -> bool:
        """Return whether a chunk is as it was written, as far as it tells; looks once at each.

        A window that is written to, or was when its process died, has no sum.
        """
        if chunk not in self._sound:
            size = self.layout.chunk_bytes
            whole = self.file.is_whole(chunk * size, size)
            self._sound[chunk] = whole and (not self.layout.checked or self._has_its_sum(chunk))
            self.damaged |= not self._sound[chunk]
        return self._sound[chunk]

    def _has_its_sum(self, chunk: int) -> bool:
        head, size = self.headers[chunk], self.layout.chunk_bytes
        known = int(head["check"])
        if known == 0:
            return int(head["window"]) != 0
        try:
            content = self._bytes(chunk * size, size)
        except OSError:
            return False
        whole = len(content) == size and size % 8 == 0
        return whole and chunk_sum(content, self.layout.check_at) == known

    def _bytes(self, offset: int, size: int) -> bytes:
        """Return some bytes of the file; fewer where it has become shorter."""
        with self.file.open() as content:
            return read_bytes(content, offset, size)

    def read(self, pieces: list[tuple[int, int, int]]) -> Array:
        """Give records start..stop of some (chunk, start, stop) as one structured array.

        Shorter where the file has become shorter.
        """
        layout = self.layout
        width = layout.record.itemsize
        raw = np.empty(sum(stop - start for _, start, stop in pieces) * width, np.uint8)
        view, filled = raw.data, 0
        try:
            with self.file.open() as content:
                for chunk, start, stop in pieces:
                    offset = chunk * layout.chunk_bytes + layout.header_bytes + start * width
                    room = view[filled : filled + (stop - start) * width]
                    filled += content.read(room, offset) // width * width
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        records: Array = raw[:filled].view(layout.record)
        return records


@dataclass(frozen=True)
class Chunk:
    """Where one chunk of a thread's records stands."""

    log: LogFile
    index: int
    serial: int
    live: bool
    thread: int = 0

    def first_ns(self) -> int | None:
        """Return when its first call was entered, on its node's clock; None without any."""
        records = self.log.read([(self.index, 0, min(16, self.log.layout.records))])
        times = records["enter_ns"][(records["kind"] >= CALL) & (records["kind"] <= COMPLETION)]
        return int(times[0]) if len(times) else None

    def last_ns(self) -> int:
        """Return when its last call ended, on its node's clock; 0 where that is not known."""
        records = self.log.read([(self.index, 0, self.log.layout.records)])
        used = records[(records["kind"] >= CALL) & (records["kind"] <= COMPLETION)]
        if len(used):
            # Not the maximum: one damaged time must not become the length of the run.
            return max(int(used["enter_ns"][-1]), int(used["exit_ns"][-1]))
        longest = (records["kind"] == EXTENSION) & (records["sequence"] == LONGEST)
        return int(records["enter_ns"][longest].max(initial=0))

    def is_summed(self) -> bool:
        """Whether it begins with totals: events stand in threads of their own."""
        first = self.log.read([(self.index, 0, 1)])
        return bool(len(first)) and int(first["kind"][0]) in (SUMMARY, STATISTICS)

    def moved_on(self) -> bool:
        """Whether a live window has been emptied for the next chunk since its head was read."""
        kept = self.log.file is not self.log.source
        return self.live and not kept and self.log.serial(self.index) != self.serial


@dataclass
class Logs:
    """All logs of a trace: chunks in order per (rank, thread), and what each thread dropped.

    spent: ns of each thread in the calls of SPENT; only of logs that tell.
    inside: the kind of call without a record that a thread is in, an index into INSIDE; or -1.
    signals: the signal that ended a rank, where one was noted.
    tasks: of each thread its number in the system; 0: it has ended. Only of logs that tell.
    """

    threads: dict[tuple[int, int], list[Chunk]]
    dropped: dict[tuple[int, int], int]
    files: int
    cut: bool
    spent: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    opened: list[LogFile] = field(default_factory=list)
    inside: dict[tuple[int, int], int] = field(default_factory=dict)
    signals: dict[int, int] = field(default_factory=dict)
    tasks: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def damaged(self) -> bool:
        """Whether something in them was found damaged while it was read."""
        return any(log.damaged for log in self.opened)


def open_logs(folder: Path, limit: int, problems: Problems, live: bool = False) -> Logs:
    """Open every *.log of a folder; ranks at or beyond `limit` are taken for damage.

    live: the job may be running.
    """
    logs = Logs({}, {}, 0, False)
    for file in files_in(folder, ".log"):
        try:
            log = LogFile(file, problems, live)
        except TraceError as error:
            problems.note(str(error))
            logs.cut = True
            continue
        logs.files += 1
        logs.opened.append(log)
        logs.cut |= log.cut
        _sort_chunks(log, limit, logs, problems)
    for key, chunks in logs.threads.items():
        logs.threads[key] = _in_order(key, chunks, problems)
        if logs.threads[key][-1].log.layout.ring_bytes:
            logs.threads[key] = _newest(logs.threads[key])
            continue
        serials = [-1, *(c.serial for c in logs.threads[key])]
        lost = serials[-1] - len(serials) + 2
        if lost:
            problems.note(f"rank {key[0]}: {lost} chunks of thread {key[1]} are missing")
            logs.cut = True
    return logs


def _sort_chunks(log: LogFile, limit: int, logs: Logs, problems: Problems) -> None:
    headers = log.headers
    used = np.flatnonzero(headers["magic"] == MAGIC)
    foreign = int((headers["magic"] != 0).sum()) - len(used)
    if foreign > 0:
        problems.note(f"{log.name}: {foreign} chunks are damaged and unread")
        logs.cut = True
    told = set(headers.dtype.names or ()) >= {f"{name}_ns" for name in SPENT}
    wild = int((headers["rank"][used].astype(np.int64) >= limit).sum())
    if wild:
        problems.note(f"{log.name}: {wild} chunks name a rank that does not exist; unread")
        logs.cut = True
    for index in used.tolist():
        head = headers[index]
        rank, thread = int(head["rank"]), int(head["thread"])
        if rank >= limit:
            continue
        key = (rank, thread)
        chunk = Chunk(log, index, int(head["serial"]), int(head["window"]) != 0, thread)
        logs.threads.setdefault(key, []).append(chunk)
        if chunk.live and {"inside", "signal"} <= set(headers.dtype.names or ()):
            logs.inside[key] = min(int(head["inside"]), len(INSIDE)) - 1
            if int(head["signal"]):
                logs.signals[rank] = int(head["signal"])
            if "task" in (headers.dtype.names or ()):
                logs.tasks[key] = int(head["task"])
        dropped = int(head["dropped"])
        if dropped < 1 << 48:
            logs.dropped[key] = max(logs.dropped.get(key, 0), dropped)
        else:
            problems.note(f"{log.name}: a chunk's count of dropped records is damaged")
        if told:
            spent = [int(head[f"{name}_ns"]) for name in SPENT]
            if all(0 <= ns < 1 << 62 for ns in spent):
                logs.spent[key] = list(map(max, spent, logs.spent.get(key, spent)))
            else:
                problems.note(f"{log.name}: a chunk's times are damaged")


def _in_order(key: tuple[int, int], chunks: list[Chunk], problems: Problems) -> list[Chunk]:
    """Sort by serial number; of a chunk and the live window it came from, keep the chunk."""
    best: dict[int, Chunk] = {}
    for chunk in chunks:
        known = best.get(chunk.serial)
        if known is None or (known.live and not chunk.live):
            best[chunk.serial] = chunk
        elif known.live == chunk.live:
            problems.note(f"rank {key[0]}: two chunks have the same number; the second is unread")
    return sorted(best.values(), key=lambda c: c.serial)


def _newest(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks of a ring, in order, behind the last gap: what is before is being lost."""
    first = len(chunks) - 1
    while first > 0 and chunks[first - 1].serial == chunks[first].serial - 1:
        first -= 1
    return chunks[first:]
