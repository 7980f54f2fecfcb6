"""Reception delayed by polling: messages that had been sent while their receiver paused.

A rank polls if it calls MPI_Test, MPI_Iprobe or a similar function in vain, again and again. If it
pauses between these calls, a message that is sent in a pause is found after it. The delay is the
time from the sending to the call that finds the message. It is at most the mean pause of the loop,
because a longer one has another cause, such as a slow transfer. The rank's wait for the sender ends
when the message is sent, so it does not contain the delay.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace

MIN_PAUSE_NS = 20_000  # no sleep is shorter (core/record/poll.c)
COLUMNS = ("call", "rank", "operation", "site_id", "pause_ns", "delay_ns")


def find_polling_delays(trace: Trace) -> pd.DataFrame:
    """Return one row per call of a run or a window that found a message after a pause of its loop.

    call (row of `message_calls`), rank, operation, site_id, pause_ns (mean of the loop), delay_ns
    (of the message that was sent first).
    """
    empty = pd.DataFrame({name: np.zeros(0, np.int64) for name in COLUMNS})
    calls = trace.message_calls
    if "polls" not in calls:
        return empty
    calls = calls[(calls["polls"] > 0) & (calls["polled_ns"] < calls["exit_ns"])]
    if isinstance(trace, TraceWindow):
        calls = calls[trace.covers(calls["enter_ns"].to_numpy())]
    pause_ns = (calls["polled_ns"] - calls["enter_ns"]) // calls["polls"].clip(lower=1)
    calls = calls.assign(pause_ns=pause_ns)[pause_ns >= MIN_PAUSE_NS]
    if not len(calls):
        return empty
    messages = trace.messages
    posted_ns = messages["posted_ns"].to_numpy()
    is_found = messages["call"].isin(calls.index) & messages["received"] & messages["complete"]
    received = messages[is_found & (messages["partner"] >= 0)]
    sent = pd.Series(posted_ns[received["partner"]], received["call"].to_numpy())
    sent_ns = sent.groupby(level=0).min()
    calls = calls.loc[sent_ns.index]
    late_ns = calls["polled_ns"] - np.maximum(sent_ns, calls["enter_ns"])
    delay_ns = late_ns.clip(0, calls["pause_ns"])
    rows = calls.assign(delay_ns=delay_ns).rename_axis("call").reset_index()
    return rows.loc[rows["delay_ns"] > 0, list(COLUMNS)].reset_index(drop=True)
