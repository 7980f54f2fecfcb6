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

A message whose posting call has no record causes no wait: its time is unknown. These are messages
outside of the windows in which every call is recorded, and those of uncertain number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.interface.analysis_library import Struct, call_library
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.message_rows import MessageRows
from mpiprof.metrics.one_sided_waits import ONE_SIDED_STATES, find_one_sided_waits
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

MESSAGE_STATES = "late_sender", "wrong_order", "late_receiver"
STATES = (*MESSAGE_STATES, *ONE_SIDED_STATES)
PLACE = ["communicator", "peer", "site_id"]  # of a shape
# Smaller messages are sent at once by all MPI libraries, unless the send is synchronous.
MIN_RENDEZVOUS_BYTES = 4096
RECORDED_NS = 20_000  # duration of a call from which it is recorded outside of complete windows

# The fields of core/python_api/postings.h.
POSTINGS = {
    "clock_error_ns": int,
    **dict.fromkeys(("is_synchronous", "is_partitioned"), np.bool_),
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
            waits = {name: of[is_here] for name, of in waits.items()}
    columns: dict[str, Any] = dict(waits)
    columns["state"] = pd.Categorical.from_codes(columns["state"], pd.Index(STATES))
    found = pd.DataFrame(columns, copy=False)
    table: pd.DataFrame = trace.derive("one_sided_waits")
    if not len(table):
        return found
    table = table.astype({"state": found["state"].dtype})
    return pd.concat([found, table]).sort_values("call", kind="stable", ignore_index=True)


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
    }
    structs = messages.make_struct(trace.ranks), Struct(POSTINGS, values)
    call_library("postings_begin", *structs, MIN_RENDEZVOUS_BYTES)
    call_library("postings_check", *structs)
    waits = _find_waits(*structs, len(messages.rank))
    return Postings(posted, state, messages, waits)


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
    found = Struct(WAITS | {"count": np.int64}, waits | {"count": count})
    call_library("postings_find_waits", table, postings, found)
    return {name: of[: count[0]] for name, of in waits.items()}


def _find_shapes(trace: Trace, messages: MessageRows, *names: str) -> Bool:
    """Return which shapes of messages are of some operations, whichever call completes them.

    A data set does not contain the operation that posted a message, so its call site decides.
    """
    facts: dict[str, Any] = trace.derive("shape_facts")
    operation: pd.Categorical = facts["operation"]
    is_named = np.array(
        [any(name in of for name in names) for of in operation.categories], np.bool_
    )
    named = pd.DataFrame({name: facts[name] for name in PLACE})[is_named[operation.codes]]
    places = pd.MultiIndex.from_arrays([messages.communicators, messages.peers, messages.sites])
    return np.asarray(places.isin(pd.MultiIndex.from_frame(named)))
