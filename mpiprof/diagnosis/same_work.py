"""Habits of work between two call sites, continued in the same work after other calls.

The first repetitions of a loop may follow other calls than the rest:

    start ── work ── recv ── work ── recv ── work ── recv ── allreduce ── work ── recv
         other pair      └─ pair with the habit ─┘                 other pair

The late ranks of a habit do the same work there: up to the same call. The other pairs may have
few repetitions, in which no search would find a habit. But the ranks and their usual delay are
known, so only these are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mpiprof.account.work_intervals import INSIDE, number_same_work
from mpiprof.causes.habits.habit import Habit
from mpiprof.causes.habits.rank_set import compute_gain
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.causes.place import Pair, add_up
from mpiprof.diagnosis.delay_matrix import DelayMatrix
from mpiprof.diagnosis.explained_waits import ChosenWaits
from mpiprof.diagnosis.habit_details import FoundHabit
from mpiprof.diagnosis.repetition_matrix import RepetitionMatrix
from mpiprof.trace.types import Float, Int

MAX_SAME_PAIRS = 4  # other pairs of call sites with the same work, for each pair
MIN_MORE_SHARE = 0.5  # of the delay of a habit, by which its ranks work longer in all
MIN_LATE_SHARE = 0.5  # of a usual delay, from which work is late; and of repetitions that are late


def list_same_work(pairs: Sequence[Pair], pair_ns: Mapping[Pair, float]) -> list[Pair]:
    """Return the costliest pairs that end with the same calls as some pairs, without these.

    pair_ns: waiting that each pair causes.
    """
    found = []
    for after in dict.fromkeys(after for _, after in pairs if after != INSIDE):
        others = [pair for pair in pair_ns if pair[1] == after and pair not in pairs]
        others = [pair for pair in others if pair_ns[pair] > 0]
        found += sorted(others, key=lambda pair: -pair_ns[pair])[:MAX_SAME_PAIRS]
    return found


def sum_pair_work(waits: ChosenWaits) -> dict[Pair, Float]:
    """Return the work of each rank between each pair of call sites in a window, in ns."""
    intervals, ranks = waits.delays.intervals, waits.trace.ranks
    shape = len(waits.delays.sites), ranks
    cell, length = intervals.key * ranks + intervals.rank, intervals.end_ns - intervals.begin_ns
    work_ns = np.bincount(cell, length, shape[0] * shape[1]).reshape(shape)
    return dict(zip(waits.delays.sites, work_ns, strict=True))


def drop_divided_work(
    found: Sequence[FoundHabit], windows: Sequence[Mapping[Pair, Float]]
) -> list[FoundHabit]:
    """Return the habits whose ranks work longer than other ranks in all of the same work together.

    Ranks at the edge of a sweep lack calls that divide the work of the other ranks, so they work
    longer between two calls, but not in a sweep. windows: of the run, as sum_pair_work.
    """
    work_ns = add_up(windows)
    pairs = list(work_ns)
    number = number_same_work(pairs)
    kept: list[FoundHabit] = []
    for matrix, habit in found:
        assert isinstance(matrix, RepetitionMatrix)
        is_same = number == number[pairs.index(matrix.pair)]
        of_ranks = np.sum([work_ns[pairs[index]] for index in np.flatnonzero(is_same)], 0)
        ranks = list(habit.ranks)
        others = np.delete(of_ranks, ranks)
        claimed_ns = np.maximum(np.nan_to_num(habit.shift_ns), 0.0).sum()
        if ranks and len(others):
            more_ns = np.maximum(of_ranks[ranks] - np.median(others), 0.0).sum()
            if more_ns < MIN_MORE_SHARE * claimed_ns:
                continue
        kept.append((matrix, habit))
    return kept


def continue_habits(
    found: Sequence[FoundHabit], matrices: Sequence[RepetitionMatrix]
) -> list[FoundHabit]:
    """Return the habits as they continue in other matrices of the same work."""
    continued: list[FoundHabit] = []
    known = {(id(matrix), one.cause, frozenset(one.ranks)) for matrix, one in found}
    for source, one in found:
        if not isinstance(source, RepetitionMatrix) or not _is_constant(one):
            continue
        for matrix in matrices:
            is_known = (id(matrix), one.cause, frozenset(one.ranks)) in known
            if not is_known and matrix.pair[1] == source.pair[1]:
                habit = _continue_habit(source, one, matrix)
                continued += [] if habit is None else [(matrix, habit)]
    return continued


def _is_constant(habit: Habit) -> bool:
    """Return whether ranks are late in consecutive repetitions."""
    is_late = habit.cause in ("rank", "node") and len(habit.ranks) > 0
    return is_late and not (habit.each or habit.grows)


def _continue_habit(source: DelayMatrix, habit: Habit, matrix: DelayMatrix) -> Habit | None:
    """Return a habit of one matrix in another one, None if its ranks are not late there."""
    rows = np.searchsorted(matrix.ranks, habit.ranks)
    rows = rows[np.isin(habit.ranks, matrix.ranks)]
    others = np.delete(matrix.work_ns, rows, 0)
    if len(rows) < len(habit.ranks) or not len(others):
        return None
    columns = _find_columns(source, habit, matrix)
    excess = np.nan_to_num(matrix.work_ns[rows] - column_medians(others))[:, columns]
    is_late = excess.mean(0) >= MIN_LATE_SHARE * habit.late_ns
    if not is_late.sum() >= max(MIN_LATE_SHARE * len(columns), 1):
        return None
    columns, excess = columns[is_late], excess[:, is_late]
    shift = np.zeros_like(matrix.work_ns)
    shift[np.ix_(rows, columns)] = np.clip(excess, 0.0, _find_usual_delays(source, habit))
    gain = compute_gain(matrix, matrix.work_ns, shift, matrix.compute_waiting(matrix.work_ns))
    if not gain > 0:
        return None
    fields = {"instances": columns, "gain_ns": gain, "shift_ns": shift}
    return replace(habit, levels=(), prerequisite=None, **fields)


def _find_columns(source: DelayMatrix, habit: Habit, matrix: DelayMatrix) -> Int:
    """Return the columns of a matrix in the part of the run in which a habit holds."""
    columns = np.arange(matrix.instance_count)
    if len(habit.instances) == source.instance_count:
        return columns
    begins = source.columns.begin_ns[habit.instances]
    of_matrix = matrix.columns.begin_ns
    return np.flatnonzero((of_matrix >= begins.min()) & (of_matrix <= begins.max()))


def _find_usual_delays(source: DelayMatrix, habit: Habit) -> Float:
    """Return the maximum delay in ns that a habit explains, as a column with each rank."""
    if habit.varies is not None:
        return np.full((len(habit.ranks), 1), np.inf)
    rows = np.searchsorted(source.ranks, habit.ranks)
    shifts = habit.shift_ns[rows][:, habit.instances]
    return np.asarray(np.median(shifts, 1, keepdims=True))
