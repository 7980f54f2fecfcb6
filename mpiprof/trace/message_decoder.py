"""Decodes the records of messages and intervals of all ranks (core/python_api/message_decode.c).

The times of the columns are on the joint clock, and shapes are indices into Tables.shapes.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.clock import Clock
from mpiprof.trace.malloc_tuning import request_huge_pages
from mpiprof.trace.types import END_NS, START_NS, Array, Int
from mpiprof.trace.writer import RECORD_TYPE

MAP_NORESERVE = 0x4000  # mmap.MAP_NORESERVE from Python 3.13 on
MIN_HUGE_BYTES = 1 << 26  # less memory would be large in proportion to a page of 2 MiB
DISTANCE_MAX = 4  # records of a thread that the decoder keeps
COUNTERS = (
    *("gap_ns", "processor_ns", "queue_ns", "voluntary", "involuntary", "instructions", "cycles"),
    *("minor_faults", "major_faults", "untracked_ns", "gc_ns"),
    *("first_processor", "last_processor", "other_threads_ns"),
)
PRESSURES = (
    *("pressure_since_ns", "throttled_ns"),
    *("processor_pressure_ns", "io_pressure_ns", "memory_pressure_ns"),
)
# A message of a call, as core/python_api/messages.h describes it.
MESSAGE = np.dtype(
    [
        *((name, np.int64) for name in ("posted_ns", "bytes")),
        *((name, np.int32) for name in ("call", "partner")),
        ("number", np.uint32),
        *((name, np.int32) for name in ("tag", "shape")),
        ("flags", np.uint8),
        ("unused", np.uint8, 3),
    ]
)
# The columns of each table, in the order of `struct decoder`. `row` is the row of the interval.
COLUMNS: dict[str, dict[str, Any]] = {
    "calls": {
        **dict.fromkeys(("enter_ns", "exit_ns", "parts", "polled_ns"), np.int64),
        **dict.fromkeys(("rank", "thread", "shape", "epoch", "lock", "polls"), np.int32),
    },
    "parts": {"messages": MESSAGE},
    "intervals": {
        **dict.fromkeys(("begin_ns", "end_ns"), np.int64),
        **dict.fromkeys(("rank", "thread", "before_shape", "after_shape"), np.int32),
    },
    "counters": dict.fromkeys(("row", *COUNTERS), np.int64),
    "pressures": dict.fromkeys(("row", *PRESSURES), np.int64),
}


class Decoder(ctypes.Structure):
    """The columns, and the rank that is decoded, as message_decode.c describes them."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rank", "shape_count", "low_ns", "high_ns")),
        *((name, ctypes.c_int64) for name in ("from_ns", "until_ns", "margin_ns")),
        ("complete_until_ns", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("origin_ns", "offset_ns")),
        ("drift", ctypes.c_double),
        ("shapes", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("calls", "parts", "owned_parts", "intervals")),
        *((name, ctypes.c_int64) for name in ("counters", "pressures")),
        *((name, ctypes.c_int64) for name in ("damaged_calls", "damaged_intervals")),
        *((f"{table}_room", ctypes.c_int64) for table in COLUMNS),
        ("last", ctypes.c_uint8 * (DISTANCE_MAX * RECORD_TYPE.itemsize)),
        *(
            (f"{table}_{name}", ctypes.c_void_p)
            for table, columns in COLUMNS.items()
            for name in columns
        ),
    )


class MessageDecoder:
    """Decodes the records of one rank after the other into tables of columns."""

    def __init__(
        self,
        rows: Sequence[int],
        begin_ns: int = START_NS,
        end_ns: int = END_NS,
        margin_ns: int = 0,
        complete_until_ns: int = END_NS,
    ) -> None:
        """Prepare tables with these capacities; raises OSError if that is too much memory.

        Rows that are not needed take no memory. Records beyond the capacity are ignored, intervals
        that begin before or after the given times, and calls that end or begin `margin_ns` before
        or after. Calls that begin after `complete_until_ns` are ignored, too, and intervals that
        end after it, because the logs of other ranks have ended.
        """
        self._tables = {
            table: {name: _reserve(count, dtype) for name, dtype in columns.items()}
            for (table, columns), count in zip(COLUMNS.items(), rows, strict=True)
        }
        self._state = Decoder(
            from_ns=begin_ns,
            until_ns=end_ns,
            margin_ns=margin_ns,
            complete_until_ns=complete_until_ns,
            **{f"{table}_room": count for table, count in zip(COLUMNS, rows, strict=True)},
            **{
                f"{table}_{name}": column.ctypes.data
                for table, columns in self._tables.items()
                for name, column in columns.items()
            },
        )

    def add_rank(
        self,
        rank: int,
        threads: Iterable[Iterable[Array]],
        shapes: Int,
        clock: Clock,
        times: tuple[int, int],
    ) -> tuple[bool, bool]:
        """Decode a rank, and return whether calls and whether intervals are damaged.

        threads: records of each thread in blocks. shapes: index of each of the rank's shapes.
        times: bounds of the times on the rank's clock.
        """
        state, of_rank = self._state, np.ascontiguousarray(shapes, np.int32)
        state.rank, state.shape_count, state.shapes = rank, len(of_rank), of_rank.ctypes.data
        state.low_ns, state.high_ns = times
        state.origin_ns, state.offset_ns, state.drift = (
            clock.origin_ns,
            clock.offset_ns,
            clock.drift,
        )
        state.damaged_calls = state.damaged_intervals = 0
        for blocks in threads:
            for block in blocks:
                arguments = _to_present_layout(block)
                call_library("message_decode_records", ctypes.byref(state), *arguments)
            call_library("message_decode_end", ctypes.byref(state))
        return state.damaged_calls > 0, state.damaged_intervals > 0

    def take(self, table: str) -> dict[str, Array]:
        """Return the columns of all ranks; call it once."""
        rows = getattr(self._state, table)
        return {name: column[:rows] for name, column in self._tables.pop(table).items()}


def _reserve(count: int, dtype: Any) -> Array:
    """Return an array that takes memory only for elements that are used."""
    size = max(count * np.dtype(dtype).itemsize, 1)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    if size >= MIN_HUGE_BYTES:
        request_huge_pages(memory)
    return np.frombuffer(memory, dtype, count)


def count_rows(blocks: Iterable[Array]) -> list[int]:
    """Return the largest possible numbers of rows of each table; blocks: of chunks x records."""
    rows = np.zeros(len(COLUMNS), np.int64)
    for block in blocks:
        call_library("message_decode_count", *_to_present_layout(block), rows)
    return rows.tolist()


def _to_present_layout(block: Array) -> tuple[Array, int, int, int]:
    """Return records in the layout of the recorder's source, and the parameters of blocks in C.

    block: chunks x records, of any layout.
    """
    records = block
    if block.dtype != RECORD_TYPE:
        records = np.zeros(block.shape, RECORD_TYPE)
        for name in RECORD_TYPE.names or ():
            records[name] = block[name]
    return records, *records.shape, records.strides[0]
