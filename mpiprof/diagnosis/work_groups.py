"""Groups of intervals of work that are compared: the n-th of each rank between two calls in a step.

A step ends when all ranks meet in a collective. In runs without such steps, the n-th intervals of
the whole run are compared.
"""

from __future__ import annotations

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.delay_graph import Intervals
from mpiprof.account.work_intervals import NOWHERE, UNRECORDED, Pairs
from mpiprof.account.work_segments import read_work, records_each_call
from mpiprof.diagnosis.run_steps import Steps
from mpiprof.metrics.group_order import count_members, select_values
from mpiprof.metrics.recorded_calls import read_recorded_calls
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int


class WorkGroups:
    """The group of each interval of work.

    group: number of each interval. key, step: pair of call sites and step of each group. place:
    number of each interval's pair of call sites and position in the step. makes: whether a rank
    makes both calls, pairs of call sites x ranks.
    """

    def __init__(self, trace: Trace, intervals: Intervals, steps: Steps | None, sites: Pairs) -> None:
        """Number the groups; intervals are in order of time on each rank."""
        self.trace, self.intervals, self.steps, self.sites = trace, intervals, steps, sites
        self.makes = _find_callers(trace, intervals, sites)
        step = self._find_steps(intervals.end_ns)
        steps_count = int(step.max(initial=0)) + 1
        of_rank = (intervals.key * steps_count + step) * trace.ranks + intervals.rank
        nth = count_up(of_rank)
        positions = int(nth.max(initial=0)) + 1
        self.place = intervals.key * positions + nth
        code = self.place * steps_count + step
        _, first, self.group = np.unique(code, return_index=True, return_inverse=True)
        self.key, self.step = intervals.key[first], step[first]

    def limit(self, length: Float, chosen: Bool, others: Bool) -> tuple[Float, Bool]:
        """Limit the lengths of chosen intervals to the usual length, as find_usual."""
        usual, comparable = self.find_usual(length, chosen, others)
        return np.where(comparable, np.minimum(length, usual), length), comparable

    def find_usual(self, length: Float, chosen: Bool, others: Bool) -> tuple[Float, Bool]:
        """Return the median length of the other ranks' intervals in the group of each interval.

        Also returns which chosen intervals have any ranks to be compared with: ranks that make both
        calls. Work that is not recorded is short and counts as 0.
        """
        counts = self._count_callers(chosen, others)
        theirs = others[self.intervals.rank]
        median = _medians_with_zeros(self.group[theirs], length[theirs], counts)
        return median[self.group], chosen & (counts > 0)[self.group]

    def _count_callers(self, chosen: Bool, others: Bool) -> Int:
        """Return the number of some ranks that make both calls, for each group.

        If partners change, a rank makes the calls in some steps only. The records of all calls show
        these steps for the groups with chosen intervals.
        """
        counts = np.asarray((self.makes & others).sum(1))[self.key]
        present = np.bincount(self.group[others[self.intervals.rank]], minlength=len(counts))
        is_chosen = np.bincount(self.group[chosen], minlength=len(counts)) > 0
        lacking = np.unique(self.key[is_chosen & (present < counts)])
        if self.steps is None or not len(lacking) or not records_each_call(self.trace):
            return counts
        work = read_work(self.trace)
        number = {self.sites[key]: key for key in lacking.tolist()}
        key = np.array([number.get(place, -1) for place in work.places], np.int64)[work.place]
        here = np.flatnonzero((key >= 0) & others[work.rank])
        steps, ranks = int(self.step.max(initial=0)) + 1, self.trace.ranks
        code = key[here] * steps + self._find_steps(work.end_ns[here])
        code = np.unique(code * ranks + work.rank[here]) // ranks
        of_groups = self.key * steps + self.step
        passing = np.searchsorted(code, of_groups, "right") - np.searchsorted(code, of_groups)
        return np.where(np.isin(self.key, lacking), np.minimum(counts, passing), counts)

    def _find_steps(self, end_ns: Int) -> Int:
        return np.zeros(len(end_ns), np.int64) if self.steps is None else self.steps.find(end_ns)


def make_work_groups(trace: Trace) -> WorkGroups:
    """Return the groups of the intervals of a trace."""
    delays: Delays = trace.derive("delays_found")
    steps: Steps | None = trace.derive("steps")
    return WorkGroups(trace, delays.intervals, steps, delays.sites)


def _find_callers(trace: Trace, intervals: Intervals, sites: Pairs) -> Bool:
    """Return which ranks make both calls of each pair of call sites."""
    sums = trace.message_sums
    call_rank, _, _, call_site = read_recorded_calls(trace)
    pairs = np.array(sites, np.int64).reshape(-1, 2)
    site = np.concatenate([call_site, sums["site_id"].to_numpy(np.int64)])
    count = max(int(of.max(initial=NOWHERE)) for of in (site, pairs)) + 1 - UNRECORDED
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
