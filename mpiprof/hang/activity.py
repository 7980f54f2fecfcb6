"""Detects calls by the processes of a node, from the open windows of their logs.

A window changes whenever its thread enters or leaves a call, including an unrecorded call. Only new
chunks and windows are read, so that a check is cheap however long the logs are.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.interface.untrusted_files import MAX_LOG_BYTES, open_file
from mpiprof.trace.layout import MAGIC, MAX_HEAD_BYTES, parse_layout

# Number of checks after which chunks that have long been unused are inspected again.
UNUSED_CHECK_INTERVAL = 20
FEW_CHUNKS = 64


class Activity:
    """The logs of a node's ranks, inspected repeatedly."""

    def __init__(self) -> None:
        self.logs: dict[Path, _LogActivity] = {}
        self.seen = 0

    def has_changed(self, paths: Iterable[Path]) -> bool:
        """Return whether any call was made since the last check."""
        checksum = 0
        for path in paths:
            with contextlib.suppress(OSError, TraceError):  # a log being created
                if path not in self.logs:
                    self.logs[path] = _LogActivity(path)
                of_log = self.logs[path].compute_checksum().to_bytes(4, "little")
                checksum = zlib.crc32(of_log, checksum)
        changed, self.seen = checksum != self.seen, checksum
        return changed


class _LogActivity:
    def __init__(self, path: Path) -> None:
        self.path = path
        with os.fdopen(open_file(path, MAX_LOG_BYTES), "rb", buffering=0) as file:
            self.layout = parse_layout(file.read(MAX_HEAD_BYTES), path.name)
        self.known = 1  # chunks, the first of which is the file's description
        self.windows: list[int] = []
        self.unused: list[int] = []
        self.looks = 0

    def compute_checksum(self) -> int:
        """Return a checksum that changes with any write to the log."""
        size = self.layout.chunk_bytes
        with os.fdopen(open_file(self.path, MAX_LOG_BYTES), "rb", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            self._find(file.fileno(), length // size)
            checksum = zlib.crc32(length.to_bytes(8, "little"))
            for chunk in self.windows:
                checksum = zlib.crc32(os.pread(file.fileno(), size, chunk * size), checksum)
        return checksum

    def _find(self, descriptor: int, chunks: int) -> None:
        """Find windows among chunks that are new, or that were unused."""
        self.looks += 1
        offsets = list(range(self.known, chunks))
        if len(self.unused) < FEW_CHUNKS or self.looks % UNUSED_CHECK_INTERVAL == 0:
            offsets += self.unused
            self.unused = []
        for chunk in offsets:
            offset = chunk * self.layout.chunk_bytes
            content = os.pread(descriptor, self.layout.header_bytes, offset)
            head = np.frombuffer(content, self.layout.header)[0]
            if int(head["magic"]) != MAGIC:
                self.unused.append(chunk)
            elif int(head["window"]):
                self.windows.append(chunk)
        self.known = max(self.known, chunks)
