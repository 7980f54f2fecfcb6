"""Delays of a run: intervals of work and the waiting that they cause anywhere in the run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.diagnosis.delay_graph import DelayGraph, Intervals, Waits
from mpiprof.metrics.activities import read_recorded_calls
from mpiprof.metrics.collective_waits import CollectiveWaits, number_codes, sort_codes
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

NOWHERE = -1  # site of the start or the end of a run
INSIDE = -2  # in place of the site after an interval: the interval is inside the call before
MAX_PAIRS_PER_INTERVAL = 4  # more possible pairs of sites are numbered by sorting
NEVER_NS = np.iinfo(np.int64).min  # before all times


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


def find_delays(trace: Trace) -> Delays:
    """Return the delays of a run."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    intervals, sites = _add_inside(*_find_intervals(trace), collective.inside)
    message_waits = trace.message_waits
    waits = _join_waits(trace, collective, message_waits)
    graph = DelayGraph(waits, intervals, trace.ranks)
    messages = len(message_waits)
    callsite = np.append(collective.callsite, np.full(messages, -1))
    met = np.where(collective.is_meeting, collective.communicator, -1)
    met = np.append(met, np.full(messages, -1))
    counted = np.append(collective.is_counted, np.ones(messages, np.bool_)).astype(np.float64)
    of_all = _take_meetings_of_all(trace, collective.meetings)
    sites_of_all = _take_meetings_of_all(trace, collective.meeting_callsites)
    groups = callsite, met, counted
    return Delays(waits, intervals, graph, sites, *groups, of_all, sites_of_all)


def make_delay_table(trace: Trace) -> pd.DataFrame:
    """Return one row per rank and pair of call sites, the costliest first.

    rank, before_id and after_id (sites of the calls before and after: NOWHERE before at the start,
    INSIDE after for time in the call before), cost_ns (waiting that the work causes anywhere),
    direct_ns (the part of it in waits for this rank itself), intervals (number), work_ns (their
    time), late_intervals (number with costs).
    """
    delays: Delays = trace.derive("delays_found")
    intervals, costs = delays.intervals, delays.graph.compute_costs(delays.counted)
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


def _join_waits(trace: Trace, collective: CollectiveWaits, messages: pd.DataFrame) -> Waits:
    """Return the waits in collectives and messages, with the last meeting before each."""
    groups = len(collective.awaited)
    names = ("rank", "awaited", "begin_ns", "until_ns")
    message = {name: messages[name].to_numpy() for name in names}
    awaited = np.concatenate([collective.awaited, message["awaited"]])
    until = np.concatenate([collective.until_ns, message["until_ns"]])
    group = np.concatenate([collective.group, groups + np.arange(len(messages))])
    rank = np.concatenate([collective.rank, message["rank"]])
    begin = np.concatenate([collective.begin_ns, message["begin_ns"]])
    end = np.concatenate([collective.end_ns, message["until_ns"]])
    first = np.full(len(awaited), np.iinfo(np.int64).max)
    np.minimum.at(first, group, begin)
    since = np.full(len(awaited), trace.run_start_ns)
    for meetings in (collective.meetings, collective.overlaps):
        met = _find_last_meetings(trace, meetings, awaited, group, rank, first)
        since = np.maximum(since, met)
    meets = np.append(collective.is_meeting, np.zeros(len(messages), np.bool_))
    pair = _find_last_pair_waits(awaited, until, meets, group, rank, begin)
    since = np.maximum(since, pair)
    return Waits(awaited, until, np.minimum(since, first), group, rank, begin, end)


def _find_last_meetings(
    trace: Trace, meetings: dict[int, Int], awaited: Int, group: Int, rank: Int, first: Int
) -> Int:
    """Return for each group the last synchronising collective of all its ranks before it waits.

    first: begin of the group's first wait.
    """
    since = np.full(len(awaited), NEVER_NS)
    for index, times in meetings.items():
        member = np.zeros(trace.ranks, np.bool_)
        member[trace.tables.communicators[index].ranks] = True
        all_in = member[awaited]
        np.logical_and.at(all_in, group, member[rank])
        at = np.searchsorted(times, first, side="right") - 1
        known = all_in & (at >= 0)
        since[known] = np.maximum(since[known], times[at[known]])
    return since


def _find_last_pair_waits(
    awaited: Int, until: Int, meets: Bool, group: Int, rank: Int, begin: Int
) -> Int:
    """Return for each group the last time by which each of its ranks had met the awaited rank.

    Two ranks meet when one has waited for the other. Groups of several ranks that wait until all
    ranks meet are left out.
    """
    since = np.full(len(awaited), NEVER_NS)
    alone = np.bincount(group, minlength=len(awaited)) == 1
    chosen = np.flatnonzero((alone | ~meets)[group])
    if not len(chosen):
        return since
    of = group[chosen]
    low, high = np.minimum(rank[chosen], awaited[of]), np.maximum(rank[chosen], awaited[of])
    pair = low * (int(high.max()) + 1) + high
    in_time = np.argsort(until[of], kind="stable")
    order = in_time[sort_codes(pair[in_time])]
    before, after = order[:-1], order[1:]
    met = (pair[before] == pair[after]) & (until[of[before]] <= begin[chosen[after]])
    last = np.full(len(chosen), NEVER_NS)
    last[after[met]] = until[of[before[met]]]
    since[of] = np.iinfo(np.int64).max
    np.minimum.at(since, of, last)
    return since
