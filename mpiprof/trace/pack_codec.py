"""Transposes records into columns that compress well, and back without loss.

A record's time becomes the gap since the previous record and the duration. A sequence number
becomes the difference from the previous one. The result is compressed one byte position at a time:
all first bytes of a column, all second bytes, and so on. Each is a zstd block with separate
statistics. Arithmetic wraps around, so that damaged records are restored exactly too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.trace.types import Array

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
TIMES = {"enter_ns", "exit_ns"}


def is_encodable(record: np.dtype[Any], body: int) -> bool:
    """Return whether a chunk's body has only whole records, and a record only its fields."""
    sizes = [record[name].itemsize for name in record.names or ()]
    whole = sum(sizes) == record.itemsize and body % record.itemsize == 0
    wide = all(record[name].itemsize == 8 for name in TIMES)
    return whole and wide and set(sizes) <= UNSIGNED.keys()


def split_columns(bodies: Array, record: np.dtype[Any]) -> list[bytes]:
    """Return the bytes of each column of the chunks' bodies (uint8, chunks x bytes)."""
    columns = _column_views(record, bodies)
    enter, exit_ = columns["enter_ns"], columns["exit_ns"]
    # 0 for an open call, else the duration plus one.
    spans = np.where(exit_ == 0, np.uint64(0), exit_ - enter + np.uint64(1))
    exits = enter + _decode_durations(spans)
    columns = {name: column.copy() for name, column in columns.items()}
    columns["enter_ns"][:, 1:] -= exits[:, :-1]
    columns["exit_ns"] = spans
    columns["sequence"][:, 1:] -= _column_views(record, bodies)["sequence"][:, :-1]
    return [
        position.tobytes()
        for column in columns.values()
        for position in np.ascontiguousarray(column).view(np.uint8).reshape(-1, column.itemsize).T
    ]


def join_columns(content: bytes | memoryview, record: np.dtype[Any], chunks: int) -> Array:
    """Return the bodies (uint8, chunks x bytes) from the joined result of `split_columns`."""
    out: Array = np.empty((chunks, len(content) // chunks), np.uint8)
    columns, at = _column_views(record, out), 0
    each = out.shape[1] // record.itemsize * chunks
    decoded = {}
    for name, column in columns.items():
        width = column.itemsize
        part = np.frombuffer(content, np.uint8, each * width, at).reshape(width, each)
        at += each * width
        decoded[name] = _join_bytes(part).view(column.dtype).reshape(column.shape)
    enter, spans = decoded["enter_ns"], decoded["exit_ns"]
    durations = _decode_durations(spans)
    enter[:, 1:] += durations[:, :-1]
    columns["enter_ns"][:] = np.cumsum(enter, axis=1, out=enter)
    durations += enter
    durations[spans == 0] = 0
    columns["exit_ns"][:] = durations
    for name in columns.keys() - TIMES:
        values = decoded[name]
        if name == "sequence":
            np.cumsum(values, axis=1, dtype=values.dtype, out=values)
        columns[name][:] = values
    return out


def _join_bytes(parts: Array) -> Array:
    # Most numbers are small, so whole rows of bytes are 0 and are skipped.
    joined: Array = np.zeros(parts.shape[::-1], np.uint8)
    for position, part in enumerate(parts):
        if part.any():
            joined[:, position] = part
    return joined


def _decode_durations(spans: Array) -> Array:
    return np.asarray(np.maximum(spans, np.uint64(1)) - np.uint64(1))


def _column_views(record: np.dtype[Any], bodies: Array) -> dict[str, Array]:
    """Return views of the bodies, one per field: unsigned numbers, chunks x records."""
    names, size = list(record.names or ()), record.itemsize
    formats = [UNSIGNED[record[name].itemsize] for name in names]
    offsets = [record.fields[name][1] for name in names] if record.fields else []
    plain = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    records = bodies.view(plain)
    return {name: records[name] for name in names}
