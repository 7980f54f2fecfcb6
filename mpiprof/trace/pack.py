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
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import MpiprofError, TraceError
from mpiprof.interface.installation import install_command
from mpiprof.trace import pack_codec
from mpiprof.trace.checksum import is_line_intact
from mpiprof.trace.layout import MAX_HEAD_BYTES, Layout, parse_layout

FILE_NAME = "trace.pack"
VERSION = 1
FORMAT_LINE = {"format": "mpiprof pack", "version": VERSION}
CACHE_BYTES = 1 << 27  # bytes of cached blocks; more if each thread needs one
LAST_LINE_BYTES = 256  # maximum bytes of the last line
MAX_FRAME_BYTES = 1 << 30  # maximum plausible bytes of a frame
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
class Entry:
    """A file's entry in the index."""

    name: str
    size: int
    chunk_bytes: int
    header_bytes: int
    together: int  # chunks per block
    at: int  # offset of the first frame
    # Bytes of its consecutive frames: the first chunk, the headers of all other chunks, the bytes
    # after the last whole chunk, and the blocks.
    lengths: list[int]

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
            self.members = [PackedFile(self, Entry(**row)) for row in index["files"]]
            block_bytes = (m.entry.together * m.entry.chunk_bytes for m in self.members)
            cached_blocks = CACHE_BYTES // max(block_bytes, default=CACHE_BYTES)
            # Threads are read side by side, so each needs one cached block.
            self.read_block = lru_cache(max(int(index["threads"]), cached_blocks))(_read_block)
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, RecursionError, import_zstd().ZstdError):
            raise TraceError(f"{path}: damaged or truncated, so it cannot be read") from None

    def _read_index(self) -> dict[str, Any]:
        with self.path.open("rb") as file:
            first = file.readline(LAST_LINE_BYTES).rstrip(b"\n")
            if not is_line_intact(first) or json.loads(first)["format"] != FORMAT_LINE["format"]:
                raise ValueError("no pack")
            if json.loads(first)["version"] > VERSION:
                remedy = "update mpiprof to read it"
                raise TraceError(f"{self.path}: packed by a newer mpiprof; {remedy}")
            file.seek(max(file.seek(0, os.SEEK_END) - LAST_LINE_BYTES, 0))
            last = file.read().rpartition(b"\n{")[2].rstrip(b"\n")
            if not is_line_intact(b"{" + last):
                raise ValueError("no end")
            where = json.loads(b"{" + last)
        content = self.read_frame(where["index"], where["bytes"], MAX_FRAME_BYTES)
        index: dict[str, Any] = json.loads(content)
        return index

    def read_frame(self, offset: int, length: int, largest: int) -> bytes:
        """Return a frame's content; OSError if it is damaged or exceeds `largest`."""
        with self.path.open("rb", buffering=0) as file:
            packed = os.pread(file.fileno(), length, offset)
        reader = import_zstd().ZstdDecompressor()
        with contextlib.suppress(import_zstd().ZstdError, EOFError):
            content: bytes = reader.decompress(packed, largest + 1)
            if len(packed) == length and len(content) <= largest and reader.eof:
                return content
        raise OSError(errno.EIO, "a part of the pack is damaged")


class PackedFile:
    """A file in a pack, and its content (see File and Content in trace/files.py)."""

    def __init__(self, pack: Pack, entry: Entry) -> None:
        self.pack, self.entry = pack, entry
        self.name, self.size = entry.name, entry.size
        ends = entry.at + np.cumsum([0, *entry.lengths])
        self.starts: list[int] = ends.tolist()
        blocks = -(-max(entry.chunk_count - 1, 0) // entry.together)
        if len(entry.lengths) != 3 + blocks or not 0 <= entry.header_bytes < entry.chunk_bytes:
            raise ValueError("an impossible entry")

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
    return pack_codec.join_columns(bodies, file.layout.record, count).reshape(-1).data
