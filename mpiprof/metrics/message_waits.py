"""Wait states of messages, one row per call that waits; the definitions are those of Scalasca.

- late sender: a rank waits in a receive, or in the completion of one, until the sender posts the
  message. wrong order: meanwhile it could have received a message that was sent earlier, and that
  it receives later.
- late receiver: a rank waits in a send, or in the completion of one, until the receiver posts the
  receive (synchronous and large messages only).

A call that completes several messages waits for the one that is posted last.

With `--messages auto` the call that posted a message may be too short to be recorded. Then the
message counts as posted at the latest possible time: when its rank last made short calls before the
waiting call returned. Records of intervals without calls bound this time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.metrics.collective_waits import CollectiveWaits, sort_calls
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

LATE_SENDER, WRONG_ORDER, LATE_RECEIVER = "late_sender", "wrong_order", "late_receiver"
# Smaller messages are sent at once by all MPI libraries, unless the send is synchronous.
MIN_RENDEZVOUS_BYTES = 4096
NO_STATES: Array = np.zeros(0, object)
TIE_NS = 5_000  # differences between estimated times below this decide nothing


@dataclass(frozen=True)
class Activities:
    """Long activities of all ranks, by rank and time, without overlaps: calls and intervals.

    has_intervals: True if long intervals without calls are recorded.
    """

    rank: Int
    begin_ns: Int
    end_ns: Int
    has_intervals: bool

    @staticmethod
    def join(rank: Int, begin_ns: Int, end_ns: Int, has_intervals: bool = False) -> Activities:
        """Return activities in order."""
        order = sort_calls(rank, begin_ns)
        return Activities(rank[order], begin_ns[order], end_ns[order], has_intervals)

    def last_pause(self, rank: Int, time_ns: Int) -> tuple[Int, Int]:
        """Return the last time up to `time_ns` outside all activities, and since when it is free.

        At that time the rank made short calls, or none.
        """
        if not len(self.rank):
            return time_ns, np.full(len(time_ns), np.iinfo(np.int64).min)
        origin = min(int(self.begin_ns.min()), int(time_ns.min(initial=0)))
        stride = max(int(self.end_ns.max()), int(time_ns.max(initial=0))) - origin + 1
        position = self.rank * stride + (self.begin_ns - origin)
        at = np.searchsorted(position, rank * stride + (time_ns - origin), side="right") - 1
        here = (at >= 0) & (self.rank[at] == rank)
        inside = here & (self.end_ns[at] > time_ns)
        before = np.where(inside, at - 1, at)
        here = (before >= 0) & (self.rank[before] == rank)
        last = np.where(inside, self.begin_ns[at], time_ns)
        return last, np.where(here, self.end_ns[before], np.iinfo(np.int64).min)


def make_message_waits(trace: Trace) -> pd.DataFrame:
    """Return one row per call on messages that waits for another rank, by call.

    call (row of `message_calls`), message (row of `messages`), rank, awaited (rank), state,
    begin_ns, until_ns (when the awaited rank posted the message), wait_ns.
    """
    calls, messages = trace.message_calls, trace.messages
    if not len(messages):
        return _make_table(*([np.zeros(0, np.int64)] * 6))
    message: dict[str, Array] = {str(name): messages[name].to_numpy() for name in messages}
    call = message["call"]
    enter, exit_ = (calls[name].to_numpy() for name in ("enter_ns", "exit_ns"))
    peer = np.where(message["received"], message["source"], message["destination"])
    able = _can_wait(message, calls["operation"].to_numpy())
    able &= (peer >= 0) & (peer != message["rank"]) & (exit_[call] > 0)
    rows = np.flatnonzero(able)
    activities = _find_activities(trace)
    posted, since = _find_posting(message, rows, peer, exit_[call[rows]], activities)
    possible = posted <= exit_[call[rows]] + trace.clock_error_ns
    rows, posted, since = rows[possible], posted[possible], since[possible]
    # The rank that became free last counts as the last one among ranks with equal times. If the
    # intervals without calls are unknown, the rank without a call for longest counts as the last.
    # `~` reverses the order; `-` would overflow for a rank without an earlier call.
    order = since if activities.has_intervals else ~since
    last = _find_last(call[rows], posted // TIE_NS, order)
    rows, posted = rows[last], posted[last]
    until = np.minimum(posted, exit_[call[rows]])
    waits = until > enter[call[rows]] + trace.clock_error_ns
    rows, until = rows[waits], until[waits]
    wrong = _is_wrong_order(message, call[rows], until)
    sends = np.where(wrong, WRONG_ORDER, LATE_SENDER)
    state = np.where(message["received"][rows], sends, LATE_RECEIVER).astype(object)
    return _make_table(
        call[rows], rows, message["rank"][rows], peer[rows], enter[call[rows]], until, state
    )


def _make_table(
    call: Int,
    message: Int,
    rank: Int,
    awaited: Int,
    begin: Int,
    until: Int,
    state: Array = NO_STATES,
) -> pd.DataFrame:
    columns = {"call": call, "message": message, "rank": rank, "awaited": awaited, "state": state}
    return pd.DataFrame(columns | {"begin_ns": begin, "until_ns": until, "wait_ns": until - begin})


def read_recorded_calls(trace: Trace) -> list[Int]:
    """Return rank, enter_ns, exit_ns and site of all recorded calls, by rank and time."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    calls = trace.message_calls
    closed = calls["exit_ns"].to_numpy() > 0
    columns = [
        (collective.call_rank, "rank"),
        (collective.enter_ns, "enter_ns"),
        (collective.exit_ns, "exit_ns"),
        (collective.site_id, "site_id"),
    ]
    joined = [np.concatenate([of, calls[name].to_numpy()[closed]]) for of, name in columns]
    order = sort_calls(joined[0], joined[1])
    return [column[order] for column in joined]


