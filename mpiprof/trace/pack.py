"""A pack: the logs and tables of a trace in one file, compressed without loss.

    line             {"format": "mpiprof pack", "version": 1, "check": ...}
    frames of zstd   each with zstd's checksum of its content
    index            one more frame of JSON: number of threads with logs, and files (see Entry)
    line             {"index": offset of that frame, "bytes": its length, "check": ...}

A log is divided into its own chunks (trace/log.py). One frame has all chunk headers, so that a
trace can be opened without decompressing all of it. The chunk bodies are in blocks of several
chunks. A block is stored by column (trace/pack_codec.py) if that restores it exactly. Other files
are divided into pieces.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import MpiprofError, TraceError
from mpiprof.interface.installation import install_command
from mpiprof.interface.untrusted_files import MAX_LOG_BYTES, open_file
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace import pack_codec
from mpiprof.trace.checksum import is_line_intact
from mpiprof.trace.layout import MAX_HEAD_BYTES, Layout, parse_layout
from mpiprof.trace.validation import check_integer, check_list, check_object, check_text

FILE_NAME = "trace.pack"
VERSION = 1
FORMAT_LINE = {"format": "mpiprof pack", "version": VERSION}
CACHE_BYTES = 1 << 27  # bytes of cached blocks; more if each thread needs one
LAST_LINE_BYTES = 256  # maximum bytes of the last line
MAX_FRAME_BYTES = 1 << 30  # maximum plausible bytes of a frame, and of its content
MAX_CHUNKS = 1 << 22  # of a log, packed or plain
PLAIN_BLOCK, COLUMNS_BLOCK = b"\0", b"\1"  # first byte of a block


@cache
def import_zstd() -> Any:
    """Return Python's zstd module, or its backport; raises MpiprofError if neither is installed."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise MpiprofError(
                f"packed traces require the package backports.zstd: {install_command('pack')}"
            ) from None
    return zstd


