"""The longest waits of a rank, in collectives and for messages together."""

from __future__ import annotations

import numpy as np

from mpiprof.timeline.message_marks import MessageMarks, pass_filters
from mpiprof.timeline.segments import SEGMENT
from mpiprof.timeline.wait_chain import Wait, list_records, make_message_wait, make_wait
from mpiprof.timeline.window import Request, Timeline

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
    found = [
        make_wait(timeline, rank, segment, int(whom))
        for rank, segment, whom in zip(of_rank.tolist(), longest, awaited, strict=True)
    ]
    if marks is not None:
        waits = marks.waits
        good = np.isin(waits["rank"].to_numpy(np.int64), request.ranks)
        good &= pass_filters(timeline, request, waits)
        longest_waits = list_records(waits[good].nlargest(MAX_WAITS, "wait_ns"))
        found += [make_message_wait(timeline, one) for one in longest_waits]
    found.sort(key=lambda wait: wait.begin - wait.until)
    return found[:MAX_WAITS]
