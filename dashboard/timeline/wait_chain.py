"""The chain from a wait back to the rank that caused it.

A wait lasts until the awaited rank arrives or posts its message. If the awaited rank itself waited
during this time, its wait is the next link of the chain. The chain ends at a rank that waited for
no other rank. `find_last_rank` returns whether this rank was outside of MPI calls or inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.trace.types import Int

from .window import Timeline

MAX_LINKS = 16


@dataclass(frozen=True)
class Wait:
    """One wait in ns after the begin.

    instance: its collective, -1 for a wait for a message. tag: of the message, -1 for a collective.
    """

    rank: int
    awaited: int
    begin: int
    until: int
    operation: str
    site: str
    instance: int = -1
    tag: int = -1


def make_message_wait(timeline: Timeline, record: Mapping[str, Any]) -> Wait:
    """Return the wait in a row of `MessageMarks.waits`."""
    begin, until = (
        int(record[name]) - timeline.events.begin_ns for name in ("begin_ns", "until_ns")
    )
    ranks = int(record["rank"]), int(record["awaited"])
    return Wait(*ranks, begin, until, record["operation"], record["site"], tag=int(record["tag"]))


def make_wait(timeline: Timeline, rank: int, segment: Any, awaited: int) -> Wait:
    """Return the wait in a segment of a rank."""
    shape = timeline.describe_shape(int(segment["shape"]))
    operation, site = str(shape["operation"]), str(shape["site"])
    enter = int(segment["enter"]) - timeline.events.begin_ns
    end = enter + int(segment["wait"])
    return Wait(rank, awaited, enter, end, operation, site, int(segment["instance"]))


def list_records(waits: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries by column."""
    return [{str(name): value for name, value in row.items()} for row in waits.to_dict("records")]


def find_chain(
    timeline: Timeline, rank: int, at: int, waits: pd.DataFrame | None = None
) -> list[Wait]:
    """Return the waits from the one of a rank at a time (ns after the begin) back to the cause."""
    chain: list[Wait] = []
    visited: set[tuple[int, int]] = set()
    begin, until = at, at
    while len(chain) < MAX_LINKS:
        candidates = [
            wait
            for wait in _waits_of_rank(timeline, rank, begin, until, waits)
            if (wait.rank, wait.begin) not in visited and wait.awaited >= 0
        ]
        if not candidates:
            break
        wait = max(candidates, key=lambda candidate: candidate.until)
        chain.append(wait)
        visited.add((wait.rank, wait.begin))
        rank, begin, until = wait.awaited, wait.begin, wait.until
    return chain


@dataclass(frozen=True)
class LastRank:
    """The rank at the end of a chain, during the last wait, in ns after the begin.

    span: length of the wait. inside: time of the rank in MPI calls during the wait. operation,
    site, since: of the call with most of this time ("" and -1 if there is none), and when it began.
    """

    rank: int
    span: int
    inside: int
    operation: str = ""
    site: str = ""
    since: int = -1


def find_last_rank(timeline: Timeline, last: Wait, calls: pd.DataFrame | None = None) -> LastRank:
    """Return where the awaited rank of the last link of a chain was during this link.

    calls: `MessageMarks.calls`, without those that end before the wait or begin after it.
    """
    base, rank = timeline.events.begin_ns, last.awaited
    mask = np.arange(timeline.events.ranks) == rank
    segments, _ = timeline.events.read_window(base + last.begin, base + last.until, mask)
    spans: list[tuple[int, int, str, str]] = []
    for segment in segments:
        shape = timeline.describe_shape(int(segment["shape"]))
        names = str(shape["operation"]), str(shape["site"])
        spans.append((int(segment["enter"]) - base, int(segment["exit"]) - base, *names))
    for call in list_records(calls[calls["rank"] == rank]) if calls is not None else ():
        names = str(call["operation"]), str(call["site"])
        spans.append((int(call["enter_ns"]) - base, int(call["exit_ns"]) - base, *names))
    inside = [max(min(end, last.until) - max(enter, last.begin), 0) for enter, end, *_ in spans]
    span = last.until - last.begin
    if not any(inside):
        return LastRank(rank, span, 0)
    enter, _, operation, site = spans[int(np.argmax(inside))]
    return LastRank(rank, span, min(sum(inside), span), operation, site, enter)


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
    segments = segments[good]
    awaited = timeline.find_awaited(segments).tolist()
    result = [make_wait(timeline, rank, *pair) for pair in zip(segments, awaited, strict=True)]
    if waits is None:
        return result
    rank_waits = waits[(waits["rank"] == rank) & (waits["begin_ns"] <= base + until)]
    rank_waits = rank_waits[
        (rank_waits["until_ns"] > base + begin)
        if begin < until
        else (rank_waits["until_ns"] >= base + begin)
    ]
    if begin < until:
        rank_waits = rank_waits[rank_waits["until_ns"] <= base + until]
    return result + [make_message_wait(timeline, pair) for pair in list_records(rank_waits)]
