"""The binary event logs: a self-describing head, then chunks of fixed-size records.

The names, types and offsets of a record come from the first line of the file, never from
constants here, so that old logs stay readable. Files are read piece by piece into arrays rather
than mapped: a mapped page counts towards our memory, and a file that a live recorder cuts shorter
would kill the reader (SIGBUS).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace.check import chunk_sum, line_is_sound
from mpiprof.trace.types import CALL, COMPLETION, STATISTICS, SUMMARY, Array, Problems

BAD_LAYOUT = (
    ValueError,
    LookupError,
    TypeError,
    RecursionError,
    ArithmeticError,
    SyntaxError,  # which NumPy raises for some type names
)
MAGIC = 0x6863504D
LONGEST_HEAD = 1 << 14  # bytes of the first line
COPIES = 20  # of a ring that turns while it is read
VERSION = 2  # of which each chunk that is written no more has a sum
FIELDS = ("enter_ns", "exit_ns", "sequence", "shape", "outside_ns", "thread", "kind", "choice")
NARROW = ("sequence", "shape", "outside_ns", "thread", "kind")  # unsigned, 32 bits at most
HEADER_FIELDS = ("magic", "rank", "thread", "window", "serial", "dropped")
# Further fields of a header, absent from old logs: a thread's time in calls without a record.
SPENT = ("point_to_point", "completion", "one_sided", "files")


@dataclass(frozen=True)
class Layout:
    """How one log file is laid out: sizes in bytes, and the NumPy types of header and record."""

    chunk_bytes: int
    header_bytes: int
    record: np.dtype[Any]
    header: np.dtype[Any]
    checked: bool = False
    ring_bytes: int = 0  # what a rank's newest events take; 0: the log holds all

    @property
    def check_at(self) -> int:
        """Where in a header the sum of its chunk stands."""
        assert self.header.fields is not None
        return int(self.header.fields["check"][1])

    @property
    def records(self) -> int:
        """Records in a chunk."""
        return (self.chunk_bytes - self.header_bytes) // self.record.itemsize


def _dtype(fields: Any, size: int, needed: tuple[str, ...]) -> np.dtype[Any]:
    names = [str(f[0]) for f in fields]
    formats = [np.dtype(str(f[1])) for f in fields]
    offsets = [int(f[2]) for f in fields]
    if missing := [n for n in needed if n not in names]:
        raise ValueError("no field " + ", ".join(missing))
    used: set[int] = set()
    for fmt, offset in zip(formats, offsets, strict=True):
        if fmt.kind not in "iu" or offset < 0 or offset + fmt.itemsize > size:
            raise ValueError("a field that is no integer inside the record")
        covered = set(range(offset, offset + fmt.itemsize))
        if covered & used:
            raise ValueError("fields that overlap")
        used |= covered
    for name, fmt in zip(names, formats, strict=True):
        if name in NARROW and (fmt.kind != "u" or fmt.itemsize > 4):
            raise ValueError(f"{name} that is no small number")
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def parse_layout(head: bytes, name: str) -> Layout:
    """Read the JSON line at the head of the log called `name`; TraceError when it is none."""
    if not head.startswith(b"{"):
        raise TraceError(f"{name}: not an mpiprof log (its first line is no description)")
    line, newline, _ = head.partition(b"\n")
    if not newline:
        raise TraceError(f"{name}: cut off inside its first line; nothing in it can be read")
    try:
        return _layout(line)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from None
    except BAD_LAYOUT as error:
        raise TraceError(
            f"{name}: damaged first line ({str(error)[:80]}); record it anew"
        ) from None


@lru_cache(maxsize=16)
def _layout(line: bytes) -> Layout:
    """Return what a first line describes: the same in all logs of a trace."""
    sound = line_is_sound(line)
    if sound is False:
        raise ValueError("its sum is another")
    described = json.loads(line)
    if described["format"] != "mpiprof log":
        raise TraceError(f"not an mpiprof log but {described['format']!r:.40}")
    if int(described["version"]) > VERSION:
        raise TraceError("written by a newer mpiprof; update mpiprof to read it")
    chunk = int(described["chunk_bytes"])
    header_bytes = int(described["header_bytes"])
    record_bytes = int(described["record_bytes"])
    if not (1 <= record_bytes <= 4096 and header_bytes >= 1 and chunk <= 1 << 26):
        raise ValueError("sizes that cannot be")
    if header_bytes + record_bytes > chunk:
        raise ValueError("chunks too small for one record")
    record = _dtype(described["record"], record_bytes, FIELDS)
    checked = int(described["version"]) >= 2
    if checked and sound is None:
        raise ValueError("it has no sum")
    needed = (*HEADER_FIELDS, "check") if checked else HEADER_FIELDS
    header = _dtype(described["header"], header_bytes, needed)
    ring = int(described.get("ring_bytes", 0))
    if not 0 <= ring < 1 << 48:
        raise ValueError("a ring that cannot be")
    return Layout(chunk, header_bytes, record, header, checked, ring)


class LogFile:
    """One open log: its layout, and the headers of its chunks (structured array, chunk 0 first).

    live: its processes may be writing. A ring is then read at once, before it turns.
    """

    def __init__(self, path: Path, problems: Problems, live: bool = False) -> None:
        self.path = path
        self.copy: bytes | None = None
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                head = file.read(LONGEST_HEAD)
                if head[:1] in (b"", b"\0") and not head.strip(b"\0"):
                    raise TraceError(f"{path.name}: empty; its process is starting, or it died")
                self.layout = parse_layout(head, path.name)
                self.chunks, rest = divmod(size, self.layout.chunk_bytes)
                self.headers = self._read_headers(file.fileno())
                if live and self.layout.ring_bytes:
                    self._copy(file.fileno())
        except OSError as error:
            raise TraceError(f"{path.name}: cannot be read: {error.strerror}") from None
        self.damaged = False  # found while it was read
        self._sound: dict[int, bool] = {}
        self.cut = rest != 0
        if self.cut:
            problems.note(
                f"{path.name}: cut off inside a chunk; {rest} bytes at its end are unread"
            )

    def _read_headers(self, handle: int) -> Array:
        """Read the head of every chunk but the first, which is the file's.

        Not through a map: the kernel would map what lies around each head too, the whole file.
        """
        layout = self.layout
        headers: Array = np.zeros(self.chunks, layout.header)
        width = layout.header_bytes
        view = headers.view(np.uint8).data
        for chunk in range(1, self.chunks):
            room = view[chunk * width : (chunk + 1) * width]
            os.preadv(handle, [room], chunk * layout.chunk_bytes)
        return headers

    def _copy(self, handle: int) -> None:
        """Keep all that is there, as it was between two turns; what turns all the time is left out.

        While one is under way, what it moves stands in both places, or in the old one alone.
        """
        size = self.layout.chunk_bytes
        changed = np.zeros(0, np.bool_)
        for _ in range(COPIES):
            self.copy = os.pread(handle, self.chunks * size, 0)
            self.chunks = len(self.copy) // size
            before = self.headers[: self.chunks]
            self.headers = self._read_headers(handle)
            changed = (before["magic"] != self.headers["magic"]) | (
                before["serial"] != self.headers["serial"]
            )
            if not changed.any():
                return
        self.headers["magic"][changed] = 0

    def _bytes(self, offset: int, length: int) -> bytes:
        """Return what stands somewhere in the file, as far as it goes; raises OSError."""
        if self.copy is not None:
            return self.copy[offset : offset + length]
        with self.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)

    def head(self, chunk: int) -> dict[str, int]:
        """Return the fields that a chunk's head holds now; none when it is gone."""
        layout = self.layout
        try:
            with self.path.open("rb", buffering=0) as file:
                head = os.pread(file.fileno(), layout.header_bytes, chunk * layout.chunk_bytes)
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
        if not self.layout.checked:
            return True
        if chunk not in self._sound:
            head = self.headers[chunk]
            known = int(head["check"])
            if known == 0:
                self._sound[chunk] = int(head["window"]) != 0
            else:
                size = self.layout.chunk_bytes
                try:
                    content = self._bytes(chunk * size, size)
                except OSError:
                    content = b""
                whole = len(content) == size and size % 8 == 0
                self._sound[chunk] = whole and chunk_sum(content, self.layout.check_at) == known
            self.damaged |= not self._sound[chunk]
        return self._sound[chunk]

    def read(self, pieces: list[tuple[int, int, int]]) -> Array:
        """Give records start..stop of some (chunk, start, stop) as one structured array.

        Shorter where the file has become shorter.
        """
        layout = self.layout
        width = layout.record.itemsize
        if self.copy is not None:
            places = [(c * layout.chunk_bytes + layout.header_bytes, a, b) for c, a, b in pieces]
            joined = b"".join(self.copy[at + a * width : at + b * width] for at, a, b in places)
            return np.frombuffer(bytearray(joined), layout.record)
        raw = np.empty(sum(stop - start for _, start, stop in pieces) * width, np.uint8)
        view, filled = raw.data, 0
        try:  # opened anew each time: a trace may have more files than a process may keep open
            with self.path.open("rb", buffering=0) as file:
                for chunk, start, stop in pieces:
                    offset = chunk * layout.chunk_bytes + layout.header_bytes + start * width
                    room = view[filled : filled + (stop - start) * width]
                    filled += os.preadv(file.fileno(), [room], offset) // width * width
        except OSError as error:
            raise TraceError(f"{self.path.name}: cannot be read: {error.strerror}") from None
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

    def is_summed(self) -> bool:
        """Whether it begins with totals: events stand in threads of their own."""
        first = self.log.read([(self.index, 0, 1)])
        return bool(len(first)) and int(first["kind"][0]) in (SUMMARY, STATISTICS)

    def moved_on(self) -> bool:
        """Whether a live window has been emptied for the next chunk since its head was read."""
        return self.live and self.log.copy is None and self.log.serial(self.index) != self.serial


