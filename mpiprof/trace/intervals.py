"""Intervals between two calls of a thread that took long, with the counters of the thread.

They are in the chunks of messages, because readers of collectives skip these chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.trace import message_decoder as decoded
from mpiprof.trace.types import Array, Int, Int32


@dataclass(frozen=True)
class Intervals:
    """Logged intervals of some ranks by rank, thread and time; an array per field, -1 for unknown.

    Arrays without a known value are int8, and the same array, to save memory.

    rank, begin_ns, end_ns: end of the call before, begin of the call after, on the joint clock.
    before_shape, after_shape: of these calls, as indices into Tables.shapes; -1 for the start of
    the recording and for a call without a record. thread: number.

    Counters of the thread, from gap_ns before begin_ns to end_ns: processor_ns, queue_ns (waiting
    for a processor), voluntary and involuntary (context switches), instructions and cycles in user
    space, minor_faults, major_faults, untracked_ns (in calls of local_sums), gc_ns (pauses of
    Python's garbage collector), first_processor, last_processor (numbers), other_threads_ns
    (processor time of the other threads of the process).

    Of the node, from pressure_since_ns to end_ns; most intervals have no reading: throttled_ns (of
    all threads of the control group), and pressure (PSI): processor_pressure_ns, io_pressure_ns,
    memory_pressure_ns.
    """

    rank: Int32
    begin_ns: Int
    end_ns: Int
    before_shape: Int32
    after_shape: Int32
    thread: Int32
    gap_ns: Int
    processor_ns: Int
    queue_ns: Int
    voluntary: Int
    involuntary: Int
    instructions: Int
    cycles: Int
    minor_faults: Int
    major_faults: Int
    untracked_ns: Int
    gc_ns: Int
    first_processor: Int
    last_processor: Int
    other_threads_ns: Int
    pressure_since_ns: Int
    throttled_ns: Int
    processor_pressure_ns: Int
    io_pressure_ns: Int
    memory_pressure_ns: Int


# Fields with counters of the thread and of the node.
COUNTERS = tuple(
    name for name in (*decoded.COUNTERS, *decoded.PRESSURES)
    if name not in ("gap_ns", "pressure_since_ns")
)  # fmt: skip


def make_intervals(decoder: decoded.MessageDecoder) -> Intervals:
    """Return the intervals that a decoder has read."""
    columns = decoder.take("intervals")
    unknown = np.full(len(columns["rank"]), -1, np.int8)
    unknown.flags.writeable = False
    for table in ("counters", "pressures"):
        of_table = decoder.take(table)
        row = of_table.pop("row")
        for name in list(of_table):
            columns[name] = _spread(of_table.pop(name), row, unknown)
    return Intervals(**columns)


def _spread(values: Int, row: Int, unknown: Array) -> Array:
    """Return a column of all intervals from the values of some; unknown: without any value."""
    if not len(values) or int(values.max()) < 0:
        return unknown
    if len(values) == len(unknown):
        return values
    column = np.full(len(unknown), -1, np.int64)
    column[row] = values
    return column
