"""Delays of a run: intervals of work and the waiting that they cause anywhere in the run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from mpiprof.diagnosis.delay_graph import DelayCosts, DelayGraph, Intervals, Waits, order_groups
from mpiprof.diagnosis.delay_library import WindowFinder
from mpiprof.metrics.activities import read_recorded_calls
from mpiprof.metrics.collective_waits import CollectiveWaits
from mpiprof.metrics.time_order import number_codes
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

NOWHERE = -1  # site of the start or the end of a run
INSIDE = -2  # in place of the site after an interval: the interval is inside the call before
MAX_PAIRS_PER_INTERVAL = 4  # more possible pairs of sites are numbered by sorting


@dataclass(frozen=True)
class Delays:
    """Waits and intervals of a run and the graph of their causes, as input to findings.

    sites: pairs of sites (before, after) by key of the intervals. The intervals inside calls have
    the pairs (site, INSIDE), and follow the intervals between calls. The groups of waits for
    messages (metrics/message_waits.py) follow the groups of the collectives.
    """

    waits: Waits
    intervals: Intervals
    graph: DelayGraph
    sites: list[tuple[int, int]]
    callsite: Int  # of each group of waits; -1 in messages
    communicator: Int  # index, if a group of waits ends when all members have arrived, else -1
    counted: Float  # 1 for each group of waits that are a wait state, else 0
    meetings_of_all: Int  # times at which all ranks had arrived at a synchronising collective
    meeting_callsites: Int  # the call site of each of these

    @cached_property
    def costs(self) -> DelayCosts:
        """Costs of all groups of waits that are a wait state."""
        return self.graph.compute_costs(self.counted)


def find_delays(trace: Trace) -> Delays:
    """Return the delays of a run."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    intervals, sites = _add_inside(*_find_intervals(trace), collective.inside)
    message_waits = trace.message_waits
    waits, order = _join_waits(trace, collective, message_waits)
    graph = DelayGraph(waits, intervals, trace.ranks)
    messages = len(message_waits)
    callsite = np.append(collective.callsite, np.full(messages, -1))[order]
    met = np.where(collective.is_meeting, collective.communicator, -1)
    met = np.append(met, np.full(messages, -1))[order]
    counted = np.append(collective.is_counted, np.ones(messages, np.bool_))[order]
    of_all = _take_meetings_of_all(trace, collective.meetings)
    sites_of_all = _take_meetings_of_all(trace, collective.meeting_callsites)
    groups = callsite, met, counted.astype(np.float64)
    return Delays(waits, intervals, graph, sites, *groups, of_all, sites_of_all)


def make_delay_table(trace: Trace) -> pd.DataFrame:
    """Return one row per rank and pair of call sites, the costliest first.

    rank, before_id and after_id (sites of the calls before and after: NOWHERE before at the start,
    INSIDE after for time in the call before), cost_ns (waiting that the work causes anywhere),
    direct_ns (the part of it in waits for this rank itself), intervals (number), work_ns (their
    time), late_intervals (number with costs).
    """
    delays: Delays = trace.derive("delays_found")
    intervals, costs = delays.intervals, delays.costs
    keys = max(len(delays.sites), 1)
    code = intervals.rank.astype(np.int64) * keys + intervals.key
    code, group = number_codes(code, trace.ranks * keys)
    pairs = [delays.sites[key] for key in (code % keys).tolist()]

    def total(values: Float | Int | Bool) -> Float:
        return np.bincount(group, values, len(code)).astype(np.float64)

    table = pd.DataFrame(
        {
            "rank": code // keys,
            "before_id": np.array([before for before, _ in pairs], np.int64),
            "after_id": np.array([after for _, after in pairs], np.int64),
            "cost_ns": total(costs.interval_ns),
            "direct_ns": total(costs.direct_ns),
            "intervals": total(np.ones(len(group))).astype(np.int64),
            "work_ns": total(intervals.end_ns - intervals.begin_ns),
            "late_intervals": total(costs.interval_ns > 0).astype(np.int64),
        }
    )
    return table.sort_values("cost_ns", ascending=False, kind="stable", ignore_index=True)


def _take_meetings_of_all(trace: Trace, values: dict[int, Int]) -> Int:
    """Return the values of the meetings on communicators that contain all ranks."""
    communicators = trace.tables.communicators
    of_all = [of for i, of in values.items() if len(communicators[i].ranks) == trace.ranks]
    return np.concatenate([np.zeros(0, np.int64), *of_all])


def _find_intervals(trace: Trace) -> tuple[Intervals, list[tuple[int, int]]]:
    """Return the intervals of work, and the pairs of sites around them.

    Traces without records of long intervals have only the gaps between recorded calls.
    """
    table = trace.intervals
    if not len(table):
        return _find_gaps(*_add_starts(trace, *read_recorded_calls(trace)))
    names = ("rank", "begin_ns", "end_ns", "before_site_id", "after_site_id")
    rank, begin, end, before, after = (table[name].to_numpy() for name in names)
    key, sites = _number_pairs(before, after)
    return Intervals(rank.astype(np.int64), begin, end, key), sites


