"""Writes logs and tables from arrays, as the recorder does."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from mpiprof.interface.format_units import find_runs
from mpiprof.trace.layout import MAGIC, OUTSIDE_CLASSES
from mpiprof.trace.types import (
    CALL,
    COMPLETION,
    EXTENSION,
    INTERVAL_COUNTS,
    INTERVAL_PRESSURE,
    INTERVAL_THREADS,
    INTERVAL_TIMES,
    LONGEST_CALL,
    RECEIVED,
    RECEIVED_PART,
    SENT,
    SENT_PART,
    SUMMARY,
    Array,
    Int,
)

CHUNK_BYTES, HEADER_BYTES, RECORD_BYTES = 65536, 64, 32
SIGNAL_AT = 2048  # offset of the time of the first fatal signal
RECORDS_PER_CHUNK = (CHUNK_BYTES - HEADER_BYTES) // RECORD_BYTES
RECORD_FIELDS = [
    ["enter_ns", "<i8", 0],
    ["exit_ns", "<i8", 8],
    ["sequence", "<u4", 16],
    ["shape", "<u4", 20],
    ["outside_ns", "<u4", 24],
    ["thread", "<u2", 28],
    ["kind", "u1", 30],
    ["choice", "u1", 31],
]
HEADER_FIELDS = [
    ["magic", "<u4", 0],
    ["rank", "<u4", 4],
    ["thread", "<u2", 8],
    ["window", "u1", 10],
    ["content", "u1", 11],
    ["check", "<u4", 12],
    ["serial", "<u4", 16],
    ["inside", "<u2", 20],
    ["signal", "<u2", 22],
    ["dropped", "<u8", 24],
]
# For a log with the time in unrecorded calls (trace.layout.OUTSIDE_CLASSES).
EXTENDED_HEADER_FIELDS = [
    *HEADER_FIELDS,
    *([f"{name}_ns", "<i8", 32 + 8 * i] for i, name in enumerate(OUTSIDE_CLASSES)),
]
RECORD_TYPE = np.dtype([(n, t) for n, t, _ in RECORD_FIELDS])
# Records that belong to the call or interval after them.
PRECEDING = (
    *(SENT_PART, RECEIVED_PART),
    *(INTERVAL_TIMES, INTERVAL_COUNTS, INTERVAL_PRESSURE, INTERVAL_THREADS),
)
KINDS = (
    *("empty", "call", "start", "completion", "extension", "summary", "statistics"),
    *("sent", "received", "message_call", "message_count"),
)


def make_head_chunk(
    has_outside: bool = False, ring_bytes: int = 0, signal_ns: int = 0, siblings: int = 0
) -> bytes:
    """Return chunk 0 of a log.

    has_outside: whether chunks have the time in unrecorded calls. ring_bytes: size of a rank's
    ring, 0 if the log has all events. signal_ns: time of the first fatal signal, 0 if there is
    none. siblings: number of the launcher's children at that time, 0 if it is unknown.
    """
    described = {
        "format": "mpiprof log",
        "version": 1,
        "chunk_bytes": CHUNK_BYTES,
        "header_bytes": HEADER_BYTES,
        "record_bytes": RECORD_BYTES,
        "record": RECORD_FIELDS,
        "header": EXTENDED_HEADER_FIELDS if has_outside else HEADER_FIELDS,
        "kinds": KINDS,
    }
    described |= {"ring_bytes": ring_bytes} if ring_bytes else {}
    described |= {"signal_at": SIGNAL_AT} if signal_ns else {}
    head = (json.dumps(described).encode() + b"\n").ljust(SIGNAL_AT, b"\0")
    signal = signal_ns.to_bytes(8, "little") + siblings.to_bytes(8, "little")
    return (head + signal).ljust(CHUNK_BYTES, b"\0")


def make_chunks(
    records: Array,
    rank: int,
    thread: int,
    serial: int,
    window: bool,
    inside: int = 0,
    signal: int = 0,
    spent: Sequence[int] = (),
    content: int = 0,
) -> bytes:
    """Return records as chunks from a serial number on; the last is the live window if `window`.

    inside: mark of the unrecorded call that the thread is in (index into trace.layout.CALL_CLASSES,
    from 1). signal: the signal that ended the process. spent: ns in the calls of
    trace.layout.OUTSIDE_CLASSES. content: trace.chunks.MESSAGES for messages.
    """
    count = max(-(-len(records) // RECORDS_PER_CHUNK), 1)
    fields = EXTENDED_HEADER_FIELDS if spent else HEADER_FIELDS
    headers = np.zeros(count, [(name, form) for name, form, _ in fields])
    for name, ns in zip(OUTSIDE_CLASSES, spent, strict=False):
        headers[f"{name}_ns"] = ns
    headers["magic"], headers["rank"], headers["thread"] = MAGIC, rank, thread
    headers["content"] = content
    headers["serial"] = serial + np.arange(count)
    if window:
        headers["window"][-1] = 1
        headers["inside"][-1] = inside
        headers["signal"][-1] = signal
    padded = np.zeros(count * RECORDS_PER_CHUNK, RECORD_TYPE)
    padded[: len(records)] = records
    chunks = np.zeros((count, CHUNK_BYTES), np.uint8)
    chunks[:, : headers.itemsize] = headers.view(np.uint8).reshape(count, -1)
    chunks[:, HEADER_BYTES:] = padded.view(np.uint8).reshape(count, -1)
    return chunks.tobytes()


def pad_messages(records: Array) -> Array:
    """Insert empty records, so that no call, sum or interval is divided between two chunks.

    A call follows its messages, the extensions of a sum follow the sum, and an interval follows its
    counters.
    """
    kind = records["kind"]
    begins_next = np.append(kind[1:], SUMMARY) != EXTENSION
    ends = np.flatnonzero(begins_next & ~np.isin(kind, PRECEDING)) + 1
    pieces, begin = [], 0
    while len(records) - begin > RECORDS_PER_CHUNK:
        fitting = np.searchsorted(ends, begin + RECORDS_PER_CHUNK, side="right")
        end = int(ends[fitting - 1])
        empty = np.zeros(begin + RECORDS_PER_CHUNK - end, RECORD_TYPE)
        pieces += [records[begin:end], empty]
        begin = end
    return np.concatenate([*pieces, records[begin:]])


def make_sums(shapes: Int, sums: Int) -> Array:
    """Return the records of sums of messages of some shapes.

    sums: a column for each shape: calls, ns, bytes sent, bytes received, ns of the longest call.
    """
    calls, total_ns, sent, received, longest_ns = sums
    records = np.zeros((len(shapes), 4), RECORD_TYPE)
    records["kind"] = [SUMMARY, EXTENSION, EXTENSION, EXTENSION]
    records["sequence"] = [0, SENT, RECEIVED, LONGEST_CALL]
    records["shape"][:, 0], records["enter_ns"][:, 0] = shapes, total_ns
    records["exit_ns"] = np.array([calls, sent, received, longest_ns]).T
    return records.ravel()


def make_totals(records: Array) -> Array:
    """Return the records of the totals of all calls by shape, as beside a ring."""
    calls = records[(records["kind"] == CALL) | (records["kind"] == COMPLETION)]
    shapes, index = np.unique(calls["shape"], return_inverse=True)
    elapsed = calls["exit_ns"].astype(np.int64) - calls["enter_ns"]
    sums = np.zeros((5, len(shapes)), np.int64)
    np.add.at(sums[0], index, calls["kind"] == CALL)
    np.add.at(sums[1], index, elapsed)
    np.maximum.at(sums[4], index, elapsed)
    totals = make_sums(shapes.astype(np.int64), sums).reshape(len(shapes), -1)
    np.maximum.at(totals["sequence"][:, 0], index, calls["sequence"])
    return totals.ravel()


def make_runs(ranks: list[int]) -> list[list[int]]:
    """Return ranks as (first, last, step) runs, as the tables have them."""
    return [[first, last, 1] for first, last in find_runs(ranks)]
