"""Intervals between two calls of a thread that took long, with the counters of the thread.

They are in the chunks of messages, because readers of collectives skip these chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mpiprof.trace.messages import read_intact
from mpiprof.trace.records import Records
from mpiprof.trace.types import (
    INTERVAL,
    INTERVAL_COUNTS,
    INTERVAL_PRESSURE,
    INTERVAL_TIMES,
    MAX_INTEGER,
    Array,
    Bool,
    Int,
)

NO_SHAPE = UNKNOWN_US = 0xFFFFFFFF
UNKNOWN_PROCESSOR = 0xFFFF
US = 1000
COUNTER_KINDS = (INTERVAL_TIMES, INTERVAL_COUNTS)


@dataclass(frozen=True)
class Intervals:
    """Logged intervals of one rank by thread and time; one array per field, -1 for unknown.

    Arrays without a known value are int8 to save memory.

    begin_ns, end_ns: end of the call before, begin of the call after, on the joint clock.
    before_shape, after_shape: of these calls, as indices into Tables.shapes; -1 for the start of
    the recording and for a call without a record. thread: number.

    Counters of the thread, from gap_ns before begin_ns to end_ns: processor_ns, queue_ns (waiting
    for a processor), voluntary and involuntary (context switches), instructions and cycles in user
    space, minor_faults, major_faults, untracked_ns (in one-sided and file calls), gc_ns (pauses of
    Python's garbage collector), first_processor, last_processor (numbers).

    Of the node, from pressure_since_ns to end_ns; most intervals have no reading: throttled_ns (of
    all threads of the control group), and pressure (PSI): processor_pressure_ns, io_pressure_ns,
    memory_pressure_ns.
    """

    begin_ns: Int
    end_ns: Int
    before_shape: Int
    after_shape: Int
    thread: Int
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
    pressure_since_ns: Int
    throttled_ns: Int
    processor_pressure_ns: Int
    io_pressure_ns: Int
    memory_pressure_ns: Int


# Fields with counters of the thread and of the node.
COUNTERS = tuple(
    field.name
    for field in fields(Intervals)
    if field.name not in ("begin_ns", "end_ns", "before_shape", "after_shape", "thread")
    and field.name not in ("gap_ns", "pressure_since_ns")
)


def read_intervals(trace: Records, rank: int) -> Intervals:
    """Return the logged intervals of one rank; damaged records are ignored and noted."""
    shapes = np.append(trace.tables.shape_map(rank), -1)
    threads = [
        _read_thread(read_intact(trace, chunks), shapes)
        for chunks in trace.message_chunks(rank)
        if not chunks[0].is_summed()
    ]
    names = [field.name for field in fields(Intervals)]
    columns = {name: join_parts([thread[name] for thread in threads]) for name in names}
    possible = _are_possible(trace, rank, columns)
    clock = trace.clock_of(rank)
    columns = {name: values[possible] for name, values in columns.items()}
    for name in ("begin_ns", "end_ns"):
        columns[name] = clock.to_global(columns[name])
    read = columns["pressure_since_ns"]
    if (read >= 0).any():
        columns["pressure_since_ns"] = np.where(read < 0, -1, clock.to_global(read))
    return Intervals(**columns)


def _read_thread(records: Array, shapes: Int) -> dict[str, Int]:
    """Return the intervals of one thread on its node's clock; an unknown shape is -2."""
    kind = records["kind"]
    at = np.flatnonzero(kind == INTERVAL)
    interval = records[at]
    times, has_times = _records_before(records, at, 2, INTERVAL_TIMES)
    counts, has_counts = _records_before(records, at, 1, INTERVAL_COUNTS)
    has_counters = has_times & has_counts
    distance = 1 + has_counters * len(COUNTER_KINDS)
    pressure, has_pressure = _records_before(records, at, distance, INTERVAL_PRESSURE)

    def select(values: Array, known: Bool, unit: int = 1) -> Int:
        if not known.any():
            return np.full(len(known), -1, np.int8)
        result: Int = np.where(known, values.astype(np.int64) * unit, -1)
        return result

    def select_us(values: Array, known: Bool) -> Int:
        return select(values, known & (values != UNKNOWN_US), US)

    def select_shape(values: Array) -> Int:
        known = np.where(shapes < 0, -2, shapes).take(values, mode="clip")
        result: Int = np.where(values == NO_SHAPE, -1, known)
        return result

    def select_processor(values: Array) -> Int:
        return select(values, has_counters & (values != UNKNOWN_PROCESSOR))

    return {
        "begin_ns": interval["enter_ns"].astype(np.int64),
        "end_ns": interval["exit_ns"].astype(np.int64),
        "before_shape": select_shape(interval["sequence"]),
        "after_shape": select_shape(interval["shape"]),
        "thread": interval["thread"].astype(np.int64),
        "gap_ns": select(interval["outside_ns"], has_counters),
        "processor_ns": select(times["enter_ns"], has_counters),
        "queue_ns": select(times["exit_ns"], has_counters),
        "voluntary": select(times["sequence"], has_counters),
        "involuntary": select(times["shape"], has_counters),
        "instructions": select(counts["enter_ns"], has_counters),
        "cycles": select(counts["exit_ns"], has_counters),
        "minor_faults": select(counts["sequence"], has_counters),
        "major_faults": select(counts["shape"], has_counters),
        "untracked_ns": select_us(times["outside_ns"], has_counters),
        "gc_ns": select_us(counts["outside_ns"], has_counters),
        "first_processor": select_processor(times["thread"]),
        "last_processor": select_processor(counts["thread"]),
        "pressure_since_ns": select(pressure["enter_ns"], has_pressure),
        "throttled_ns": select(pressure["exit_ns"], has_pressure),
        "processor_pressure_ns": select_us(pressure["sequence"], has_pressure),
        "io_pressure_ns": select_us(pressure["shape"], has_pressure),
        "memory_pressure_ns": select_us(pressure["outside_ns"], has_pressure),
    }


def _records_before(records: Array, at: Int, distance: Int | int, kind: int) -> tuple[Array, Bool]:
    """Return the record at a distance before each position, and whether it has the kind."""
    index = at - distance
    known: Bool = (index >= 0) & (records["kind"][index] == kind)
    if not known.any():
        return np.broadcast_to(records[:1], len(at)), known
    return records[np.where(known, index, 0)], known


def join_parts(parts: list[Int]) -> Int:
    """Return the concatenation of parts of a column."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _are_possible(trace: Records, rank: int, columns: dict[str, Int]) -> Bool:
    """Return which intervals have possible values, and note if some have not."""
    low, high = trace.possible_times(rank)
    begin, end = columns["begin_ns"], columns["end_ns"]
    possible: Bool = (begin >= low) & (begin <= end) & (end <= high)
    possible &= (columns["before_shape"] >= -1) & (columns["after_shape"] >= -1)
    for name, values in columns.items():
        if name not in ("begin_ns", "end_ns", "pressure_since_ns"):
            possible &= (values >= -1) & (values <= MAX_INTEGER)
    if not possible.all():
        trace.message_chunks(rank)[0][0].log.damaged = True
        trace.problems.add(f"rank {rank}: damaged records of intervals are ignored")
    return possible
