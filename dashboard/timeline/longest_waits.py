"""The longest waits of ranks, in collectives and for messages, and their chains to the causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpiprof.trace import Trace

from .build import open_or_build
from .message_marks import MessageMarks, pass_filters, read_message_marks
from .segments import SEGMENT
from .wait_chain import (
    LastRank,
    Wait,
    find_chain,
    find_last_rank,
    list_records,
    make_message_wait,
    make_wait,
)
from .window import Request, Timeline

MAX_WAITS = 20


def list_longest_waits(
    timeline: Timeline, request: Request, marks: MessageMarks | None
) -> list[Wait]:
    """Return the longest waits of the ranks of a request over the whole run, the longest first.

    The filters of operations and communicators apply. marks: None without calls on messages.
    """
    events, base = timeline.events, timeline.events.begin_ns
    ranks = np.isin(np.arange(events.ranks), request.ranks)
    only = timeline.find_communicators(request.communicators)
    passing = np.array(
        [
            (not request.operations or shape.operation in request.operations)
            and (only is None or shape.communicator in only)
            for shape in timeline.trace.tables.shapes
        ]
        + [False],
        np.bool_,
    )
    longest, of_rank = np.zeros(0, SEGMENT), np.zeros(0, np.int64)
    for segments, owners in events.read_pieces(base, events.end_ns + 1, ranks):
        good = (segments["wait"] > 0) & passing[segments["shape"]]
        segments = np.concatenate([longest, segments[good]])
        owners = np.concatenate([of_rank, owners[good]])
        order = np.argsort(-segments["wait"], kind="stable")[:MAX_WAITS]
        longest, of_rank = segments[order], owners[order]
    awaited = timeline.find_awaited(longest)
    all_waits = [
        make_wait(timeline, rank, segment, int(whom))
        for rank, segment, whom in zip(of_rank.tolist(), longest, awaited, strict=True)
    ]
    if marks is not None:
        waits = marks.waits
        good = np.isin(waits["rank"].to_numpy(np.int64), request.ranks)
        good &= pass_filters(timeline, request, waits)
        longest_waits = list_records(waits[good].nlargest(MAX_WAITS, "wait_ns"))
        all_waits += [make_message_wait(timeline, record) for record in longest_waits]
    all_waits.sort(key=lambda wait: wait.begin - wait.until)
    return all_waits[:MAX_WAITS]


@dataclass(frozen=True)
class ChainedWait:
    """A wait, the waits from it back to its cause, and the rank at the end of this chain.

    chain: begins with the wait itself. last: None if the awaited rank of the wait is unknown.
    """

    wait: Wait
    chain: tuple[Wait, ...]
    last: LastRank | None


def list_chained_waits(
    trace: Trace,
    key: str,
    rank: int,
    max_waits: int,
    progress: Callable[[float], None] = lambda _: None,
) -> list[ChainedWait]:
    """Return the longest waits of a rank, in collectives and for messages, the longest first.

    key: of the trace's cache entries. The timeline of the trace is built if its cache has none.
    """
    timeline = Timeline(trace, open_or_build(trace, key, progress), key)
    marks = read_message_marks(trace) if trace.ranks_with_messages else None
    request = Request(
        0, timeline.length_ns, 1, "operation", "rank", frozenset(), np.array([rank], np.int64)
    )
    chained = []
    for wait in list_longest_waits(timeline, request, marks)[:max_waits]:
        middle = (wait.begin + wait.until) // 2
        earlier = find_chain(timeline, rank, middle, None if marks is None else marks.waits)
        chain = (wait, *earlier[1:]) if wait.awaited >= 0 else ()
        last = None
        if chain:
            span = [timeline.events.begin_ns + ns for ns in (chain[-1].begin, chain[-1].until)]
            calls = None if marks is None else marks.overlapping(*span)
            last = find_last_rank(timeline, chain[-1], calls)
        chained.append(ChainedWait(wait, chain, last))
    return chained