@dataclass(frozen=True)
class PackedEntry:
    """A file's entry in the index; raises ValueError for values that no writer stores."""

    name: str
    size: int
    chunk_bytes: int
    header_bytes: int
    together: int  # chunks per block
    at: int  # offset of the first frame
    # Bytes of its consecutive frames: the first chunk, the headers of all other chunks, the bytes
    # after the last whole chunk, and the blocks.
    lengths: list[int]

    def __post_init__(self) -> None:
        """Check the values, because they select sizes in memory."""
        check_text(self.name)
        check_integer(self.size, 0, MAX_LOG_BYTES)
        check_integer(self.chunk_bytes, 1, MAX_FRAME_BYTES)
        check_integer(self.header_bytes, 0, self.chunk_bytes - 1)
        check_integer(self.together, 1)
        check_integer(self.at, 0)
        check_list(self.lengths, partial(check_integer, low=0, high=MAX_FRAME_BYTES))
        further_chunks = max(self.chunk_count - 1, 0)
        block_bytes = min(self.together, further_chunks) * self.chunk_bytes
        if len(self.lengths) != 3 + -(-further_chunks // self.together):
            raise ValueError("an impossible number of frames")
        if max(further_chunks * self.header_bytes, block_bytes) > MAX_FRAME_BYTES:
            raise ValueError("an impossible size")

    @property
    def chunk_count(self) -> int:
        """Number of whole chunks, including the first."""
        return self.size // self.chunk_bytes


class Pack:
    """An opened pack; raises TraceError if its index is unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            index = self._read_index()
            entries = check_list(index["files"], lambda row: PackedEntry(**check_object(row)))
            self.members = [PackedFile(self, entry) for entry in entries]
            block_bytes = (m.entry.together * m.entry.chunk_bytes for m in self.members)
            cached_blocks = CACHE_BYTES // max(block_bytes, default=CACHE_BYTES)
            # Threads are read side by side, so each needs one cached block.
            threads = check_integer(index["threads"], 0)
            self.read_block = lru_cache(max(threads, cached_blocks))(_read_block)
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, RecursionError, import_zstd().ZstdError):
            raise TraceError(f"{path}: damaged or truncated, so it cannot be read") from None

    def _read_index(self) -> dict[str, Any]:
        with os.fdopen(open_file(self.path, MAX_LOG_BYTES), "rb") as file:
            first = file.readline(LAST_LINE_BYTES).rstrip(b"\n")
            if not is_line_intact(first) or parse_json(first)["format"] != FORMAT_LINE["format"]:
                raise ValueError("no pack")
            if parse_json(first)["version"] > VERSION:
                remedy = "update mpiprof to read it"
                raise TraceError(f"{self.path}: packed by a newer mpiprof; {remedy}")
            file.seek(max(file.seek(0, os.SEEK_END) - LAST_LINE_BYTES, 0))
            last = file.read().rpartition(b"\n{")[2].rstrip(b"\n")
            if not is_line_intact(b"{" + last):
                raise ValueError("no end")
            where = parse_json(b"{" + last)
        length = check_integer(where["bytes"], 0, MAX_FRAME_BYTES)
        content = self.read_frame(check_integer(where["index"], 0), length, MAX_FRAME_BYTES)
        return check_object(parse_json(content))

    def read_frame(self, offset: int, length: int, largest: int) -> bytes:
        """Return a frame's content; OSError if it is damaged or exceeds `largest`."""
        with os.fdopen(open_file(self.path, MAX_LOG_BYTES), "rb", buffering=0) as file:
            packed = os.pread(file.fileno(), length, offset)
        reader = import_zstd().ZstdDecompressor()
        with contextlib.suppress(import_zstd().ZstdError, EOFError):
            content: bytes = reader.decompress(packed, largest + 1)
            if len(packed) == length and len(content) <= largest and reader.eof:
                return content
        raise OSError(errno.EIO, "a part of the pack is damaged")


class PackedFile:
    """A file in a pack, and its content (see File and Content in trace/files.py)."""

    def __init__(self, pack: Pack, entry: PackedEntry) -> None:
        self.pack, self.entry = pack, entry
        self.name, self.size = entry.name, entry.size
        ends = entry.at + np.cumsum([0, *entry.lengths])
        self.starts: list[int] = ends.tolist()

    @contextlib.contextmanager
    def open(self) -> Iterator[PackedFile]:
        """Yield this object, which reads the packed bytes."""
        yield self

    def read_frame(self, number: int, size: int) -> bytes:
        """Return the content of one of the file's frames; OSError unless it has this size."""
        content = self.pack.read_frame(self.starts[number], self.entry.lengths[number], size)
        if len(content) != size:
            raise OSError(errno.EIO, "a part of the pack is damaged")
        return content

    @cached_property
    def _first_chunk(self) -> bytes:
        return self.read_frame(0, min(self.entry.chunk_bytes, self.size))

    @cached_property
    def _chunk_headers(self) -> bytes:
        return self.read_frame(1, max(self.entry.chunk_count - 1, 0) * self.entry.header_bytes)

    @cached_property
    def _trailing_bytes(self) -> bytes:
        whole = max(self.entry.chunk_count, 1) * self.entry.chunk_bytes
        return self.read_frame(2, max(self.size - whole, 0))

    @cached_property
    def layout(self) -> Layout:
        """Layout of the log."""
        return parse_layout(self._first_chunk[:MAX_HEAD_BYTES], self.name)

    def is_intact(self, offset: int, size: int) -> bool:
        """Return whether the blocks of these bytes are intact."""
        entry = self.entry
        first, last = offset // entry.chunk_bytes, (offset + size - 1) // entry.chunk_bytes
        chunks = range(max(first, 1), min(last + 1, entry.chunk_count))
        blocks = {(chunk - 1) // entry.together for chunk in chunks}
        return all(self.pack.read_block(self, block) is not None for block in blocks)

    def read(self, view: Any, offset: int) -> int:
        """Fill a view, with zeros for damaged blocks, and return the number of bytes."""
        done = 0
        while done < len(view) and offset + done < self.size:
            part = self._read_part(offset + done, len(view) - done)
            view[done : done + len(part)] = part
            done += len(part)
        return done

    def _read_part(self, offset: int, most: int) -> memoryview | bytes:
        """Return at least one and at most `most` bytes from an offset on."""
        entry = self.entry
        chunk, at = divmod(offset, entry.chunk_bytes)
        if chunk == 0:
            return memoryview(self._first_chunk)[at : at + most]
        if chunk >= entry.chunk_count:
            at = offset - max(entry.chunk_count, 1) * entry.chunk_bytes
            return memoryview(self._trailing_bytes)[at : at + most]
        if at < entry.header_bytes:
            most = min(most, entry.header_bytes - at)
            at += (chunk - 1) * entry.header_bytes
            return memoryview(self._chunk_headers)[at : at + most]
        body = entry.chunk_bytes - entry.header_bytes
        number, within = divmod(chunk - 1, entry.together)
        most = min(most, entry.chunk_bytes - at)
        at += within * body - entry.header_bytes
        block = self.pack.read_block(self, number)
        return bytes(most) if block is None else block[at : at + most]


def _read_block(file: PackedFile, number: int) -> memoryview | None:
    """Return the bodies of a block's chunks, or None if they are damaged."""
    entry = file.entry
    count = min(entry.together, entry.chunk_count - 1 - number * entry.together)
    try:
        content = file.read_frame(3 + number, count * (entry.chunk_bytes - entry.header_bytes) + 1)
    except OSError:
        return None
    bodies = memoryview(content)[1:]
    if content[:1] == PLAIN_BLOCK:
        return bodies
    record = file.layout.record
    if not pack_codec.is_encodable(record, entry.chunk_bytes - entry.header_bytes):
        return None
    return pack_codec.join_columns(bodies, record, count).reshape(-1).data
