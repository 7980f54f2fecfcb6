"""The longest waits of one rank, each with the chain of waits back to its cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpiprof.timeline.build import open_or_build
from mpiprof.timeline.longest_waits import list_longest_waits
from mpiprof.timeline.message_marks import read_message_marks
from mpiprof.timeline.wait_chain import LastRank, Wait, find_chain, find_last_rank
from mpiprof.timeline.window import Request, Timeline
from mpiprof.trace import Trace


@dataclass(frozen=True)
class ChainedWait:
    """A wait, the waits from it back to its cause, and the rank at the end of this chain.

    chain: begins with the wait itself. last: None if the awaited rank of the wait is unknown.
    """

    wait: Wait
    chain: tuple[Wait, ...]
    last: LastRank | None


def list_chained_waits(
    trace: Trace, key: str, rank: int, most: int, progress: Callable[[float], None] = lambda _: None
) -> list[ChainedWait]:
    """Return the longest waits of a rank, in collectives and for messages, the longest first.

    key: of the trace's cache entries. The timeline of the trace is built if its cache has none.
    """
    timeline = Timeline(trace, open_or_build(trace, key, progress), key)
    marks = read_message_marks(trace) if trace.ranks_with_messages else None
    request = Request(
        0, timeline.length_ns, 1, "operation", "rank", frozenset(), np.array([rank], np.int64)
    )
    found = []
    for wait in list_longest_waits(timeline, request, marks)[:most]:
        middle = (wait.begin + wait.until) // 2
        earlier = find_chain(timeline, rank, middle, None if marks is None else marks.waits)
        chain = (wait, *earlier[1:]) if wait.awaited >= 0 else ()
        last = None
        if chain:
            span = [timeline.events.begin_ns + ns for ns in (chain[-1].begin, chain[-1].until)]
            calls = None if marks is None else marks.overlapping(*span)
            last = find_last_rank(timeline, chain[-1], calls)
        found.append(ChainedWait(wait, chain, last))
    return found
