"""Marks of a window: late ranks, and work of blamed ranks by which they delay other ranks.

The mark of a late rank begins at the median arrival of the other ranks of its instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.trace.types import Array, Bool

from .find import make_predicate
from .window import Request, ResolvedRequest, Timeline

MAX_INSTANCES = 1 << 16  # in a window; more of them are too short to mark
EARLIER_INSTANCES = 64  # that begin before the window and may end in it
MAX_LATE = 400  # marks of a window, the longest first
MIN_PIXELS = 1.5  # length of the shortest mark


def find_late_ranks(
    timeline: Timeline, request: Request, resolved: ResolvedRequest
) -> list[tuple[int, int, int, int]]:
    """Return (instance, row, median of the others, last arrival) of the late ranks in a window.

    A rank is late if it arrives last and the other ranks wait for it together at least as long as
    it is behind the median. Times are in ns after the begin. Late ranks that no row draws and
    operations that are off are left out.
    """
    events, base = timeline.events, timeline.events.begin_ns
    begin, end = (base + ns for ns in timeline.clip_request(request))

    first, stop = (timeline.find_instance_at(at) for at in (begin, end))
    if stop - first > MAX_INSTANCES:
        return []
    first = max(first - EARLIER_INSTANCES, 0)
    rows = events.read_instances(first, stop)
    late = rows["last_arrival"] - rows["median_arrival"]
    shortest_ns = MIN_PIXELS * (end - begin) / request.pixels
    with np.errstate(invalid="ignore"):
        good: Bool = (late >= shortest_ns) & (rows["wait"] >= late) & (rows["median_arrival"] >= 0)
    good &= rows["last_arrival"] > begin
    good &= _are_on(timeline, request, rows)
    rank = np.clip(rows["last_rank"], 0, timeline.trace.ranks - 1)
    row = resolved.rows.of_drawn[rank]
    good &= row >= 0
    chosen = np.flatnonzero(good)
    chosen = chosen[np.argsort(-late[chosen], kind="stable")[:MAX_LATE]]
    columns: tuple[Any, ...] = (
        chosen + first,
        row[chosen],
        rows["median_arrival"][chosen] - base,
        rows["last_arrival"][chosen] - base,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _are_on(timeline: Timeline, request: Request, rows: Array) -> Bool:
    """Return whether the instances pass the filters and their state is not switched off."""
    communicators = timeline.find_communicators(request.communicators)
    on = make_predicate(timeline, "", communicators, request.operations)(rows)
    if request.colour == "waiting" or not any(request.off):
        return on
    if request.colour == "operation":
        names, field = [site[0] for site in timeline.events.meta.get("callsites", [])], "callsite"
    else:
        names = [name.partition(":")[0] for name in timeline.events.meta["algorithms"]]
        field = "algorithm"
    good = np.array([name not in request.off for name in names] + [False], np.bool_)
    on &= good[np.minimum(rows[field], len(names))]
    return on


MAX_CAUSES = 600  # of a window, the longest first
MIN_MARK_PIXELS = 1.5  # length of the shortest mark


def order_blamed_ranks(ranks_of: Sequence[Sequence[int]], work: pd.DataFrame) -> list[int]:
    """Return the ranks of the findings that blame work; of each finding, the costliest first.

    ranks_of: of each finding. work: `Trace.derive("blamed_work")`.
    """
    ranks: dict[int, None] = {}
    for number in sorted(set(work["finding"].tolist())):
        cost_ns = work[work["finding"] == number].groupby("rank")["cost_ns"].sum()
        ranks |= dict.fromkeys(sorted(ranks_of[number], key=lambda rank: -cost_ns.get(rank, 0.0)))
    return list(ranks)


def list_causes(
    timeline: Timeline, request: Request, resolved: ResolvedRequest, work: pd.DataFrame
) -> list[list[float]]:
    """Return [rank, begin, end, finding, waiting caused] of the longest blamed work in a window.

    work: `Trace.derive("blamed_work")`. Times are in ns after the begin. Ranks without a row are
    left out.
    """
    base = timeline.events.begin_ns
    begin, end = (base + ns for ns in timeline.clip_request(request))
    rank, first, last = (work[name].to_numpy(np.int64) for name in ("rank", "begin_ns", "end_ns"))
    length, rows = last - first, resolved.rows.of_rank
    good = (last > begin) & (first < end)
    good &= length >= MIN_MARK_PIXELS * (end - begin) / request.pixels
    good &= rows[np.clip(rank, 0, len(rows) - 1)] >= 0
    chosen = np.flatnonzero(good)
    longest = np.sort(chosen[np.argsort(-length[chosen], kind="stable")[:MAX_CAUSES]])
    columns = (
        *(rank[longest], first[longest] - base, last[longest] - base),
        *(work[name].to_numpy()[longest] for name in ("finding", "cost_ns")),
    )
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
