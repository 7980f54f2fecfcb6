"""Windows of a run whose analyses fit in memory, one after the other.

A run is cut when all its ranks meet in a collective. A wait after this time is for a rank that
arrives later, and the ranks are compared from then on, so each window has its own causes. If the
ranks never meet, the run is cut at any time. Then waits shortly after a cut lack a part of their
causes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from mpiprof.account.analysis_memory import (
    BYTES_PER_CALL_RECORD,
    BYTES_PER_MESSAGE_RECORD,
    count_analysis_bytes,
    count_message_bytes,
    find_message_share,
    fits_in_memory,
    limit_analysis_bytes,
)
from mpiprof.account.instance_metrics import InstanceMetrics, take_complete
from mpiprof.facts.operations import WaitRule
from mpiprof.trace.batch import Batch
from mpiprof.trace.chunks import SEARCHED_RECORDS, Chunk, count_capacity
from mpiprof.trace.time_window import MARGIN_CHUNKS, MARGIN_SHARE, are_of_all_ranks, select_meeting
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import END_NS, START_NS, Float, Int

SAMPLED_RANKS = 16  # whose records show how the records of a run are distributed over time
MIN_RECORDS = 64  # of a thread in a window


def divide_run(trace: Trace) -> list[tuple[int, int]]:
    """Return the begin and the end of windows that fit in memory, START_NS to END_NS if all do."""
    count = count_windows(trace)
    cuts: list[int] = []
    if count > 1:
        wanted = _find_even_times(trace, count).tolist()
        for time_ns, next_ns in itertools.pairwise([*wanted, END_NS]):
            meeting_ns = find_meeting(trace, time_ns, next_ns)
            cuts.append(time_ns if meeting_ns is None else meeting_ns)
    return list(itertools.pairwise([START_NS, *np.unique(cuts).tolist(), END_NS]))


def count_margin_bytes(trace: Trace) -> int:
    """Return the memory for the records that a window needs beside its share of all records.

    Intervals outside of a window are not read into tables, but messages are.
    """
    threads = [
        of for rank in trace.ranks_with_messages for of in _list_message_threads(trace, rank)
    ]
    records = count_capacity(of[0] for of in threads) * find_message_share(threads)
    most = 2 * MARGIN_CHUNKS * BYTES_PER_MESSAGE_RECORD * records
    share = 2 * MARGIN_SHARE / (1 + 2 * MARGIN_SHARE)
    return min(round(most), count_message_bytes(trace), round(share * limit_analysis_bytes()))


def count_windows(trace: Trace) -> int:
    """Return the number of windows, at most one for MIN_RECORDS of each thread."""
    if fits_in_memory(trace):
        return 1
    limit = limit_analysis_bytes()
    rest = limit - count_margin_bytes(trace)
    threads = itertools.chain(trace.logs.threads.values(), trace.logs.messages.values())
    longest = max(map(count_capacity, threads), default=1)
    return min(-int(-count_analysis_bytes(trace) // rest), max(longest // MIN_RECORDS, 1))


def find_meeting(trace: Trace, since_ns: int, until_ns: int) -> int | None:
    """Return the first time in a span at which all ranks met in a collective, or None.

    They meet when all have arrived at a blocking, synchronising collective.
    """
    metrics = InstanceMetrics(trace)
    few = SEARCHED_RECORDS * max(trace.ranks, 1)
    for batch in trace.batches(batch=few, since_ns=since_ns, until_ns=until_ns):
        times = _find_meetings_of_all(metrics, batch, trace.recorded_rank_count)
        times = times[(times > since_ns) & (times < until_ns)]
        if len(times):
            first_ns = int(times.min())
            # The window that begins there needs this instance, too.
            trace.meetings[first_ns] = select_meeting(batch, first_ns)
            return first_ns
    return None


def _find_meetings_of_all(metrics: InstanceMetrics, batch: Batch, ranks: int) -> Int:
    """Return the meetings of all ranks in a batch."""
    times = [np.zeros(0, np.int64)]
    if are_of_all_ranks(batch, ranks):
        for signature, index in metrics.group_by_signature(batch):
            whole = signature.state is not None and signature.is_whole
            if whole and signature.group.rule is WaitRule.ALL_FOR_ALL:
                times.append(take_complete(batch, signature, index)[0].max(0))
    return np.concatenate(times)


def _list_message_threads(trace: Trace, rank: int) -> list[list[Chunk]]:
    """Return the chunks of the threads of a rank with single calls on messages."""
    return [of for of in trace.message_chunks(rank) if not of[0].is_summed()]


def _find_even_times(trace: Trace, count: int) -> Int:
    """Return the times between `count` windows that need about equally much memory."""
    ranks = range(0, trace.ranks, -(-trace.ranks // SAMPLED_RANKS))
    curves = [curve for rank in ranks for curve in _find_needs(trace, rank)]
    even = np.arange(1, count) / count
    if not curves:
        return trace.calls_start_ns + (trace.duration_ns * even).astype(np.int64)
    times = np.unique(np.concatenate([of for of, _ in curves]))
    needed = np.sum([np.interp(times, of, bytes_) for of, bytes_ in curves], axis=0)
    return np.asarray(np.interp(even * needed[-1], needed, times), np.int64)


def _find_needs(trace: Trace, rank: int) -> Iterator[tuple[Int, Float]]:
    """Yield the times at which the chunks of each thread of a rank begin, and its end.

    The second array is the memory for the records before each time.
    """
    clock, end_ns = trace.clock_of(rank), trace.spans.get(rank, (0, 0))[1]
    of_calls = trace.thread_chunks(rank) if trace.record != "summary" else []
    kinds: Sequence[tuple[int, list[list[Chunk]]]] = (
        (BYTES_PER_CALL_RECORD, of_calls),
        (BYTES_PER_MESSAGE_RECORD, _list_message_threads(trace, rank)),
    )
    for each, threads in kinds:
        for chunks in threads:
            firsts = [(chunk.begin_ns(), chunk) for chunk in chunks]
            known = [(time, chunk) for time, chunk in firsts if time is not None]
            if known:
                times = [time + clock.offset_at(time) for time, _ in known]
                times.append(max(times[-1] + 1, end_ns))
                records = [of.capacity for _, of in known[:-1]]
                records.append(int(np.count_nonzero(known[-1][1].read()["kind"])))
                yield np.array(times, np.int64), each * np.cumsum([0.0, *records])
