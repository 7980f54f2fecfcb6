"""The recorded calls of all ranks, of collectives and on messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiprof.account.collective_waits import CollectiveWaits
from mpiprof.account.row_order import find_last_rows, put_in_order
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Int


def _take_message_calls(trace: Trace, names: Sequence[str]) -> list[Array]:
    """Return columns of the logged calls on messages; of a window, without those around it."""
    calls = trace.message_calls
    columns = [calls[name].to_numpy() for name in names]
    if isinstance(trace, TraceWindow):
        is_here = trace.covers(calls["enter_ns"].to_numpy())
        columns = [column[is_here] for column in columns]
    return columns


def read_recorded_calls(trace: Trace) -> list[Int]:
    """Return rank, enter_ns, exit_ns and site of all recorded calls, by rank and time.

    The call that completes a nonblocking collective has its own site, as far as the work before it
    shows this site.
    """
    columns: list[Int] = trace.derive("recorded_calls")
    return columns


def make_recorded_calls(trace: Trace) -> list[Int]:
    """Return the columns of read_recorded_calls."""
    collective: CollectiveWaits = trace.derive("collective_waits")
    names = ("rank", "enter_ns", "exit_ns", "site_id")
    of_messages = _take_message_calls(trace, names)
    closed = of_messages[2] > 0  # by exit_ns
    site = _find_completion_sites(trace, collective)
    of_collectives = [collective.call_rank, collective.enter_ns, collective.exit_ns, site]
    joined: list[Any] = []
    for name, of_collective, values in zip(names, of_collectives, of_messages, strict=True):
        column = np.concatenate([of_collective, values[closed]])
        joined.append(column if name.endswith("_ns") else column.astype(np.int32))
    return list(put_in_order(joined, trace.ranks))


def _find_completion_sites(trace: Trace, collective: CollectiveWaits) -> Int:
    """Return the site of each call of a collective; calls that complete one have their own.

    The log has only the site of the call that started the operation. The record of the work before
    a completion has the site of the completion. Completions that follow another call at once have
    the most frequent site of the same operation's completions.
    """
    rank, enter, site = collective.call_rank, collective.enter_ns, collective.site_id.copy()
    row = np.flatnonzero(collective.completes)
    intervals = trace.intervals
    if not len(row) or not len(intervals):
        return site
    columns = [intervals[name].to_numpy() for name in ("rank", "end_ns", "after_site_id")]
    of_rank, end, after = put_in_order(columns, trace.ranks)
    at = find_last_rows((of_rank, end), rank[row], enter[row], until=True)
    start_site, next_site = site[row], after[at]
    is_after_work = (at >= 0) & (end[at] == enter[row]) & (next_site >= 0)
    for start in np.unique(start_site[is_after_work]).tolist():
        is_same = start_site == start
        site[row[is_same]] = np.bincount(next_site[is_same & is_after_work]).argmax()
    site[row[is_after_work]] = next_site[is_after_work]
    return site
