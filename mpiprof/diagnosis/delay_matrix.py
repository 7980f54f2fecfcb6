"""Work of all ranks by step or repetition, as input to the search for patterns.

The search (patterns.py) needs values whose excess over the other ranks costs wait. For one call
site these are arrivals. For a whole run it is work: time without waits, whose costs are known
(delay_graph.py). A rank that waits for others has no excess here, however late it arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.arrival_matrix import (
    MAX_ARRIVALS,
    MAX_INSTANCES,
    ArrivalMatrix,
    column_medians,
)
from mpiprof.diagnosis.delay_costs import Delays
from mpiprof.diagnosis.delay_graph import Intervals
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float, Int

MIN_STEPS = 12  # fewer synchronisations of all ranks do not divide a run
MIN_GROUP_SHARE = 0.05  # minimum share of the wait for a group of steps of one call site
OUTSIDE = -1  # column of intervals that are not in a matrix


class DelayMatrix(ArrivalMatrix):
    """Work of each rank (row) in each column, in ns beyond the least of the column.

    - unit: "step" or "repetition", of which a column is one.
    - callsite: at which all steps end, or None.
    - column: column of each interval of work, OUTSIDE if it is in none.
    - cost_ns: waiting that the work of each rank and column causes, anywhere in the run.
    """

    unit: str
    callsite: int | None = None

    def __init__(self, trace: Trace, delays: Delays, ranks: Int, column: Int, begin_ns: Int):
        """Prepare the rows and columns; begin_ns: begin of each column."""
        super().__init__(trace, ranks, np.arange(len(begin_ns)), begin_ns)
        self.column, self.delays = column, delays

    def sum_cells(self, values: Float | Int) -> Float:
        """Return the sum over intervals of work by rank and column."""
        inside = self.column >= 0
        row = np.searchsorted(self.ranks, self.delays.intervals.rank[inside])
        cell = row * len(self.number) + self.column[inside]
        shape = len(self.ranks), len(self.number)
        return np.bincount(cell, values[inside], shape[0] * shape[1]).reshape(shape).astype(float)

    def spread_over_intervals(self, values: Float, ranks: Sequence[int]) -> Float:
        """Return the part of a cell's value for each interval, at most its length.

        The parts are in proportion to the lengths beyond the usual length between the same calls on
        other ranks than the given ones. What does not fit is in proportion to the lengths.
        """
        intervals = self.delays.intervals
        length = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
        others = ~np.isin(intervals.rank, ranks)
        usual = _group_medians(intervals.key, length, others if others.any() else ~others)
        part = np.minimum(self._spread(values, np.maximum(length - usual, 0.0)), length)
        missing = np.maximum(values - self.sum_cells(part), 0.0)
        return part + np.minimum(self._spread(missing, length - part), length - part)

    def _spread(self, values: Float, weight: Float) -> Float:
        whole = self.sum_cells(weight)
        share = values / np.where(whole > 0, whole, 1.0)
        inside = self.column >= 0
        row = np.searchsorted(self.ranks, self.delays.intervals.rank[inside])
        part = np.zeros(len(weight))
        part[inside] = share[row, self.column[inside]] * weight[inside]
        return part


@dataclass(frozen=True)
class Steps:
    """Steps of a run; each ends when all ranks meet in a synchronising collective.

    edges_ns: the times of these meetings, from the start of the run on. callsite: that ends each
    step. is_divided: whether a step has several intervals of work.
    """

    edges_ns: Int
    callsite: Int
    is_divided: bool

    def find(self, end_ns: Int) -> Int:
        """Return the step in which intervals or waits end."""
        step = np.searchsorted(self.edges_ns, end_ns, side="left") - 1
        return np.clip(step, 0, len(self.callsite) - 1)


class StepMatrix(DelayMatrix):
    """Time of each rank in each step without its waits, of the steps that end at some call sites.

    All ranks take equally long for a step, so a rank that waits less worked longer. Many short
    steps are joined.
    """

    unit = "step"

    def __init__(
        self,
        trace: Trace,
        delays: Delays,
        steps: Steps,
        callsites: Sequence[int],
        cost_ns: Float,
        chosen: Float,
    ):
        """Make the matrix. chosen: 1 for the groups of waits to explain, else 0."""
        self.callsite = callsites[0] if len(callsites) == 1 else None
        mine = np.flatnonzero(np.isin(steps.callsite, callsites))
        most = max(min(MAX_ARRIVALS // max(trace.ranks, 1), MAX_INSTANCES), 1)
        every = -(-len(mine) // most)
        column_of = np.full(len(steps.callsite), OUTSIDE, np.int64)
        column_of[mine] = np.arange(len(mine)) // every
        column = column_of[steps.find(delays.intervals.end_ns)]
        super().__init__(
            trace, delays, np.arange(trace.ranks), column, steps.edges_ns[mine[::every]]
        )
        self.cost_ns = self.sum_cells(cost_ns)
        waits = delays.waits
        wait_ns = (waits.end_ns - waits.begin_ns).astype(np.float64)
        wait_column = column_of[steps.find(waits.end_ns)]
        inside = wait_column >= 0
        shape = trace.ranks, len(self.number)
        cell = waits.rank[inside] * shape[1] + wait_column[inside]
        waited = np.bincount(cell, wait_ns[inside], shape[0] * shape[1]).reshape(shape)
        wait_ns *= chosen[waits.group]
        selected = np.bincount(cell, wait_ns[inside], shape[0] * shape[1])
        self.wait_ns = selected.reshape(shape).sum(0)
        self.arrival = waited.max(0) - waited

    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns that remains in each step if the ranks took that long.

        Each rank waits for the slowest one until they meet, in whichever call. If ranks waited for
        each other in turn, they waited longer than that, and keep the rest.
        """
        whole, remaining = ((times.max(0) - times).sum(0) for times in (self.arrival, arrival))
        share = np.minimum(self.wait_ns / np.where(whole > 0, whole, 1.0), 1.0)
        return np.asarray(np.maximum(self.wait_ns + share * (remaining - whole), 0.0))


