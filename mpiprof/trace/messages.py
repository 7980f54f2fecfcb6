"""Point-to-point messages: the calls that took long, with their messages, and sums of all calls.

They are in separate chunks of the logs, so reading collectives does not touch them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mpiprof.trace.chunks import Chunk, count_capacity
from mpiprof.trace.intervals import Intervals, make_intervals
from mpiprof.trace.message_decoder import COLUMNS, MessageDecoder, count_rows
from mpiprof.trace.records import Records
from mpiprof.trace.types import (
    END_NS,
    EXTENSION,
    LONGEST_CALL,
    RECEIVED,
    SENT,
    START_NS,
    SUMMARY,
    Array,
    Int,
    Int32,
)

# Flags of a message in a call (core/tracefile/event.h), and further ones of a message in a table
# (core/python_api/messages.h).
UNSURE, WILDCARD, COMPLETE, UNKNOWN_PEER, CANCELLED = 1, 2, 4, 8, 16
RECEIVED_FLAG, DOUBTFUL = 32, 64
IN_ORDER = DOUBTFUL  # of a received message: the number counts all messages of its source
ANY_SOURCE = 128
EXCLUSIVE, SHARED = 1, 2  # types of a lock (core/record/local_call.h)
RECORDED_FLAGS = RECEIVED_FLAG - 1 | ANY_SOURCE
SUM_RECORDS = 4  # a summary and its extensions


@dataclass(frozen=True)
class MessageCalls:
    """Logged calls of some ranks by rank, thread and time, and their messages; an array per field.

    rank, enter_ns, exit_ns: on the joint clock; exit_ns is 0 if the call is open. shape: index into
    Tables.shapes. thread: number. epoch: number of a MPI_Win_post or MPI_Win_start on its window, 0
    of other calls. lock: EXCLUSIVE or SHARED in calls that lock a window, else 0. parts: number of
    messages, of which some may be missing below.
    polls: number of calls in vain that the row contains. Such a row begins with the first of them
    and ends with the call that found something. polled_ns: begin of that call; the end of the row
    if no call found anything; 0 without calls in vain.
    messages: rows of message_decoder.MESSAGE in the order of their calls.
    """

    rank: Int32
    enter_ns: Int
    exit_ns: Int
    shape: Int32
    thread: Int32
    epoch: Int32
    lock: Int32
    polls: Int32
    polled_ns: Int
    parts: Int
    messages: Array


def read_message_logs(
    trace: Records,
    ranks: Sequence[int],
    newest: bool = False,
    span: tuple[int, int, int] = (START_NS, END_NS, 0),
) -> tuple[MessageCalls, Intervals]:
    """Return the logged message calls and intervals of some ranks, which one pass reads.

    newest: only of each thread's last chunk, also after the log of another rank has ended. span:
    begin and end of the times in which intervals begin, and how long before and after them calls
    are read.
    """
    until = None if newest else trace.complete_until_ns
    limits = *span, END_NS if until is None else until
    threads_of = {rank: _list_event_chunks(trace, rank, newest) for rank in ranks}
    every_thread = [chunks for threads in threads_of.values() for chunks in threads]
    decoder = _make_decoder(trace, every_thread, limits)
    for rank, threads in threads_of.items():
        blocks = (read_intact(trace, chunks) for chunks in threads)
        shapes, clock = trace.tables.shape_map(rank), trace.clock_of(rank)
        damage = decoder.add_rank(rank, blocks, shapes, clock, trace.possible_times(rank))
        for is_damaged, what in zip(damage, ("messages", "intervals"), strict=True):
            if is_damaged:
                threads[0][0].log.damaged = True
                trace.problems.add(f"rank {rank}: damaged records of {what} are ignored")
    calls = MessageCalls(**decoder.take("calls"), **decoder.take("parts"))
    return calls, make_intervals(decoder)


def _make_decoder(
    trace: Records, threads: Sequence[Sequence[Chunk]], limits: tuple[int, int, int, int]
) -> MessageDecoder:
    """Return a decoder of all records of some threads; limits: as MessageDecoder."""
    # Counting the rows of each table would require to read all records twice.
    most = count_capacity(itertools.chain.from_iterable(threads))
    try:
        return MessageDecoder([most] * len(COLUMNS), *limits)
    except OSError:
        every = (block for chunks in threads for block in read_intact(trace, chunks))
        return MessageDecoder(count_rows(every), *limits)


def _list_event_chunks(trace: Records, rank: int, newest: bool) -> list[list[Chunk]]:
    """Return the chunks of each thread of a rank without the threads of sums."""
    threads = (chunks[-1:] if newest else chunks for chunks in trace.message_chunks(rank))
    return [chunks for chunks in threads if not chunks[0].is_summed()]


def read_sums(trace: Records, rank: int) -> dict[str, Int]:
    """Return the sums of one rank's message calls, one element per shape.

    shape (index into Tables.shapes), calls, total_ns, longest_ns, and sent and received in bytes.
    """
    columns: dict[str, list[Array]] = {
        name: [] for name in ("shape", "calls", "total_ns", "sent", "received", "longest_ns")
    }
    shapes = np.append(trace.tables.shape_map(rank), -1)
    for chunks in trace.message_chunks(rank):
        for chunk in filter(Chunk.is_summed, chunks if chunks[0].is_summed() else ()):
            blocks = (block.reshape(-1) for block in read_intact(trace, [chunk]))
            records = np.concatenate([*blocks, chunk.read(0)])
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


def read_intact(trace: Records, chunks: Sequence[Chunk]) -> Iterator[Array]:
    """Yield the records of a thread, rows of records, without damaged chunks, which are noted.

    The records are valid until the next ones are read.
    """
    groups = groupby(chunks, key=lambda chunk: (chunk.log, chunk.packed_bytes >= 0))
    for (log, is_packed), of_log in groups:
        group = list(of_log)
        if is_packed:
            for chunk in group:
                yield from log.read_packed(chunk.index, chunk.packed_bytes)
        else:
            yield from log.read_intact([chunk.index for chunk in group])
        if not all(log.is_intact(chunk.index) for chunk in group):
            trace.problems.add("a chunk of messages has a wrong checksum and is ignored")