def _find_activities(trace: Trace) -> Activities:
    """Return the recorded calls and the long intervals between calls."""
    rank, begin, end, _ = read_recorded_calls(trace)
    intervals = trace.intervals
    return Activities.join(
        np.concatenate([rank, intervals["rank"]]),
        np.concatenate([begin, intervals["begin_ns"]]),
        np.concatenate([end, intervals["end_ns"]]),
        has_intervals=len(intervals) > 0,
    )


def _find_posting(
    message: dict[str, Array], rows: Int, peer: Int, exit_: Int, activities: Activities
) -> tuple[Int, Int]:
    """Return when the other rank posted some messages, and its last known time before that.

    Both times are equal if the posting call is recorded. exit_: end of the calls of these messages.
    """
    partner = message["partner"][rows]
    posted = message["posted_ns"][partner]
    since = posted.copy()
    unknown = np.flatnonzero(partner < 0)
    posted[unknown], since[unknown] = activities.last_pause(peer[rows[unknown]], exit_[unknown])
    return posted, since


def _find_last(call: Int, *keys: Int) -> Int:
    """Return for each call the position with the largest keys, of equal ones the last.

    call: ascending. keys: the first one counts most.
    """
    rows = np.arange(len(call))
    for key in keys:
        first = np.flatnonzero(np.diff(call[rows], prepend=-1))
        if len(first) == len(rows):
            return rows
        largest = np.maximum.reduceat(key[rows], first)
        rows = rows[key[rows] == np.repeat(largest, np.diff(first, append=len(rows)))]
    last: Int = rows[np.flatnonzero(np.diff(call[rows], append=-1))]
    return last


def _can_wait(message: dict[str, Array], operation: Array) -> Bool:
    """Return which messages a call can wait for; operation: of each call."""
    able: Bool = message["complete"] & (
        message["received"] | (message["bytes"] >= MIN_RENDEZVOUS_BYTES)
    )
    small = np.flatnonzero(message["complete"] & ~able)
    able[small] = ["ssend" in name for name in operation[message["call"][small]]]
    return able


def _is_wrong_order(message: dict[str, Array], call: Int, until: Int) -> Bool:
    """Return for calls whether a later call of the rank receives a message sent before `until`."""
    known = np.flatnonzero(message["received"] & message["complete"] & (message["partner"] >= 0))
    if not len(known):
        return np.zeros(len(call), np.bool_)
    rank, of_call = message["rank"][known], message["call"][known]
    posted = message["posted_ns"][message["partner"][known]]
    # The earliest posting among this and later messages of the rank, from the end.
    earliest = np.empty(len(known), np.int64)
    edges = np.flatnonzero(np.diff(rank, prepend=-1))
    for begin, end in zip(edges, [*edges[1:], len(known)], strict=True):
        earliest[begin:end] = np.minimum.accumulate(posted[begin:end][::-1])[::-1]
    next_ = np.searchsorted(of_call, call, side="right")
    inside = next_ < len(known)
    at = np.minimum(next_, len(known) - 1)
    rank_of_call = message["rank"][np.searchsorted(message["call"], call)]
    return np.asarray(inside & (rank[at] == rank_of_call) & (earliest[at] < until))
