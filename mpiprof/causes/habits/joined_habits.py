"""Habits of delays that are one cause: of ranks that hide each other, or late in turn."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.causes.habits.habit import Habit
from mpiprof.causes.habits.steady_delay import find_levels
from mpiprof.trace.types import Float

MIN_JOINED_SHARE = 0.2  # minimum gain of joined ranks, over that of the ranks that hide their delay
MIN_COMMON_SHARE = 0.8  # of the columns of two habits that are joined
MIN_TURNS = 3  # of ranks that are late one after the other; one less if these are the whole run
MAX_TURN_RATIO = 1.5  # between the delays of the turns
MAX_TURN_GAP = 2  # columns between two turns, or in both


def join_habits(habits: Sequence[Habit]) -> list[Habit]:
    """Join habits that are one cause, and drop remains of a period with known late ranks."""
    with_ranks = {(habit.period, habit.offsets) for habit in habits if habit.ranks and habit.period}
    joined = join_levels(join_turns(join_ranks(habits)))
    return [
        habit for habit in joined if habit.ranks or (habit.period, habit.offsets) not in with_ranks
    ]


def join_ranks(habits: Sequence[Habit]) -> list[Habit]:
    """Join late ranks with ranks that hide their delay, if both are late in the same columns."""
    joined: list[Habit] = []
    at: list[int] = []  # index in `joined` of each habit
    for habit in habits:
        first = at[habit.prerequisite] if habit.prerequisite is not None else None
        if first is not None and _belong_together(joined[first], habit):
            joined[first] = replace(
                joined[first],
                ranks=(*joined[first].ranks, *habit.ranks),
                gain_ns=joined[first].gain_ns + habit.gain_ns,
                late_ns=max(joined[first].late_ns, habit.late_ns),
                p=max(joined[first].p, habit.p),
                shift_ns=_add_shifts([joined[first], habit]),
            )
            at.append(first)
        else:
            at.append(len(joined))
            joined.append(habit)
    return joined


def join_turns(habits: Sequence[Habit]) -> list[Habit]:
    """Join habits of as many ranks in adjacent stretches of the run as a delay that moves."""
    steady = [
        habit for habit in habits if habit.cause == "rank" and not (habit.grows or habit.each)
    ]
    turns = sorted(steady, key=lambda habit: int(habit.instances[0]))
    if not _are_turns(turns):
        return list(habits)
    columns = np.unique(np.concatenate([habit.instances for habit in turns]))
    moving = replace(
        turns[0],
        cause="moving",
        ranks=tuple(dict.fromkeys(rank for habit in turns for rank in habit.ranks)),
        late_ns=float(np.median([habit.late_ns for habit in turns])),
        instances=columns,
        gain_ns=sum(habit.gain_ns for habit in turns),
        p=max(habit.p for habit in turns),
        prerequisite=None,
        levels=(),
        shift_ns=_add_shifts(turns),
    )
    # The indexes in `prerequisite` are indexes of the given habits.
    unjoined = (
        replace(habit, prerequisite=None)
        for habit in habits
        if all(habit is not turn for turn in turns)
    )
    return [moving, *unjoined]


def join_levels(habits: Sequence[Habit]) -> list[Habit]:
    """Join habits of the same late ranks: parts of one delay, found one after the other."""
    groups: dict[Any, list[Habit]] = {}
    for number, habit in enumerate(habits):
        is_constant = habit.cause in ("rank", "node") and not (habit.grows or habit.each)
        key = (habit.cause, frozenset(habit.ranks)) if is_constant else number
        groups.setdefault(key, []).append(habit)
    return [_join_parts(parts) if len(parts) > 1 else parts[0] for parts in groups.values()]


def _join_parts(parts: Sequence[Habit]) -> Habit:
    """Return one habit for parts of a delay: it has levels, or varies if the parts overlap."""
    largest = max(parts, key=lambda habit: habit.gain_ns)
    columns = np.unique(np.concatenate([habit.instances for habit in parts]))
    late = [habit.late_ns * len(habit.instances) for habit in parts]
    joined = replace(
        largest,
        late_ns=sum(late) / len(columns),
        instances=columns,
        gain_ns=sum(habit.gain_ns for habit in parts),
        p=max(habit.p for habit in parts),
        prerequisite=None,
        levels=find_levels([(habit.instances, habit.late_ns) for habit in parts]),
        shift_ns=_add_shifts(parts),
    )
    if len(columns) == sum(len(habit.instances) for habit in parts):
        return joined
    of_latest = joined.shift_ns[:, columns].max(0)
    return replace(joined, levels=(), varies=(float(of_latest.mean()), float(of_latest.max())))


def _add_shifts(habits: Sequence[Habit]) -> Float:
    """Return the work that habits of the same matrix explain together."""
    return np.asarray(sum(habit.shift_ns for habit in habits))


def _are_turns(turns: Sequence[Habit]) -> bool:
    """Return whether each habit is of other ranks, and begins when the one before ends."""
    sets = {frozenset(habit.ranks) for habit in turns}
    columns = sum(len(habit.instances) for habit in turns)
    is_whole = bool(turns) and columns >= turns[0].shift_ns.shape[1] - MAX_TURN_GAP
    least_turns = MIN_TURNS - 1 if is_whole else MIN_TURNS
    if len(sets) < max(len(turns), least_turns) or len({len(ranks) for ranks in sets}) > 1:
        return False
    late = [habit.late_ns for habit in turns]
    gaps = (int(b.instances[0] - a.instances[-1]) - 1 for a, b in itertools.pairwise(turns))
    return max(late) <= MAX_TURN_RATIO * min(late) and all(abs(gap) <= MAX_TURN_GAP for gap in gaps)


def _belong_together(first: Habit, second: Habit) -> bool:
    """Return whether two habits are of late ranks, constant, and in mostly the same columns.

    If the repair of the first ranks gains nearly everything, they are the cause alone.
    """
    if not first.cause == second.cause == "rank" or first.grows or second.grows:
        return False
    if second.gain_ns < MIN_JOINED_SHARE * first.gain_ns:
        return False
    common = len(np.intersect1d(first.instances, second.instances))
    return common >= MIN_COMMON_SHARE * max(len(first.instances), len(second.instances))
