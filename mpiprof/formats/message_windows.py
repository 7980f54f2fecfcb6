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

from mpiprof.formats.message_arrows import make_arrows
from mpiprof.interface.format_units import format_count
from mpiprof.metrics.message_rows import COLUMNS, MessageRows, find_local, find_partners
from mpiprof.trace import Trace
from mpiprof.trace.messages import COMPLETE
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.types import END_NS, Array, Bool

MAX_WAITING = 1 << 22  # messages that wait for their other side
PROBES = ("probe", "iprobe")  # the receive after them completes the arrow
OF_CALLS = ("rank", "thread", "enter_ns", "exit_ns")


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
            whole = _Messages(window.derive("message_rows"), window.message_calls)
            ends, _ = _take_arrows(trace, whole, is_last=True)
            yield MessageWindow(window.message_calls, window.intervals, *ends)
            return
        of_window = _Messages(window.derive("message_rows"), window.message_calls)
        found = _take_calls(of_window, window.covers(of_window.rows.enter_ns))
        is_last = window.end_ns == END_NS
        ends, rest = _take_arrows(trace, _match(trace, [*waiting, found]), is_last)
        waiting = [rest]
        yield MessageWindow(found.calls, window.intervals, *ends)


@dataclass(frozen=True)
class _Messages:
    """Messages and their calls, of which `call` of a message is a row."""

    rows: MessageRows
    calls: pd.DataFrame


def _take_calls(of: _Messages, calls: Bool, messages: Bool | None = None) -> _Messages:
    """Return some calls, and some of their messages, all of them by default."""
    rows = of.rows.rows
    mine = calls[rows["call"]]
    taken = rows[mine if messages is None else mine & messages]
    taken["call"] = (np.cumsum(calls) - 1)[taken["call"]]
    return _make_messages(of.rows, taken, of.calls[calls].reset_index(drop=True))


def _make_messages(like: MessageRows, rows: Array, calls: pd.DataFrame) -> _Messages:
    shapes = like.communicators, like.peers, like.sites
    rank, enter_ns, exit_ns = (calls[name].to_numpy() for name in ("rank", "enter_ns", "exit_ns"))
    return _Messages(MessageRows(rows, *shapes, rank, enter_ns, exit_ns), calls)


def _match(trace: Trace, parts: Sequence[_Messages]) -> _Messages:
    """Return the messages of several windows with their partners."""
    rows = np.concatenate([of.rows.rows for of in parts])
    counts = [len(of.rows.rows) for of in parts]
    before = np.cumsum([0, *(len(of.calls) for of in parts[:-1])])
    rows["call"] += np.repeat(before, counts).astype(np.int32)
    rows["partner"] = -1
    calls = pd.concat([of.calls for of in parts], ignore_index=True)
    matched = _make_messages(parts[-1].rows, rows, calls)
    find_partners(matched.rows.make_struct(trace.ranks), find_local(trace))
    return matched


def _take_arrows(
    trace: Trace, of: _Messages, is_last: bool
) -> tuple[tuple[pd.DataFrame, pd.DataFrame], _Messages]:
    """Return the calls at both ends of complete arrows, and the messages that remain.

    Later calls may complete an arrow: a Wait of the sender, and the receive after a probe.
    """
    rows = of.rows
    messages = pd.DataFrame(rows.take_columns(COLUMNS), copy=False)
    arrows = make_arrows(messages, of.calls)
    complete = np.ones(len(arrows.sent), np.bool_)
    if not is_last:
        operation = of.calls["operation"].astype(str).to_numpy()[arrows.receiver]
        complete = rows.have_flag(COMPLETE)[arrows.sent] & ~np.isin(operation, PROBES)
    ends = [
        of.calls[list(OF_CALLS)].iloc[calls[complete]] for calls in (arrows.sender, arrows.receiver)
    ]
    taken = np.zeros(len(messages) + 1, np.bool_)  # the last element is for no partner
    taken[arrows.sent[complete]] = taken[arrows.received[complete]] = True
    remains = messages["sure"].to_numpy() & ~taken[:-1] & ~taken[messages["partner"].to_numpy()]
    remains &= ~find_local(trace)[messages["communicator"].to_numpy()]
    if int(remains.sum()) > MAX_WAITING:
        fact = f"more than {format_count(MAX_WAITING)} messages wait for their other side at a time"
        trace.problems.add(f"{fact}: those with the earliest calls have no arrow in the export")
        enter_ns = rows.enter_ns[rows.rows["call"]]
        remains &= enter_ns > np.partition(enter_ns[remains], -MAX_WAITING)[-MAX_WAITING]
    calls = np.zeros(len(of.calls), np.bool_)
    calls[rows.rows["call"][remains]] = True
    return (ends[0], ends[1]), _take_calls(of, calls, remains)
