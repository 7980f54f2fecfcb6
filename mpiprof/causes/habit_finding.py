"""Finding about a habit of delays, with the figures that its sentences state.

They are its onset, its changes, and the delay of each rank. A habit in several matrices is one
finding, and one whose ranks work longer at different places is several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.causes.cause import join_removals
from mpiprof.causes.delay_evidence import WindowEvidence, find_reason, list_locations
from mpiprof.causes.delay_matrix import DelayMatrix, FoundHabit
from mpiprof.causes.explained_waits import find_main_callsite
from mpiprof.causes.finding import MAX_CERTAINTY, Finding, HabitEvidence, WaitSite, make_finding
from mpiprof.causes.habits.habit import Habit, count_late_instances, find_spans
from mpiprof.causes.habits.work_matrix import find_host
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Float

MIN_LATE_SHARE = 0.5  # of the columns; a rank that is late in more of them is usually late
MAX_JOINT_SHARE = 0.1  # of the columns in which several ranks are late, that are late by turns
MIN_DUE_SHARE = 0.9  # of the largest delay in a column, for the ranks at which the delay is


def make_habit_finding(
    trace: Trace,
    parts: Sequence[FoundHabit],
    windows: Sequence[WindowEvidence],
    waits_at: tuple[WaitSite, ...],
    saved: tuple[float, float],
    cost: float,
) -> Finding:
    """Return the finding of a habit.

    parts: the same habit in one or several matrices. windows: in each window. saved: as
    join_saved_time. cost: waiting in ns that would vanish.
    """
    matrix, habit = parts[0]
    number = matrix.number[habit.instances]
    of_work = [window.work for window in windows]
    work = tuple(list_locations(trace, of_work))
    late = (
        count_late_instances(part_habit, part_matrix)
        * part_matrix.count
        / part_matrix.instance_count
        for part_matrix, part_habit in parts
    )
    # If early ranks take over work, all ranks end earlier by the mean of the waiting.
    saved_ns, saved_work_ns = saved if habit.cause != "early" else (cost / trace.ranks, 0.0)
    evidence = HabitEvidence(
        work=work,
        saved_work_ns=saved_work_ns,
        **habit.pattern,
        late_instances=round(sum(late)),
        instances=sum(part_matrix.count for part_matrix, _ in parts),
        spans=find_spans(number, matrix) if len(number) < matrix.instance_count else (),
        onset_ns=find_onset(trace, matrix, habit),
        stay=find_stay(habit) if habit.cause == "moving" else None,
        late_by_rank=find_lateness(matrix, habit),
        by_turns=are_late_by_turns(matrix, habit),
        course=None if habit.course is None else habit.course.shape,
        until=find_last_change(matrix, habit),
        unit=matrix.unit,
        sampled=trace.sampling_interval > 1,
        spared=find_spared_ranks(trace, habit),
        all_ranks=len(habit.ranks) == trace.ranks,
        steps_of=tuple(
            part_matrix.callsite for part_matrix, _ in parts if part_matrix.callsite is not None
        ),
        recorded=(int(matrix.number[0]), int(matrix.number[-1])),
        host=find_host(trace, habit.node),
        reason=find_reason(of_work),
        mainly_at=find_main_callsite(waits_at),
        alone_ns=matrix.alone_ns if habit.cause in ("rank", "periodic") else None,
    )
    return make_finding(
        trace,
        "inside" if evidence.is_inside and habit.cause == "rank" else habit.cause,
        cost,
        saved_ns=saved_ns,
        ranks=habit.ranks,
        node=habit.node,
        period=habit.period,
        first_instance=int(number[0]),
        last_instance=int(number[-1]),
        certainty=min(max(1.0 - habit.p, 0.0), MAX_CERTAINTY),
        evidence=evidence,
        waits_at=waits_at,
        # Early ranks have no excess work that the run could lack.
        removal=None
        if habit.cause == "early"
        else join_removals([window.removal for window in windows]),
    )


def join_matrices(habits: Sequence[FoundHabit]) -> list[list[FoundHabit]]:
    """Join habits of the same ranks in several matrices, the costliest of each first."""
    groups: dict[Any, list[FoundHabit]] = {}
    for matrix, habit in habits:
        key = habit.cause, frozenset(habit.ranks), habit.period, habit.each
        groups.setdefault(key, []).append((matrix, habit))
    return [sorted(parts, key=lambda part: -part[1].gain_ns) for parts in groups.values()]


def divide_habit(
    parts: Sequence[FoundHabit], groups: Mapping[tuple[int, ...], float]
) -> list[list[FoundHabit]]:
    """Return a habit as one habit for each group of its ranks; groups: ranks and excess work."""
    matrix, habit = parts[0]
    is_divisible = habit.cause in ("rank", "periodic") and not (habit.each or habit.grows)
    is_complete = {rank for ranks in groups for rank in ranks} == set(habit.ranks)
    if len(parts) > 1 or len(groups) < 2 or not is_divisible or not is_complete:
        return [list(parts)]
    whole_ns, divided = sum(groups.values()), []
    for ranks, work_ns in groups.items():
        is_member = np.isin(matrix.ranks, ranks)
        shift_ns = np.where(is_member[:, None], habit.shift_ns, 0.0)
        late_ns = float(np.median(shift_ns[:, habit.instances].max(0)))
        of_group = replace(habit, ranks=ranks, late_ns=late_ns, shift_ns=shift_ns)
        gain_ns = habit.gain_ns * work_ns / whole_ns
        of_group = replace(of_group, gain_ns=gain_ns, levels=(), prerequisite=None)
        divided.append([(matrix, of_group)])
    return divided


def find_onset(trace: Trace, matrix: DelayMatrix, habit: Habit) -> int | None:
    """Return when a habit begins, in ns after the start of the run; None at the first column."""
    first = int(habit.instances[0])
    return int(matrix.columns.begin_ns[first]) - trace.run_start_ns if first else None


def find_last_change(matrix: DelayMatrix, habit: Habit) -> int | None:
    """Return the number from which a delay has its last level, or None if it has none."""
    if habit.course is None or habit.course.until is None:
        return None
    columns = habit.instances if habit.period else np.arange(matrix.instance_count)
    if habit.instances[-1] < columns[-1]:  # the delay ends
        return None
    return int(matrix.number[columns[habit.course.until]])


def find_spared_ranks(trace: Trace, habit: Habit) -> tuple[int, ...]:
    """Return the ranks that are not late if most ranks are, otherwise ()."""
    is_majority = habit.cause == "rank" and 2 * len(habit.ranks) > trace.ranks
    spared_ranks = np.setdiff1d(np.arange(trace.ranks), habit.ranks) if is_majority else ()
    return tuple(int(rank) for rank in spared_ranks)


def find_stay(habit: Habit) -> tuple[int, int]:
    """Return the least and most columns for which the delay stays at a rank before it moves.

    They are the quartiles over the columns, because noise divides the stay at some ranks.
    """
    shift = np.nan_to_num(habit.shift_ns[:, habit.instances])
    is_due = shift >= MIN_DUE_SHARE * shift.max(0)
    edges = np.flatnonzero((is_due[:, 1:] != is_due[:, :-1]).any(0)) + 1
    lengths = np.diff([0, *edges, shift.shape[1]])
    quartiles = np.quantile(np.repeat(lengths, lengths), (0.25, 0.75), method="inverted_cdf")
    return int(quartiles[0]), int(quartiles[1])


def find_lateness(matrix: DelayMatrix, habit: Habit) -> tuple[tuple[int, float], ...]:
    """Return the usual delay of each rank of a habit in ns, the largest first.

    A rank that is late in at most half of the columns has the usual delay of these.
    """
    excess, is_late = _find_late_cells(matrix, habit)
    chosen = np.where(is_late.mean(1, keepdims=True) <= MIN_LATE_SHARE, is_late, True)
    chosen[~chosen.any(1)] = True
    late = [float(np.median(row[columns])) for row, columns in zip(excess, chosen, strict=True)]
    return tuple(sorted(zip(habit.ranks, late, strict=True), key=lambda pair: -pair[1]))


def are_late_by_turns(matrix: DelayMatrix, habit: Habit) -> bool:
    """Return whether at most one of several ranks is late in nearly every column."""
    if habit.cause not in ("rank", "periodic") or len(habit.ranks) < 2:
        return False
    _, is_late = _find_late_cells(matrix, habit)
    is_any_seldom = is_late.mean(1).min() <= MIN_LATE_SHARE
    return bool(is_any_seldom and (is_late.sum(0) > 1).mean() <= MAX_JOINT_SHARE)


def _find_late_cells(matrix: DelayMatrix, habit: Habit) -> tuple[Float, Bool]:
    """Return the excess of each rank of a habit in its columns, and whether it is late there."""
    row = np.searchsorted(matrix.ranks, habit.ranks)
    excess = matrix.compute_excess(habit.ranks, habit.instances)[np.ix_(row, habit.instances)]
    return excess, excess >= habit.late_ns / 2
