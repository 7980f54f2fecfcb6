"""Calls on messages in a window, the waits for messages therein, and the sums of both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.trace import Trace
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.types import Array, Bool, Float, Int

from .wait_chain import list_records
from .window import Request, ResolvedRequest, Timeline, choose_level

MAX_WAITS = 300  # of a window, the longest first
MAX_CALLS = 1500  # of a window without a wait that is shown, the longest first
MAX_MARKS = 1 << 17  # calls, and waits, of each window of a trace that is analysed in windows
WINDOW_SHIFT = 40  # of the number of a window in the numbers of its calls
OF_MESSAGE = "source", "tag", "bytes"  # columns of waits for a message; -1 in calls on windows
MIN_PIXELS = 1.5  # length of the shortest wait or call that is shown


@dataclass(frozen=True)
class MessageMarks:
    """Calls on messages of a trace, by begin, and the waits therein.

    calls: rank, enter_ns, exit_ns (the end of the trace if open), operation, site, communicator
    (index, -1 if the call has none), call (number). waits: rows of `Trace.message_waits` with
    operation, site, communicator and end_ns of the call, and source, tag and bytes of the message.
    is_whole: these are all calls and waits of the trace.
    """

    calls: pd.DataFrame
    waits: pd.DataFrame
    is_whole: bool = True

    @cached_property
    def begins(self) -> Int:
        """The begin of each call, ascending."""
        return self.calls["enter_ns"].to_numpy(np.int64)

    @cached_property
    def last_ends(self) -> Int:
        """The latest end of all calls up to each call, ascending."""
        return np.maximum.accumulate(self.calls["exit_ns"].to_numpy(np.int64))

    @cached_property
    def _waits_by_call(self) -> tuple[Int, Int]:
        """The numbers of the calls that wait, ascending, and the row of each one's wait."""
        call = self.waits["call"].to_numpy(np.int64)
        order = np.argsort(call, kind="stable")
        return call[order], order

    def overlapping(self, begin: int, end: int) -> pd.DataFrame:
        """Return calls in time order; all that overlap a span of the joint clock are among them."""
        first = int(np.searchsorted(self.last_ends, begin, side="right"))
        return self.calls.iloc[first : int(np.searchsorted(self.begins, end))]

    def find_waits(self, calls: Int) -> Int:
        """Return the row of `waits` of each call, given by its number; -1 for a call without."""
        sorted_calls, order = self._waits_by_call
        at = np.searchsorted(sorted_calls, calls)
        near = np.minimum(at, len(sorted_calls) - 1)
        if not len(sorted_calls):
            return np.full_like(at, -1)
        rows: Int = np.where(sorted_calls[near] == calls, order[near], -1)
        return rows


def read_message_marks(trace: Trace) -> MessageMarks:
    """Return the calls on messages of a trace, and the waits for messages.

    If the trace is too large to be analysed at once, these are the longest ones of each window.
    """
    if fits_in_memory(trace):
        return _read_marks(trace)
    calls: list[pd.DataFrame] = []
    waits: list[pd.DataFrame] = []
    for number, marks in enumerate(trace.derive("in_windows")(_read_longest_marks)):
        for tables, table in ((calls, marks.calls), (waits, marks.waits)):
            tables.append(table.assign(call=table["call"] + (number << WINDOW_SHIFT)))
    in_order: pd.DataFrame = pd.concat(calls).sort_values(
        "enter_ns", kind="stable", ignore_index=True
    )
    return MessageMarks(in_order, pd.concat(waits, ignore_index=True), is_whole=False)


def _read_longest_marks(window: TraceWindow) -> MessageMarks:
    """Return the longest calls and waits of a window."""
    marks = _read_marks(window)
    calls = marks.calls[window.covers(marks.begins)]
    length = calls["exit_ns"] - calls["enter_ns"]
    longest = calls.loc[length.nlargest(MAX_MARKS).index]
    return MessageMarks(longest, marks.waits.nlargest(MAX_MARKS, "wait_ns"))


def _take_known(values: Array, rows: Int) -> Array:
    """Return the values of some rows, -1 for row -1."""
    return np.append(values, -1)[rows]


