"""Times at which messages were posted by calls that are too short to be recorded.

With `--messages auto` a short send has no record, but the long activity before it has one: an
interval of work, or a long call. If a rank sends as many messages to another rank as it has
activities that end at one call site, its n-th message follows the n-th of these activities. This
holds only if no message was posted after the call that received it had returned.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpiprof.metrics.activities import Activities
from mpiprof.metrics.collective_waits import sort_codes
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

CHANNEL = ["communicator", "source", "destination"]
UNKNOWN_NS = -1


def find_posting_times(
    trace: Trace, activities: Activities, message: dict[str, Array], rows: Int, exit_ns: Int
) -> Int:
    """Return the end of the activity before the post of some messages, or UNKNOWN_NS.

    message: columns of trace.messages. exit_ns: end of the calls that received these messages.
    """
    posted = np.full(len(rows), UNKNOWN_NS)
    usable = np.flatnonzero(message["received"][rows] & message["sure"][rows])
    if not len(usable) or not activities.has_intervals:
        return posted
    channels = count_sent(trace)
    channel = _number_channels(trace, channels, message, rows[usable])
    number = message["number"][rows[usable]]
    counts = np.append(channels["count"].to_numpy(), 0)
    known = number < counts[channel]
    usable, channel, number = usable[known], channel[known], number[known]
    groups, end_ns, precedes = _group_activities(activities)
    channels["channel"] = np.arange(len(channels))
    choices = channels.merge(groups, left_on=["source", "count"], right_on=["rank", "count"])
    nth = choices.groupby("channel").cumcount()
    least = np.full(len(channels), np.inf)
    # Messages are mostly sent after work. Among several sites, the last one explains most waiting.
    for _, choice in choices.groupby([choices["is_call"], nth]):
        first = np.full(len(channels), -1)
        first[choice["channel"]] = choice["first"]
        of = np.flatnonzero(first[channel] >= 0)
        at = first[channel[of]] + number[of]
        early = (exit_ns[usable[of]] - end_ns[at]).astype(np.float64)
        early[~precedes[at] | (early < -trace.clock_error_ns)] = np.inf
        total = np.bincount(channel[of], early, len(channels)).astype(np.float64)
        total[choice["is_call"].iloc[0] & np.isfinite(least)] = np.inf
        better = (first >= 0) & (total < least)
        least[better] = total[better]
        chosen = better[channel[of]]
        posted[usable[of[chosen]]] = end_ns[at[chosen]]
    return posted


def _number_channels(
    trace: Trace, channels: pd.DataFrame, message: dict[str, Array], rows: Int
) -> Int:
    """Return the index of the channel of each message, or -1."""
    sizes = trace.ranks, trace.ranks
    code, of = (
        (columns[0] * sizes[0] + columns[1]) * sizes[1] + columns[2]
        for columns in (
            [channels[name].to_numpy(np.int64) for name in CHANNEL],
            [message[name][rows].astype(np.int64) for name in CHANNEL],
        )
    )
    order = np.argsort(code, kind="stable")
    at = np.minimum(np.searchsorted(code[order], of), max(len(code) - 1, 0))
    if not len(code):
        return np.full(len(rows), -1)
    return np.where(code[order[at]] == of, order[at], -1)


def _group_activities(activities: Activities) -> tuple[pd.DataFrame, Int, Bool]:
    """Return the groups of a rank's activities that end at one site.

    Per group: rank, is_call, count, first (index of its first activity). Per activity, by group:
    its end, or that of a long call that directly follows it, and whether a short call can follow
    that.
    """
    index = np.arange(len(activities.first))
    alone = np.append(activities.first[1:] == index[1:], np.ones(len(index[:1]), np.bool_))
    next_ = np.minimum(index + 1, index[-1:])
    last = np.where(~alone & activities.is_call[next_], next_, index)
    precedes, end_ns = alone[last], activities.end_ns[last]
    sites = int(activities.last_site.max(initial=-1)) + 2
    code = (activities.rank.astype(np.int64) * 2 + activities.is_call) * sites
    code += activities.last_site + 1
    order = sort_codes(code)  # activities of a rank are in order of time
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    rank, is_call = (of[order[first]] for of in (activities.rank, activities.is_call))
    count = np.diff(first, append=len(code))
    groups = pd.DataFrame({"rank": rank, "is_call": is_call, "count": count, "first": first})
    return groups, end_ns[order], precedes[order]


def count_sent(trace: Trace) -> pd.DataFrame:
    """Return the number of messages of each channel that are sent at one call site.

    Columns: CHANNEL, count and send_site.
    """
    sums = trace.message_sums
    sends = sums["operation"].str.contains("send") & ~sums["operation"].str.contains("recv|init")
    names = {"rank": "source", "peer": "destination", "calls": "count", "site_id": "send_site"}
    columns = [*CHANNEL, "count", "send_site"]
    sums = sums[sends & (sums["peer"] >= 0)].rename(columns=names)[columns]
    return sums[~sums.duplicated(CHANNEL, keep=False)].reset_index(drop=True)
