"""Time in calls on messages, and waiting therein: of a window, and along the whole run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.trace.types import Float, Int

from .message_marks import MessageMarks, pass_filters
from .window import Request, ResolvedRequest, Timeline, choose_level


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
