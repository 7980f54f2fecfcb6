"""Windows of a run whose messages and delays fit in memory, one after the other.

A run is cut when all its ranks meet in a collective. A wait after this time is for a rank that
arrives later, and the ranks are compared from then on, so each window has its own causes. If the
ranks never meet, the run is cut at any time. Then waits shortly after a cut lack a part of their
causes.
"""

from __future__ import annotations

import itertools

import numpy as np

from mpiprof.metrics.batch_map import BatchPass
from mpiprof.metrics.instance_metrics import InstanceMetrics, take_complete
from mpiprof.metrics.message_waits import (
    BYTES_PER_RECORD,
    count_record_bytes,
    fits_in_memory,
    limit_record_bytes,
)
from mpiprof.operations import WaitRule
from mpiprof.trace.batch import Batch
from mpiprof.trace.log import Chunk
from mpiprof.trace.time_window import END_NS, MARGIN_CHUNKS, START_NS, find_first_time
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int

SAMPLED_RANKS = 16  # whose records show how the records of a run are distributed over time


def divide_run(trace: Trace) -> list[tuple[int, int]]:
    """Return the begin and the end of windows that fit in memory, START_NS to END_NS if all do."""
    count = count_windows(trace)
    cuts: list[int] = []
    if count > 1:
        wanted, meetings = _find_even_times(trace, count), find_meetings_of_all(trace)
        near = wanted if not len(meetings) else _take_nearest(meetings, wanted)
        cuts = np.unique(near).tolist()
    return list(itertools.pairwise([START_NS, *cuts, END_NS]))


def count_margin_bytes(trace: Trace) -> int:
    """Return the memory for the records that a window needs beside its share of all records."""
    records = sum(of[0].log.layout.capacity for of in _list_threads(trace))
    return (1 + 2 * MARGIN_CHUNKS) * BYTES_PER_RECORD * records


def count_windows(trace: Trace) -> int:
    """Return the number of windows, at most that of the chunks of a thread."""
    if fits_in_memory(trace):
        return 1
    longest = max((len(of) for of in _list_threads(trace)), default=1)
    limit = int(limit_record_bytes()) - count_margin_bytes(trace)
    return min(-(-count_record_bytes(trace) // limit), longest) if limit > 0 else longest


def _list_threads(trace: Trace) -> list[list[Chunk]]:
    """Return the chunks of all threads with single calls on messages."""
    ranks = trace.ranks_with_messages
    threads = (of for rank in ranks for of in trace.message_chunks(rank))
    return [of for of in threads if not of[0].is_summed()]


def find_meetings_of_all(trace: Trace) -> Int:
    """Return the times at which all ranks had arrived at a blocking, synchronising collective."""
    parts = [part.value for part in BatchPass(trace, _collect_meetings, trace.ranks)]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def _collect_meetings(metrics: InstanceMetrics, batch: Batch, ranks: int) -> Int:
    """Return the meetings of all ranks in a batch."""
    times = [np.zeros(0, np.int64)]
    if len(batch.communicator.ranks) == ranks and batch.begin_ns is batch.arrival_ns:
        for signature, index in metrics.group_by_signature(batch):
            whole = signature.state is not None and signature.is_whole
            if whole and signature.group.rule is WaitRule.ALL_FOR_ALL:
                times.append(take_complete(batch, signature, index)[0].max(0))
    return np.concatenate(times)


def _find_even_times(trace: Trace, count: int) -> Int:
    """Return the times between `count` windows with about equally many records."""
    ranks = trace.ranks_with_messages
    times: list[int] = []
    for rank in ranks[:: -(-len(ranks) // SAMPLED_RANKS)]:
        threads = (of for of in trace.message_chunks(rank) if not of[0].is_summed())
        firsts = (find_first_time(chunk) for of in threads for chunk in of)
        clock = trace.clock_of(rank)
        times += [time + clock.offset_at(time) for time in firsts if time is not None]
    if len(times) < count:
        begin = trace.calls_start_ns
        return begin + trace.duration_ns * np.arange(1, count) // count
    ordered = np.sort(np.array(times, np.int64))
    return ordered[np.arange(1, count) * len(ordered) // count]


def _take_nearest(values: Int, wanted: Int) -> Int:
    """Return the nearest of some ascending values to each wanted one."""
    after = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    before = np.maximum(after - 1, 0)
    is_before = wanted - values[before] < values[after] - wanted
    return np.where(is_before, values[before], values[after])