def _read_marks(trace: Trace) -> MessageMarks:
    """Return all calls on messages of a trace or a window, and the waits for messages."""
    waits, calls, messages = trace.message_waits, trace.message_calls, trace.messages
    call, message = waits["call"].to_numpy(), waits["message"].to_numpy()
    described = waits.assign(
        operation=calls["operation"].astype(str).to_numpy()[call],
        site=calls["site"].astype(str).to_numpy()[call],
        communicator=calls["communicator"].to_numpy()[call],
        end_ns=calls["exit_ns"].to_numpy()[call],
        **{name: _take_known(messages[name].to_numpy(), message) for name in OF_MESSAGE},
    )
    enter, exit_ = (calls[name].to_numpy(np.int64) for name in ("enter_ns", "exit_ns"))
    order = np.argsort(enter, kind="stable")
    end_ns = trace.calls_start_ns + trace.duration_ns
    in_order = calls[["rank", "enter_ns", "operation", "site", "communicator"]].iloc[order]
    closed = np.where(exit_ == 0, np.maximum(end_ns, enter), np.maximum(exit_, enter))[order]
    return MessageMarks(in_order.assign(exit_ns=closed, call=order), described)


def list_message_marks(
    timeline: Timeline, request: Request, resolved: ResolvedRequest, marks: MessageMarks
) -> dict[str, Any]:
    """Return the longest waits for messages and calls on messages in a window.

    waits: of shown ranks, for any rank. calls: [rank, begin, end, index into `sites`, wait in ns,
    awaited rank (-1 without a wait)] of other calls on drawn ranks. sites: [operation, site]. Times
    are in ns after the begin. Calls that the filters exclude are left out.
    """
    chosen = _choose_waits(timeline, request, resolved, marks.waits)
    base = timeline.events.begin_ns
    waits = [
        {
            "rank": int(record["rank"]),
            "awaited": int(record["awaited"]),
            "begin": int(record["begin_ns"]) - base,
            "until": int(record["until_ns"]) - base,
            "end": max(int(record["end_ns"]), int(record["until_ns"])) - base,
            "is_sent": bool(record["source"] == record["rank"]),
            "operation": record["operation"],
            "site": record["site"],
            "tag": int(record["tag"]),
            "bytes": int(record["bytes"]),
        }
        for record in list_records(chosen)
    ]
    calls = _choose_calls(timeline, request, resolved, marks, chosen["call"].to_numpy(np.int64))
    names = list(zip(calls["operation"].astype(str), calls["site"].astype(str), strict=True))
    sites = {name: at for at, name in enumerate(dict.fromkeys(names))}
    times = [calls[name].to_numpy(np.int64) - base for name in ("enter_ns", "exit_ns")]
    wait = marks.find_waits(calls["call"].to_numpy(np.int64))
    waited, awaited = (marks.waits[name].to_numpy(np.int64) for name in ("wait_ns", "awaited"))
    columns = [
        calls["rank"].tolist(),
        *(values.tolist() for values in times),
        [sites[n] for n in names],
    ]
    for values, default in ((waited, 0), (awaited, -1)):
        columns.append([int(values[row]) if row >= 0 else default for row in wait.tolist()])
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"waits": waits, "calls": rows, "sites": [list(name) for name in sites]}


def _choose_waits(
    timeline: Timeline, request: Request, resolved: ResolvedRequest, waits: pd.DataFrame
) -> pd.DataFrame:
    """Return the longest waits for messages of shown ranks in a window."""
    begin, end, shortest_ns = _find_window(timeline, request)
    good = (
        (waits["until_ns"] > begin) & (waits["begin_ns"] < end) & (waits["wait_ns"] >= shortest_ns)
    )
    good &= _are_in(resolved.rows.of_rank, waits["rank"].to_numpy(np.int64))
    good &= pass_filters(timeline, request, waits)
    return waits[good].nlargest(MAX_WAITS, "wait_ns")


def _choose_calls(
    timeline: Timeline,
    request: Request,
    resolved: ResolvedRequest,
    marks: MessageMarks,
    waiting_calls: Int,
) -> pd.DataFrame:
    """Return the longest calls on messages of drawn ranks in a window, without known ones."""
    begin, end, shortest_ns = _find_window(timeline, request)
    calls = marks.overlapping(begin, end)
    length = (calls["exit_ns"] - calls["enter_ns"]).to_numpy(np.int64)
    good = (length >= shortest_ns) & (calls["exit_ns"].to_numpy(np.int64) > begin)
    good &= _are_in(resolved.rows.of_drawn, calls["rank"].to_numpy(np.int64))
    good &= ~np.isin(calls["call"].to_numpy(np.int64), waiting_calls)
    good &= pass_filters(timeline, request, calls)
    chosen = np.flatnonzero(good)
    longest = chosen[np.argsort(-length[chosen], kind="stable")[:MAX_CALLS]]
    return calls.iloc[np.sort(longest)]


