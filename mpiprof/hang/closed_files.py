"""Names of the files in a folder that were closed after writing, in order, from Linux's inotify."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

IN_CLOSE_WRITE = 0x8  # when the last process with an open file closes it
EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
BUFFER_BYTES = 1 << 16


class ClosedFiles:
    """Queue of the closed files of a folder; stays empty where the kernel cannot watch it."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None)
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """End the collection."""
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def watch(self, folder: Path) -> None:
        """Begin to collect the files that processes on this machine close in a folder."""
        if self.descriptor >= 0:
            self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), IN_CLOSE_WRITE)

    def read_names(self) -> list[str]:
        """Return the names of the files closed since the last call, the first one first."""
        names = []
        while buffer := self._read():
            at = 0
            while at < len(buffer):
                length = EVENT.unpack_from(buffer, at)[-1]
                at += EVENT.size
                names.append(os.fsdecode(buffer[at : at + length].split(b"\0", 1)[0]))
                at += length
        return names

    def _read(self) -> bytes:
        try:
            return os.read(self.descriptor, BUFFER_BYTES)
        except OSError:  # no further event, or no queue
            return b""
