"""Delays of a run: intervals of work and the waiting that they cause anywhere in the run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.delay_graph import DelayCosts, DelayGraph, Intervals, Waits
from mpiprof.account.delay_library import WindowFinder, join_groups, sum_intervals
from mpiprof.account.known_causes import limit_to_records, weigh_groups
from mpiprof.account.message_time import MessageTime, find_message_time
from mpiprof.account.record_gaps import RecordGaps, find_record_gaps
from mpiprof.account.work_intervals import find_intervals, number_same_work
from mpiprof.metrics.collective_waits import CollectiveWaits
from mpiprof.metrics.time_order import order_from_latest
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

DELAY_SUMS = ("cost_ns", "direct_ns", "intervals", "work_ns", "late_intervals")


@dataclass(frozen=True)
class Delays:
    """Waits and intervals of a run and the graph of their causes, as input to findings.

    sites: pairs of sites (before, after) by key of the intervals. The intervals inside calls have
    the pairs (site, INSIDE), and follow the intervals between calls. The groups of waits for
    messages (metrics/message_waits.py) follow the groups of the collectives.

    In a sampled trace, the causes of a wait are known only if no call of its ranks is missing since
    they last met. Such waits stand for the others at the same call site: `counted` is their number.
    """

    waits: Waits
    intervals: Intervals
    graph: DelayGraph
    sites: list[tuple[int, int]]
    callsite: Int  # of each group of waits; -1 in messages
    message: Int  # row of `Trace.message_waits` of each group of messages; negative in collectives
    communicator: Int  # index, if a group of waits ends when all members have arrived, else -1
    counted: Float  # weight of each group that is a wait state, 1 in a whole trace, else 0
    meetings_of_all: Int  # times at which all ranks had arrived at a synchronising collective
    meeting_callsites: Int  # the call site of each of these
    meeting_sequences: Int  # the sequence number of each of these
    gaps: RecordGaps
    message_time: MessageTime

    @cached_property
    def costs(self) -> DelayCosts:
        """Costs of all groups of waits that are a wait state."""
        return self.graph.compute_costs(self.counted)


def find_delays(trace: Trace) -> Delays:
    """Return the delays of a run."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    gaps, message_time = find_record_gaps(trace), find_message_time(trace)
    intervals, sites = find_intervals(trace, gaps, message_time, collective.inside)
    message_waits = trace.message_waits
    order = order_from_latest(collective.until_ns, message_waits["until_ns"].to_numpy())
    groups = _join_waits(collective, message_waits, order)
    meetings, sites_of, sequences = (
        _take_meetings_of_all(trace, of)
        for of in (collective.meetings, collective.meeting_callsites, collective.meeting_sequences)
    )
    joined = _find_windows(trace, collective, groups)
    waits, is_known = limit_to_records(joined, gaps, meetings)
    callsite, counted = groups["joined_callsite"], groups["counted"]
    order -= len(collective.callsite)  # of messages: the row
    return Delays(
        waits,
        intervals,
        DelayGraph(waits, intervals, trace.ranks, number_same_work(sites)),
        sites,
        callsite,
        order,
        groups["met"],
        weigh_groups(trace, waits, (callsite, order), counted, is_known),
        meetings,
        sites_of,
        sequences,
        gaps,
        message_time,
    )


def make_delay_table(trace: Trace) -> pd.DataFrame:
    """Return one row per rank and pair of call sites, the costliest first.

    rank, before_id and after_id (sites of the calls before and after: NOWHERE before at the start,
    INSIDE after for time in the call before, UNRECORDED before if a sample lacks the call), cost_ns
    (waiting that the work causes anywhere), direct_ns (the part of it in waits for this rank
    itself), intervals (number), work_ns (their time), late_intervals (number with costs).
    """
    delays: Delays = trace.derive("delays_found")
    intervals, costs = delays.intervals, delays.costs
    keys = max(len(delays.sites), 1)
    values = {"count": len(intervals.rank), "keys": keys}
    names = ("rank", "key", "begin_ns", "end_ns")
    columns = {name: getattr(intervals, name) for name in names}
    columns |= {"cost": costs.interval_ns, "direct": costs.direct_ns}
    code, sums = sum_intervals(values | columns, trace.ranks)
    pairs = [delays.sites[key] for key in (code % keys).tolist()]
    table = pd.DataFrame(
        {
            "rank": code // keys,
            "before_id": np.array([before for before, _ in pairs], np.int64),
            "after_id": np.array([after for _, after in pairs], np.int64),
            **{name: sums[name] for name in DELAY_SUMS},
        }
    )
    return table.sort_values("cost_ns", ascending=False, kind="stable", ignore_index=True)


def _take_meetings_of_all(trace: Trace, values: dict[int, Int]) -> Int:
    """Return the values of the meetings on communicators that contain all ranks.

    There are none if the records of a rank are lost: without its waits, it would seem to have
    worked from each meeting to the next one.
    """
    communicators = trace.recorded_communicators
    of_all = [of for i, of in values.items() if len(communicators[i].ranks) == trace.ranks]
    return np.concatenate([np.zeros(0, np.int64), *of_all])


def _join_waits(
    collective: CollectiveWaits, messages: pd.DataFrame, order: Int
) -> dict[str, Array]:
    """Return the waits in collectives and messages as delay_library.join_groups."""
    counts = len(collective.awaited), len(collective.group), len(messages)
    values: dict[str, Any] = dict(zip(("collective", "members", "messages"), counts, strict=True))
    of_groups = ("awaited", "until_ns", "callsite", "communicator", "is_meeting", "is_counted")
    of_members = ("group", "rank", "begin_ns", "end_ns")
    values |= {name: getattr(collective, name) for name in (*of_groups, *of_members)}
    of_messages = ("awaited", "until_ns", "rank", "begin_ns")
    values |= {f"message_{name}": messages[name].to_numpy() for name in of_messages}
    return join_groups(values | {"order": order})


def _find_windows(trace: Trace, collective: CollectiveWaits, groups: dict[str, Array]) -> Waits:
    """Return joined waits with the begin of their windows."""
    names = ("joined_awaited", "joined_until_ns", "joined_rank", "joined_begin_ns")
    awaited, until, rank, begin = (groups[name] for name in names)
    since, first = np.full(len(awaited), trace.run_start_ns), groups["first"]
    values = {"count": len(awaited), "awaited": awaited, "until_ns": until, "first": first}
    values |= {"rank": rank, "begin_ns": begin, "meets": groups["meets"], "since_ns": since}
    windows = WindowFinder(values)
    for meetings in (collective.meetings, collective.overlaps):
        for index, times in meetings.items():
            is_member = np.zeros(trace.ranks, np.bool_)
            is_member[trace.recorded_communicators[index].ranks] = True
            windows.add_meetings(is_member, times)
    windows.add_pairs(trace.ranks)
    windows.limit()
    return Waits(awaited, until, since, first, rank, begin, groups["joined_end_ns"])
