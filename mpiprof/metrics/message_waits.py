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
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.interface.analysis_library import call_library
from mpiprof.metrics.activities import find_activities
from mpiprof.metrics.memory_limit import memory_limit_bytes
from mpiprof.metrics.posting_times import UNKNOWN_NS, find_posting_times
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

STATES = LATE_SENDER, WRONG_ORDER, LATE_RECEIVER = "late_sender", "wrong_order", "late_receiver"
# Smaller messages are sent at once by all MPI libraries, unless the send is synchronous.
MIN_RENDEZVOUS_BYTES = 4096
BYTES_PER_RECORD = 160  # peak memory of a report, by benchmarks.delay_speed
MAX_MEMORY_SHARE = 0.5  # of the limit; other programs need the rest
TIE_NS = 5_000  # differences between estimated times below this decide nothing


@dataclass(frozen=True)
class Postings:
    """Messages for which logged calls can wait, by call; times in ns.

    Per message: row (of `messages`), call, rank, peer (the other rank), enter_ns and exit_ns (of
    the call), posted_ns (when the peer posted the message), since_ns (last known time of the peer
    before that, equal if its posting call is recorded), is_eager (sends that are at most as large
    as others that ended before their receive was posted).
    """

    row: Int
    call: Int
    rank: Int
    peer: Int
    enter_ns: Int
    exit_ns: Int
    posted_ns: Int
    since_ns: Int
    is_eager: Bool


def make_message_waits(trace: Trace) -> pd.DataFrame:
    """Return one row per call on messages that waits for another rank, by call.

    call (row of `message_calls`), message (row of `messages`), rank, awaited (rank), state,
    begin_ns, until_ns (when the awaited rank posted the message), wait_ns. Empty if the memory of
    this machine is too small for the trace, which is noted.
    """
    if not fits_in_memory(trace):
        return _make_table(*([np.zeros(0, np.int64)] * 7))
    of: Postings = trace.derive("postings")
    if not len(of.row):
        return _make_table(*([np.zeros(0, np.int64)] * 7))
    message: dict[str, Array] = {str(name): of.to_numpy() for name, of in trace.messages.items()}
    # The rank that became free last counts as the last one among ranks with equal times. If the
    # intervals without calls are unknown, the rank without a call for longest counts as the last.
    # `~` reverses the order; `-` would overflow for a rank without an earlier call.
    order = of.since_ns if len(trace.intervals) else ~of.since_ns
    last = _find_last(of.call, of.posted_ns, order)
    until, enter = np.minimum(of.posted_ns, of.exit_ns)[last], of.enter_ns[last]
    waits = until > enter + trace.clock_error_ns
    last, until, enter = last[waits], until[waits], enter[waits]
    row, call, rank, peer = (getattr(of, name)[last] for name in ("row", "call", "rank", "peer"))
    wrong = _is_wrong_order(message, call, until)
    state = np.where(message["received"][row], wrong, STATES.index(LATE_RECEIVER))
    return _make_table(call, row, rank, peer, enter, until, state)


def fits_in_memory(trace: Trace) -> bool:
    """Return whether the tables of messages and of their delays fit, and note if they do not."""
    chunks = (chunk for of_thread in trace.logs.messages.values() for chunk in of_thread)
    needed = BYTES_PER_RECORD * sum(chunk.log.layout.capacity for chunk in chunks)
    if needed <= MAX_MEMORY_SHARE * memory_limit_bytes():
        return True
    gigabytes = needed / MAX_MEMORY_SHARE / 1e9
    fact = "waits for messages are not computed: the memory is too small for so many records"
    trace.problems.add(f"{fact}; use a machine and a control group with {gigabytes:,.0f} GB")
    return False


def find_postings(trace: Trace) -> Postings:
    """Return the messages for which logged calls can wait, and when the other rank posted them."""
    calls, messages = trace.message_calls, trace.messages
    message: dict[str, Array] = {str(name): messages[name].to_numpy() for name in messages}
    call, received = message["call"], message["received"]
    enter, exit_ = (calls[name].to_numpy() for name in ("enter_ns", "exit_ns"))
    peer = np.where(received, message["source"], message["destination"])
    able = _can_wait(message, calls["operation"])
    able &= (peer >= 0) & (peer < trace.ranks) & (peer != message["rank"])
    able &= exit_[call] > 0
    rows = np.flatnonzero(able)
    ends = exit_[call[rows]]
    posted, since = _find_posting(trace, message, rows, peer, ends)
    possible = posted <= ends + trace.clock_error_ns
    is_send = ~received[rows]
    eager = message["bytes"][rows[is_send & ~possible]].max(initial=-1)
    is_eager = is_send & (message["bytes"][rows] <= eager)
    rows = rows[possible]
    return Postings(
        rows,
        call[rows],
        message["rank"][rows].astype(np.int64),
        peer[rows].astype(np.int64),
        enter[call[rows]],
        ends[possible],
        posted[possible],
        since[possible],
        is_eager[possible],
    )


def _make_table(
    call: Int, message: Int, rank: Int, awaited: Int, begin: Int, until: Int, state: Int
) -> pd.DataFrame:
    """Return the table; state: index into STATES."""
    columns: dict[str, Any] = {"call": call, "message": message, "rank": rank, "awaited": awaited}
    states = pd.Categorical.from_codes(state, pd.Index(STATES))
    columns |= {"state": states, "begin_ns": begin, "until_ns": until, "wait_ns": until - begin}
    return pd.DataFrame(columns, copy=False)


def _find_posting(
    trace: Trace, message: dict[str, Array], rows: Int, peer: Int, exit_: Int
) -> tuple[Int, Int]:
    """Return when the other rank posted some messages, and its last known time before that.

    Both times are equal if the posting call is recorded. exit_: end of the calls of these messages.
    """
    partner = message["partner"][rows]
    posted = message["posted_ns"][partner]
    since = posted.copy()
    unknown = np.flatnonzero(partner < 0)
    if not len(unknown):
        return posted, since
    activities = find_activities(trace)
    ends, peers = exit_[unknown], peer[rows[unknown]]
    last, before = activities.last_pause(peers, ends)
    worked = find_posting_times(trace, activities, message, rows[unknown], ends)
    known = np.flatnonzero(worked != UNKNOWN_NS)
    worked = worked[known]
    last[known] = np.minimum(last[known], activities.next_begin(peers[known], worked))
    before[known] = np.minimum(before[known], worked)
    posted[unknown], since[unknown] = last, before
    return posted, since


def _find_last(call: Int, posted_ns: Int, order: Int) -> Int:
    """Return for each call the message that is posted last, of equal ones the last in an order.

    call: ascending.
    """
    last, calls = np.empty(len(call), np.int64), np.zeros(1, np.int64)
    call_library("postings_find_last", len(call), call, posted_ns, TIE_NS, order, last, calls)
    return last[: calls[0]]


def _can_wait(message: dict[str, Array], operation: pd.Series[Any]) -> Bool:
    """Return which messages a call can wait for; operation: of each call."""
    able: Bool = message["complete"] & (
        message["received"] | (message["bytes"] >= MIN_RENDEZVOUS_BYTES)
    )
    small = np.flatnonzero(message["complete"] & ~able)
    able[small] = ["ssend" in name for name in operation.iloc[message["call"][small]]]
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
