"""Groups of intervals of work that are compared: the n-th of each rank between two calls in a step.

A step ends when all ranks meet in a collective. In runs without such steps, the n-th intervals of
the whole run are compared.
"""

from __future__ import annotations

import numpy as np

from mpiprof.account.delay_costs import Delays
from mpiprof.account.delay_graph import Intervals
from mpiprof.account.work_intervals import NOWHERE, UNRECORDED
from mpiprof.diagnosis.run_steps import Steps
from mpiprof.metrics.group_order import count_members, select_values
from mpiprof.metrics.recorded_calls import read_recorded_calls
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int


class WorkGroups:
    """The group of each interval of work.

    group: number of each interval. key: pair of call sites of each group. makes: whether a rank
    makes both calls, pairs of call sites x ranks.
    """

    def __init__(self, intervals: Intervals, step: Int, makes: Bool) -> None:
        """Number the groups; intervals are in order of time on each rank."""
        self.intervals, self.makes = intervals, makes
        steps = int(step.max(initial=0)) + 1
        nth = count_up((intervals.key * steps + step) * makes.shape[1] + intervals.rank)
        code = (intervals.key * steps + step) * (int(nth.max(initial=0)) + 1) + nth
        _, first, self.group = np.unique(code, return_index=True, return_inverse=True)
        self.key = intervals.key[first]

    def limit(self, length: Float, chosen: Bool, others: Bool) -> tuple[Float, Bool]:
        """Limit the lengths of chosen intervals to the median of the other ranks' intervals.

        Returns all lengths, and which chosen intervals have any ranks to be compared with: ranks
        that make both calls. Work that is not recorded is short and counts as 0.
        """
        counts = np.asarray((self.makes & others).sum(1))[self.key]
        theirs = others[self.intervals.rank]
        median = _medians_with_zeros(self.group[theirs], length[theirs], counts)
        comparable = chosen & (counts > 0)[self.group]
        limited = np.where(comparable, np.minimum(length, median[self.group]), length)
        return limited, comparable


def make_work_groups(trace: Trace) -> WorkGroups:
    """Return the groups of the intervals of a trace."""
    delays: Delays = trace.derive("delays_found")
    steps: Steps | None = trace.derive("steps")
    intervals = delays.intervals
    step = np.zeros(len(intervals.rank), np.int64)
    if steps is not None:
        step = steps.find(intervals.end_ns)
    return WorkGroups(intervals, step, _find_callers(trace, delays))


def _find_callers(trace: Trace, delays: Delays) -> Bool:
    """Return which ranks make both calls of each pair of call sites."""
    intervals, sums = delays.intervals, trace.message_sums
    call_rank, _, _, call_site = read_recorded_calls(trace)
    pairs = np.array(delays.sites, np.int64).reshape(-1, 2)
    site = np.concatenate([call_site, sums["site_id"].to_numpy(np.int64)])
    sites = max(int(of.max(initial=NOWHERE)) for of in (site, pairs)) + 1 - UNRECORDED
    makes = np.zeros((sites, trace.ranks), np.bool_)
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
