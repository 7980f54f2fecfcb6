"""The definition of waits for messages, written for clarity: no order of passes, no arrays."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, TypeAlias

from mpiprof.metrics.activities import RECORDED_NS
from mpiprof.metrics.message_waits import MIN_RENDEZVOUS_BYTES, TIE_NS
from mpiprof.metrics.posting_times import count_sent
from mpiprof.trace.trace import Trace

Row: TypeAlias = dict[str, Any]
UNKNOWN = -math.inf


@dataclass(frozen=True)
class Activity:
    """A recorded call, or an interval between two calls."""

    begin: int
    end: int
    site: int
    last_site: int
    is_call: bool


def define_activities(trace: Trace) -> dict[int, list[Activity]]:
    """Return the activities of each rank by time."""
    of: defaultdict[int, list[Activity]] = defaultdict(list)
    collective = trace.derive("collective_waits")
    columns = collective.call_rank, collective.enter_ns, collective.exit_ns, collective.site_id
    for rank, begin, end, site in zip(*(column.tolist() for column in columns), strict=True):
        of[rank].append(Activity(begin, end, site, site, is_call=True))
    for call in trace.message_calls.to_dict("records"):
        if call["exit_ns"] > 0:
            begin, end, site = call["enter_ns"], call["exit_ns"], call["site_id"]
            of[call["rank"]].append(Activity(begin, end, site, site, is_call=True))
    for interval in trace.intervals.to_dict("records"):
        begin, end = interval["begin_ns"], interval["end_ns"]
        site, last_site = interval["before_site_id"], interval["after_site_id"]
        of[interval["rank"]].append(Activity(begin, end, site, last_site, is_call=False))
    for activities in of.values():
        activities.sort(key=lambda activity: activity.begin)
    return of


def follows(before: Activity, activity: Activity) -> bool:
    """Return whether no call is between two activities."""
    pause = activity.begin - before.end
    is_same = activity.site == before.last_site and pause <= RECORDED_NS
    return activity.is_call != before.is_call and (pause == 0 or is_same)


def find_pause(activities: list[Activity], time: int) -> tuple[int, float]:
    """Return the last time outside all activities, and since when the rank is free."""
    at = max((i for i, of in enumerate(activities) if of.begin <= time), default=-1)
    last = time
    if at >= 0 and activities[at].end > time:
        while at > 0 and follows(activities[at - 1], activities[at]):
            at -= 1
        last = activities[at].begin
        at -= 1
    return last, activities[at].end if at >= 0 else UNKNOWN


def find_ends(activities: list[Activity], site: int, is_call: bool) -> list[tuple[int, bool]]:
    """Return the ends of activities that end at a site, and whether a short call can follow."""
    ends = []
    for i, of in enumerate(activities):
        if (of.last_site, of.is_call) != (site, is_call):
            continue
        follower = activities[i + 1 : i + 2]
        joined = bool(follower) and follower[0].is_call and follows(of, follower[0])
        last = i + joined
        alone = last + 1 == len(activities) or not follows(activities[last], activities[last + 1])
        ends.append((activities[last].end, alone))
    return ends


def define_posting_times(
    trace: Trace, activities: dict[int, list[Activity]], exits: list[int]
) -> dict[int, int]:
    """Return the end of the activity before the post of messages, by row, where it is known."""
    messages = trace.messages.to_dict("records")
    posted: dict[int, int] = {}
    for channel in count_sent(trace).to_dict("records"):
        key = channel["communicator"], channel["source"], channel["destination"]
        mine = {
            row: m
            for row, m in enumerate(messages)
            if (m["communicator"], m["source"], m["destination"]) == key
            and (m["received"], m["complete"], m["sure"], m["partner"]) == (True, True, True, -1)
            and m["number"] < channel["count"] and exits[m["call"]] > 0
        }  # fmt: skip
        if len({m["tag"] for m in mine.values()}) > 1:
            continue  # the number of a message counts those with its tag
        of_source = activities.get(channel["source"], [])
        for is_call in (False, True):
            best: tuple[float, list[tuple[int, bool]]] = (math.inf, [])
            for site in sorted({of.last_site for of in of_source if of.is_call == is_call}):
                ends = find_ends(of_source, site, is_call)
                if len(ends) != channel["count"]:
                    continue
                early = [exits[m["call"]] - ends[m["number"]][0] for m in mine.values()]
                possible = all(ends[m["number"]][1] for m in mine.values())
                possible &= all(ns >= -trace.clock_error_ns for ns in early)
                if possible and sum(early) < best[0] and not (is_call and best[1]):
                    best = sum(early), ends
            if best[1]:
                posted |= {row: best[1][m["number"]][0] for row, m in mine.items()}
                break
    return posted


def define_waits(trace: Trace) -> list[tuple[int, ...]]:
    """Return call, message, rank, awaited rank, begin and end of each wait."""
    calls, messages = (table.to_dict("records") for table in (trace.message_calls, trace.messages))
    exits = [call["exit_ns"] for call in calls]
    activities = define_activities(trace)
    has_intervals = len(trace.intervals) > 0
    worked = define_posting_times(trace, activities, exits) if has_intervals else {}
    synchronous = {
        (of.communicator, of.peer, of.site) for of in trace.tables.shapes if "ssend" in of.operation
    }
    able: list[Row] = []
    for row, m in enumerate(messages):
        call = calls[m["call"]]
        peer = m["source"] if m["received"] else m["destination"]
        place = m["communicator"], peer, m["site_id"]
        is_large = m["bytes"] >= MIN_RENDEZVOUS_BYTES or place in synchronous
        if not m["complete"] or not (m["received"] or is_large) or call["exit_ns"] == 0:
            continue
        if not 0 <= peer < trace.ranks or peer == m["rank"]:
            continue
        since: float
        if m["partner"] >= 0:
            posted = since = messages[m["partner"]]["posted_ns"]
        else:
            posted, since = find_pause(activities.get(peer, []), call["exit_ns"])
            if row in worked:
                begins = [of.begin for of in activities[peer] if of.begin >= worked[row]]
                posted, since = min([posted, *begins]), min(since, worked[row])
        if posted <= call["exit_ns"] + trace.clock_error_ns:
            found = {"posted": posted, "since": since}
            able.append({"row": row, "peer": peer, "call": m["call"], **found})
    waits: list[tuple[int, ...]] = []
    for number, call in enumerate(calls):
        mine = [m for m in able if m["call"] == number]
        if not mine:
            continue
        sign = 1 if has_intervals else -1
        last = max(mine, key=lambda m: (m["posted"] // TIE_NS, sign * m["since"], m["row"]))
        until = min(last["posted"], call["exit_ns"])
        if until > call["enter_ns"] + trace.clock_error_ns:
            times = call["enter_ns"], until
            waits.append((number, last["row"], call["rank"], last["peer"], *times))
    return waits
