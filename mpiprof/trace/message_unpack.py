"""Unpacks packed chunks of messages and intervals (core/python_api/message_unpack.c).

core/tracefile/message_pack.h has a picture of the bytes. They may be damaged or hostile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.interface.installation import load_library
from mpiprof.trace.types import Array
from mpiprof.trace.writer import RECORD_TYPE

ROOM = 1 << 14  # records that are unpacked at a time, so that they remain in the cache


class Unpacker(ctypes.Structure):
    """The state between two passes, as message_unpack.c describes it."""

    _fields_ = (
        ("bytes", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("length", "at")),
        ("records", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room", "count")),
        ("pack", ctypes.c_void_p),
    )


class PackedRecords:
    """The records of one packed chunk; `is_damaged` is set when its bytes make no sense."""

    def __init__(self, content: Array, room: int = ROOM) -> None:
        """Prepare to unpack the bytes (uint8); room: most records at a time."""
        self._content = np.ascontiguousarray(content, np.uint8)
        self._records: Array = np.zeros(room, RECORD_TYPE)
        self._pack = np.zeros(_find_state_bytes(), np.uint8)
        self._state = Unpacker(
            bytes=self._content.ctypes.data,
            length=len(self._content),
            records=self._records.ctypes.data,
            room=room,
            pack=self._pack.ctypes.data,
        )
        call_library("message_unpack_begin", ctypes.byref(self._state))

    @property
    def is_damaged(self) -> bool:
        """Whether the bytes read so far end in an impossible record."""
        return int(self._state.at) < 0

    def __iter__(self) -> Iterator[Array]:
        """Yield the next records, which are valid until the following ones."""
        while True:
            call_library("message_unpack_next", ctypes.byref(self._state))
            if self._state.count == 0:
                return
            yield self._records[: self._state.count]


@cache
def _find_state_bytes() -> int:
    function = load_library("libmpiprof-delays.so").message_unpack_state_bytes
    function.restype = ctypes.c_int64
    return int(function())
