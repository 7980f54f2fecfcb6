"""Records of intervals between calls, with counters of the thread and of the node."""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import (
    INTERVAL,
    INTERVAL_COUNTS,
    INTERVAL_PRESSURE,
    INTERVAL_THREADS,
    INTERVAL_TIMES,
    Array,
)
from support.message_traces import record

UNKNOWN_US, UNKNOWN_PROCESSOR = 0xFFFFFFFF, 0xFFFF  # as in core/python_api/message_decode.c
COUNTERS = {
    "processor_ns": 70,
    "queue_ns": 5,
    "voluntary": 1,
    "involuntary": 2,
    "untracked_ns": 3000,
    "instructions": 10**12,
    "cycles": 2 * 10**12,
    "minor_faults": 8,
    "major_faults": 9,
    "gc_ns": 4000,
    "first_processor": 11,
    "last_processor": 12,
    "other_threads_ns": 80,
}
PRESSURE = {
    "pressure_since_ns": 15,
    "throttled_ns": 6,
    "processor_pressure_ns": 1000,
    "io_pressure_ns": 2000,
    "memory_pressure_ns": 3000,
}


def counters(*, threads: bool = True) -> tuple[Array, ...]:
    """Return the records of COUNTERS. threads: with the processor time of other threads."""
    times = record(INTERVAL_TIMES, enter_ns=70, exit_ns=5, sequence=1, shape=2, outside_ns=3)
    times["thread"] = 11
    counts = {"enter_ns": 10**12, "exit_ns": 2 * 10**12, "sequence": 8, "shape": 9}
    last = record(INTERVAL_COUNTS, **counts, outside_ns=4, thread=12)
    return (record(INTERVAL_THREADS, enter_ns=80), times, last) if threads else (times, last)


def pressure() -> Array:
    """Return the record of PRESSURE."""
    values = {"enter_ns": 15, "exit_ns": 6, "sequence": 1, "shape": 2, "outside_ns": 3}
    return record(INTERVAL_PRESSURE, **values)


def interval(before: int, after: int, begin: int, end: int, *parts: Array, **values: int) -> Array:
    """Return the records of an interval, after those of its counters."""
    made = record(INTERVAL, sequence=before, shape=after, enter_ns=begin, exit_ns=end, **values)
    return np.concatenate([*parts, made])
