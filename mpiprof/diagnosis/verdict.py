"""Verdict on a whole run: the time lost, its cause, the possible gain, and time without calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.finding import MIN_CERTAINTY, NEGLIGIBLE_SHARE, Finding
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.trace.trace import Trace

MIN_STRETCH_SHARE = 0.2  # of the run time, from which a stretch without calls is reported


@dataclass(frozen=True)
class Verdict:
    """Losses of a run and their main cause.

    - worst: the first finding that matters. cause: its cause, or "none" if nothing can be gained.
    - beside: if that finding is certain, an uncertain finding that costs more.
    - others: all further findings on waiting that are not negligible.
    - waiting, collective: shares of all ranks' run time; waiting is NaN if it is unknown.
    - waiting_for_messages: a part of waiting; the rest of it is a part of collective.
    - gain: the largest gain from another algorithm, or None.
    """

    cause: str
    worst: Finding | None
    beside: Finding | None
    waiting: float
    waiting_for_messages: float
    collective: float
    gain: Finding | None
    others: tuple[Finding, ...] = ()

    @property
    def collective_without_waiting(self) -> float:
        """Share of all ranks' run time in collectives but not waiting."""
        return max(self.collective - (self.waiting - self.waiting_for_messages), 0.0)


def make_verdict(trace: Trace, findings: Sequence[Finding]) -> Verdict:
    """Return the verdict from the findings of a trace, which are in their order."""
    times = trace.run_times
    whole = max(times.whole_ns, 1.0)
    waiting, inside = times.total_wait.value / whole, times.collective.value / whole
    for_messages = 0.0 if math.isnan(times.message_wait_ns) else times.message_wait_ns / whole
    gain = next((finding for finding in findings if finding.cause == "algorithm"), None)
    worst = next(
        (finding for finding in findings if finding.share >= NEGLIGIBLE_SHARE or finding is gain),
        None,
    )
    beside = None
    if worst is not None and worst.certainty >= MIN_CERTAINTY:
        costlier = (finding for finding in findings if finding.cost_ns > worst.cost_ns)
        beside = next((one for one in costlier if one.certainty < MIN_CERTAINTY), None)
    cause = worst.cause if worst else "none"
    others = tuple(
        one for one in findings if one is not worst and one is not beside and one.is_delay
    )
    costly = sum(one.share for one in others) >= NEGLIGIBLE_SHARE
    others = others if worst is not None and costly else ()
    return Verdict(cause, worst, beside, waiting, for_messages, inside, gain, others)


@dataclass(frozen=True)
class CallFreeStretch:
    """Begin and end in ns after the start of the run, and the share of the run time."""

    begin_ns: int
    end_ns: int
    share: float


def find_call_free_stretch(trace: Trace) -> CallFreeStretch | None:
    """Return the longest stretch without any MPI call on any rank, None if short or unknown.

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
