"""Steps of a run, from one meeting of all ranks in a collective to the next, and their work matrix.

The search for habits needs the steps of the whole run. Their sums are small where the waits and
intervals of the run are not, so each window of a large run adds up the cells of its own steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.account.coverage import first_recorded
from mpiprof.account.delay_costs import Delays
from mpiprof.causes.delay_matrix import (
    OUTSIDE,
    Cells,
    Columns,
    DelayMatrix,
    choose_columns,
    count_most_columns,
)
from mpiprof.causes.explained_waits import ChosenWaits
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
    meetings = np.concatenate([part.meetings_ns for part in parts])
    if not len(meetings):
        return None
    wait_ns, first = np.zeros(len(meetings)), 0
    for part in parts:  # the waiting after the last meeting of a window is before the next one
        index = np.minimum(first + np.arange(len(part.wait_ns)), len(meetings) - 1)
        np.add.at(wait_ns, index, part.wait_ns)
        first += len(part.meetings_ns)
    callsite, sequence, is_known = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("callsite", "sequence", "is_known")
    )
    count = int(is_known.sum())
    last = max(number for number, part in enumerate(parts) if len(part.meetings_ns))
    intervals = sum(part.intervals for part in parts) + sum(part.later for part in parts[:last])
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
    min_steps = min(MIN_STEPS, len(steps.callsite) // 2)
    large = (count >= min_steps) & (cost >= MIN_GROUP_SHARE * cost.sum())
    yield from ([at] for at in np.argsort(-cost, kind="stable").tolist() if large[at])
    if cost[~large].any():
        yield np.flatnonzero(~large & (count > 0)).tolist()


@dataclass(frozen=True)
class StepColumns:
    """Columns of a matrix of the steps that end at some call sites; column_of: of each step."""

    steps: Steps
    callsites: Sequence[int]
    column_of: Int
    columns: Columns


@dataclass(frozen=True)
class StepCells:
    """Sums of the steps of a window, from a first column on; arrays of ranks x columns in ns.

    waited: time of each rank without work. cost_ns: waiting that its work causes. Per column:
    wait_ns of all waits that count, weighted_ns of the waits to explain.
    """

    first: int
    waited: Float
    cost_ns: Float
    wait_ns: Float
    weighted_ns: Float


def choose_step_columns(trace: Trace, steps: Steps, callsites: Sequence[int]) -> StepColumns:
    """Return the columns for the steps that end at some call sites.

    If there are very many steps, some of them stand for all.
    """
    chosen_steps = np.flatnonzero(np.isin(steps.callsite, callsites) & steps.is_known)
    index, scale = choose_columns(steps.wait_ns[chosen_steps], count_most_columns(trace.ranks))
    column_of = np.full(len(steps.callsite), OUTSIDE, np.int64)
    column_of[chosen_steps[index]] = np.arange(len(index))
    number = number_steps(trace, steps, chosen_steps, callsites)
    total = count_steps(trace, steps, number, callsites)
    column_facts = number[index], steps.edges_ns[chosen_steps[index]], scale
    return StepColumns(
        steps, callsites, column_of, Columns(*column_facts, len(chosen_steps), total)
    )


def count_steps(trace: Trace, steps: Steps, number: Int, callsites: Sequence[int]) -> float:
    """Return the number of steps that end at some call sites, also of those with gaps.

    number: of the steps without gaps. A ring stands for its part of the run only.
    """
    if trace.sampling_interval > 1:
        return float(number[-1] + 1)
    if trace.wrapped_chunks:
        return float(len(number))
    return float(np.isin(steps.callsite, callsites).sum())


def sum_step_cells(waits: ChosenWaits, chosen: Sequence[StepColumns]) -> list[StepCells]:
    """Return the sums of a window for matrices of steps."""
    if not chosen:
        return []
    delays, ranks = waits.delays, np.arange(waits.trace.ranks)
    intervals, of_waits, messages = delays.intervals, delays.waits, delays.message_time
    find = chosen[0].steps.find
    located = (
        (intervals.rank, find(intervals.end_ns)),
        (of_waits.rank, find(of_waits.end_ns)),
        (messages.rank, find(messages.end_ns)),
    )
    weight = waits.weight[of_waits.group]
    wait_ns = (of_waits.end_ns - of_waits.begin_ns).astype(np.float64)
    is_message = (delays.callsite < 0)[of_waits.group]
    in_messages, counted, weighted = wait_ns * is_message, wait_ns * (weight > 0), wait_ns * weight
    results = []
    for step_columns in chosen:
        work, at_waits, spent = (
            Cells(ranks, len(step_columns.columns.number), step_columns.column_of[step], rank)
            for rank, step in located
        )
        in_messages_ns = np.maximum(at_waits.sum(in_messages), spent.sum(messages.spent_ns))
        waited = at_waits.sum(wait_ns - in_messages) + in_messages_ns
        sums = (at_waits.sum(values).sum(0) for values in (counted, weighted))
        results.append(_limit_columns(waited, work.sum(waits.costs.interval_ns), *sums))
    return results


def _limit_columns(waited: Float, cost: Float, wait: Float, weighted: Float) -> StepCells:
    """Return the sums without the columns at both ends that are 0: those of other windows."""
    used = np.flatnonzero(waited.any(0) | cost.any(0))
    first, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
    part = slice(first, end)
    columns = (np.ascontiguousarray(values[..., part]) for values in (waited, cost, wait, weighted))
    return StepCells(first, *columns)


class StepMatrix(DelayMatrix):
    """Time of each rank in each step without its waits, of the steps that end at some call sites.

    All ranks take equally long for a step, so a rank that waits less worked longer. Time in
    messages without records may be waiting, so it is no work.
    """

    unit = "step"

    def __init__(self, trace: Trace, chosen: StepColumns, parts: Sequence[StepCells]):
        """Make the matrix from the sums of all windows."""
        super().__init__(trace, np.arange(trace.ranks), chosen.columns)
        self.callsite = chosen.callsites[0] if len(chosen.callsites) == 1 else None
        self.chosen = chosen
        shape = trace.ranks, self.instance_count
        waited, cost, self.wait_ns, weighted = (
            np.zeros(size) for size in (shape, shape, *[shape[1:]] * 2)
        )
        for part in parts:
            columns = slice(part.first, part.first + len(part.wait_ns))
            waited[:, columns] += part.waited
            cost[:, columns] += part.cost_ns
            self.wait_ns[columns] += part.wait_ns
            weighted[columns] += part.weighted_ns
        self.cost_ns = cost * self.scale
        self.scale *= np.where(self.wait_ns > 0, weighted / np.maximum(self.wait_ns, 1.0), 1.0)
        self.work_ns = waited.max(0) - waited
        steps = np.flatnonzero(chosen.column_of != OUTSIDE)
        length_ns = chosen.steps.edges_ns[steps + 1] - chosen.steps.edges_ns[steps]
        self.least_work_ns = np.maximum(length_ns - waited.max(0), 0.0)

    def locate(self, waits: ChosenWaits) -> Cells:
        """Return the cells of the intervals of work in a window of the run."""
        intervals = waits.delays.intervals
        column = self.chosen.column_of[self.chosen.steps.find(intervals.end_ns)]
        return Cells(self.ranks, self.instance_count, column, intervals.rank)

    def compute_waiting(self, work_ns: Float) -> Float:
        """Return the wait in ns that remains in each step if the ranks took that long.

        Each rank waits for the slowest one until they meet, in whichever call. If ranks waited for
        each other in turn, they waited longer than that, and keep the rest.
        """
        recorded, remaining = ((times.max(0) - times).sum(0) for times in (self.work_ns, work_ns))
        share = np.minimum(self.wait_ns / np.where(recorded > 0, recorded, 1.0), 1.0)
        waits = np.maximum(self.wait_ns + share * (remaining - recorded), 0.0)
        return np.asarray(waits * self.scale)
