"""Delays of a run: intervals of work and the waiting that they cause anywhere in the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.call_times import find_times_in_calls
from mpiprof.account.collective_waits import CollectiveWaits
from mpiprof.account.delay_graph import DelayCosts, DelayGraph, Waits, WorkIntervals
from mpiprof.account.message_callsite_sums import weigh_waits
from mpiprof.account.record_gaps import MessageTime, RecordGaps, find_message_time, find_record_gaps
from mpiprof.account.row_order import join_columns, number_codes, order_by_rank, order_from_latest
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.work_intervals import find_intervals, number_same_work
from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float, Int

MIN_STEPS = 12  # fewer steps that are recorded as a whole do not represent a run
DELAY_SUMS = ("cost_ns", "direct_ns", "intervals", "work_ns", "late_intervals")
# The fields of the struct in core/python_api/delay_windows.c, in their order.
GROUPS = {
    "count": int,
    **dict.fromkeys(("awaited", "until_ns", "first", "rank", "begin_ns"), np.int64),
    "meets": np.bool_,
    "since_ns": np.int64,
}


@dataclass(frozen=True)
class Delays:
    """Waits and intervals of a run and the graph of their causes, as input to findings.

    sites: pairs of sites (before, after) by key of the intervals. The intervals inside calls have
    the pairs (site, INSIDE), and follow the intervals between calls. The groups of waits for
    messages (account/message_waits.py) follow the groups of the collectives.

    In a sampled trace, the causes of a wait are known only if no call of its ranks is missing since
    they last met. Such waits stand for the others at the same call site: `counted` is their number.
    """

    waits: Waits
    intervals: WorkIntervals
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
    inside = join_columns([collective.inside, find_times_in_calls(trace)], 4)
    intervals, sites = find_intervals(trace, gaps, message_time, inside)
    groups, order = join_groups(collective, trace.message_waits)
    met = np.where(groups["is_meeting"], groups["communicator"], -1)
    meetings, sites_of, sequences = _take_meetings_of_all(trace, collective.meetings)
    joined = _join_members(trace, collective, groups, order)
    windows = _find_windows(trace, collective, joined, groups["is_meeting"])
    waits, is_known = _limit_to_records(windows, gaps, meetings)
    callsite, counted = groups["callsite"], groups["is_counted"]
    order -= len(collective.callsite)  # of messages: the row
    return Delays(
        waits,
        intervals,
        DelayGraph(waits, intervals, trace.ranks, number_same_work(sites)),
        sites,
        callsite,
        order,
        met,
        _weigh_groups(trace, waits, (callsite, order), counted, is_known),
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
    code = intervals.rank.astype(np.int64) * keys + intervals.key
    codes, number = number_codes(code, trace.ranks * keys)
    sites = np.array(delays.sites, np.int64).reshape(-1, 2)[codes % keys]
    columns = {"rank": codes // keys, "before_id": sites[:, 0], "after_id": sites[:, 1]}
    ones, lengths_ns = np.ones(len(number)), intervals.end_ns - intervals.begin_ns
    values = costs.interval_ns, costs.direct_ns, ones, lengths_ns, costs.interval_ns > 0
    sums = {
        name: np.bincount(number, of, len(codes)).astype(np.float64)
        for name, of in zip(DELAY_SUMS, values, strict=True)
    }
    table = pd.DataFrame(columns | sums)
    table = table.astype({"intervals": np.int64, "late_intervals": np.int64})
    return table.sort_values("cost_ns", ascending=False, kind="stable", ignore_index=True)


def _take_meetings_of_all(trace: Trace, meetings: dict[int, Int]) -> Int:
    """Return the meetings on communicators that contain all ranks, as in CollectiveWaits.

    There are none if the records of a rank are lost: without its waits, it would seem to have
    worked from each meeting to the next one.
    """
    communicators = trace.recorded_communicators
    of_all = [of for i, of in meetings.items() if len(communicators[i].ranks) == trace.ranks]
    return np.concatenate([np.zeros((3, 0), np.int64), *of_all], axis=1)


class WindowFinder:
    """Begins of the windows of groups of waits, which move to later meetings of their ranks.

    values: the fields of GROUPS. The results are in the array since_ns.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._groups, self._members = Struct(GROUPS, values), len(values["rank"])

    def add_meetings(self, is_member: Array, times_ns: Int) -> None:
        """Add meetings of some ranks; times_ns: ascending."""
        call_library("delay_windows_add_meetings", self._groups, is_member, times_ns, len(times_ns))

    def add_pairs(self, ranks: int) -> None:
        """Add the waits of ranks for each other."""
        pairs = min(self._members, ranks * (ranks - 1) // 2) + 1
        table = np.empty((1 << (2 * pairs).bit_length(), 2), np.int64)
        call_library("delay_windows_add_pairs", self._groups, table, len(table))


def join_groups(
    collective: CollectiveWaits, messages: pd.DataFrame
) -> tuple[dict[str, Array], Int]:
    """Return columns of the groups of waits in collectives and messages, the latest first.

    Also returns this order: the groups of messages follow the groups of collectives. The call site
    and the communicator are -1 in messages.
    """
    unknown, is_counted = np.full(len(messages), -1), np.ones(len(messages), np.bool_)
    of_messages = {name: messages[name].to_numpy() for name in ("awaited", "until_ns")}
    of_messages |= {"callsite": unknown, "communicator": unknown}
    of_messages |= {"is_meeting": ~is_counted, "is_counted": is_counted}
    groups = {
        name: np.concatenate([getattr(collective, name), values])
        for name, values in of_messages.items()
    }
    order = order_from_latest(groups["until_ns"])
    return {name: values[order] for name, values in groups.items()}, order


def _join_members(
    trace: Trace, collective: CollectiveWaits, groups: dict[str, Array], order: Int
) -> Waits:
    """Return the waits of the ranks of each group, in the order of join_groups."""
    messages, count = trace.message_waits, len(order)
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    numbers = np.arange(len(collective.awaited), count)
    members, first = order_by_rank(position[np.append(collective.group, numbers)], count)
    names = {"rank": "rank", "begin_ns": "begin_ns", "end_ns": "until_ns"}
    columns = (
        np.concatenate([getattr(collective, name), messages[of].to_numpy()])[members]
        for name, of in names.items()
    )
    since = np.full(count, trace.run_start_ns)
    return Waits(groups["awaited"], groups["until_ns"], since, first, *columns)


def _find_windows(
    trace: Trace, collective: CollectiveWaits, waits: Waits, is_meeting: Bool
) -> Waits:
    """Return waits with the begin of their windows, at the latest at the first wait of a group."""
    names = ("awaited", "until_ns", "first", "rank", "begin_ns", "since_ns")
    values = {name: getattr(waits, name) for name in names}
    windows = WindowFinder({"count": len(waits.awaited), "meets": is_meeting} | values)
    meetings = [(index, of[0]) for index, of in collective.meetings.items()]
    for index, times in [*meetings, *collective.overlaps.items()]:
        is_member = np.zeros(trace.ranks, np.bool_)
        is_member[trace.recorded_communicators[index].ranks] = True
        windows.add_meetings(is_member, times)
    windows.add_pairs(trace.ranks)
    if not len(waits.rank):
        return waits
    first_ns = np.minimum.reduceat(waits.begin_ns, waits.first[:-1])
    return replace(waits, since_ns=np.minimum(waits.since_ns, first_ns))


def _limit_to_records(waits: Waits, gaps: RecordGaps, meetings_ns: Int) -> tuple[Waits, Bool]:
    """Return waits with time to compare that is recorded, and which groups have a known cause.

    A gap within the time since the ranks of a group last met hides the cause. If enough steps are
    recorded as a whole, only their waits have a known cause, because a wait of another step may
    continue in a gap. Without any time to compare, the cost of the group remains at the awaited
    rank. meetings_ns: times at which all ranks met.
    """
    is_known = np.ones(len(waits.awaited), np.bool_)
    if not len(gaps.rank):
        return waits, is_known
    since = waits.since_ns.copy()
    if len(gaps.lateness[0]):  # the gap ends at the first arrival, when all had met
        since = np.maximum(since, gaps.find_end(waits.awaited, waits.until_ns))
    is_known &= ~gaps.overlap(waits.awaited, since, waits.until_ns)
    hidden = gaps.overlap(waits.rank, since[waits.group], waits.end_ns)
    is_known &= np.bincount(waits.group, hidden, len(since)) == 0
    edges = np.append(np.iinfo(np.int64).min, np.unique(meetings_ns))
    whole = np.append(False, gaps.find_whole_steps(edges[1:])) if len(edges) > 1 else is_known[:0]
    if whole.sum() >= MIN_STEPS:
        step = np.searchsorted(edges, waits.until_ns, side="left") - 1
        is_known &= np.append(whole, False)[step]
    return replace(waits, since_ns=np.where(is_known, since, waits.until_ns)), is_known


def _weigh_groups(
    trace: Trace, waits: Waits, groups: tuple[Int, Int], is_counted: Bool, is_known: Bool
) -> Float:
    """Return the number of waits that each group stands for, 0 for groups that are not counted.

    If message calls are recorded completely in windows only, the waits in these stand for the run.
    Groups with a known cause stand for all groups at their call site, also for those that a sample
    left out. Which instances are recorded is independent of their causes.

    groups: call site of collectives, -1 in messages; and row of `message_waits` of messages.
    """
    callsite, message = groups
    of_messages = callsite < 0
    scales = np.append(callsite_scales(trace), 1.0)  # the last element is for messages
    scale = scales[callsite]
    scale[of_messages] = weigh_waits(trace, waits.until_ns[of_messages])
    if is_known.all():
        return scale * is_counted
    length = np.bincount(waits.group, waits.end_ns - waits.begin_ns, len(callsite)) * is_counted
    calls, key = trace.message_waits["call"].to_numpy(), callsite.copy()
    sites = trace.message_calls["site_id"].to_numpy(np.int64)[calls]
    key[of_messages] = len(scales) + 1 + sites[message[of_messages]]
    known_ns = np.bincount(key, length * is_known)[key]
    total_ns = np.bincount(key, length * scale)[key]
    of_known = np.where(is_known, total_ns / np.where(known_ns > 0, known_ns, 1.0), 0.0)
    return np.where(known_ns > 0, of_known, scale) * is_counted
