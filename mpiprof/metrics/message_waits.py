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

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.activities import find_activities
from mpiprof.metrics.memory_limit import memory_limit_bytes
from mpiprof.metrics.posting_times import set_posting_times
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

STATES = LATE_SENDER, WRONG_ORDER, LATE_RECEIVER = "late_sender", "wrong_order", "late_receiver"
# Smaller messages are sent at once by all MPI libraries, unless the send is synchronous.
MIN_RENDEZVOUS_BYTES = 4096
BYTES_PER_RECORD = 160  # peak memory of a report, by benchmarks.delay_speed
MAX_MEMORY_SHARE = 0.5  # of the limit; other programs need the rest
TIE_NS = 5_000  # differences between estimated times below this decide nothing


# The fields of core/python_api/messages.h.
TABLE = {
    **dict.fromkeys(("count", "ranks", "clock_error_ns"), int),
    "call": np.int64,
    **dict.fromkeys(("rank", "communicator", "source", "destination"), np.int32),
    **dict.fromkeys(("number", "bytes", "own_posted_ns", "partner"), np.int64),
    **dict.fromkeys(("received", "complete", "sure"), np.bool_),
    **dict.fromkeys(("enter_ns", "exit_ns"), np.int64),
    "is_synchronous": np.bool_,
    **dict.fromkeys(("posted_ns", "since_ns"), np.int64),
    "state": np.uint8,
}
NEVER, KNOWN, UNKNOWN, EAGER = range(4)  # states


@dataclass(frozen=True)
class Postings:
    """Times at which the other ranks of messages posted them, in ns; one value per message.

    table: of messages, as in core/python_api/messages.h. posted_ns: time of the other rank.
    since_ns: last known time of this rank before that, equal if its posting call is recorded.
    state: NEVER for messages for which no logged call can wait. EAGER for sends that are at most as
    large as others that ended before their receive was posted.
    """

    table: Struct
    posted_ns: Int
    since_ns: Int
    state: Array

    def get_peer(self, rows: Int) -> Int:
        """Return the other rank of some messages."""
        of = self.table.arrays
        return np.where(of["received"][rows], of["source"][rows], of["destination"][rows])

    def get_call_times(self, rows: Int) -> tuple[Int, Int]:
        """Return begin and end of the calls of some messages."""
        of, calls = self.table.arrays, self.table.arrays["call"][rows]
        return of["enter_ns"][calls], of["exit_ns"][calls]


def make_message_waits(trace: Trace) -> pd.DataFrame:
    """Return one row per call on messages that waits for another rank, by call.

    call (row of `message_calls`), message (row of `messages`), rank, awaited (rank), state,
    begin_ns, until_ns (when the awaited rank posted the message), wait_ns. Empty if the memory of
    this machine is too small for the trace, which is noted.
    """
    if not fits_in_memory(trace):
        return _make_table(*([np.zeros(0, np.int64)] * 7))
    of: Postings = trace.derive("postings")
    found, count = np.empty(len(trace.message_calls), np.int64), np.zeros(1, np.int64)
    # The rank that became free last counts as the last one among ranks with equal times. If the
    # intervals without calls are unknown, the rank without a call for longest counts as the last.
    is_longest_first = int(not len(trace.intervals))
    call_library("postings_find_waits", of.table, TIE_NS, is_longest_first, found, count)
    rows = found[: count[0]].copy()
    enter, exit_ = of.get_call_times(rows)
    until = np.minimum(of.posted_ns[rows], exit_)
    message = {str(name): of.to_numpy() for name, of in trace.messages.items()}
    call = message["call"][rows]
    wrong = _is_wrong_order(message, call, until)
    state = np.where(message["received"][rows], wrong, STATES.index(LATE_RECEIVER))
    rank, peer = (
        of_rows.astype(np.int64) for of_rows in (message["rank"][rows], of.get_peer(rows))
    )
    return _make_table(call, rows, rank, peer, enter, until, state)


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
    """Return when the other ranks posted the messages for which logged calls can wait."""
    calls, messages = trace.message_calls, trace.messages
    posted, since = np.empty((2, len(messages)), np.int64)
    state = np.empty(len(messages), np.uint8)
    values: dict[str, Any] = {
        name: messages[name].to_numpy() for name in TABLE if name in messages.columns
    }
    values |= {"count": len(messages), "ranks": trace.ranks}
    values |= {"clock_error_ns": trace.clock_error_ns, "own_posted_ns": values["posted_ns"]}
    values |= {name: calls[name].to_numpy() for name in ("enter_ns", "exit_ns")}
    values |= {"is_synchronous": _find_synchronous(calls["operation"]), "posted_ns": posted}
    table = Struct(TABLE, values | {"since_ns": since, "state": state})
    unknown = np.zeros(1, np.int64)
    call_library("postings_begin", table, MIN_RENDEZVOUS_BYTES, unknown)
    if unknown[0]:
        activities = find_activities(trace)
        set_posting_times(trace, activities, table)
        first = activities.first
        call_library("postings_estimate", table, activities.rows, first, first.copy(), first.copy())
    call_library("postings_check", table)
    return Postings(table, posted, since, state)


def _find_synchronous(operation: pd.Series[Any]) -> Bool:
    """Return which calls are synchronous sends."""
    names = operation.cat.categories
    return np.array(["ssend" in name for name in names], np.bool_)[operation.cat.codes]


def _make_table(
    call: Int, message: Int, rank: Int, awaited: Int, begin: Int, until: Int, state: Int
) -> pd.DataFrame:
    """Return the table; state: index into STATES."""
    columns: dict[str, Any] = {"call": call, "message": message, "rank": rank, "awaited": awaited}
    states = pd.Categorical.from_codes(state, pd.Index(STATES))
    columns |= {"state": states, "begin_ns": begin, "until_ns": until, "wait_ns": until - begin}
    return pd.DataFrame(columns, copy=False)


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