@dataclass
class Logs:
    """All logs of a trace: chunks in order per (rank, thread), and what each thread dropped.

    spent: ns of each thread in the calls of SPENT; only of logs that tell.
    inside: the kind of call without a record that a thread is in, an index into SPENT; or -1.
    signals: the signal that ended a rank, where one was noted.
    """

    threads: dict[tuple[int, int], list[Chunk]]
    dropped: dict[tuple[int, int], int]
    files: int
    cut: bool
    spent: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    opened: list[LogFile] = field(default_factory=list)
    inside: dict[tuple[int, int], int] = field(default_factory=dict)
    signals: dict[int, int] = field(default_factory=dict)

    @property
    def damaged(self) -> bool:
        """Whether something in them was found damaged while it was read."""
        return any(log.damaged for log in self.opened)


def open_logs(folder: Path, limit: int, problems: Problems, live: bool = False) -> Logs:
    """Open every *.log of a folder; ranks at or beyond `limit` are taken for damage.

    live: the job may be running.
    """
    logs = Logs({}, {}, 0, False)
    for path in sorted(folder.glob("*.log"), key=str):
        try:
            log = LogFile(path, problems, live)
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
        problems.note(f"{log.path.name}: {foreign} chunks are damaged and unread")
        logs.cut = True
    told = set(headers.dtype.names or ()) >= {f"{name}_ns" for name in SPENT}
    wild = int((headers["rank"][used].astype(np.int64) >= limit).sum())
    if wild:
        problems.note(f"{log.path.name}: {wild} chunks name a rank that does not exist; unread")
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
            logs.inside[key] = min(int(head["inside"]), len(SPENT)) - 1
            if int(head["signal"]):
                logs.signals[rank] = int(head["signal"])
        dropped = int(head["dropped"])
        if dropped < 1 << 48:
            logs.dropped[key] = max(logs.dropped.get(key, 0), dropped)
        else:
            problems.note(f"{log.path.name}: a chunk's count of dropped records is damaged")
        if told:
            spent = [int(head[f"{name}_ns"]) for name in SPENT]
            if all(0 <= ns < 1 << 62 for ns in spent):
                logs.spent[key] = list(map(max, spent, logs.spent.get(key, spent)))
            else:
                problems.note(f"{log.path.name}: a chunk's times are damaged")


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
