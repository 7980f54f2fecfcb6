"""Whether the processes of a node call anything: by the open windows of their logs.

A window changes whenever its thread enters or leaves a call, also one without a record. Only what
has grown and the windows are read, so that a look costs little however long the logs are.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace.layout import LONGEST_HEAD, MAGIC, parse_layout

UNUSED_EVERY = 20  # looks, after which places are looked at again that have long been unused
FEW = 64


class Activity:
    """The logs of a node's ranks, looked at again and again."""

    def __init__(self) -> None:
        self.logs: dict[Path, _Log] = {}
        self.seen = 0

    def has_changed(self, paths: Iterable[Path]) -> bool:
        """Return whether something was called since the last time."""
        seen = 0
        for path in paths:
            with contextlib.suppress(OSError, TraceError):  # it is being begun
                if path not in self.logs:
                    self.logs[path] = _Log(path)
                seen = zlib.crc32(self.logs[path].look().to_bytes(4, "little"), seen)
        changed, self.seen = seen != self.seen, seen
        return changed


class _Log:
    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb", buffering=0) as file:
            self.layout = parse_layout(file.read(LONGEST_HEAD), path.name)
        self.known = 1  # chunks, the first of which is the file's head
        self.windows: list[int] = []
        self.unused: list[int] = []
        self.looks = 0

    def look(self) -> int:
        """Return a sum that changes with what is written to the log."""
        size = self.layout.chunk_bytes
        with self.path.open("rb", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            self._find(file.fileno(), length // size)
            found = zlib.crc32(length.to_bytes(8, "little"))
            for chunk in self.windows:
                found = zlib.crc32(os.pread(file.fileno(), size, chunk * size), found)
        return found

    def _find(self, descriptor: int, chunks: int) -> None:
        """Look for windows among chunks that are new, or that were unused."""
        self.looks += 1
        places = list(range(self.known, chunks))
        if len(self.unused) < FEW or self.looks % UNUSED_EVERY == 0:
            places += self.unused
            self.unused = []
        for chunk in places:
            offset = chunk * self.layout.chunk_bytes
            head = np.frombuffer(
                os.pread(descriptor, self.layout.header_bytes, offset), self.layout.header
            )[0]
            if int(head["magic"]) != MAGIC:
                self.unused.append(chunk)
            elif int(head["window"]):
                self.windows.append(chunk)
        self.known = max(self.known, chunks)
