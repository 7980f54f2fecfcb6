"""Wait states of messages, one row per call that waits; the definitions are those of Scalasca.

- late sender: a rank waits in a receive, or in the completion of one, until the sender posts the
  message. wrong order: meanwhile it could have received a message that was sent earlier, and that
  it receives later.
- late receiver: a rank waits in a send, or in the completion of one, until the receiver posts the
  receive (synchronous and large messages only).

A call that completes several messages waits for the one that is posted last.

A rank that polls, that is, tests a receive or probes in vain, again and again, waits for the sender
as well. The row of the call that finds the message begins with the poll (core/record/poll.c).

Older traces have a record for each test in vain that took 20 us. There, the wait begins with the
first test. It includes the pauses between the tests that are shorter than an interval of work
(200 us), and at most four times as long as the test before. A longer pause counts as work of the
rank, because it may compute there. The message arrives after the last test in vain. The next test
completes it, but mostly is too short to be recorded. Then the wait ends with the last test in vain.

A partitioned message is posted by the last MPI_Pready.

Many libraries transfer large and partitioned messages only while both ranks are in calls of MPI:

    rank 0  isend | waitall ── wait ─────────────┐
    rank 1  irecv | ────── work ─────── | waitall

If a rank has posted its part and works on, and the call of the other rank ends soon after this
work, the message counts as posted at its end.

A message whose posting call has no record causes no wait: its time is unknown. These are messages
outside of the windows in which every call is recorded, and those of uncertain number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.collective_waits import MIN_INSIDE_NS
from mpiprof.account.message_tables import MessageRows
from mpiprof.account.one_sided_waits import ONE_SIDED_STATES, find_one_sided_waits
from mpiprof.account.row_order import find_last_rows, put_in_order
from mpiprof.account.wait_states import MIN_BLOCKING_NS
from mpiprof.facts.operations import TEST_OPERATIONS
from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.trace.messages import RECEIVED_FLAG
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

MESSAGE_STATES = "late_sender", "wrong_order", "late_receiver"
STATES = (*MESSAGE_STATES, *ONE_SIDED_STATES)
PLACE = ["communicator", "peer", "site_id"]  # of a shape
# Smaller messages are sent at once by all MPI libraries, unless the send is synchronous.
MIN_RENDEZVOUS_BYTES = 4096
MAX_TRANSFER_SHARE = 0.1  # of a wait for the other rank's work, that the transfer after it takes
RECORDED_NS = 20_000  # duration of a call from which it is recorded outside of complete windows

# The fields of core/python_api/postings.h.
POSTINGS = {
    "clock_error_ns": int,
    **dict.fromkeys(("is_synchronous", "is_partitioned", "is_test"), np.bool_),
    "posted_ns": np.int64,
    "state": np.uint8,
    "counts": np.int64,
}
COUNTS = 2  # length of `counts`
NEVER, KNOWN, UNKNOWN, EAGER = range(4)  # states
WAITS = {
    **dict.fromkeys(("call", "message", "rank", "awaited"), np.int64),
    "state": np.int8,
    **dict.fromkeys(("begin_ns", "until_ns", "wait_ns"), np.int64),
}


@dataclass(frozen=True)
class Postings:
    """Times at which the other ranks of messages posted them, in ns, and the waits for these times.

    posted_ns: time of the other rank, -1 without a record of its call. state: NEVER for messages
    for which no logged call can wait. EAGER for standard sends not larger than one that ended
    before its receive was posted. UNKNOWN if a call may have waited, but the call that posted the
    message has no record. messages: these messages. waits: calls that wait, as WAITS.
    """

    posted_ns: Int
    state: Array
    messages: MessageRows
    waits: dict[str, Array]

    @property
    def is_timed(self) -> Bool:
        """Return for which messages a call may wait until a known time."""
        return np.isin(self.state, (KNOWN, EAGER))


def make_message_waits(trace: Trace) -> pd.DataFrame:
    """Return one row per call on messages or windows that waits for another rank, by call.

    call (row of `message_calls`), message (row of `messages`, -1 in calls on windows), rank,
    awaited (rank), state, begin_ns (of the call, or of earlier tests in vain), until_ns (when the
    awaited rank posted the message, or let the call on a window continue), wait_ns. Empty if the
    trace is too large to be analysed at once, which is noted.
    """
    waits = {name: np.zeros(0, dtype) for name, dtype in WAITS.items()}
    if fits_in_memory(trace) and len(trace.message_calls):
        waits = trace.derive("postings").waits
        if isinstance(trace, TraceWindow):
            is_here = trace.covers(waits["begin_ns"])
            waits = {name: column[is_here] for name, column in waits.items()}
    columns: dict[str, Any] = dict(waits)
    columns["state"] = pd.Categorical.from_codes(columns["state"], pd.Index(STATES))
    message_waits = pd.DataFrame(columns, copy=False)
    table: pd.DataFrame = trace.derive("one_sided_waits")
    if not len(table):
        return message_waits
    table = table.astype({"state": message_waits["state"].dtype})
    return pd.concat([message_waits, table]).sort_values("call", kind="stable", ignore_index=True)


def make_one_sided_waits(trace: Trace) -> pd.DataFrame:
    """Return the waits in calls on windows; of a window of time, those that begin in it."""
    waits = find_one_sided_waits(trace)
    if isinstance(trace, TraceWindow):
        waits = waits[trace.covers(waits["begin_ns"].to_numpy())]
    return waits


def find_postings(trace: Trace) -> Postings:
    """Return when the other ranks posted messages, and the calls that wait for them."""
    messages: MessageRows = trace.derive("message_rows")
    count = len(messages.rows)
    posted, state = np.empty(count, np.int64), np.empty(count, np.uint8)
    counts = np.zeros(COUNTS, np.int64)
    values: dict[str, Any] = {"posted_ns": posted, "state": state}
    values |= {
        "counts": counts,
        "clock_error_ns": trace.clock_error_ns,
        "is_synchronous": _find_shapes(trace, messages, "ssend"),
        "is_partitioned": _find_shapes(trace, messages, "psend", "precv"),
        "is_test": _find_tests(trace),
    }
    structs = messages.make_struct(trace.ranks), Struct(POSTINGS, values)
    call_library("postings_begin", *structs, MIN_RENDEZVOUS_BYTES)
    call_library("postings_check", *structs)
    _move_to_progress(trace, messages, posted, state)
    waits = _find_waits(*structs, len(messages.rank))
    return Postings(posted, state, messages, waits)


def _move_to_progress(trace: Trace, messages: MessageRows, posted_ns: Int, state: Array) -> None:
    """Set the time of each message that waits for its other rank's work to the end of this work."""
    intervals = trace.intervals
    is_long = messages.exit_ns - messages.enter_ns >= MIN_INSIDE_NS
    row = np.flatnonzero((state == KNOWN) & is_long[messages.rows["call"]])
    rows = messages.rows[row]
    since = np.maximum(posted_ns[row], messages.enter_ns[rows["call"]])
    exit_ = messages.exit_ns[rows["call"]]
    is_large = (rows["flags"] & RECEIVED_FLAG == 0) | (rows["bytes"] >= MIN_RENDEZVOUS_BYTES)
    chosen = is_large & (exit_ - since >= MIN_INSIDE_NS)
    if not chosen.any() or not len(intervals):
        return
    row, rows, since, exit_ = (column[chosen] for column in (row, rows, since, exit_))
    names = ("rank", "begin_ns", "end_ns")
    columns = [intervals[name].to_numpy(np.int64) for name in names]
    rank, begin, end = put_in_order(columns, trace.ranks)
    peer = messages.get_peers(rows).astype(np.int64)
    at = find_last_rows((rank, begin), peer, since + MIN_BLOCKING_NS, until=True)
    until = end[at]
    margin = np.maximum(MIN_BLOCKING_NS, MAX_TRANSFER_SHARE * (until - since))
    is_awaited = (at >= 0) & (until > since) & (until <= exit_) & (exit_ - until <= margin)
    posted_ns[row[is_awaited]] = until[is_awaited]


