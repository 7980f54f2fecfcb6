"""Work of all ranks: the time outside MPI, with the call sites around it.

    MPI_Init                                                       MPI_Finalize
        |   work   |  recv  |  work  |  allreduce  |     work     |
        place:           (start, recv)  (recv, allreduce)  (allreduce, finalize)

A ring, a sample, and a record with gaps do not show each call. There, work is the time between
recorded calls without gaps (work_intervals.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.work_intervals import INSIDE, find_pauses, number_pairs
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int


@dataclass(frozen=True)
class Work:
    """Segments of work, by rank and time.

    place: index into `places`, pairs of the sites of the calls before and after (NOWHERE at the
    start of the run).
    """

    rank: Int
    begin_ns: Int
    end_ns: Int
    place: Int
    places: list[tuple[int, int]]

    @property
    def length_ns(self) -> Int:
        """Return the length of each segment."""
        return self.end_ns - self.begin_ns


def read_work(trace: Trace) -> Work:
    """Return the work of all ranks in a run or a window of it."""
    work: Work = trace.derive("work")
    return work


def make_work(trace: Trace) -> Work:
    """Return the segments of read_work."""
    if not records_each_call(trace):
        return _take_intervals(trace)
    rank, begin, end, before, after = find_pauses(trace)
    return Work(rank, begin, end, *number_pairs(before, after))


def records_each_call(trace: Trace) -> bool:
    """Return whether each call of all ranks has a record."""
    is_whole = trace.sampling_interval == 1 and not trace.wrapped_chunks
    has_messages = trace.complete_share is None or trace.complete_share >= 1.0
    return is_whole and has_messages and not trace.ranks_without_records


def _take_intervals(trace: Trace) -> Work:
    """Return the time between recorded calls, without gaps."""
    delays: Delays = trace.derive("delays_found")
    intervals = delays.intervals
    is_work = np.array([after != INSIDE for _, after in delays.sites] or [False])[intervals.key]
    order = np.flatnonzero(is_work)
    order = order[np.lexsort((intervals.begin_ns[order], intervals.rank[order]))]
    columns = intervals.rank, intervals.begin_ns, intervals.end_ns, intervals.key
    rank, begin, end, place = (column[order] for column in columns)
    return Work(rank, begin, end, place, delays.sites)
