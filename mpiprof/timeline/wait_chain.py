"""The chain from a wait back to the rank that caused it.

A wait lasts until the awaited rank arrives or posts its message. If the awaited rank itself waited
during this time, its wait is the next link of the chain. The chain ends at a rank that waited for
no other rank: its own time is the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.timeline.window import Timeline
from mpiprof.trace.types import Int

MAX_LINKS = 16


@dataclass(frozen=True)
class Wait:
    """One wait in ns after the begin; instance: its collective, -1 for a wait for a message."""

    rank: int
    awaited: int
    begin: int
    until: int
    operation: str
    site: str
    instance: int = -1


def list_records(waits: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries by column."""
    return [{str(name): value for name, value in row.items()} for row in waits.to_dict("records")]


def find_chain(
    timeline: Timeline, rank: int, at: int, waits: pd.DataFrame | None = None
) -> list[Wait]:
    """Return the waits from the one of a rank at a time (ns after the begin) back to the cause."""
    chain: list[Wait] = []
    seen: set[tuple[int, int]] = set()
    begin, until = at, at
    while len(chain) < MAX_LINKS:
        found = [
            wait
            for wait in _waits_of_rank(timeline, rank, begin, until, waits)
            if (wait.rank, wait.begin) not in seen and wait.awaited >= 0
        ]
        if not found:
            break
        wait = max(found, key=lambda one: one.until)
        chain.append(wait)
        seen.add((wait.rank, wait.begin))
        rank, begin, until = wait.awaited, wait.begin, wait.until
    return chain


def _waits_of_rank(
    timeline: Timeline, rank: int, begin: int, until: int, waits: pd.DataFrame | None
) -> list[Wait]:
    """Return the waits of a rank that overlap a span, and for a span with a length end in it."""
    base, events = timeline.events.begin_ns, timeline.events
    if not 0 <= rank < events.ranks:
        return []
    mask = np.zeros(events.ranks, np.bool_)
    mask[rank] = True
    segments, _ = events.read_window(base + begin, base + until + 1, mask)
    segments = segments[segments["wait"] > 0]
    ends: Int = segments["enter"] + segments["wait"].astype(np.int64) - base
    good = (ends > begin) if begin < until else (ends >= begin)
    if begin < until:
        good &= ends <= until
    segments, ends = segments[good], ends[good]
    found = []
    for segment, end, awaited in zip(
        segments, ends.tolist(), timeline.find_awaited(segments).tolist(), strict=True
    ):
        shape = timeline.describe_shape(int(segment["shape"]))
        operation, site = str(shape["operation"]), str(shape["site"])
        enter, number = int(segment["enter"]) - base, int(segment["instance"])
        found.append(Wait(rank, awaited, enter, end, operation, site, number))
    if waits is None:
        return found
    of = waits[(waits["rank"] == rank) & (waits["begin_ns"] <= base + until)]
    of = of[(of["until_ns"] > base + begin) if begin < until else (of["until_ns"] >= base + begin)]
    if begin < until:
        of = of[of["until_ns"] <= base + until]
    for one in list_records(of):
        times = int(one["begin_ns"]) - base, int(one["until_ns"]) - base
        found.append(Wait(rank, int(one["awaited"]), *times, one["operation"], one["site"]))
    return found
