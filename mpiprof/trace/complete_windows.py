"""The windows of time in which all ranks recorded every call on messages.

A rank marks the begin and the end of each complete stretch in its tables
(core/record/message_epochs.c). A window is complete if it is so on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.trace.types import Int

Window = tuple[int, int]  # begin and end
Mark = tuple[bool, int]  # whether a stretch begins, and the time


def pair_marks(marks: Sequence[Mark], first_ns: int, last_ns: int) -> list[Window]:
    """Return the complete stretches of a rank within the run, from its marks in any order.

    The first stretch reaches back to the begin of the run, because no call came before it. One
    without an end reaches to the end of the run.
    """
    stretches: list[Window] = []
    begin_ns: int | None = None
    for is_begin, time_ns in sorted(marks, key=lambda mark: (mark[1], mark[0])):
        if is_begin and begin_ns is None:
            begin_ns = time_ns if stretches else first_ns
        elif not is_begin and begin_ns is not None:
            stretches.append((begin_ns, time_ns))
            begin_ns = None
    if begin_ns is not None:
        stretches.append((begin_ns, last_ns))
    return [(max(a, first_ns), min(b, last_ns)) for a, b in stretches if max(a, first_ns) < b]


def intersect_stretches(stretches: Sequence[Sequence[Window]]) -> list[Window]:
    """Return the windows that are in one stretch of each rank, in order of time."""
    joined = [window for of_rank in stretches for window in of_rank if window[0] < window[1]]
    times: Int = np.array(joined, np.int64).reshape(-1, 2)
    at, change = times.T.ravel(), np.repeat([1, -1], len(times))
    order = np.lexsort((change, at))  # an end comes before a begin at the same time
    count = np.cumsum(change[order])
    begins = np.flatnonzero(count == len(stretches))
    return [(int(at[order[i]]), int(at[order[i + 1]])) for i in begins if len(stretches)]
