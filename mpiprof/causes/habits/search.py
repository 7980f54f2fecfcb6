"""The search for habits: the waiting that each explains, and its significance.

    work of all ranks ──► candidates: who (rank_set.py) × when (course.py, series.py, rare
         ▲                            delays), or on their way over the ranks (unsteady_delay.py)
         └── without the best one ◄── the simplest one that explains nearly as much as the best

A habit explains the waiting that would vanish without it. The best one is taken out of the work,
and the search is repeated. So mixed causes are separated, and no waiting counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.causes.habits.habit import Habit, Remainder
from mpiprof.causes.habits.rank_set import (
    MAX_P,
    compute_gain,
    find_costliest_set,
    find_trimmed_means,
)
from mpiprof.causes.habits.series import MAX_PERIODIC_P, find_class_means, find_period
from mpiprof.causes.habits.significance import tame
from mpiprof.causes.habits.steady_delay import (
    find_lateness,
    find_level_sets,
    find_sets,
    find_trends,
    make_set,
    make_trend,
)
from mpiprof.causes.habits.unsteady_delay import (
    Way,
    find_chance_of_rare,
    find_rare_columns,
    find_turns,
    find_ways,
)
from mpiprof.causes.habits.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int

MIN_SHARE = 0.05  # of the waiting, that a habit must explain
MIN_LATE_SHARE = 0.25  # of the delay of a period, from which it has begun
NEAR_BEST = 0.9  # a simpler habit wins if it explains this share of the best one's waiting
MAX_LEADS = 3  # rows whose lateness shows when a set of ranks is late
AMOUNTS = 6  # medians of a delay on its way, one after the other
MAX_ITERATIONS = 8  # of the main contrast between ranks
MAX_ONE_SHARE = 0.5  # of the waiting in the columns of a period, in one of them
MIN_RARE_SHARE = 0.2  # of the waiting, that a rare delay explains beyond chance


def find_habits(matrix: WorkMatrix) -> list[Habit]:
    """Return the habits of a matrix, in order of detection."""
    work_ns, habits = matrix.work_ns, list[Habit]()
    total_wait_ns = float(matrix.compute_waiting(work_ns).sum())
    while total_wait_ns > 0 and matrix.instance_count > 1:
        remainder = Remainder(matrix, work_ns, matrix.compute_waiting(work_ns))
        best = _choose_best(list(_find_candidates(remainder)))
        if best is None or best.gain_ns < MIN_SHARE * total_wait_ns:
            break
        habits.append(replace(best, prerequisite=_find_prerequisite(matrix, habits, best)))
        work_ns = work_ns - best.shift_ns
    return habits


def _choose_best(candidates: Sequence[Habit]) -> Habit | None:
    """Return the first candidate that explains nearly as much as the best, or None."""
    largest = max((candidate.gain_ns for candidate in candidates), default=0.0)
    good = (candidate for candidate in candidates if candidate.gain_ns >= NEAR_BEST * largest > 0)
    return next(good, None)


def _find_prerequisite(matrix: WorkMatrix, habits: Sequence[Habit], last: Habit) -> int | None:
    """Return the index of the earlier habit that hides most of the last one's cost, or None.

    If another rank works even longer, less work of this rank gains nothing.
    """
    work_ns = matrix.work_ns
    for number, shift in enumerate([*(habit.shift_ns for habit in habits), last.shift_ns]):
        gain = compute_gain(matrix, work_ns, last.shift_ns, matrix.compute_waiting(work_ns))
        if gain > last.gain_ns / 2:
            return number - 1 if number else None
        work_ns = work_ns - shift
    return len(habits) - 1 if habits else None


def _find_candidates(remainder: Remainder) -> Iterator[Habit]:
    """Yield the significant candidates, the simplest first."""
    leads = _list_leads(remainder)
    trends = [trend for row in leads for trend in find_trends(remainder, row)]
    for trend in trends:
        if trend.is_better:
            yield make_trend(remainder, trend)
    yield from find_sets(remainder)
    for row in leads:
        yield from find_level_sets(remainder, row)
    for trend in trends:
        if not trend.is_better:
            yield make_trend(remainder, trend)
    period = _choose_periodic_columns(remainder)
    of_ranks = list(_find_periodic(remainder, *period)) if period is not None else []
    yield from of_ranks
    yield from _find_moving(remainder)
    if period is not None and not of_ranks:
        yield from _find_uneven_period(remainder, *period)
    yield from _find_rare(remainder, remainder.work_ns, leads[0], np.array([leads[0]]))
    yield from _find_rare_node(remainder)


def _list_leads(remainder: Remainder) -> list[int]:
    """Return the rows that cause most waiting, whose lateness shows when others are late, too."""
    rows = len(remainder.work_ns)
    cost = np.bincount(np.nanargmax(remainder.work_ns, 0), remainder.waits, rows)
    caused = remainder.matrix.compute_caused_waits()
    ordered = [*np.argsort(-cost, kind="stable").tolist()[:2], int(caused.argmax())]
    if not caused.any():
        mean = find_trimmed_means(remainder.work_ns - column_medians(remainder.work_ns))
        ordered[-1] = int(mean.argmax())
    return list(dict.fromkeys(ordered))[:MAX_LEADS]


# ---- periods


def _find_periodic(
    remainder: Remainder, columns: Int, fields: Mapping[str, Any]
) -> Iterator[Habit]:
    """Yield the ranks that are late in the columns of a period, at levels or with a trend."""
    part = Remainder(
        _Part(remainder.matrix, columns), remainder.work_ns[:, columns], remainder.waits[columns]
    )
    row = _list_leads(part)[0]
    candidates = [make_trend(part, trend) for trend in find_trends(part, row) if trend.is_better]
    rank_set = find_costliest_set(remainder.matrix, remainder.work_ns, remainder.waits, columns, 1)
    if rank_set is not None:
        candidates += make_set(part, rank_set, [np.arange(len(columns))])
    candidates += find_level_sets(part, row)
    for habit in candidates:
        if habit.cause in ("gradient", "early") or habit.each:
            continue
        shift = np.zeros_like(remainder.work_ns)
        shift[:, columns] = habit.shift_ns
        instances = columns[habit.instances]
        first = _count_before_delay(remainder, habit, instances)
        shift[:, instances[:first]] = 0.0
        instances = instances[first:]
        gain = compute_gain(remainder.matrix, remainder.work_ns, shift, remainder.waits)
        periodic = replace(habit, cause="periodic", instances=instances, gain_ns=gain, levels=())
        yield replace(periodic, shift_ns=shift, **fields)


def _count_before_delay(remainder: Remainder, habit: Habit, columns: Int) -> int:
    """Return the number of first columns of a period in which the ranks are not late yet.

    A delay that grows has begun, however short it is.
    """
    if habit.grows:
        return 0
    rows = np.searchsorted(remainder.matrix.ranks, habit.ranks)
    late = find_lateness(remainder.work_ns, rows)[columns]
    return int(np.argmax(late >= MIN_LATE_SHARE * habit.late_ns))


def _choose_periodic_columns(remainder: Remainder) -> tuple[Int, dict[str, Any]] | None:
    """Return the columns of a period with much waiting, and the period and its offsets.

    If ranks take turns, waiting is equal in all columns. Then the columns are those in which the
    same ranks are late.
    """
    number, least_ns = remainder.matrix.number, remainder.matrix.least_ns
    values = remainder.waits
    every = find_period(
        np.log(np.maximum(values / max(len(remainder.work_ns) - 1, 1), least_ns)), number
    )
    if every is None:
        values = tame(_find_main_contrast(remainder.work_ns))
        every = find_period(values, number)
    if every is None:
        return None
    class_of = number % every.length
    mean = find_class_means(values, class_of, every.length)
    is_known = np.bincount(class_of, minlength=every.length) > 0
    middle = (mean[is_known].max() + mean[is_known].min()) / 2
    is_high = (mean > middle) & is_known
    columns = np.flatnonzero(is_high[class_of])
    if len(columns) in (0, len(number)) or _has_one_cost(remainder.waits[columns]):
        return None
    return columns, {"period": every.length, "offsets": tuple(np.flatnonzero(is_high).tolist())}


def _has_one_cost(waits: Float) -> bool:
    """Return whether most of the waiting is in one column: an accident is no period."""
    return bool(waits.max() > MAX_ONE_SHARE * waits.sum())


def _find_main_contrast(work_ns: Float) -> Float:
    """Return the contrast of ranks that explains most of their differences, for each column.

    It is the first principal component, by power iteration from the column with most differences.
    """
    late = np.nan_to_num(work_ns - column_medians(work_ns))
    late -= late.mean(0)
    contrast = late[:, np.argmax((late**2).sum(0))]
    for _ in range(MAX_ITERATIONS):
        contrast = late @ (contrast @ late)
        contrast = contrast / max(float(np.linalg.norm(contrast)), 1.0)
    return np.asarray(contrast @ late)


class _Part(WorkMatrix):
    """Some columns of a matrix."""

    def __init__(self, matrix: WorkMatrix, columns: Int) -> None:
        self.ranks, self.node, self.nodes = matrix.ranks, matrix.node, matrix.nodes
        self.number, self.first_ns = matrix.number[columns], matrix.first_ns[columns]
        self.least_ns, self.work_ns = matrix.least_ns, matrix.work_ns[:, columns]
        self.least_work_ns = matrix.least_work_ns[columns]
        self._matrix, self._columns = matrix, columns

    def compute_waiting(self, work_ns: Float) -> Float:
        """Return the wait in ns in each column if the ranks worked that long there."""
        full = self._matrix.work_ns.copy()
        full[:, self._columns] = work_ns
        return self._matrix.compute_waiting(full)[self._columns]

    def compute_caused_waits(self) -> Float:
        """Return the waiting that each rank causes in all columns."""
        return self._matrix.compute_caused_waits()


def _find_uneven_period(
    remainder: Remainder, columns: Int, fields: Mapping[str, Any]
) -> Iterator[Habit]:
    """Yield the period in whose columns all ranks differ more than in the others.

    If few ranks are last in these columns, these ranks are late by turns. Returns nothing if ranks
    are missing in some columns, because more ranks differ more.
    """
    if np.isnan(remainder.work_ns).any():
        return
    work_ns, waits = remainder.work_ns[:, columns], remainder.waits[columns]
    row, late, p = find_turns(work_ns)
    if p <= MAX_P and np.median(late) > remainder.matrix.least_ns:
        shift = np.zeros_like(remainder.work_ns)
        shift[row, columns] = np.minimum(late, np.median(late))
        described = {"late_ns": float(np.median(late)), "instances": columns, "p": p}
        ranks = remainder.find_ranks(np.unique(row))
        yield remainder.make("periodic", ranks, shift, **described, **fields)
        return
    # Shrink the spread in these columns to that in the other columns.
    usual = float(
        np.median(np.delete(remainder.waits, columns)) / max(float(np.median(waits)), 1.0)
    )
    shift = np.zeros_like(remainder.work_ns)
    shift[:, columns] = (1 - min(usual, 1.0)) * (work_ns - np.nanmin(work_ns, 0))
    late_ns = float(np.median(np.nanmax(work_ns, 0)))
    if late_ns <= remainder.matrix.least_ns:
        return
    yield remainder.make(
        "periodic", (), shift, late_ns=late_ns, instances=columns, p=MAX_PERIODIC_P, **fields
    )


# ---- delays that move, and rare delays


def _find_moving(remainder: Remainder) -> Iterator[Habit]:
    """Yield the delays that move over the ranks."""
    matrix = remainder.matrix
    for way in find_ways(remainder.work_ns, matrix.number, remainder.waits, matrix.least_ns):
        if way.p > MAX_P:
            continue
        columns = np.flatnonzero(way.due >= 0)
        shift = _follow_rows(remainder, way, columns) if way.profile is None else way.profile
        if shift is None or shift.max() <= matrix.least_ns:
            continue
        rows = np.unique(way.due[columns])
        if way.profile is not None:
            rows = np.flatnonzero(shift.max(1) > shift.max() / 2)
        late_ns = float(
            shift.max() if way.profile is not None else np.median(shift.max(0)[columns])
        )
        at_due = remainder.work_ns[way.due[columns], columns]
        yield remainder.make(
            "periodic" if len(rows) == 1 else "moving",
            remainder.find_ranks(rows),
            shift,
            late_ns=late_ns,
            instances=columns,
            p=way.p,
            period=way.period,
            offsets=way.offsets,
            step=way.step,
            speed=way.speed,
            reverses=way.reverses,
            shows=int((at_due > late_ns / 2).sum()),
        )


def _follow_rows(remainder: Remainder, way: Way, columns: Int) -> Float | None:
    """Return the shift of a delay of one row at a time; None if a row is also late undue."""
    from scipy import ndimage

    row, work_ns = way.due[columns], remainder.work_ns[:, columns]
    index = np.arange(len(columns))
    other_work_ns = work_ns.copy()
    other_work_ns[row, index] = np.nan
    late = work_ns[row, index] - column_medians(other_work_ns)
    amount = float(np.nanmedian(late))
    apart = work_ns - column_medians(work_ns)
    usual = [
        float(np.nanmedian(apart[at, row != at])) for at in np.unique(row) if (row != at).any()
    ]
    if not amount > 0 or max(usual, default=0.0) > amount / 2:
        return None
    # The amount may change slowly, as in a factorisation.
    width = 2 * (len(columns) // (2 * AMOUNTS)) + 1
    amounts = ndimage.median_filter(np.nan_to_num(late), width, mode="nearest")
    shift = np.zeros_like(remainder.work_ns)
    shift[row, columns] = np.clip(np.nan_to_num(late), 0.0, np.maximum(amounts, 0.0))
    return shift


def _find_rare_node(remainder: Remainder) -> Iterator[Habit]:
    """Yield the node whose ranks have far more costly rare delays together than other nodes."""
    matrix = remainder.matrix
    counts = np.bincount(matrix.node)
    if len(counts) < 2 or counts.min() < 2 or np.isnan(remainder.work_ns).any():
        return
    # The median of a node's ranks shows no delay of a single rank.
    nodes = range(len(counts))
    of_node = np.stack([column_medians(remainder.work_ns[matrix.node == node]) for node in nodes])
    latest = int(np.bincount(of_node.argmax(0), remainder.waits, len(counts)).argmax())
    rows = np.flatnonzero(matrix.node == latest)
    yield from _find_rare(remainder, of_node, latest, rows, matrix.nodes[latest])


def _find_rare(
    remainder: Remainder, work_ns: Float, row: int, rows: Int, node: str | None = None
) -> Iterator[Habit]:
    """Yield the rank or node with far more costly rare delays than the others, if any.

    work_ns: work of each rank or each node. row: of the late one. rows: of its ranks.
    """
    waits = remainder.waits
    columns = find_rare_columns(work_ns, waits, row)
    if not len(columns):
        return
    p = find_chance_of_rare(work_ns, waits, row, len(columns))
    late_ns = float(np.median(find_lateness(remainder.work_ns, rows)[columns]))
    if p > MAX_P or late_ns <= remainder.matrix.least_ns:
        return
    shift = np.zeros_like(remainder.work_ns)
    shift[np.ix_(rows, columns)] = late_ns
    described = {"late_ns": late_ns, "instances": columns, "p": p, "node": node}
    cause = "node" if node else "rank"
    rare = remainder.make(cause, remainder.find_ranks(rows), shift, **described)
    weight = np.bincount(np.nanargmax(work_ns, 0), waits, len(work_ns))
    usual = min(float(np.median(np.delete(weight, row))) / max(float(weight[row]), 1.0), 1.0)
    gain_ns = (1.0 - usual) * rare.gain_ns
    if gain_ns >= MIN_RARE_SHARE * float(waits.sum()):
        yield replace(rare, gain_ns=gain_ns)
