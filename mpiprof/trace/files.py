"""Logs and tables of a trace folder, as plain files or in a pack."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from mpiprof.interface.untrusted_files import MAX_LOG_BYTES, MAX_TABLES_BYTES, open_file
from mpiprof.interface.untrusted_text import clean_text
from mpiprof.trace.pack import FILE_NAME, Pack, PackedFile


class _PlainContent:
    """The bytes of an open plain file."""

    def __init__(self, handle: int) -> None:
        self.handle, self.size = handle, os.fstat(handle).st_size

    def read(self, view: Any, offset: int) -> int:
        """Fill a view from an offset on, and return the number of bytes read."""
        return os.preadv(self.handle, [view], offset)


class PlainFile:
    """A plain file, opened anew each time: a trace may have more files than descriptors."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, clean_text(path.name)

    @contextmanager
    def open(self) -> Iterator[_PlainContent]:
        """Open the file and yield its bytes."""
        handle = open_file(self.path, MAX_LOG_BYTES)
        try:
            yield _PlainContent(handle)
        finally:
            os.close(handle)

    def is_intact(self, offset: int, size: int) -> bool:  # noqa: ARG002
        """Return True, because a plain file has no checksums."""
        return True


class MemoryFile:
    """A copy of a file's bytes in memory."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content, self.size = name, content, len(content)

    @contextmanager
    def open(self) -> Iterator[MemoryFile]:
        """Yield the copy."""
        yield self

    def read(self, view: Any, offset: int) -> int:
        """Fill a view from an offset on, and return the number of bytes read."""
        part = memoryview(self.content)[offset : offset + len(view)]
        view[: len(part)] = part
        return len(part)

    def is_intact(self, offset: int, size: int) -> bool:  # noqa: ARG002
        """Return True, because a copy has no checksums."""
        return True


DiskFile: TypeAlias = PlainFile | PackedFile


class GrowingFile:
    """A file of a running process, without the records that it adds after their chunk is read.

    So all passes over the file find the same records. windows: the chunks to which it adds records.
    """

    def __init__(self, file: DiskFile, chunk_bytes: int, windows: set[int]) -> None:
        self.file, self.name, self.chunk_bytes = file, file.name, chunk_bytes
        self.filled: dict[int, int | None] = dict.fromkeys(windows)  # bytes, None before a read

    @contextmanager
    def open(self) -> Iterator[_GrowingContent]:
        """Open the file and yield its bytes."""
        with self.file.open() as content:
            yield _GrowingContent(self, content)

    def is_intact(self, offset: int, size: int) -> bool:
        """Return whether the checksums of the file match, if it has some."""
        return self.file.is_intact(offset, size)


class _GrowingContent:
    """The bytes of an open file up to those that its windows had when they were first read."""

    def __init__(self, file: GrowingFile, content: _PlainContent | PackedFile) -> None:
        self.file, self.content, self.size = file, content, content.size

    def read(self, view: Any, offset: int) -> int:
        """Fill a view from an offset in a chunk on, and return the number of bytes read."""
        chunk, begin = divmod(offset, self.file.chunk_bytes)
        if chunk not in self.file.filled:
            return self.content.read(view, offset)
        filled = self._find_filled(chunk)  # before the read, which may see more
        count = self.content.read(view, offset)
        shown = min(max(filled - begin, 0), count)
        view[shown:count] = bytes(count - shown)
        return count

    def _find_filled(self, chunk: int) -> int:
        filled = self.file.filled[chunk]
        if filled is None:
            size = self.file.chunk_bytes
            filled = len(read_bytes(self.content, chunk * size, size).rstrip(b"\0"))
            self.file.filled[chunk] = filled
        return filled


# Files raise OSError if they are unreadable. Their content has a size and `read`.
File: TypeAlias = DiskFile | MemoryFile | GrowingFile
Content: TypeAlias = _PlainContent | MemoryFile | PackedFile | _GrowingContent


def list_files(folder: Path, ending: str) -> list[DiskFile]:
    """Return the files of a folder with a suffix, by name; TraceError if the pack is damaged."""
    files: dict[str, DiskFile] = {path.name: PlainFile(path) for path in folder.glob(f"*{ending}")}
    packed = folder / FILE_NAME
    if os.path.lexists(packed):
        # The pack hides its files, which a killed packing process has not removed.
        files |= {m.name: m for m in Pack(packed).members if m.name.endswith(ending)}
    return [files[name] for name in sorted(files)]


def read_bytes(content: Content, offset: int, size: int) -> bytes:
    """Return some bytes; fewer if the file ends earlier."""
    buffer = bytearray(size)
    return bytes(buffer[: content.read(memoryview(buffer), offset)])


def read_content(file: File) -> bytes:
    """Return the whole content of a file; raises OSError if it is larger than tables can be."""
    with file.open() as content:
        if content.size > MAX_TABLES_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), file.name)
        return read_bytes(content, 0, content.size)
