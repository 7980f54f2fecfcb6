"""Binary event logs: a self-describing first chunk (trace/layout.py), then chunks of records.

Files are read in pieces, not mapped. A mapped page counts as memory of the reader, and a file that
a live recorder truncates would kill the reader (SIGBUS).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace.checksum import compute_checksum
from mpiprof.trace.files import (
    Content,
    DiskFile,
    File,
    GrowingFile,
    MemoryFile,
    PlainFile,
    read_bytes,
)
from mpiprof.trace.layout import MAX_HEAD_BYTES, SIGNAL, parse_layout
from mpiprof.trace.message_unpack import PackedRecords
from mpiprof.trace.pack import MAX_CHUNKS
from mpiprof.trace.types import CALL, COMPLETION, INTERVAL, MESSAGE_CALL, START, Array, Problems
from mpiprof.trace.writer import RECORD_TYPE

START_RECORDS = 8  # at the begin of a chunk, of which one mostly has a time
IS_TIMED = np.zeros(256, np.bool_)  # by kind of a record with a begin
IS_TIMED[[CALL, START, COMPLETION, MESSAGE_CALL, INTERVAL]] = True
READ_CHUNKS = 8  # that are read at a time, so that their records remain in the cache
MAX_RING = 1 << 16  # chunks of a log of rings, which is copied into memory
COPY_ATTEMPTS = 20  # attempts to copy a ring that is overwritten meanwhile


class LogFile:
    """One open log: its layout, and its chunk headers (structured array, chunk 0 first).

    live: whether its processes may be writing. A ring is then copied at once, before it is
    overwritten. Of other logs, later records of the open windows are hidden.
    """

    def __init__(self, file: DiskFile, problems: Problems, live: bool = False) -> None:
        self.file: File = file
        self.source, self.name = file, file.name  # source: present state
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
                elif live:
                    windows = set(np.flatnonzero(self.headers["window"]).tolist())
                    self.file = GrowingFile(file, self.layout.chunk_bytes, windows)
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        # Whether C can read its records: not from a pack or a copy, and with the present fields.
        self.is_plain = (
            isinstance(file, PlainFile)
            and not isinstance(self.file, MemoryFile)
            and self.layout.record == RECORD_TYPE
        )
        self.damaged = False  # set while chunks are read
        self.packed_begins: dict[int, int | None] = {}  # as `begins`, of packed chunks
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

    def read_packed(self, chunk: int, length: int) -> Iterator[Array]:
        """Yield the records of a packed chunk, 1 x records, which are valid until the next.

        length: bytes of the records. Damage ends the records, and is noted.
        """
        layout = self.layout
        raw, size = np.zeros(layout.chunk_bytes, np.uint8), 0
        try:
            with self.file.open() as content:
                size = content.read(raw.data, chunk * layout.chunk_bytes)
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        if not self._check(chunk, raw[:size]):
            return
        packed = PackedRecords(raw[layout.header_bytes : size][:length])
        for records in packed:
            yield records[None]
        if packed.is_damaged:
            self._intact[chunk], self.damaged = False, True

    @cached_property
    def first_kinds(self) -> Array:
        """Kind of the first record of each chunk that is not packed, 0 without records."""
        kinds: Array = self._starts["kind"][:, 0]
        return kinds

    @cached_property
    def begins(self) -> dict[int, int | None]:
        """First begin of a call or an interval in chunks that are not packed, by chunk.

        Times are on the node's clock, None if unknown. Chunks that begin with other records are
        missing at first.
        """
        is_timed = IS_TIMED.take(self._starts["kind"], mode="clip")
        first = is_timed.argmax(1)
        index = np.flatnonzero(is_timed.any(1))
        times = self._starts["enter_ns"][index, first[index]]
        return dict(zip(index.tolist(), times.tolist(), strict=True))

    @cached_property
    def _starts(self) -> Array:
        """First records of each chunk, chunks x records; zeros after the end of the file."""
        layout = self.layout
        starts: Array = np.zeros((self.chunks, min(START_RECORDS, layout.capacity)), layout.record)
        view, width = starts.view(np.uint8).reshape(-1).data, starts[:1].nbytes
        try:
            with self.file.open() as content:
                for chunk in range(1, self.chunks):
                    offset = chunk * layout.chunk_bytes + layout.header_bytes
                    content.read(view[chunk * width : (chunk + 1) * width], offset)
        except OSError as error:
            raise TraceError(f"{self.name}: cannot be read: {error.strerror}") from None
        return starts

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
