"""Intervals of work of all ranks, between two calls or inside a call, and their sites."""

from __future__ import annotations

import itertools

import numpy as np

from mpiprof.account.collective_waits import CollectiveWaits
from mpiprof.account.delay_graph import WorkIntervals
from mpiprof.account.record_gaps import MessageTime, RecordGaps
from mpiprof.account.recorded_calls import read_recorded_calls
from mpiprof.account.row_order import find_last_rows, number_codes
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Int

NOWHERE = -1  # site of the start or the end of a run
INSIDE = -2  # in place of the site after an interval: the interval is inside the call before
UNRECORDED = -3  # in place of the site before an interval: the records lack the call

Pairs = list[tuple[int, int]]  # sites before and after intervals, by key


def find_intervals(
    trace: Trace, gaps: RecordGaps, message_time: MessageTime, inside: list[Int]
) -> tuple[WorkIntervals, Pairs]:
    """Return the intervals of work, and the pairs of sites around them.

    Traces without records of long intervals have only the time between recorded calls. inside: as
    in CollectiveWaits, of all calls.
    """
    table = trace.intervals
    if len(table):
        columns = [table[name].to_numpy(np.int64) for name in ("rank", "begin_ns", "end_ns")]
        recorded = [table[name].to_numpy() for name in ("before_site_id", "after_site_id")]
        columns += _take_sites_of_calls(trace, gaps, *columns, *recorded)
    else:
        columns = _find_work_in_pauses(trace, gaps, message_time)
    if len(gaps.lateness[0]):
        more = _make_lateness(trace, gaps)
        columns = [np.concatenate(column) for column in zip(columns, more, strict=True)]
    rank, begin, end, before, after = columns
    key, sites = number_pairs(before, after)
    return _add_inside(WorkIntervals(rank, begin, end, key), sites, inside)


def _take_sites_of_calls(
    trace: Trace, gaps: RecordGaps, rank: Int, begin: Int, end: Int, before: Int, after: Int
) -> list[Int]:
    """Return the sites before and after intervals as those of the recorded calls around them.

    The recorder logs an interval when its next call begins. Only the end of a call shows all of its
    site: for Python objects, a method of mpi4py makes several calls from one line.
    """
    collective: CollectiveWaits = trace.derive("collective_waits")
    has_methods = any("method" in frame for site in trace.tables.sites for frame in site)
    if trace.wrapped_chunks or not (has_methods or collective.completes.any()):
        return [before, after]
    call_rank, enter, exit_, site = read_recorded_calls(trace)
    if not len(call_rank):
        return [before, after]
    next_ = find_last_rows((call_rank, enter), rank, end, until=True)
    is_next = (next_ >= 0) & (enter[next_] == end)
    last = find_last_rows((call_rank, enter), rank, begin, until=True)
    is_last = (last >= 0) & (exit_[last] <= begin) & ~gaps.overlap(rank, exit_[last], begin)
    return [np.where(is_last, site[last], before), np.where(is_next, site[next_], after)]


def number_same_work(sites: Pairs) -> Int:
    """Return the first pair of sites with the same work as each pair.

    The same work has the same call after it. At the ends of a pipeline, ranks lack one of the calls
    around their work, so the same call before it is sufficient, too, also through further pairs:

        first rank   send ── work ── send
        other ranks  recv ── work ── send
        last rank    recv ── work ── recv
    """
    before, after = np.array(sites, np.int64).reshape(-1, 2).T
    number = np.arange(len(sites))
    alone = int(max(before.max(initial=0), after.max(initial=0))) + 1 + number
    is_inside = after == INSIDE
    groups = [
        np.unique(of, return_inverse=True)[1]
        for of in (
            np.where(is_inside, alone, after),
            np.where(is_inside | (before < 0), alone, before),
        )
    ]
    first, last = number, np.zeros(0, np.int64)
    while not np.array_equal(first, last):
        last = first
        for group in groups:
            least = np.full(len(sites), len(sites))
            np.minimum.at(least, group, first)
            first = least[group]
    return first


def find_pauses(trace: Trace) -> list[Int]:
    """Return the time between recorded calls: rank, begin, end, sites before and after.

    Calls that follow each other at once have no time between them, but count.
    """
    return _find_time_between(*_add_starts(trace, *read_recorded_calls(trace)))


