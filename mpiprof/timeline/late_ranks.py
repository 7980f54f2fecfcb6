"""Late ranks of a window: the last rank of each instance, from the median of the others on."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.timeline.find import make_predicate
from mpiprof.timeline.window import Request, ResolvedRequest, Timeline
from mpiprof.trace.types import Array, Bool

MAX_INSTANCES = 1 << 16  # in a window; more of them are too short to mark
EARLIER_INSTANCES = 64  # that begin before the window and may end in it
MAX_LATE = 400  # marks of a window, the longest first
MIN_PIXELS = 1.5  # length of the shortest mark


def find_late_ranks(
    timeline: Timeline, request: Request, shown: ResolvedRequest
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
    least = MIN_PIXELS * (end - begin) / request.pixels
    with np.errstate(invalid="ignore"):
        good: Bool = (late >= least) & (rows["wait"] >= late) & (rows["median_arrival"] >= 0)
    good &= rows["last_arrival"] > begin
    good &= _are_on(timeline, request, rows)
    rank = np.clip(rows["last_rank"], 0, timeline.trace.ranks - 1)
    row = shown.rows.of_drawn[rank]
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
