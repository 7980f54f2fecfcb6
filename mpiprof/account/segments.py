"""Segments of time in which no rank waits: work of all ranks, and calls without their waits.

    MPI_Init                                                       MPI_Finalize
        |   work   |  recv  |  work  |  allreduce  |     work     |
        place:           (start, recv)  (recv, allreduce)  (allreduce, finalize)

Work is the time outside MPI. A ring, a sample, and a record with gaps do not show each call. There,
work is the time between recorded calls without gaps (work_intervals.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.account.collective_waits import CollectiveWaits
from mpiprof.account.delay_costs import Delays
from mpiprof.account.record_gaps import has_no_gaps
from mpiprof.account.recorded_calls import read_recorded_calls
from mpiprof.account.row_order import count_first_rows, find_places, number_values
from mpiprof.account.work_intervals import INSIDE, find_pauses, number_pairs
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int


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
    return not trace.wrapped_chunks and has_no_gaps(trace)


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


def number_segments(rank: Int, end_ns: Int) -> Int:
    """Return a number for each segment of a run, which its rank and its end determine."""
    return rank * (1 << 48) + end_ns % (1 << 48)


def read_segments(trace: Trace) -> Work:
    """Return the segments of work, and after them the calls without waits."""
    work, calls = read_work(trace), read_call_segments(trace)
    return Work(
        np.concatenate([work.rank, calls.rank]),
        np.concatenate([work.begin_ns, calls.begin_ns]),
        np.concatenate([work.end_ns, calls.end_ns]),
        np.concatenate([work.place, len(work.places) + calls.place]),
        [*work.places, *calls.places],
    )


def read_call_segments(trace: Trace) -> Work:
    """Return the calls without waits as segments; INSIDE marks their places."""
    rank, begin, end, site = read_calls_without_waits(trace)
    sites, number = number_values(site)
    return Work(rank, begin, end, number, [(site, INSIDE) for site in sites.tolist()])


def read_calls_without_waits(trace: Trace) -> list[Int]:
    """Return rank, begin_ns, exit_ns and site of all recorded calls, by rank and time.

    A call without waits begins after the awaited ranks have come. It has no length if it is not
    known when these came, because calls of some ranks are not in the trace.
    """
    columns: list[Int] = trace.derive("calls_without_waits")
    return columns


def make_calls_without_waits(trace: Trace) -> list[Int]:
    """Return the columns of read_calls_without_waits."""
    rank, enter, exit_, site = read_recorded_calls(trace)
    rank, site = rank.astype(np.int64), site.astype(np.int64)
    begin = np.maximum(enter, _find_wait_ends(trace, rank, enter, exit_))
    unknown = _find_unknown(trace, rank, enter)
    begin[unknown] = exit_[unknown]
    return [rank, begin, np.maximum(exit_, begin), site]


def _find_wait_ends(trace: Trace, rank: Int, enter: Int, exit_: Int) -> Int:
    """Return the end of the last wait in each call, 0 without one. The calls are in order.

    A wait in tests in vain (message_waits.py) continues through all calls that begin before its
    end.
    """
    delays: Delays = trace.derive("delays_found")
    waits = delays.waits
    until = np.zeros(len(rank), np.int64)
    if not len(rank):
        return until
    first = count_first_rows(rank, trace.ranks)
    at = find_places(first, enter, waits.rank, waits.begin_ns, after=True) - 1
    at = np.maximum(at, 0)
    inside = (rank[at] == waits.rank) & (waits.end_ns <= exit_[at])
    np.maximum.at(until, at[inside], waits.end_ns[inside])
    wait = np.flatnonzero((rank[at] == waits.rank) & ~inside)
    end = waits.end_ns[wait]
    calls = find_places(first, enter, waits.rank[wait], end) - at[wait]
    call = np.arange(calls.sum()) + np.repeat(at[wait] - np.cumsum(calls) + calls, calls)
    np.maximum.at(until, call, np.minimum(np.repeat(end, calls), exit_[call]))
    return until


def _find_unknown(trace: Trace, rank: Int, enter: Int) -> Bool:
    """Return for each call whether its waits are not known."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    unknown_rank, unknown_ns = collective.unknown
    if not len(unknown_rank):
        return np.zeros(len(rank), np.bool_)
    keys = number_segments(unknown_rank.astype(np.int64), unknown_ns)
    return np.isin(number_segments(rank, enter), keys)
