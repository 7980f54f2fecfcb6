"""Writes a pack (trace/pack.py), and verifies that each block is restored exactly."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mpiprof.errors import MpiprofError, TraceError
from mpiprof.interface.output_files import create_file
from mpiprof.trace import pack, pack_codec
from mpiprof.trace.checksum import add_checksum
from mpiprof.trace.files import Content, File, PlainFile
from mpiprof.trace.layout import MAX_HEAD_BYTES, Layout, parse_layout
from mpiprof.trace.pack import PackedEntry, import_zstd
from mpiprof.trace.types import Array

COMPRESSION_LEVEL = 3  # higher levels gain 1 % and take ten times as long
PIECE_BYTES = 1 << 18  # chunk size of files other than logs
# Total chunks of the blocks that are read side by side, one block per thread.
MAX_CHUNKS_PER_BLOCK = 1 << 11
MAX_THREADS = 16  # maximum chunks of a block


def find_files(folder: Path, names: Sequence[str] = ()) -> list[PlainFile]:
    """Return the files of a folder that go into its pack: logs, tables, and files with a name."""
    endings = (".log", ".tables", *names)
    return [PlainFile(path) for end in endings for path in sorted(folder.glob(f"*{end}"))]


def remove(files: Sequence[PlainFile]) -> None:
    """Remove files that a pack has replaced."""
    for file in files:
        file.path.unlink(missing_ok=True)


def write(folder: Path, files: Sequence[File], threads: int, step: Callable[[int], None]) -> Path:
    """Write a folder's pack and return its path. The pack appears only when it is complete on disk.

    threads: number of logging threads that are read side by side. `step` receives the number of
    further bytes that are done.
    """
    packed = folder / pack.FILE_NAME
    for leftover in folder.glob(f".{pack.FILE_NAME}.*"):  # from a killed process
        leftover.unlink()
    unfinished = packed.with_name(f".{pack.FILE_NAME}.{os.getpid()}")
    try:
        # Users who can read all packed files can read the pack.
        modes = [file.path.stat().st_mode for file in files if isinstance(file, PlainFile)]
        with os.fdopen(create_file(unfinished, reduce(and_, modes, 0o666)), "wb") as file:
            writer = PackWriter(file, threads)
            for each in files:
                writer.add(each, step)
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(packed)
    except OSError as error:
        raise MpiprofError(f"{packed} cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()
    return packed


class PackWriter:
    """Writes a pack into a file; threads: number of threads read side by side."""

    def __init__(self, file: BinaryIO, threads: int) -> None:
        self.file, self.threads = file, max(threads, 1)
        self.entries: list[PackedEntry] = []
        self.at = 0
        self._write_bytes(add_checksum(json.dumps(pack.FORMAT_LINE).encode()) + b"\n")

    def _write_bytes(self, content: bytes) -> int:
        self.file.write(content)
        self.at += len(content)
        return len(content)

    def _write_frame(self, *parts: bytes) -> int:
        return self._write_bytes(compress_parts(*parts))

    def add(self, file: File, step: Callable[[int], None]) -> None:
        """Add a file; `step` receives the number of further bytes that are done."""
        with file.open() as content:
            layout = _find_layout(content, file.name)
            chunk = layout.chunk_bytes if layout else PIECE_BYTES
            header = layout.header_bytes if layout else 0
            record = layout.record if layout else None
            if record is not None and not pack_codec.is_encodable(record, chunk - header):
                record = None
            together = min(max(MAX_CHUNKS_PER_BLOCK // self.threads, 1), MAX_THREADS)
            size, begin = content.size, self.at
            chunks, full_bytes = size // chunk, max(size // chunk, 1) * chunk
            heads = b"".join(_read_bytes(content, c * chunk, header) for c in range(1, chunks))
            lengths = [
                self._write_frame(_read_bytes(content, 0, min(chunk, size))),
                self._write_frame(heads),
                self._write_frame(_read_bytes(content, full_bytes, max(size - full_bytes, 0))),
            ]
            step(min(size, chunk))
            for first in range(1, chunks, together):
                last = min(first + together, chunks)
                block = _read_bytes(content, first * chunk, (last - first) * chunk)
                bodies = np.frombuffer(block, "u1").reshape(-1, chunk)[:, header:]
                lengths.append(self._write_frame(*_block_parts(bodies, record)))
                step((last - first) * chunk)
        self.entries.append(PackedEntry(file.name, size, chunk, header, together, begin, lengths))

    def close(self) -> None:
        """Write the index, which completes the file."""
        at = self.at
        index = {"threads": self.threads, "files": [asdict(entry) for entry in self.entries]}
        length = self._write_frame(json.dumps(index).encode())
        end = json.dumps({"index": at, "bytes": length}).encode()
        self._write_bytes(b"\n" + add_checksum(end) + b"\n")


def compress_parts(*parts: bytes) -> bytes:
    """Return a zstd frame with a checksum, and separate statistics for each part."""
    zstd = import_zstd()
    kinds = zstd.CompressionParameter
    options = {kinds.compression_level: COMPRESSION_LEVEL, kinds.checksum_flag: 1}
    packer = zstd.ZstdCompressor(options=options)
    blocks = [packer.compress(part, packer.FLUSH_BLOCK) for part in parts]
    return b"".join([*blocks, packer.flush()])


def _find_layout(content: Content, name: str) -> Layout | None:
    """Return the layout of a log, or None for any other file."""
    try:
        return parse_layout(_read_bytes(content, 0, MAX_HEAD_BYTES), name)
    except TraceError:
        return None


def _read_bytes(content: Content, offset: int, size: int) -> bytes:
    """Return `size` bytes, fewer at the end of the file; OSError if the file was truncated."""
    buffer = bytearray(max(min(size, content.size - offset), 0))
    view, done = memoryview(buffer), 0
    while done < len(buffer):
        count = content.read(view[done:], offset + done)
        if count == 0:
            raise OSError(errno.EIO, "the file became shorter")
        done += count
    return bytes(buffer)


def _block_parts(bodies: Array, record: Any) -> list[bytes]:
    """Return the parts of a block: columns if they restore all bytes exactly, else the bodies."""
    bodies = np.ascontiguousarray(bodies)
    if record is not None:
        split = pack_codec.split_columns(bodies, record)
        if np.array_equal(pack_codec.join_columns(b"".join(split), record, len(bodies)), bodies):
            return [pack.COLUMNS_BLOCK, *split]
    return [pack.PLAIN_BLOCK, bodies.tobytes()]
