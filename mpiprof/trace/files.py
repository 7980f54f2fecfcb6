"""The logs and tables of a trace folder, which stand as files of their own or in a pack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from mpiprof.trace.pack import NAME, Pack


class Content(Protocol):
    """The bytes of an open file."""

    size: int

    def read(self, view: Any, offset: int) -> int:
        """Fill a writable view from an offset on; returns how many bytes there were."""


class File(Protocol):
    """A log or a table, wherever it stands; its methods raise OSError where it can't be read."""

    name: str

    def open(self) -> Any:
        """Return a context manager that gives the Content."""

    def is_whole(self, offset: int, size: int) -> bool:
        """Return whether so many bytes can be read as they were written, where that can be told."""


class _Opened:
    def __init__(self, handle: int) -> None:
        self.handle, self.size = handle, os.fstat(handle).st_size

    def read(self, view: Any, offset: int) -> int:
        return os.preadv(self.handle, [view], offset)


class Plain:
    """A file of its own; opened anew each time, as a trace may have more than a process may."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name

    @contextmanager
    def open(self) -> Iterator[Content]:
        """Give its bytes."""
        with self.path.open("rb", buffering=0) as file:
            yield _Opened(file.fileno())

    def is_whole(self, offset: int, size: int) -> bool:  # noqa: ARG002
        """Return True: the file itself has no sums."""
        return True


class Kept:
    """The bytes of a file as they were once."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content, self.size = name, content, len(content)

    @contextmanager
    def open(self) -> Iterator[Content]:
        """Give its bytes."""
        yield self

    def read(self, view: Any, offset: int) -> int:
        """Fill a view from an offset on; returns how many bytes there were."""
        part = memoryview(self.content)[offset : offset + len(view)]
        view[: len(part)] = part
        return len(part)

    def is_whole(self, offset: int, size: int) -> bool:  # noqa: ARG002
        """Return True: there are no sums."""
        return True


def files_in(folder: Path, ending: str) -> list[File]:
    """Return the files of a folder whose names have an ending, by name; TraceError if damaged.

    What is in a pack hides the files that it was made of: who packed may have been killed before
    they were removed.
    """
    found: dict[str, File] = {path.name: Plain(path) for path in folder.glob(f"*{ending}")}
    packed = folder / NAME
    if packed.exists():
        found |= {m.name: m for m in Pack(packed).members if m.name.endswith(ending)}
    return [found[name] for name in sorted(found)]


def read_bytes(content: Content, offset: int, size: int) -> bytes:
    """Return some bytes; fewer where the file ends before."""
    room = bytearray(size)
    return bytes(room[: content.read(memoryview(room), offset)])


def content_of(file: File) -> bytes:
    """Return all of a file."""
    with file.open() as content:
        return read_bytes(content, 0, content.size)
