"""One habit: who works longer, in which columns of a matrix of work, and by how much.

Habits of ranks that hide each other, or that are late in turn, are joined: they are one cause.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from mpiprof.causes.habits.course import Course
from mpiprof.causes.habits.rank_set import compute_gain
from mpiprof.causes.habits.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int

MIN_LEVEL_RATIO = 1.5  # between separate levels of a habit
MIN_JOINED_SHARE = 0.2  # minimum gain of joined ranks, over that of the ranks that hide their delay
MIN_COMMON_SHARE = 0.8  # of the columns of two habits that are joined
MIN_TURNS = 3  # of ranks that are late one after the other; one less if these are the whole run
MAX_TURN_RATIO = 1.5  # between the delays of the turns
MAX_TURN_GAP = 2  # columns between two turns, or in both


@dataclass(frozen=True, kw_only=True)
class DelayPattern:
    """How the lateness of a habit is distributed over ranks and columns; times in ns.

    - late_ns: usual lateness.
    - offsets: of a period; the habit affects instances with number % period in offsets.
    - step: number of ranks by which lateness moves on each time. speed: ranks per instance, of a
      delay that moves smoothly. reverses: True if a delay moves to and fro over the ranks.
    - each: True if all ranks differ and the habit's ranks are the latest.
    - levels: if the lateness differs between phases, first column, last column and lateness of
      each.
    - grows: first and last lateness if it changes gradually.
    - varies: mean and largest lateness, if it varies from instance to instance.
    """

    late_ns: float = 0.0
    offsets: tuple[int, ...] = ()
    step: int | None = None
    speed: float | None = None
    reverses: bool = False
    each: bool = False
    levels: tuple[tuple[int, int, float], ...] = ()
    grows: tuple[float, float] | None = None
    varies: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Habit(DelayPattern):
    """A habit: its late ranks, instances and amount of lateness; times in ns.

    - cause: an entry of CAUSES (causes/finding.py). ranks: world ranks, the latest first.
    - instances: columns of the work matrix in which the habit holds. period: number of columns.
    - gain_ns: wait in the sample that the habit explains. p: p-value of the habit.
    - shift_ns: time that each rank (row) would work less in each column without the habit,
      negative for more.
    - prerequisite: index of the habit that must be removed before this one costs wait, or None.
    - shows: number of instances in which the rank due is late by half of late_ns, or None if the
      habit does not move.
    - course: of a gradual change, over the columns, or over the instances of a periodic habit.
    """

    cause: str
    ranks: tuple[int, ...]
    instances: Int
    gain_ns: float
    p: float
    shift_ns: Float
    period: int | None = None
    node: str | None = None
    prerequisite: int | None = None
    shows: int | None = None
    course: Course | None = None

    @property
    def pattern(self) -> dict[str, Any]:
        """Return the fields of DelayPattern."""
        return {field.name: getattr(self, field.name) for field in fields(DelayPattern)}


@dataclass(frozen=True)
class Remainder:
    """Work of a matrix that no habit explains yet, and its waiting in each column."""

    matrix: WorkMatrix
    work_ns: Float
    waits: Float

    def make(self, cause: str, ranks: Sequence[int], shift: Float, **described: Any) -> Habit:
        """Return a habit that explains some work; described: its further fields."""
        gain = compute_gain(self.matrix, self.work_ns, shift, self.waits)
        description: dict[str, Any] = {"cause": cause, "ranks": tuple(ranks), **described}
        return Habit(gain_ns=gain, shift_ns=shift, **description)

    def find_ranks(self, rows: Int) -> tuple[int, ...]:
        """Return the ranks of some rows."""
        return tuple(self.matrix.ranks[rows].tolist())


def count_late_instances(habit: Habit, matrix: WorkMatrix) -> int:
    """Return the number of instances in which a habit has half of its mean lateness or more."""
    work_ns = matrix.work_ns[:, habit.instances]
    rows = np.searchsorted(matrix.ranks, habit.ranks)
    other_rows = np.setdiff1d(np.arange(len(work_ns)), rows)
    if habit.shows is not None:
        return habit.shows
    if not len(rows) or not len(other_rows):
        return int((np.nanmax(work_ns, 0) > habit.late_ns / 2).sum())
    if habit.cause == "moving":  # another rank in each instance, and seldom all of them
        apart = np.nanmax(work_ns[rows], 0) - column_medians(work_ns)
        return int((apart > habit.late_ns / 2).sum())
    sign = -1 if habit.cause == "early" else 1
    apart = sign * (work_ns[rows] - column_medians(work_ns[other_rows]))
    return int((np.nan_to_num(apart, nan=-np.inf).max(0) > habit.late_ns / 2).sum())


def find_spans(number: Int, matrix: WorkMatrix) -> tuple[tuple[int, int], ...]:
    """Return the runs of instances that a habit covers, as first and last number."""
    columns = np.searchsorted(matrix.number, number)
    edges = np.flatnonzero(np.diff(columns) > 1)
    first, last = number[np.r_[0, edges + 1]], number[np.r_[edges, len(number) - 1]]
    return tuple((int(a), int(b)) for a, b in zip(first, last, strict=True))


def find_levels(spans: Sequence[tuple[Int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Return first column, last column and lateness of each span; () if all are similar."""
    late = [abs(by) for _, by in spans]
    if max(late) < MIN_LEVEL_RATIO * min(late):
        return ()
    return tuple(sorted((int(columns[0]), int(columns[-1]), by) for columns, by in spans))


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