def _add_inside(
    intervals: Intervals, sites: list[tuple[int, int]], inside: list[Int]
) -> tuple[Intervals, list[tuple[int, int]]]:
    """Add the intervals inside collectives."""
    rank, begin, end, site = inside
    pairs, number = np.unique(site, return_inverse=True)
    added = rank, begin, end, len(sites) + number
    columns = zip(
        (intervals.rank, intervals.begin_ns, intervals.end_ns, intervals.key), added, strict=True
    )
    joined = Intervals(*(np.concatenate(column) for column in columns))
    return joined, [*sites, *((of, INSIDE) for of in pairs.tolist())]


def _add_starts(trace: Trace, rank: Int, enter: Int, exit_: Int, site: Int) -> list[Int]:
    """Add an empty call at the start of each rank, unless earlier calls were discarded."""
    if trace.wrapped_chunks:
        return [rank, enter, exit_, site]
    ranks = np.unique(rank)
    begin = np.array([trace.spans.get(of, (0, 0))[0] for of in ranks.tolist()], np.int64)
    first = np.searchsorted(rank, ranks)
    begin = np.where(begin > 0, np.minimum(begin, enter[first]), enter[first])
    added = ranks, begin, begin, np.full(len(ranks), NOWHERE)
    columns = zip((rank, enter, exit_, site), added, strict=True)
    return [np.insert(of, first, more) for of, more in columns]


def _find_gaps(
    rank: Int, enter_ns: Int, exit_ns: Int, site: Int
) -> tuple[Intervals, list[tuple[int, int]]]:
    """Return the gaps between recorded calls, and the pairs of sites around them."""
    # Calls of several threads may overlap.
    latest = exit_ns.copy()
    edges = np.flatnonzero(np.diff(rank, prepend=-1))
    for begin, end in itertools.pairwise([*edges.tolist(), len(rank)]):
        latest[begin:end] = np.maximum.accumulate(latest[begin:end])
    gap = np.flatnonzero((rank[1:] == rank[:-1]) & (enter_ns[1:] > latest[:-1]))
    key, sites = _number_pairs(site[gap], site[gap + 1])
    return Intervals(rank[gap].astype(np.int64), latest[gap], enter_ns[gap + 1], key), sites


def _number_pairs(before: Int, after: Int) -> tuple[Int, list[tuple[int, int]]]:
    """Return the number of each pair of sites, and the pairs."""
    count = int(max(before.max(initial=0), after.max(initial=0))) + 2
    code = (before.astype(np.int64) + 1) * count + after + 1
    if count * count <= MAX_PAIRS_PER_INTERVAL * len(code):
        pairs, number = number_codes(code, count * count)
    else:
        pairs, number = np.unique(code, return_inverse=True)
    return number, [(pair // count - 1, pair % count - 1) for pair in pairs.tolist()]


def _join_waits(
    trace: Trace, collective: CollectiveWaits, messages: pd.DataFrame
) -> tuple[Waits, Int]:
    """Return the waits in collectives and messages with the begin of their windows, and the order.

    order: of the groups of collectives and then of messages.
    """
    groups = len(collective.awaited)

    def join(name: str, of_messages: str) -> Int:
        return np.concatenate([getattr(collective, name), messages[of_messages].to_numpy()])

    until = join("until_ns", "until_ns")
    group = np.concatenate([collective.group, groups + np.arange(len(messages))])
    order, members, group = order_groups(until, group)
    meets = np.append(collective.is_meeting, np.zeros(len(messages), np.bool_))[order]
    awaited, until = join("awaited", "awaited")[order], until[order]
    names = (("rank", "rank"), ("begin_ns", "begin_ns"), ("end_ns", "until_ns"))
    rank, begin, end = (join(*pair)[members] for pair in names)
    since = np.full(len(awaited), trace.run_start_ns)
    waits = Waits(awaited, until, since, group, rank, begin, end)
    first = waits.first
    values = {"count": len(awaited), "awaited": awaited, "until_ns": until, "first": first}
    values |= {"rank": rank, "begin_ns": begin, "meets": meets, "since_ns": since}
    windows = WindowFinder(values)
    for meetings in (collective.meetings, collective.overlaps):
        for index, times in meetings.items():
            is_member = np.zeros(trace.ranks, np.bool_)
            is_member[trace.tables.communicators[index].ranks] = True
            windows.add_meetings(is_member, times)
    windows.add_pairs(trace.ranks)
    if len(awaited):
        np.minimum(since, np.minimum.reduceat(begin, first[:-1]), out=since)
    return waits, order