def pass_filters(timeline: Timeline, request: Request, calls: pd.DataFrame) -> Bool:
    """Return whether each call passes the filters of operations and communicators.

    A call without a communicator, such as a Waitall, passes the filter of communicators.
    """
    good = np.ones(len(calls), np.bool_)
    if request.operations:
        good &= calls["operation"].isin(request.operations).to_numpy(np.bool_)
    communicators = timeline.find_communicators(request.communicators)
    if communicators is not None:
        identity = calls["communicator"].to_numpy(np.int64)
        good &= (identity < 0) | np.isin(identity, sorted(communicators))
    return good


def _find_window(timeline: Timeline, request: Request) -> tuple[int, int, float]:
    """Return begin and end of a window on the joint clock, and the least length to show."""
    begin, end = (timeline.events.begin_ns + ns for ns in timeline.clip_request(request))
    return begin, end, MIN_PIXELS * (end - begin) / request.pixels


def _are_in(rows: Int, ranks: Int) -> Bool:
    """Return whether each rank has a row."""
    good: Bool = (ranks >= 0) & (ranks < len(rows))
    good &= rows[np.clip(ranks, 0, len(rows) - 1)] >= 0
    return good


def sum_messages(
    timeline: Timeline, request: Request, resolved: ResolvedRequest, marks: MessageMarks
) -> dict[str, Any]:
    """Return the sums over the calls on messages of shown ranks in a window.

    all: calls of the trace. count: calls that begin in the window. inside, wait: ns in the window.
    share: `inside` as a share of the window on all shown ranks. wait_share: the same of `wait`.
    is_whole: the trace has no other calls on messages.
    """
    base = timeline.events.begin_ns
    begin, end = (base + ns for ns in timeline.clip_request(request))
    calls = marks.overlapping(begin, end)
    enter, leave = _spans_of_shown(timeline, request, resolved, calls, ("enter_ns", "exit_ns"))
    from_, until = _spans_of_shown(
        timeline, request, resolved, marks.waits, ("begin_ns", "until_ns")
    )
    inside = int(np.maximum(np.minimum(leave, end) - np.maximum(enter, begin), 0).sum())
    wait = int(np.maximum(np.minimum(until, end) - np.maximum(from_, begin), 0).sum())
    total_ns = max((end - begin) * sum(map(len, resolved.rows.ranks)), 1)
    return {
        "all": len(marks.calls),
        "count": int((enter >= begin).sum()),
        "inside": inside,
        "wait": wait,
        "share": inside / total_ns,
        "wait_share": wait / total_ns,
        "is_whole": marks.is_whole,
    }


def share_messages(
    timeline: Timeline, request: Request, resolved: ResolvedRequest, marks: MessageMarks
) -> Float:
    """Return the shares of all shown ranks along the whole run: bins x (waiting, rest of calls).

    The bins are those of `Timeline.render_overview`.
    """
    level = choose_level(timeline.length_ns, request.pixels)
    bins = -(-timeline.length_ns >> level)
    calls = _spans_of_shown(timeline, request, resolved, marks.calls, ("enter_ns", "exit_ns"))
    waits = _spans_of_shown(timeline, request, resolved, marks.waits, ("begin_ns", "until_ns"))
    base, rank_count = timeline.events.begin_ns, max(sum(map(len, resolved.rows.ranks)), 1)
    inside, wait = (
        _sum_bins(first - base, last - base, level, bins) for first, last in (calls, waits)
    )
    shares = np.stack([wait, np.maximum(inside - wait, 0)], 1) / (rank_count * float(1 << level))
    return np.asarray(np.clip(shares, 0, 1))


def _spans_of_shown(
    timeline: Timeline,
    request: Request,
    resolved: ResolvedRequest,
    table: pd.DataFrame,
    names: tuple[str, str],
) -> tuple[Int, Int]:
    """Return begin and end of the calls or waits of shown ranks that pass the filters."""
    good = resolved.rows.of_rank[table["rank"].to_numpy(np.int64)] >= 0
    good &= pass_filters(timeline, request, table)
    first, last = (table[name].to_numpy(np.int64)[good] for name in names)
    return first, last


def _sum_bins(first: Int, last: Int, level: int, bins: int) -> Float:
    """Return the ns of spans in each bin of 2**level ns."""
    total = np.zeros(bins + 1)
    first, last = (np.clip(time, 0, bins << level) for time in (first, np.maximum(first, last)))
    for at, sign in ((first, -1), (last, 1)):
        # The integral of a step at `at`: the rest of its bin counts in part, all later bins whole.
        index = np.minimum(at >> level, bins)
        within = (at - (index << level)).astype(np.float64)
        until_end = (1 << level) - within
        step = np.bincount(index, until_end, bins + 1)
        later = np.cumsum(np.bincount(index, minlength=bins + 1)) * float(1 << level)
        total -= sign * (step + np.concatenate([[0.0], later[:-1]]))
    return total[:bins]
