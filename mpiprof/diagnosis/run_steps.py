"""Steps of a run: from one meeting of all ranks in a collective to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.metrics.coverage import first_recorded
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_STEPS = 12  # fewer synchronisations of all ranks do not divide a run
MIN_GROUP_SHARE = 0.05  # minimum share of the wait for a group of steps of one call site
MAX_DISTANCE_RATIO = 1.5  # between the distances of meetings, from their numbers and by estimate


@dataclass(frozen=True)
class Steps:
    """Steps of a run; each ends when all ranks meet in a synchronising collective.

    edges_ns: the times of these meetings, from the start of the run on. callsite: that ends each
    step. sequence: number of the meeting on its communicator. is_known: whether all calls in the
    step are recorded. delays, ranks: of the run.
    """

    edges_ns: Int
    callsite: Int
    sequence: Int
    is_known: Bool
    delays: Delays
    ranks: int

    @cached_property
    def of_intervals(self) -> Int:
        """The step in which each interval of work ends."""
        return self.find(self.delays.intervals.end_ns)

    @cached_property
    def of_waits(self) -> Int:
        """The step in which each wait ends."""
        return self.find(self.delays.waits.end_ns)

    @cached_property
    def is_divided(self) -> bool:
        """True if a step has several intervals of work."""
        is_before_end = self.delays.intervals.end_ns <= self.edges_ns[-1]
        intervals = int((self.is_known[self.of_intervals] & is_before_end).sum())
        return intervals > (int(self.is_known.sum()) + 1) * self.ranks

    def find(self, end_ns: Int) -> Int:
        """Return the step in which intervals or waits end."""
        step = np.searchsorted(self.edges_ns, end_ns, side="left")
        step -= 1
        return np.clip(step, 0, len(self.callsite) - 1, out=step)


def find_steps(trace: Trace, delays: Delays) -> Steps | None:
    """Return the steps of a run, or None if its ranks hardly met between intervals of work."""
    begin, end = trace.calls_start_ns, trace.calls_start_ns + trace.duration_ns
    meetings, first = np.unique(delays.meetings_of_all, return_index=True)
    inside = (meetings > begin) & (meetings <= end)
    if not inside.any():
        return None
    edges, first = np.concatenate([[begin], meetings[inside]]), first[inside]
    is_known = delays.gaps.find_whole_steps(edges)
    of = delays.meeting_callsites[first], delays.meeting_sequences[first], is_known
    steps = Steps(edges, *of, delays, trace.ranks)
    count = int(is_known.sum())
    return None if not count or (count < MIN_STEPS and steps.is_divided) else steps


def number_steps(trace: Trace, steps: Steps, index: Int, callsites: Sequence[int]) -> Int:
    """Return the number of some steps among all steps of the run that end at the same call sites.

    Instances that are not recorded count as well: numbers follow from the numbers of the meetings.
    """
    recorded = np.flatnonzero(np.isin(steps.callsite, callsites))
    number = np.searchsorted(recorded, index)
    if trace.wrapped_chunks:
        return number + sum(first_recorded(trace, callsite) for callsite in callsites)
    if trace.sampling_interval == 1 or len(index) < 2:
        return number
    sequence = steps.sequence[index]
    # A loop calls its call sites at equal distances; else their mean distance is estimated.
    distance = float(np.gcd.reduce(np.diff(sequence)))
    table = trace.callsites
    instances = table["instances"][table["size"] == trace.ranks]
    usual = float(instances.sum() / max(instances[list(callsites)].sum(), 1))
    if not usual / MAX_DISTANCE_RATIO <= distance <= usual * MAX_DISTANCE_RATIO:
        distance = usual
    estimated = np.floor(sequence / distance).astype(np.int64)
    ascending = np.arange(len(index))
    return np.asarray(np.maximum.accumulate(estimated - ascending) + ascending)


def group_steps(delays: Delays, steps: Steps, chosen: Float) -> Iterator[list[int]]:
    """Yield groups of call sites with comparable steps, the costliest first.

    A program may call several collectives in turn, so the steps of one call site are similar, and
    the steps of different call sites are not. Call sites with few steps or little wait are joined.
    """
    waits = delays.waits
    wait_ns = (waits.end_ns - waits.begin_ns) * chosen[waits.group]
    callsite = steps.callsite[steps.of_waits]
    count = np.bincount(steps.callsite)
    cost = np.bincount(callsite, wait_ns, len(count))
    least = min(MIN_STEPS, len(steps.callsite) // 2)
    large = (count >= least) & (cost >= MIN_GROUP_SHARE * cost.sum())
    yield from ([at] for at in np.argsort(-cost, kind="stable").tolist() if large[at])
    if cost[~large].any():
        yield np.flatnonzero(~large & (count > 0)).tolist()
