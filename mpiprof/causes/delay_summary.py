"""Sums of the waits of a run and their causes, added up over its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.account.work_intervals import Pairs
from mpiprof.causes.explained_waits import Callsite, CallsiteWaits, ChosenWaits
from mpiprof.causes.place import add_up
from mpiprof.causes.run_steps import Steps, StepSums, join_steps, sum_steps
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

MIN_HIDDEN_SHARE = 0.5  # of the waiting without work, from which missing records may be the reason


@dataclass(frozen=True)
class DelaySummary:
    """Sums of the waits to explain.

    interval_ns: waiting that intervals of work cause. rest_ns: the rest. pair_ns and pair_counts:
    the first, and number of intervals, of each pair of call sites. at_ns: waiting by call site.
    meeting_ns: waiting of each rank in synchronising collectives. rank_ns: all waiting of each
    rank. meetings: number of meetings of all ranks. has_message_time: whether there is time in
    messages without records.
    """

    interval_ns: float
    rest_ns: float
    pair_ns: dict[tuple[int, int], float]
    pair_counts: dict[tuple[int, int], int]
    at_ns: dict[Callsite, float]
    meeting_ns: Float
    rank_ns: Float
    meetings: int
    has_message_time: bool

    @property
    def waiting_ns(self) -> float:
        """All waiting to explain."""
        return self.interval_ns + self.rest_ns

    @property
    def is_hidden(self) -> bool:
        """True if much of the waiting has no known work as its cause."""
        return self.rest_ns >= MIN_HIDDEN_SHARE * self.waiting_ns

    @property
    def pairs(self) -> Pairs:
        """The pairs of call sites between which work causes waiting, the costliest first."""
        return sorted(self.pair_ns, key=lambda pair: -self.pair_ns[pair])


@dataclass(frozen=True)
class WindowSummary:
    """Sums of a window and the steps that end in it."""

    sums: DelaySummary
    steps: StepSums


def summarise_waits(waits: ChosenWaits) -> WindowSummary:
    """Return the sums of a window of the run."""
    trace, delays = waits.trace, waits.delays
    key, sites, ranks = delays.intervals.key, delays.sites, trace.ranks
    cost = np.bincount(key, waits.costs.interval_ns, len(sites)).tolist()
    counts = np.bincount(key, minlength=len(sites)).tolist()
    delay_waits = delays.waits
    length = delay_waits.end_ns - delay_waits.begin_ns
    in_meeting = delays.communicator[delay_waits.group] >= 0
    sums = DelaySummary(
        float(waits.costs.interval_ns.sum()),
        float(waits.costs.rest_ns.sum()),
        dict(zip(sites, cost, strict=True)),
        dict(zip(sites, counts, strict=True)),
        CallsiteWaits(waits).at_ns,
        np.bincount(delay_waits.rank, np.where(in_meeting, length, 0), ranks).astype(np.float64),
        np.bincount(delay_waits.rank, length, ranks).astype(np.float64),
        len(delays.meetings_of_all),
        len(delays.message_time.rank) > 0,
    )
    return WindowSummary(sums, sum_steps(trace, delays, waits.weight, waits.callsites))


def join_summaries(
    trace: Trace, parts: Sequence[WindowSummary]
) -> tuple[DelaySummary, Steps | None]:
    """Return the sums of a run and its steps from those of its windows in order."""
    sums = [window.sums for window in parts]
    joined = DelaySummary(
        sum(window.interval_ns for window in sums),
        sum(window.rest_ns for window in sums),
        add_up([window.pair_ns for window in sums]),
        add_up([window.pair_counts for window in sums]),
        add_up([window.at_ns for window in sums]),
        np.sum([window.meeting_ns for window in sums], 0),
        np.sum([window.rank_ns for window in sums], 0),
        sum(window.meetings for window in sums),
        any(window.has_message_time for window in sums),
    )
    return joined, join_steps(trace, [window.steps for window in parts])
