"""Memory that the search for causes needs; a trace that needs too much is analysed in windows.

The limit is the same on all machines with enough memory, and so are the windows and the findings.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import numpy as np

from mpiprof.trace.chunks import Chunk, count_capacity
from mpiprof.trace.memory_limit import memory_limit_bytes
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import (
    INTERVAL,
    INTERVAL_COUNTS,
    INTERVAL_PRESSURE,
    INTERVAL_THREADS,
    INTERVAL_TIMES,
)

# Peak memory of a report, by benchmarks.delay_speed.
BYTES_PER_MESSAGE_RECORD = 160
BYTES_PER_CALL_RECORD = 600
MAX_MEMORY_SHARE = 0.4  # of the memory; other programs need the rest
MAX_BYTES = 1.5e9  # of one analysis, on machines with more memory
INTERVAL_KINDS = (INTERVAL, INTERVAL_TIMES, INTERVAL_COUNTS, INTERVAL_PRESSURE, INTERVAL_THREADS)
MAX_PROCESSES = 2  # a data set and its workers (--dask) allow more
SAMPLED_CHUNKS = 64  # whose filling stands for that of all last chunks


def limit_analysis_bytes() -> float:
    """Return the memory that the tables of one analysis may use."""
    return min(MAX_BYTES, MAX_MEMORY_SHARE * memory_limit_bytes())


def count_processes() -> int:
    """Return how many processes may analyse windows of a run at a time: as the memory allows."""
    memory = int(MAX_MEMORY_SHARE * memory_limit_bytes() // limit_analysis_bytes())
    return max(min(memory, len(os.sched_getaffinity(0)), MAX_PROCESSES), 1)


def count_analysis_bytes(trace: Trace) -> int:
    """Return the memory that an analysis of the whole trace needs."""
    return sum(_count_bytes(*table) for table in _list_tables(trace))


def count_message_bytes(trace: Trace) -> int:
    """Return the memory for the records of messages and intervals in the whole trace."""
    return _count_bytes(*_list_tables(trace)[0])


def find_message_share(threads: Sequence[Sequence[Chunk]]) -> float:
    """Return the share of calls on messages, and of their messages, in the records of threads."""
    sample = [
        chunks[len(chunks) // 2]
        for chunks in threads[:: max(-(-len(threads) // SAMPLED_CHUNKS), 1)]
    ]
    kinds = np.concatenate([np.zeros(0, np.uint8), *(chunk.read()["kind"] for chunk in sample)])
    intervals = int(np.isin(kinds, INTERVAL_KINDS).sum())
    return 1.0 - intervals / max(int(np.count_nonzero(kinds)), 1)


def fits_in_memory(trace: Trace) -> bool:
    """Return whether the trace can be analysed at once, and note if it cannot."""
    limit = limit_analysis_bytes()
    # The first sum assumes that all chunks are full, and reads none of them.
    max_bytes = sum(_count_most_bytes(*table) for table in _list_tables(trace))
    if isinstance(trace, TraceWindow) or max_bytes <= limit or count_analysis_bytes(trace) <= limit:
        return True
    fact = "the trace is too large to be analysed at once, so it is analysed in parts of the run"
    effect = "single waits for messages are not listed"
    trace.problems.add(f"{fact}: {effect}; record a shorter run, or with --sample, to avoid this")
    return False


def _list_tables(trace: Trace) -> list[tuple[int, list[list[Chunk]]]]:
    """Return the bytes per record, and the chunks of each thread, of messages and collectives."""
    calls = trace.logs.threads if trace.record != "summary" else {}
    return [
        (BYTES_PER_MESSAGE_RECORD, list(trace.logs.messages.values())),
        (BYTES_PER_CALL_RECORD, list(calls.values())),
    ]


def _count_most_bytes(each: int, threads: Sequence[Sequence[Chunk]]) -> int:
    return each * count_capacity(itertools.chain.from_iterable(threads))


def _count_bytes(each: int, threads: Sequence[Sequence[Chunk]]) -> int:
    """Return the memory for the records of some threads, of which the last chunks may be empty."""
    full = _count_most_bytes(each, [chunks[:-1] for chunks in threads])
    last = [chunks[-1] for chunks in threads]
    sample = last[:: -(-len(last) // SAMPLED_CHUNKS)] if last else []
    filled = [int(np.count_nonzero(chunk.read()["kind"])) for chunk in sample]
    return full + round(each * len(last) * float(np.mean(filled or [0])))
