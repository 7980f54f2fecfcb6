"""Steps of a run: from one meeting of all ranks in a collective to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.account.delay_costs import Delays
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
    step are recorded. wait_ns: waiting in each step that counts. is_divided: whether a step has
    several intervals of work.
    """

    edges_ns: Int
    callsite: Int
    sequence: Int
    is_known: Bool
    wait_ns: Float
    is_divided: bool

    def find(self, end_ns: Int) -> Int:
        """Return the step in which intervals or waits end."""
        step = np.searchsorted(self.edges_ns, end_ns, side="left")
        step -= 1
        return np.clip(step, 0, len(self.callsite) - 1, out=step)


@dataclass(frozen=True)
class StepSums:
    """Meetings of all ranks in a window of the run, and sums of the steps that they end.

    meetings_ns, callsite, sequence, is_known: of each meeting. wait_ns: waiting before each meeting
    and after the last one. intervals: number of intervals of work in known steps. later: number of
    intervals after the last meeting.
    """

    meetings_ns: Int
    callsite: Int
    sequence: Int
    is_known: Bool
    wait_ns: Float
    intervals: int
    later: int


def sum_steps(trace: Trace, delays: Delays, chosen: Float, callsites: Int) -> StepSums:
    """Return the steps of a window of the run.

    chosen: weight of each group of waits. callsites: numbers in the run of those of the window.
    """
    begin, end = trace.calls_start_ns, trace.calls_start_ns + trace.duration_ns
    meetings, first = np.unique(delays.meetings_of_all, return_index=True)
    inside = (meetings > begin) & (meetings <= end)
    meetings, first = meetings[inside], first[inside]
    is_known = delays.gaps.find_whole_steps(np.concatenate([[begin], meetings]))
    waits, ends = delays.waits, delays.intervals.end_ns
    wait_ns = (waits.end_ns - waits.begin_ns) * chosen[waits.group]
    step = np.searchsorted(meetings, waits.end_ns, side="left")
    later = int(np.count_nonzero(ends > meetings[-1])) if len(meetings) else len(ends)
    if is_known.all():
        intervals = len(ends) - later
    else:
        intervals = int(np.append(is_known, [False])[np.searchsorted(meetings, ends)].sum())
    return StepSums(
        meetings,
        callsites[delays.meeting_callsites[first]],
        delays.meeting_sequences[first],
        is_known,
        np.bincount(step, wait_ns, len(meetings) + 1).astype(np.float64),
        intervals,
        later,
    )


def join_steps(trace: Trace, parts: Sequence[StepSums]) -> Steps | None:
    """Return the steps of a run from those of its windows in order, or None as find_steps does."""
    meetings = np.concatenate([of.meetings_ns for of in parts])
    if not len(meetings):
        return None
    wait_ns, first = np.zeros(len(meetings)), 0
    for of in parts:  # the waiting after the last meeting of a window is before the next one
        index = np.minimum(first + np.arange(len(of.wait_ns)), len(meetings) - 1)
        np.add.at(wait_ns, index, of.wait_ns)
        first += len(of.meetings_ns)
    callsite, sequence, is_known = (
        np.concatenate([getattr(of, name) for of in parts])
        for name in ("callsite", "sequence", "is_known")
    )
    count = int(is_known.sum())
    last = max(number for number, of in enumerate(parts) if len(of.meetings_ns))
    intervals = sum(of.intervals for of in parts) + sum(of.later for of in parts[:last])
    is_divided = intervals > (count + 1) * trace.ranks
    if not count or (count < MIN_STEPS and is_divided):
        return None
    edges = np.concatenate([[trace.calls_start_ns], meetings])
    return Steps(edges, callsite, sequence, is_known, wait_ns, is_divided)


def find_steps(trace: Trace) -> Steps | None:
    """Return the steps of a run, or None if its ranks hardly met between intervals of work."""
    delays: Delays = trace.derive("delays_found")
    callsites = np.arange(int(delays.meeting_callsites.max(initial=-1)) + 1)
    return join_steps(trace, [sum_steps(trace, delays, delays.counted, callsites)])


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


def group_steps(steps: Steps) -> Iterator[list[int]]:
    """Yield groups of call sites with comparable steps, the costliest first.

    A program may call several collectives in turn, so the steps of one call site are similar, and
    the steps of different call sites are not. Call sites with few steps or little wait are joined.
    """
    count = np.bincount(steps.callsite)
    cost = np.bincount(steps.callsite, steps.wait_ns, len(count))
    least = min(MIN_STEPS, len(steps.callsite) // 2)
    large = (count >= least) & (cost >= MIN_GROUP_SHARE * cost.sum())
    yield from ([at] for at in np.argsort(-cost, kind="stable").tolist() if large[at])
    if cost[~large].any():
        yield np.flatnonzero(~large & (count > 0)).tolist()
