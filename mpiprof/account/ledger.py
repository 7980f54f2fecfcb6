"""Ledger: the time of every thread from the end of MPI_Init to the begin of MPI_Finalize.

A ledger is a sequence of segments without gaps and without overlaps. In a segment the thread is
outside MPI, in one call, or in a loop of calls in vain (a poll):

    MPI_Init                                                              MPI_Finalize
        |  outside  |  recv  |  outside  |  allreduce  |  win_lock  |  outside  |
        +-----------+--------+-----------+-------------+------------+-----------+
    begin_ns     end_ns = begin_ns of the next segment

The sum of the segments is the life of the thread exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.messages import read_intact
from mpiprof.trace.rank_arrays import get_column
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import COMPLETION, LOCAL_CALL, MESSAGE_CALL, POLL, Array, Int

OUTSIDE = -1  # shape of a segment outside MPI
COLUMNS = (
    *(("begin_ns", np.int64), ("end_ns", np.int64)),
    *(("shape", np.int32), ("completes", np.bool_), ("polls", np.int64)),
)
SEGMENT = np.dtype([*COLUMNS], align=True)
IS_CALL = np.zeros(256, np.bool_)  # by kind of a record of messages, windows, files etc.
IS_CALL[[MESSAGE_CALL, LOCAL_CALL, POLL]] = True
READ_RECORDS = 1 << 16


@dataclass(frozen=True)
class ThreadLedger:
    """The segments of one thread: rows of SEGMENT in order of time, on the joint clock.

    shape: index into Tables.shapes, which has operation, communicator, call site and peer of the
    call; OUTSIDE for a segment outside MPI. completes: true in a Wait or Test that completes a
    collective, of which it has the shape. polls: number of calls in vain if the thread polls, with
    the pauses between them, until one of the calls finds something; else 0.
    """

    rank: int
    thread: int
    segments: Array

    @property
    def life_ns(self) -> int:
        """Return the time from the begin of the first to the end of the last segment."""
        if not len(self.segments):
            return 0
        return int(self.segments["end_ns"][-1] - self.segments["begin_ns"][0])


def read_ledgers(trace: Trace, rank: int) -> list[ThreadLedger]:
    """Return the ledger of each thread of a rank, by thread number and time.

    The first thread begins at the end of MPI_Init, the others at their first call. A thread ends
    at its end, at the begin of MPI_Finalize, or at the last time that is known of the rank. A new
    thread may have the number of a thread that has ended, and has a ledger of its own.
    """
    begin_ns, end_ns = trace.spans.get(rank, (0, 0))
    ends_run = np.array([shape.operation == "finalize" for shape in trace.tables.shapes])
    calls_by_thread: dict[int, list[Array]] = {}
    finalize_ns: list[int] = []
    for thread, calls in (*_read_collectives(trace, rank), *_read_message_calls(trace, rank)):
        calls_by_thread.setdefault(thread, []).append(calls)
        finalize_ns += calls["begin_ns"][ends_run[calls["shape"]]].tolist()
        # The records of a killed rank are known beyond its span.
        end_ns = max(
            end_ns, int(calls["begin_ns"].max(initial=0)), int(calls["end_ns"].max(initial=0))
        )
    end_ns = min([end_ns, *finalize_ns])
    ledgers = []
    for thread, pieces in sorted(calls_by_thread.items()):
        first_ns = begin_ns if thread == min(calls_by_thread) else None
        calls = np.concatenate(pieces)
        for of_life, last_ns in _split_lives(calls, _list_ends(trace, rank, thread), end_ns):
            if first_ns is None:
                first_ns = int(of_life["begin_ns"].min(initial=last_ns))
            ledgers.append(ThreadLedger(rank, thread, _fill_gaps(of_life, first_ns, last_ns)))
            first_ns = None
    return ledgers


def _list_ends(trace: Trace, rank: int, thread: int) -> Int:
    """Return when the threads with a number ended, in order, on the joint clock."""
    ends_ns = np.array(sorted(trace.tables.thread_ends.get((rank, thread), [])), np.int64)
    return trace.clock_of(rank).to_global(ends_ns)


def _split_lives(calls: Array, ends_ns: Int, end_ns: int) -> Iterator[tuple[Array, int]]:
    """Yield the calls of each thread of those that had a number in turn, and its end."""
    if not len(ends_ns):
        yield calls, end_ns
        return
    life = np.searchsorted(ends_ns, calls["begin_ns"], "right")
    for number in range(len(ends_ns) + 1):
        last_ns = end_ns if number == len(ends_ns) else min(int(ends_ns[number]), end_ns)
        of_life = calls[life == number]
        if len(of_life):
            yield of_life, last_ns


def _read_collectives(trace: Trace, rank: int) -> Iterator[tuple[int, Array]]:
    """Yield thread number and calls of each block of records of collectives."""
    for stream in trace.open_stream(rank).threads:
        first = stream.chunks[0]
        while not first.is_summed() and (block := stream.read(READ_RECORDS)) is not None:
            completes = get_column(block, "kind") == COMPLETION
            times = block.enter_ns, block.exit_ns
            yield first.thread, _make_calls(*times, block.shape, completes, np.zeros(len(block)))


def _read_message_calls(trace: Trace, rank: int) -> Iterator[tuple[int, Array]]:
    """Yield thread number and calls of the records of messages, windows, files etc."""
    shape_map = np.append(trace.tables.shape_map(rank), OUTSIDE)
    clock = trace.clock_of(rank)
    for chunks in trace.message_chunks(rank):
        if chunks[0].is_summed():
            continue
        for records in read_intact(trace, chunks):
            calls = records[IS_CALL[records["kind"]]]
            times = [calls[name].astype(np.int64) for name in ("enter_ns", "exit_ns")]
            enter_ns, exit_ns = (np.where(ns > 0, clock.to_global(ns), 0) for ns in times)
            shapes = shape_map.take(calls["shape"].astype(np.int64), mode="clip")
            polls = np.where(calls["kind"] == POLL, calls["sequence"].astype(np.int64), 0)
            completes = np.zeros(len(shapes), np.bool_)
            all_calls = _make_calls(enter_ns, exit_ns, shapes, completes, polls)
            yield chunks[0].thread, all_calls[shapes >= 0]


def _make_calls(*columns: Array) -> Array:
    calls = np.empty(len(columns[0]), SEGMENT)
    for (name, _), values in zip(COLUMNS, columns, strict=True):
        calls[name] = values
    return calls


def _fill_gaps(calls: Array, begin_ns: int, end_ns: int) -> Array:
    """Return the segments of a thread from its calls, whose times it limits to this life.

    A Wait that completes several collectives has a record for each. A call that a callback makes
    within another call belongs to the outer one.
    """
    ends_ns = np.where(calls["end_ns"] == 0, end_ns, calls["end_ns"]).clip(begin_ns, end_ns)
    begins_ns = calls["begin_ns"].clip(begin_ns, end_ns)
    order = np.lexsort((-ends_ns, begins_ns))  # of calls that begin together, the longest first
    order = order[(ends_ns > begins_ns)[order]]
    begins_ns, ends_ns = begins_ns[order], ends_ns[order]
    reached_ns = np.maximum.accumulate(np.append(begin_ns, ends_ns))[:-1]
    outer = np.flatnonzero(ends_ns > reached_ns)
    segments = np.zeros(2 * len(outer) + 1, SEGMENT)
    segments["shape"] = OUTSIDE
    segments[1::2] = calls[order[outer]]
    segments["begin_ns"][1::2] = np.maximum(begins_ns, reached_ns)[outer]
    segments["end_ns"][1::2] = ends_ns[outer]
    segments["begin_ns"][::2] = np.append(begin_ns, ends_ns[outer])
    segments["end_ns"][::2] = np.append(begins_ns[outer], end_ns)
    return segments[segments["end_ns"] > segments["begin_ns"]]
