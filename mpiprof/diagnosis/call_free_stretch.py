"""Longest stretch of a run without any MPI call on any rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.trace.trace import Trace

MIN_STRETCH_SHARE = 0.2  # of the run time, from which a stretch is reported


@dataclass(frozen=True)
class CallFreeStretch:
    """Begin and end in ns after the start of the run, and the share of the run time."""

    begin_ns: int
    end_ns: int
    share: float


def find_call_free_stretch(trace: Trace) -> CallFreeStretch | None:
    """Return the longest time that no rank spends in MPI, None if it is short or unknown.

    Source: the recorded intervals between calls that contain no call of `Trace.local_sums`. Runs
    that do not fit in memory have no result.
    """
    if trace.record == "summary" or trace.sampling_interval > 1 or not fits_in_memory(trace):
        return None
    table = trace.intervals[trace.intervals["untracked_ns"] <= 0]
    begin, end = (table[name].to_numpy(np.int64) for name in ("begin_ns", "end_ns"))
    if not len(table) or table["thread"].nunique() > 1:
        return None
    time = np.concatenate([begin, end])
    change = np.repeat([1, -1], len(begin))
    order = np.lexsort((change, time))  # at the same time, ends come first
    outside = np.cumsum(change[order])
    first = np.flatnonzero(outside == trace.ranks)
    if not len(first):
        return None
    # The number changes at the next event, so a stretch ends there.
    time = time[order]
    longest = first[np.argmax(time[first + 1] - time[first])]
    began, ended = (int(time[at]) - trace.run_start_ns for at in (longest, longest + 1))
    share = (ended - began) / max(float(trace.run_ns), 1.0)
    return CallFreeStretch(began, ended, share) if share >= MIN_STRETCH_SHARE else None