def _find_work_in_pauses(trace: Trace, gaps: RecordGaps, message_time: MessageTime) -> list[Int]:
    """Return the work between recorded calls, as find_pauses.

    Time in messages is no work. It counts as the begin of the time between two calls.
    """
    rank, begin, end, *sites = find_pauses(trace)
    begin = np.minimum(begin + message_time.find(rank, end), end)
    is_work = ~gaps.overlap(rank, begin, end) & (end > begin)
    return [of[is_work].astype(np.int64) for of in (rank, begin, end, *sites)]


def _make_lateness(trace: Trace, gaps: RecordGaps) -> list[Int]:
    """Return the work that gaps would hide: rank, begin, end, sites before and after.

    The site before is that before all other calls at the site after, if there is only one.
    """
    rank, begin, end, before, after = _find_time_between(*read_recorded_calls(trace))
    is_recorded = ~gaps.overlap(rank, begin, end)
    pairs = np.unique(np.stack([after[is_recorded], before[is_recorded]]), axis=1)
    sites, first, count = np.unique(pairs[0], return_index=True, return_counts=True)
    only = {
        site: int(pairs[1, at])
        for site, at, number in zip(sites.tolist(), first.tolist(), count.tolist(), strict=True)
        if number == 1
    }
    of_rank, begins, ends, site = gaps.lateness
    known = np.array([only.get(one, UNRECORDED) for one in site.tolist()], np.int64)
    return [of_rank, begins, ends, known, site]


def _add_inside(
    intervals: WorkIntervals, sites: Pairs, inside: list[Int]
) -> tuple[WorkIntervals, Pairs]:
    """Add the intervals inside calls."""
    rank, begin, end, site = inside
    if not len(rank):
        return intervals, sites
    pairs, number = np.unique(site, return_inverse=True)
    added = rank, begin, end, len(sites) + number
    columns = zip(
        (intervals.rank, intervals.begin_ns, intervals.end_ns, intervals.key), added, strict=True
    )
    joined = WorkIntervals(*(np.concatenate(column) for column in columns))
    return joined, [*sites, *((of, INSIDE) for of in pairs.tolist())]


def _add_starts(trace: Trace, rank: Int, enter: Int, exit_: Int, site: Int) -> list[Int]:
    """Add an empty call at the start of each rank, unless earlier calls were discarded."""
    if trace.wrapped_chunks:
        return [rank, enter, exit_, site]
    ranks = np.unique(rank)
    first = np.searchsorted(rank, ranks)
    begin, before = _find_begins(trace, ranks)
    begin = np.where(begin > 0, np.minimum(begin, enter[first]), enter[first])
    added = ranks, begin, begin, before
    columns = zip((rank, enter, exit_, site), added, strict=True)
    return [np.insert(of, first, more) for of, more in columns]


def _find_begins(trace: Trace, ranks: Int) -> tuple[Int, Int]:
    """Return the time at which the first work of each rank begins, and the site before it."""
    meeting = trace.meeting_at_begin if isinstance(trace, TraceWindow) else None
    if meeting is None:
        begin = np.array([trace.spans.get(of, (0, 0))[0] for of in ranks.tolist()], np.int64)
        return begin, np.full(len(ranks), NOWHERE)
    row = np.argsort(meeting.communicator.ranks)[ranks]
    sites = np.array([shape.site for shape in trace.tables.shapes], np.int64)
    return meeting.exit_ns[row, 0], sites[meeting.shape[row, 0]]


def _find_time_between(rank: Int, enter_ns: Int, exit_ns: Int, site: Int) -> list[Int]:
    """Return the time between calls: rank, begin, end, sites of the calls before and after."""
    # Calls of several threads may overlap.
    latest = exit_ns.copy()
    edges = np.flatnonzero(np.diff(rank, prepend=-1))
    for begin, end in itertools.pairwise([*edges.tolist(), len(rank)]):
        latest[begin:end] = np.maximum.accumulate(latest[begin:end])
    between = np.flatnonzero((rank[1:] == rank[:-1]) & (enter_ns[1:] >= latest[:-1]))
    next_ = between + 1
    return [
        rank[between].astype(np.int64),
        latest[between],
        enter_ns[next_],
        site[between],
        site[next_],
    ]


def number_pairs(before: Int, after: Int) -> tuple[Int, Pairs]:
    """Return the number of each pair of sites, and the pairs."""
    count = int(max(before.max(initial=0), after.max(initial=0))) - UNRECORDED + 1
    code = (before.astype(np.int64) - UNRECORDED) * count + after - UNRECORDED
    pairs, number = number_codes(code, count * count)
    return number, [(p // count + UNRECORDED, p % count + UNRECORDED) for p in pairs.tolist()]
