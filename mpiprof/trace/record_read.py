"""Reads calls without extensions from a log, for many ranks at a time.

Source: core/python_api/record_read.c. It reads logs that are plain (log.LogFile).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.chunks import Chunk
from mpiprof.trace.files import PlainFile
from mpiprof.trace.log import LogFile
from mpiprof.trace.rank_arrays import Block
from mpiprof.trace.stream import Piece, Source, take_choices
from mpiprof.trace.types import CALL, Int
from mpiprof.trace.writer import RECORD_TYPE

NOT_PLAIN = -1
# Columns of calls, and the fields of the struct in record_read.c, in their order.
CALL_COLUMNS: dict[str, Any] = {
    "sequence": np.uint32,
    **dict.fromkeys(("enter_ns", "exit_ns"), np.int64),
    "shape": np.int32,
    "outside_ns": np.int64,
    "choice": np.uint8,
}
CALLS: dict[str, Any] = {
    **dict.fromkeys(("file", "ranks"), int),
    **dict.fromkeys(("rank_end", "offset", "count", "earliest_ns", "latest_ns"), np.int64),
    **dict.fromkeys(("shape_end", "joint_shape"), np.int64),
    "records": RECORD_TYPE,
    "calls": np.int64,
    **CALL_COLUMNS,
}


def read_calls(
    log: LogFile, sources: Sequence[Source], pieces: Sequence[Sequence[Piece]]
) -> tuple[list[int], Block]:
    """Return the number of calls in the pieces of each rank, and all calls, rank after rank.

    The number is NOT_PLAIN, and the calls are missing, if a rank has other records or impossible
    ones. Shapes are joint ids; times are those of the node's clock.
    """
    chunk, first, stop = np.array(list(itertools.chain(*pieces)), np.int64).reshape(-1, 3).T
    piece_end = np.cumsum([len(of_rank) for of_rank in pieces])
    counts = np.add.reduceat(stop - first, np.concatenate([[0], piece_end[:-1]]))
    room = int(counts.sum())
    maps = [source.shape_map for source in sources]
    columns = {name: np.empty(room, dtype) for name, dtype in CALL_COLUMNS.items()}
    calls = np.empty(len(pieces), np.int64)
    values: dict[str, Any] = {
        "ranks": len(pieces),
        "rank_end": piece_end,
        "offset": _find_offsets(log, chunk) + first * RECORD_TYPE.itemsize,
        "count": stop - first,
        "earliest_ns": [source.earliest_ns for source in sources],
        "latest_ns": [source.latest_ns for source in sources],
        "shape_end": np.cumsum([len(shape_map) for shape_map in maps]),
        "joint_shape": np.concatenate(maps),
        "records": np.empty(int(counts.max()), RECORD_TYPE),
        "calls": calls,
    }
    with _open_file(log) as file:
        call_library("record_read_calls", Struct(CALLS, {"file": file} | values | columns))
    count = int(calls.clip(0).sum())
    sequence, enter_ns, exit_ns, shape, outside_ns, choice = (
        column[:count] for column in columns.values()
    )
    block = Block(sequence, enter_ns, exit_ns, shape, outside_ns, choice=take_choices(choice))
    return calls.tolist(), block


def find_calls(log: LogFile, chunks: Sequence[int], times_ns: Sequence[int]) -> list[int]:
    """Return the first call of each chunk that does not begin before a time of its node's clock.

    It is NOT_PLAIN if the chunk has other records.
    """
    count, first = log.layout.capacity, np.empty(len(chunks), np.int64)
    offsets = _find_offsets(log, np.array(chunks, np.int64))
    times, room = np.array(times_ns, np.int64), np.empty(count, RECORD_TYPE)
    with _open_file(log) as file:
        call_library("record_read_find", file, len(chunks), offsets, count, times, room, first)
    return first.tolist()


def find_call(chunk: Chunk, time_ns: int) -> int:
    """Return what `find_calls` does, for any chunk."""
    records = chunk.read()
    if not bool((records["kind"] == CALL).all()):
        return NOT_PLAIN
    return int(np.searchsorted(records["enter_ns"], time_ns))


def _find_offsets(log: LogFile, chunks: Int) -> Int:
    """Return where the records of chunks begin in the file."""
    return chunks * log.layout.chunk_bytes + log.layout.header_bytes


@contextlib.contextmanager
def _open_file(log: LogFile) -> Iterator[int]:
    """Open the file of a log for reading in C."""
    assert isinstance(log.source, PlainFile)
    try:
        with log.source.open() as content:
            yield content.handle
    except OSError as error:
        raise TraceError(f"{log.name}: cannot be read: {error.strerror}") from None
