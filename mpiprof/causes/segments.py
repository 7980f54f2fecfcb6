"""Segments of time that a cause can remove from a run: work, and calls without their waits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.work_intervals import INSIDE
from mpiprof.account.work_segments import Work, read_work
from mpiprof.causes.place import Place, find_place
from mpiprof.causes.removal import Removal, number_segments
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.collective_waits import CollectiveWaits
from mpiprof.metrics.recorded_calls import read_recorded_calls
from mpiprof.metrics.time_order import count_first_rows, find_places
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int


@dataclass(frozen=True)
class RemovedSegment:
    """A segment that a replay shortens.

    begin_ns: since the start of the run. length_ns: of the segment. removed_ns: the part of it that
    the run would lack.
    """

    rank: int
    begin_ns: int
    length_ns: int
    removed_ns: int
    place: Place


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
    sites, number = np.unique(site, return_inverse=True)
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


def list_removed_segments(trace: Trace, removal: Removal, count: int) -> list[RemovedSegment]:
    """Return the segments of a run with most removed time, at most `count`, by their begin."""
    origin_ns = int(trace.run_start_ns)
    find = partial(_find_removed_segments, removal=removal, count=count, origin_ns=origin_ns)
    windows = [find(trace)] if fits_in_memory(trace) else trace.derive("in_windows")(find)
    segments = [segment for window in windows for segment in window]
    largest = sorted(segments, key=lambda segment: -segment.removed_ns)[:count]
    return sorted(largest, key=lambda segment: segment.begin_ns)


def _find_removed_segments(
    trace: Trace, removal: Removal, count: int, origin_ns: int
) -> list[RemovedSegment]:
    """Return the segments of a run or a window of it with most removed time."""
    work = read_segments(trace)
    keys = number_segments(work.rank, work.end_ns)
    _, at, removed = np.intersect1d(keys, removal.keys, return_indices=True)
    largest = np.argsort(-removal.removed_ns[removed], kind="stable")[:count]
    return [
        RemovedSegment(
            int(work.rank[index]),
            int(work.begin_ns[index]) - origin_ns,
            int(work.end_ns[index] - work.begin_ns[index]),
            round(float(removed_ns)),
            find_place(trace, work.places[work.place[index]]),
        )
        for index, removed_ns in zip(at[largest], removal.removed_ns[removed][largest], strict=True)
    ]


def _find_wait_ends(trace: Trace, rank: Int, enter: Int, exit_: Int) -> Int:
    """Return the end of the last wait in each call, 0 without one. The calls are in order."""
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
    return until


def _find_unknown(trace: Trace, rank: Int, enter: Int) -> Bool:
    """Return for each call whether its waits are not known."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    unknown_rank, unknown_ns = collective.unknown
    if not len(unknown_rank):
        return np.zeros(len(rank), np.bool_)
    keys = number_segments(unknown_rank.astype(np.int64), unknown_ns)
    return np.isin(number_segments(rank, enter), keys)