def find_wait_ends(trace: Trace) -> Int:
    """Return the end of the last wait in each row of `message_calls`, its begin without a wait."""
    until = trace.message_calls["enter_ns"].to_numpy(np.int64, copy=True)
    if len(until):
        for waits in (trace.derive("postings").waits, trace.derive("one_sided_waits")):
            np.maximum.at(until, np.asarray(waits["call"]), np.asarray(waits["until_ns"]))
    return until


def find_unknown_waits(trace: Trace) -> list[Int]:
    """Return the calls that may have waited for messages with unknown times: rank, begin and end.

    Calls that are too short to be recorded outside of complete windows are left out.
    """
    postings: Postings = trace.derive("postings")
    messages = postings.messages
    call = np.unique(messages.rows["call"][postings.state == UNKNOWN]).astype(np.int64)
    enter, exit_ = messages.enter_ns[call], messages.exit_ns[call]
    chosen = exit_ - enter >= RECORDED_NS
    if isinstance(trace, TraceWindow):
        chosen &= trace.covers(enter)
    rank = messages.rank[call].astype(np.int64)
    return [column[chosen] for column in (rank, enter, exit_)]


def sum_unknown_waits(trace: Trace) -> int:
    """Return the time of the calls of `find_unknown_waits`."""
    _, enter, exit_ = find_unknown_waits(trace)
    return int((exit_ - enter).sum())


def _find_waits(table: Struct, postings: Struct, calls: int) -> dict[str, Array]:
    """Return the calls that wait, as WAITS."""
    waits: dict[str, Array] = {name: np.empty(calls, dtype) for name, dtype in WAITS.items()}
    count = np.zeros(1, np.int64)
    structure = Struct(WAITS | {"count": np.int64}, waits | {"count": count})
    call_library("postings_find_waits", table, postings, structure)
    return {name: column[: count[0]] for name, column in waits.items()}


def _find_tests(trace: Trace) -> Bool:
    """Return which rows of `message_calls` are calls that never block."""
    operation: Any = trace.message_calls["operation"].array
    return np.asarray(np.isin(operation.categories, TEST_OPERATIONS)[operation.codes])


def _find_shapes(trace: Trace, messages: MessageRows, *names: str) -> Bool:
    """Return which shapes of messages are of some operations, whichever call completes them.

    A data set does not contain the operation that posted a message, so its call site decides.
    """
    facts: dict[str, Any] = trace.derive("shape_facts")
    operation: pd.Categorical = facts["operation"]
    is_named = np.array(
        [any(name in category for name in names) for category in operation.categories], np.bool_
    )
    named_shapes = pd.DataFrame({name: facts[name] for name in PLACE})[is_named[operation.codes]]
    places = pd.MultiIndex.from_arrays([messages.communicators, messages.peers, messages.sites])
    return np.asarray(places.isin(pd.MultiIndex.from_frame(named_shapes)))