class RepetitionMatrix(DelayMatrix):
    """Length of each rank's n-th interval of work between two call sites.

    For runs whose ranks do not all meet, such as pipelines. A rank is compared with the others at
    the same repetition, at whatever time. If only one rank works between these calls, it is
    compared with the longest work of the other ranks meanwhile.
    """

    unit = "repetition"

    def __init__(self, trace: Trace, delays: Delays, key: int, cost_ns: Float):
        """Make the matrix for the intervals with a key."""
        intervals = delays.intervals
        mine = np.flatnonzero(intervals.key == key)
        mine = mine[np.lexsort((intervals.begin_ns[mine], intervals.rank[mine]))]
        ranks, first, count = np.unique(intervals.rank[mine], return_index=True, return_counts=True)
        nth = np.arange(len(mine)) - np.repeat(first, count)
        most = min(int(np.median(count)), MAX_ARRIVALS // len(ranks), MAX_INSTANCES)
        column = np.full(len(intervals.rank), OUTSIDE, np.int64)
        column[mine] = np.where(nth < most, nth, OUTSIDE)
        begin = np.full(most, np.iinfo(np.int64).max)
        inside = mine[nth < most]
        np.minimum.at(begin, column[inside], intervals.begin_ns[inside])
        is_alone = len(ranks) == 1 < trace.ranks
        if is_alone:
            ranks = np.arange(trace.ranks)
        super().__init__(trace, delays, ranks, column, begin)
        work = self.sum_cells(intervals.end_ns - intervals.begin_ns)
        present = self.sum_cells(np.ones(len(column))) > 0
        if is_alone:
            work = np.where(
                present, work, _find_longest(intervals, intervals.end_ns[inside], ranks)
            )
        else:
            work[~present] = np.nan
        self.cost_ns = self.sum_cells(cost_ns)
        self.arrival = work - np.nanmin(work, 0)
        self._excess = np.nan_to_num(self.arrival - column_medians(self.arrival))
        # Work of the usual length may cost wait, too, as in a pipeline that fills.
        by_rank = np.sort(self.cost_ns.mean(1))
        self._usual_cost = np.minimum(self.cost_ns, by_rank[(len(ranks) - 1) // 2])

    def compute_waiting(self, arrival: Float) -> Float:
        """Return the wait in ns that remains in each repetition if the ranks worked that long.

        The cost of a rank's work shrinks in proportion to its excess over the median, to that of
        the usual work.
        """
        late = self._excess > 0
        excess = np.nan_to_num(np.maximum(arrival - column_medians(self.arrival), 0.0))
        share = np.where(late, excess / np.where(late, self._excess, 1.0), 1.0)
        remaining = self._usual_cost + (self.cost_ns - self._usual_cost) * np.minimum(share, 1.0)
        return np.asarray(remaining.sum(0))

    def compute_caused_waits(self, mean: Float) -> Float:  # noqa: ARG002
        """Return the waiting that each rank causes; others may work longer with no rank waiting."""
        return np.asarray(self.cost_ns.sum(1))


def _find_longest(intervals: Intervals, ends_ns: Int, ranks: Int) -> Float:
    """Return the longest interval of each rank that ends up to each time, from the last one on."""
    column = np.searchsorted(ends_ns, intervals.end_ns, side="left")
    inside = column < len(ends_ns)
    longest = np.zeros((len(ranks), len(ends_ns)))
    length = (intervals.end_ns - intervals.begin_ns)[inside]
    np.maximum.at(longest, (intervals.rank[inside], column[inside]), length)
    return longest


def _group_medians(group: Int, values: Float, counted: Bool) -> Float:
    """Return for each value the median of its group's counted values, 0 if there are none."""
    groups = int(group.max(initial=-1)) + 1
    of, chosen = group[counted], values[counted]
    ordered = chosen[np.lexsort((chosen, of))]
    count = np.bincount(of, minlength=groups)
    middle = np.minimum(np.cumsum(count) - count + count // 2, max(len(ordered) - 1, 0))
    median = np.where(count > 0, ordered[middle], 0.0)
    result: Float = median[group]
    return result


def find_steps(trace: Trace, delays: Delays) -> Steps | None:
    """Return the steps of a run, or None if its ranks hardly met between intervals of work."""
    begin, end = trace.calls_start_ns, trace.calls_start_ns + trace.duration_ns
    meetings, first = np.unique(delays.meetings_of_all, return_index=True)
    inside = (meetings > begin) & (meetings <= end)
    count = int(inside.sum())
    if not count:
        return None
    edges = np.concatenate([[begin], meetings[inside]])
    intervals = int((delays.intervals.end_ns <= edges[-1]).sum())
    is_divided = intervals > (count + 1) * trace.ranks
    if count < MIN_STEPS and is_divided:
        return None
    return Steps(edges, delays.meeting_callsites[first[inside]], is_divided)


def group_steps(delays: Delays, steps: Steps, chosen: Float) -> Iterator[list[int]]:
    """Yield groups of call sites with comparable steps, the costliest first.

    A program may call several collectives in turn, so the steps of one call site are similar, and
    the steps of different call sites are not. Call sites with few steps or little wait are joined.
    """
    waits = delays.waits
    wait_ns = (waits.end_ns - waits.begin_ns) * chosen[waits.group]
    callsite = steps.callsite[steps.find(waits.end_ns)]
    count = np.bincount(steps.callsite)
    cost = np.bincount(callsite, wait_ns, len(count))
    least = min(MIN_STEPS, len(steps.callsite) // 2)
    large = (count >= least) & (cost >= MIN_GROUP_SHARE * cost.sum())
    yield from ([at] for at in np.argsort(-cost, kind="stable").tolist() if large[at])
    if cost[~large].any():
        yield np.flatnonzero(~large & (count > 0)).tolist()
