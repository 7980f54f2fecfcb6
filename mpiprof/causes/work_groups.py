"""Groups of intervals of work that are compared: the n-th of each rank between two calls in a step.

A step ends when all ranks meet in a collective. In runs without such steps, the n-th intervals of
the whole run are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.delay_graph import WorkIntervals
from mpiprof.account.recorded_calls import read_recorded_calls
from mpiprof.account.row_order import count_first_rows, count_members, find_places, select_values
from mpiprof.account.segments import Work, read_work, records_each_call
from mpiprof.account.work_intervals import INSIDE, NOWHERE, UNRECORDED, Pairs
from mpiprof.causes.run_steps import Steps
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int


@dataclass(frozen=True)
class WorkGroups:
    """The group of each interval of work.

    group: number of each interval's group. key: pair of call sites of each group. makes: whether a
    rank makes both calls, pairs of call sites x ranks. segments: group and rank of all work between
    two calls, also of work without an interval; None if the records lack calls.
    """

    intervals: WorkIntervals
    group: Int
    key: Int
    is_inside: Bool
    makes: Bool
    segments: tuple[Int, Int] | None

    def limit(self, length: Float, chosen: Bool, references: Bool) -> tuple[Float, Bool]:
        """Limit the lengths of chosen intervals to the usual length, as find_usual."""
        usual, comparable = self.find_usual(length, chosen, references)
        return np.where(comparable, np.minimum(length, usual), length), comparable

    def find_usual(self, length: Float, chosen: Bool, references: Bool) -> tuple[Float, Bool]:
        """Return the median length of the other ranks' intervals in the group of each interval.

        Also returns which chosen intervals have any ranks to be compared with: ranks that make both
        calls. Work that is not recorded is short and counts as 0.
        """
        counts = np.asarray((self.makes & references).sum(1))[self.key]
        if self.segments is not None:
            group, rank = self.segments
            passing = np.bincount(group[references[rank]], minlength=len(counts))
            counts = np.where(self.is_inside, counts, passing)
        theirs = references[self.intervals.rank]
        median = _medians_with_zeros(self.group[theirs], length[theirs], counts)
        return median[self.group], chosen & (counts > 0)[self.group]

    def find_longest(self, length: Float, references: Bool) -> Float:
        """Return the longest of the other ranks' intervals in the group of each interval, or 0."""
        theirs = references[self.intervals.rank]
        longest = np.zeros(len(self.key))
        np.maximum.at(longest, self.group[theirs], length[theirs])
        return longest[self.group]


def make_work_groups(trace: Trace) -> WorkGroups:
    """Return the groups of the intervals of a trace."""
    delays: Delays = trace.derive("delays_found")
    steps: Steps | None = trace.derive("steps")
    intervals, sites = delays.intervals, delays.sites
    step = np.zeros(len(intervals.rank), np.int64)
    if steps is not None:
        step = steps.find(intervals.end_ns)
    count = int(step.max(initial=0)) + 1
    nth = count_up((intervals.key * count + step) * trace.ranks + intervals.rank)
    is_known = records_each_call(trace)
    if is_known:
        work, key = _read_segments(trace, sites)
        trace.release("work")  # has a row per call
        work_step = np.zeros(len(key), np.int64) if steps is None else steps.find(work.end_ns)
        work_step = np.minimum(work_step, count - 1)
        work_nth = count_up((key * count + work_step) * trace.ranks + work.rank)
        nth = _take_positions(intervals, work, work_nth, nth, trace.ranks)
    positions = int(nth.max(initial=0)) + 1
    place = intervals.key * positions + nth
    codes, first, group = np.unique(place * count + step, return_index=True, return_inverse=True)
    segments = None
    if is_known:
        code = (key * positions + work_nth) * count + work_step
        at = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
        is_here = (codes[at] == code) & (work_nth < positions)
        segments = at[is_here], work.rank[is_here]
    is_inside = np.array([after == INSIDE for _, after in sites] or [False])[intervals.key[first]]
    makes = _find_callers(trace, intervals, sites)
    return WorkGroups(intervals, group, intervals.key[first], is_inside, makes, segments)


def _read_segments(trace: Trace, sites: Pairs) -> tuple[Work, Int]:
    """Return the work between the calls of some pairs of sites, and the number of each pair."""
    work = read_work(trace)
    number = {pair: key for key, pair in enumerate(sites)}
    key = np.array([number.get(place, -1) for place in work.places] or [-1])[work.place]
    chosen = np.flatnonzero(key >= 0)
    begin_ns, end_ns = work.begin_ns[chosen], work.end_ns[chosen]
    segments = Work(work.rank[chosen], begin_ns, end_ns, work.place[chosen], work.places)
    return segments, key[chosen]


def _take_positions(
    intervals: WorkIntervals, work: Work, work_nth: Int, nth: Int, ranks: int
) -> Int:
    """Return the position of each interval among all work at its place, else as nth."""
    if not len(work.rank):
        return nth
    first = count_first_rows(work.rank, ranks)
    place = find_places(first, work.end_ns, intervals.rank, intervals.end_ns)
    row = np.minimum(place, len(work.rank) - 1)
    is_same = (work.rank[row] == intervals.rank) & (work.end_ns[row] == intervals.end_ns)
    return np.where(is_same, work_nth[row], nth)


def _find_callers(trace: Trace, intervals: WorkIntervals, sites: Pairs) -> Bool:
    """Return which ranks make both calls of each pair of call sites."""
    sums = trace.message_sums
    call_rank, _, _, call_site = read_recorded_calls(trace)
    pairs = np.array(sites, np.int64).reshape(-1, 2)
    site = np.concatenate([call_site, sums["site_id"].to_numpy(np.int64)])
    count = max(int(column.max(initial=NOWHERE)) for column in (site, pairs)) + 1 - UNRECORDED
    makes = np.zeros((count, trace.ranks), np.bool_)
    makes[site, np.concatenate([call_rank, sums["rank"].to_numpy(np.int64)])] = True
    works = np.zeros((len(pairs), trace.ranks), np.bool_)
    works[intervals.key, intervals.rank] = True
    for column in pairs.T:
        np.logical_or.at(makes, column, works)
    makes[[NOWHERE, UNRECORDED]] = True  # the start of the run, and any call
    both: Bool = makes[pairs[:, 0]] & makes[pairs[:, 1]]
    return both


def count_up(code: Int) -> Int:
    """Return the number of earlier elements with the same code."""
    order = np.argsort(code, kind="stable")
    ordered, index = code[order], np.arange(len(code))
    is_first = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    number = np.empty(len(code), np.int64)
    number[order] = index - np.maximum.accumulate(np.where(is_first, index, 0))
    return number


def _medians_with_zeros(group: Int, values: Float, counts: Int) -> Float:
    """Return the median of each group.

    counts: number of values of each group, of which absent ones are 0.
    """
    present = count_members(group, len(counts))
    counts = np.maximum(counts, present)
    absent = counts - present
    lower, upper = (
        select_values(group, values, middle - absent, present)
        for middle in ((counts - 1) // 2, counts // 2)
    )
    return (lower + upper) / 2
