"""Point-to-point messages: the calls that took long, with their messages, and sums of all calls.

They are in separate chunks of the logs, so reading collectives does not touch them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

import numpy as np

from mpiprof.trace.clock import Clock
from mpiprof.trace.log import Chunk
from mpiprof.trace.records import Records
from mpiprof.trace.types import (
    EXTENSION,
    LONGEST_CALL,
    MESSAGE_CALL,
    RECEIVED,
    RECEIVED_PART,
    SENT,
    SENT_PART,
    SUMMARY,
    Array,
    Bool,
    Int,
)

# Flags of a message in a call (core/record/message.h).
UNSURE, WILDCARD, COMPLETE, UNKNOWN_PEER, CANCELLED = 1, 2, 4, 8, 16
IS_MESSAGE = np.isin(np.arange(256), (MESSAGE_CALL, SENT_PART, RECEIVED_PART))  # by kind
SUM_RECORDS = 4  # a summary and its extensions


@dataclass(frozen=True)
class MessageCalls:
    """Logged calls of one rank by thread and time, and the messages of each; one array per field.

    enter_ns, exit_ns: on the joint clock; exit_ns is 0 if the call is open. shape: index into
    Tables.shapes. thread: number. parts: number of messages, of which some may be missing below.

    Messages, in the order of their calls: call (index of the call), received (or sent), posted_ns,
    bytes (-1 if unknown), number (equal on both sides; no order), tag, part_shape (of the call that
    posted it), flags.
    """

    enter_ns: Int
    exit_ns: Int
    shape: Int
    thread: Int
    parts: Int
    call: Int
    received: Bool
    posted_ns: Int
    bytes: Int
    number: Int
    tag: Int
    part_shape: Int
    flags: Int


def read_calls(trace: Records, rank: int, newest: bool = False) -> MessageCalls:
    """Return the logged message calls of one rank; newest: only of each thread's last chunk."""
    threads_of = trace.message_chunks(rank)
    read = (chunks[-1:] if newest else chunks for chunks in threads_of)
    events = (chunks for chunks in read if not chunks[0].is_summed())
    records = [_read_thread(trace, chunks) for chunks in events]
    threads = np.repeat(np.arange(len(records)), [len(of_thread) for of_thread in records])
    if not records:
        empty: dict[str, Any] = {f.name: np.zeros(0, np.int64) for f in fields(MessageCalls)}
        return MessageCalls(**(empty | {"received": np.zeros(0, np.bool_)}))
    table = np.concatenate(records)
    kind = table["kind"]
    is_part = (kind == SENT_PART) | (kind == RECEIVED_PART)
    calls, parts = np.flatnonzero(kind == MESSAGE_CALL), np.flatnonzero(is_part)
    owner = np.cumsum(kind == MESSAGE_CALL)[parts]
    # The parts of a call that was replaced while it was open have no call behind them.
    owned = owner < len(calls)
    owned[owned] &= threads[parts[owned]] == threads[calls[owner[owned]]]
    shapes = np.append(trace.tables.shape_map(rank), -1)
    shape = shapes.take(table["shape"], mode="clip")
    possible = _are_possible(trace, rank, table[calls], shape[calls])
    owned[owned] &= possible[owner[owned]] & (shape[parts[owned]] >= 0)
    parts, owner = parts[owned], (np.cumsum(possible) - 1)[owner[owned]]
    calls = calls[possible]
    part, call = table[parts], table[calls]
    clock = trace.clock_of(rank)
    exits = _to_global(clock, call["exit_ns"])
    return MessageCalls(
        _to_global(clock, call["enter_ns"]),
        np.where(call["exit_ns"] == 0, 0, exits),
        shape[calls],
        call["thread"].astype(np.int64),
        call["sequence"].astype(np.int64),
        owner,
        part["kind"] == RECEIVED_PART,
        _to_global(clock, part["enter_ns"]),
        part["exit_ns"].astype(np.int64),
        part["sequence"].astype(np.int64),
        part["outside_ns"].astype(np.uint32).view(np.int32).astype(np.int64),
        shape[parts],
        part["choice"].astype(np.int64),
    )


def read_sums(trace: Records, rank: int) -> dict[str, Int]:
    """Return the sums of one rank's message calls, one element per shape.

    shape (index into Tables.shapes), calls, total_ns, longest_ns, and sent and received in bytes.
    """
    columns: dict[str, list[Array]] = {
        name: [] for name in ("shape", "calls", "total_ns", "sent", "received", "longest_ns")
    }
    shapes = np.append(trace.tables.shape_map(rank), -1)
    for chunks in trace.message_chunks(rank):
        for chunk in filter(Chunk.is_summed, chunks):
            records = read_intact(trace, [chunk])
            at = np.flatnonzero(records["kind"] == SUMMARY)
            at = at[at + SUM_RECORDS <= len(records)]
            extensions = [records[at + i] for i in range(1, SUM_RECORDS)]
            whole = np.ones(len(at), np.bool_)
            for extension, code in zip(extensions, (SENT, RECEIVED, LONGEST_CALL), strict=True):
                whole &= (extension["kind"] == EXTENSION) & (extension["sequence"] == code)
            at, extensions = at[whole], [e[whole] for e in extensions]
            columns["shape"].append(shapes.take(records["shape"][at], mode="clip"))
            columns["calls"].append(records["exit_ns"][at])
            columns["total_ns"].append(records["enter_ns"][at])
            for name, extension in zip(("sent", "received", "longest_ns"), extensions, strict=True):
                columns[name].append(extension["exit_ns"])
    joined = {
        name: np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)
        for name, parts in columns.items()
    }
    known = joined["shape"] >= 0
    return {name: values[known] for name, values in joined.items()}


def read_intact(trace: Records, chunks: Sequence[Chunk]) -> Array:
    """Return the records of a thread's chunks without damaged chunks, which are noted."""
    intact = [chunk for chunk in chunks if chunk.log.is_intact(chunk.index)]
    if len(intact) < len(chunks):
        trace.problems.add("a chunk of messages has a wrong checksum and is ignored")
    read = []
    for log, of_log in groupby(intact, key=lambda chunk: chunk.log):
        read.append(log.read([(chunk.index, 0, log.layout.capacity) for chunk in of_log]))
    return np.concatenate(read) if read else chunks[0].read(0)


def _read_thread(trace: Records, chunks: list[Chunk]) -> Array:
    """Return the records of calls and messages of one thread."""
    records = read_intact(trace, chunks)
    result: Array = records[IS_MESSAGE[records["kind"]]]
    return result


def _are_possible(trace: Records, rank: int, calls: Array, shape: Int) -> Bool:
    """Return which calls have possible times and a known shape, and note if some have not."""
    low, high = trace.possible_times(rank)
    enter, exit_ = calls["enter_ns"], calls["exit_ns"]
    possible: Bool = (enter >= low) & (enter <= high) & (exit_ <= high)
    possible &= ((exit_ == 0) | (exit_ >= enter)) & (shape >= 0)
    if not possible.all():
        trace.message_chunks(rank)[0][0].log.damaged = True
        trace.problems.add(f"rank {rank}: damaged records of messages are ignored")
    return possible


def _to_global(clock: Clock, times: Array) -> Int:
    result: Int = clock.to_global(times.astype(np.int64))
    return result
