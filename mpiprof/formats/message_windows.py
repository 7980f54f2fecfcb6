"""Calls on messages and intervals of a trace, window by window, and arrows between the calls.

A trace that does not fit in memory is exported in windows of time. Both sides of a message may be
in different windows, so a message waits for its other side. Memory is bounded: if too many messages
wait, those with the earliest calls are dropped, and have no arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.account.message_tables import MESSAGE_COLUMNS, MessageRows, find_local, match_messages
from mpiprof.interface.format_units import format_count
from mpiprof.trace import Trace
from mpiprof.trace.messages import COMPLETE
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.types import END_NS, Array, Bool, Int

MAX_WAITING = 1 << 22  # messages that wait for their other side
PROBES = ("probe", "iprobe")  # the receive after them completes the arrow
OF_CALLS = ("rank", "thread", "enter_ns", "exit_ns")


@dataclass(frozen=True)
class Arrows:
    """Messages with both sides logged: rows of `messages`, and the rows of their calls."""

    sent: Int
    received: Int
    sender: Int
    receiver: Int


def make_arrows(messages: pd.DataFrame, calls: pd.DataFrame) -> Arrows:
    """Return the messages with a logged sender and a receiver that has received them."""
    call = messages["call"].to_numpy(np.int64)
    ended = calls["exit_ns"].to_numpy(np.int64)[call] > 0
    done = ended & messages["received"].to_numpy() & messages["complete"].to_numpy()
    received = np.flatnonzero(done & (messages["partner"].to_numpy() >= 0))
    # A probe and the receive after it have the same partner; the receive is the later row.
    sent = messages["partner"].to_numpy(np.int64)[received]
    _, last = np.unique(sent[::-1], return_index=True)
    chosen = np.sort(len(sent) - 1 - last)
    sent, received = sent[chosen], received[chosen]
    return Arrows(sent, received, call[sent], call[received])


@dataclass(frozen=True)
class MessageWindow:
    """Calls and intervals that begin in a window, and arrows that are complete at its end.

    calls, intervals: rows of the tables of a trace. senders, receivers: OF_CALLS of the calls at
    both ends of each arrow.
    """

    calls: pd.DataFrame
    intervals: pd.DataFrame
    senders: pd.DataFrame
    receivers: pd.DataFrame


def iterate_message_windows(trace: Trace) -> Iterator[MessageWindow]:
    """Yield the calls on messages, the arrows and the intervals of each window of a trace."""
    waiting: list[_Messages] = []
    for window in trace.derive("open_windows")():
        if not isinstance(window, TraceWindow):
            all_messages = _Messages(window.derive("message_rows"), window.message_calls)
            ends, _ = _take_arrows(trace, all_messages, is_last=True)
            yield MessageWindow(window.message_calls, window.intervals, *ends)
            return
        of_window = _Messages(window.derive("message_rows"), window.message_calls)
        begun = _take_calls(of_window, window.covers(of_window.rows.enter_ns))
        is_last = window.end_ns == END_NS
        ends, unmatched = _take_arrows(trace, _match(trace, [*waiting, begun]), is_last)
        waiting = [unmatched]
        yield MessageWindow(begun.calls, window.intervals, *ends)


@dataclass(frozen=True)
class _Messages:
    """Messages and their calls, of which `call` of a message is a row."""

    rows: MessageRows
    calls: pd.DataFrame


def _take_calls(
    messages_of_calls: _Messages, calls: Bool, messages: Bool | None = None
) -> _Messages:
    """Return some calls, and some of their messages, all of them by default."""
    rows = messages_of_calls.rows.rows
    is_chosen = calls[rows["call"]]
    chosen_rows = rows[is_chosen if messages is None else is_chosen & messages]
    chosen_rows["call"] = (np.cumsum(calls) - 1)[chosen_rows["call"]]
    return _make_messages(
        messages_of_calls.rows, chosen_rows, messages_of_calls.calls[calls].reset_index(drop=True)
    )


def _make_messages(source: MessageRows, rows: Array, calls: pd.DataFrame) -> _Messages:
    shapes = source.communicators, source.peers, source.sites
    rank, enter_ns, exit_ns = (calls[name].to_numpy() for name in ("rank", "enter_ns", "exit_ns"))
    return _Messages(MessageRows(rows, *shapes, rank, enter_ns, exit_ns), calls)


def _match(trace: Trace, parts: Sequence[_Messages]) -> _Messages:
    """Return the messages of several windows with their partners."""
    rows = np.concatenate([part.rows.rows for part in parts])
    counts = [len(part.rows.rows) for part in parts]
    before = np.cumsum([0, *(len(part.calls) for part in parts[:-1])])
    rows["call"] += np.repeat(before, counts).astype(np.int32)
    rows["partner"] = -1
    calls = pd.concat([part.calls for part in parts], ignore_index=True)
    matched = _make_messages(parts[-1].rows, rows, calls)
    match_messages(trace, matched.rows)
    return matched


def _take_arrows(
    trace: Trace, pending: _Messages, is_last: bool
) -> tuple[tuple[pd.DataFrame, pd.DataFrame], _Messages]:
    """Return the calls at both ends of complete arrows, and the messages that remain.

    Later calls may complete an arrow: a Wait of the sender, and the receive after a probe.
    """
    rows = pending.rows
    messages = pd.DataFrame(rows.take_columns(MESSAGE_COLUMNS), copy=False)
    arrows = make_arrows(messages, pending.calls)
    complete = np.ones(len(arrows.sent), np.bool_)
    if not is_last:
        operation = pending.calls["operation"].astype(str).to_numpy()[arrows.receiver]
        complete = rows.have_flag(COMPLETE)[arrows.sent] & ~np.isin(operation, PROBES)
    ends = [
        pending.calls[list(OF_CALLS)].iloc[calls[complete]]
        for calls in (arrows.sender, arrows.receiver)
    ]
    is_taken = np.zeros(len(messages) + 1, np.bool_)  # the last element is for no partner
    is_taken[arrows.sent[complete]] = is_taken[arrows.received[complete]] = True
    remains = (
        messages["sure"].to_numpy() & ~is_taken[:-1] & ~is_taken[messages["partner"].to_numpy()]
    )
    remains &= ~find_local(trace)[messages["communicator"].to_numpy()]
    if int(remains.sum()) > MAX_WAITING:
        fact = f"more than {format_count(MAX_WAITING)} messages wait for their other side at a time"
        trace.problems.add(f"{fact}: those with the earliest calls have no arrow in the export")
        enter_ns = rows.enter_ns[rows.rows["call"]]
        remains &= enter_ns > np.partition(enter_ns[remains], -MAX_WAITING)[-MAX_WAITING]
    calls = np.zeros(len(pending.calls), np.bool_)
    calls[rows.rows["call"][remains]] = True
    return (ends[0], ends[1]), _take_calls(pending, calls, remains)
