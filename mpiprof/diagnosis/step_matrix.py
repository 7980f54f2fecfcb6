"""Matrices of the work of all ranks in the steps of a run, from sums over the windows of the run.

The search for habits needs the steps of the whole run. Their sums are small where the waits and
intervals of the run are not, so each window of a large run adds up the cells of its own steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.delay_matrix import (
    OUTSIDE,
    Cells,
    Columns,
    DelayMatrix,
    choose_columns,
    count_most_columns,
)
from mpiprof.diagnosis.explained_waits import ChosenWaits
from mpiprof.diagnosis.run_steps import Steps, number_steps
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int


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
    mine = np.flatnonzero(np.isin(steps.callsite, callsites) & steps.is_known)
    index, scale = choose_columns(steps.wait_ns[mine], count_most_columns(trace.ranks))
    column_of = np.full(len(steps.callsite), OUTSIDE, np.int64)
    column_of[mine[index]] = np.arange(len(index))
    number = number_steps(trace, steps, mine, callsites)
    total = count_steps(trace, steps, number, callsites)
    of = number[index], steps.edges_ns[mine[index]], scale
    return StepColumns(steps, callsites, column_of, Columns(*of, len(mine), total))


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
    for of in chosen:
        work, at_waits, spent = (
            Cells(ranks, len(of.columns.number), of.column_of[step], rank) for rank, step in located
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
    columns = (np.ascontiguousarray(of[..., part]) for of in (waited, cost, wait, weighted))
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
            np.zeros(of) for of in (shape, shape, *[shape[1:]] * 2)
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
        whole, remaining = ((times.max(0) - times).sum(0) for times in (self.work_ns, work_ns))
        share = np.minimum(self.wait_ns / np.where(whole > 0, whole, 1.0), 1.0)
        waits = np.maximum(self.wait_ns + share * (remaining - whole), 0.0)
        return np.asarray(waits * self.scale)
