"""Ranks that are late together: in all columns, at some levels, or with a gradual change.

    who     the set of ranks that explains most waiting (rank_set.py)
    when    the columns in which the first of them is late (course.py)

The ranks are those that explain most waiting in the columns in which one of them is late. If they
are several, their common lateness decides on the columns again.

A habit states one usual delay of a rank:

    delay of rank 5  |   .       .
                     |   :   .   :   .          exceeds the usual delay
    usual delay      |-:-:-:-:-:-:-:-:-:-       explained by the habit
                     +-------------------- steps

If the rank's work varies far more than that of the other ranks, all of its delay has one cause,
however large it is at times. Otherwise the excess is noise as other ranks have it, or an accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mpiprof.account.message_volume import column_means
from mpiprof.causes.habits.course import Trend, find_trend, split_levels
from mpiprof.causes.habits.habit import Habit, Remainder, find_levels
from mpiprof.causes.habits.rank_set import (
    MAX_P,
    RankSet,
    compute_gain,
    find_costliest_set,
    find_trimmed_means,
)
from mpiprof.causes.habits.significance import (
    MAD_SCALE,
    STRETCHES,
    p_apart_from_others,
    p_of_levels,
    stretch_means,
)
from mpiprof.causes.habits.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Bool, Float, Int

MIN_LEVEL_SHARE = 0.25  # of the largest level, from which a level is late
# Maximum p-value of a delay that varies. The rank is known to be late, and only its cost changes.
MAX_VARIATION_P = 0.02
MIN_VARIATION_RATIO = 1.5  # of late ranks, over that of each other rank
MIN_SPREAD = 0.1  # of the logarithms of the other ranks' variations
MIN_ADDED_SHARE = 0.1  # minimum wait that the variation explains, over that of its habit
MIN_COLUMNS = 5  # fewer columns do not show that a delay varies
MIN_NOTABLE_SHARE = 0.5  # of the columns of a stretch
MIN_HIDDEN_P = 0.01  # probability that delays in so many columns are short or hidden by noise
NOISE_DEVIATIONS = 3.0  # of the other ranks' work, within which an excess is noise


def find_lateness(work_ns: Float, rows: Int) -> Float:
    """Return how much longer some rows work than the other rows, by column."""
    other_work_ns = np.delete(work_ns, rows, 0)
    return np.asarray(np.nan_to_num(column_means(work_ns[rows]) - column_medians(other_work_ns)))


def find_sets(remainder: Remainder) -> Iterator[Habit]:
    """Yield the set of ranks that explains most waiting in all columns, if it is significant."""
    columns = np.arange(remainder.matrix.instance_count)
    rank_set = find_costliest_set(remainder.matrix, remainder.work_ns, remainder.waits, columns, 1)
    if rank_set is not None:
        yield from make_set(remainder, rank_set, [columns])


def find_level_sets(remainder: Remainder, row: int) -> Iterator[Habit]:
    """Yield the set of ranks that is late in the columns in which a row is."""
    late = find_lateness(remainder.work_ns, np.array([row]))
    spans, count = _find_late_spans(remainder, late)
    if not spans or count == 1:
        return
    columns = np.concatenate(spans)
    rank_set = find_costliest_set(
        remainder.matrix, remainder.work_ns, remainder.waits, columns, count
    )
    if rank_set is None:
        return
    if rank_set.kind in ("rank", "node") and len(rank_set.rows) > 1:
        spans, _ = _find_late_spans(remainder, find_lateness(remainder.work_ns, rank_set.rows))
    if spans:
        yield from make_set(remainder, rank_set, spans)


def _find_late_spans(remainder: Remainder, late: Float) -> tuple[list[Int], int]:
    """Return the columns of each late level, and the number of all levels."""
    spans = split_levels(late)
    level = [float(np.median(late[span])) for span in spans]
    min_level_ns = max(MIN_LEVEL_SHARE * max(level), remainder.matrix.least_ns)
    return [span for span, by in zip(spans, level, strict=True) if by > min_level_ns], len(spans)


def make_set(remainder: Remainder, rank_set: RankSet, spans: Sequence[Int]) -> Iterator[Habit]:
    """Yield the candidate of one set of ranks in some spans, if it is significant."""
    rows, work_ns = rank_set.rows, remainder.work_ns
    columns = np.concatenate(spans)
    sign = -1 if rank_set.kind == "early" else 1
    levels = [(span, rank_set.late_ns) for span in spans]
    shift = np.zeros_like(work_ns)
    shift[:, columns] = rank_set.shift[:, None]
    if len(spans) > 1:
        other_work_ns = np.delete(work_ns, rows, 0)
        apart = work_ns[rows] - column_medians(other_work_ns)
        for span in spans:
            shift[np.ix_(rows, span)] = find_trimmed_means(apart[:, span])[:, None]
        levels = [(span, abs(float(shift[rows[0], span[0]]))) for span in spans]
    late_ns = float(
        np.average(
            [by for _, by in levels],
            weights=[len(columns_of_level) for columns_of_level, _ in levels],
        )
    )
    p = rank_set.p
    if len(columns) < work_ns.shape[1]:
        p = max(p, _find_chance_of_spans(work_ns, rank_set, spans, sign))
    if p > MAX_P:
        return
    each = rank_set.kind == "each"
    yield remainder.make(
        "rank" if each else rank_set.kind,
        remainder.find_ranks(rows),
        shift,
        late_ns=late_ns,
        instances=columns,
        p=p,
        node=rank_set.node,
        each=each,
        levels=find_levels(levels),
    )


def _find_chance_of_spans(
    work_ns: Float, rank_set: RankSet, spans: Sequence[Int], sign: int
) -> float:
    """Return the p-value that wandering ranks would be so late in spans of the run.

    Spans are chosen for their lateness, so it is compared with the changes in the whole run, or
    with the latest spans of the other ranks.
    """
    ends = {int(edge) for span in spans for edge in (span[0], span[-1] + 1)}
    edges = sorted(ends & set(range(1, work_ns.shape[1])))
    late = sign * find_lateness(work_ns, rank_set.rows)
    stretches = np.searchsorted(edges, [int(span[0]) for span in spans], side="right")
    chance = float(p_of_levels(late, edges)[stretches].max()) * len(work_ns)
    if rank_set.kind != "rank":
        return chance
    centred = work_ns - column_medians(work_ns)
    parts = np.split(np.arange(work_ns.shape[1]), edges)
    level = np.stack([column_means(centred[:, part].T) for part in parts])
    smallest = np.stack([level[number] for number in stretches]).min(0)
    other_levels = np.delete(level.max(0), rank_set.rows)
    return min(chance, p_apart_from_others(smallest[rank_set.rows], other_levels))


def find_trends(remainder: Remainder, row: int) -> Iterator[Trend]:
    """Yield the trend of a row, and that of the ranks that are late with it, as those of a node."""
    least_ns = remainder.matrix.least_ns
    trend = find_trend(remainder.work_ns, np.array([row]), MAX_P, least_ns)
    if trend is None:
        return
    yield trend
    late = np.flatnonzero(trend.fitted[0] > trend.fitted.max() / 2)
    several = find_costliest_set(remainder.matrix, remainder.work_ns, remainder.waits, late, 1)
    if several is None or several.kind not in ("rank", "node") or row not in several.rows:
        return
    if len(several.rows) > 1:
        trend = find_trend(remainder.work_ns, several.rows, MAX_P, least_ns)
        if trend is not None:
            yield trend


def make_trend(remainder: Remainder, trend: Trend) -> Habit:
    """Return the habit of a trend."""
    shift = np.zeros_like(remainder.work_ns)
    shift[np.ix_(trend.rows, trend.columns)] = trend.fitted[:, trend.columns]
    return remainder.make(
        "rank",
        remainder.find_ranks(trend.rows),
        shift,
        late_ns=float(np.median(trend.fitted.mean(0)[trend.columns])),
        instances=trend.columns,
        p=trend.p,
        grows=trend.ends,
        course=trend.course,
    )


def add_variation(matrix: WorkMatrix, habits: Sequence[Habit]) -> list[Habit]:
    """Return the habits, where late ranks with varying delays also explain what exceeds these."""
    work_ns = matrix.work_ns - _sum_shifts(habits)
    varied_habits = []
    for habit in habits:
        is_varied = habit.each or habit.grows or not habit.ranks
        if habit.cause in ("rank", "node", "periodic") and not is_varied:
            joined = _join_variation(matrix, work_ns, habit)
            if joined is not None:
                work_ns = work_ns + _sum_shifts([habit]) - _sum_shifts([joined])
                habit = joined
        varied_habits.append(habit)
    return varied_habits


def _sum_shifts(habits: Sequence[Habit]) -> Float:
    """Return the work in ns that habits explain together."""
    return np.asarray(sum(np.nan_to_num(habit.shift_ns) for habit in habits), np.float64)


def _join_variation(matrix: WorkMatrix, work_ns: Float, habit: Habit) -> Habit | None:
    """Return the habit with all of its ranks' excess, or None if their delay does not vary.

    work_ns: work that no habit explains.
    """
    rows = np.searchsorted(matrix.ranks, habit.ranks)
    before_ns = work_ns + _sum_shifts([habit])
    other_work_ns = np.delete(before_ns, rows, 0)
    noise = _find_noise(other_work_ns)
    excess = np.nan_to_num(before_ns[rows] - column_medians(other_work_ns))
    late = np.where(excess > noise, excess, 0.0)
    by_noise = float((other_work_ns - column_medians(other_work_ns) > noise).mean())
    columns = _find_columns(late.max(0) > 0, habit.instances, by_noise)
    # The columns of overlapping parts are chosen for their delays.
    usual = columns if habit.varies else habit.instances
    whole_ns = matrix.least_work_ns + (before_ns if habit.varies else work_ns)
    if len(usual) < MIN_COLUMNS or not varies(whole_ns[:, usual], rows):
        return None
    late = _add_hidden(late[:, columns], excess[:, columns])
    shift = np.zeros_like(work_ns)
    shift[np.ix_(rows, columns)] = late
    gain = compute_gain(matrix, before_ns, shift, matrix.compute_waiting(before_ns))
    if habit.varies is None and gain < (1 + MIN_ADDED_SHARE) * habit.gain_ns:
        return None
    of_latest = late.max(0)
    return replace(
        habit,
        instances=columns,
        gain_ns=gain,
        levels=(),
        varies=(float(of_latest.mean()), float(of_latest.max())),
        shift_ns=shift,
    )


def _find_columns(late: Bool, habit_columns: Int, by_noise: float) -> Int:
    """Return the columns of a varying delay: a whole stretch if it is notable in most of it.

    The stretch extends over columns that its share of notable delays explains better than noise. A
    delay may be short at the ends of the run, or hidden by noise.
    late: columns with a notable delay. habit_columns: of the habit. by_noise: probability that
    noise is notable.
    """
    first, end = int(habit_columns[0]), int(habit_columns[-1]) + 1
    share = float(late[first:end].mean())
    if share < MIN_NOTABLE_SHARE:
        return habit_columns
    share, rare = min(share, 1 - MIN_HIDDEN_P), max(by_noise, MIN_HIDDEN_P)
    odds = np.array([np.log((1 - share) / (1 - rare)), np.log(share / rare)])[late.astype(np.int64)]
    first -= _count_likely(odds[:first][::-1])
    end += _count_likely(odds[end:])
    hidden = int(np.log(MIN_HIDDEN_P) / np.log(1 - share))
    first = 0 if first <= hidden else first
    return np.arange(first, len(late) if len(late) - end <= hidden else end)


def _count_likely(odds: Float) -> int:
    """Return the number of values from the first on that have the largest sum."""
    return int(np.argmax(np.concatenate([[0.0], np.cumsum(odds)])))


def _add_hidden(late: Float, excess: Float) -> Float:
    """Return delays, with the mean excess in place of those that noise may hide."""
    hidden = late <= 0
    count = np.maximum(hidden.sum(1, keepdims=True), 1)
    mean = np.where(hidden, excess, 0.0).sum(1, keepdims=True) / count
    return np.where(hidden, np.maximum(mean, 0.0), late)


def varies(work_ns: Float, rows: Int) -> bool:
    """Return whether the work of some rows varies far more than that of the others.

    work_ns: whole work, because the excess over the others has the variation of the others, too.
    """
    from scipy import special

    is_known = ~np.isnan(work_ns).all(1)  # rows that take part in these columns
    chosen: Bool = np.isin(np.arange(len(work_ns)), rows)[is_known]
    work_ns = work_ns[is_known]
    apart = np.abs(np.nan_to_num(work_ns - np.nanmedian(work_ns, 1, keepdims=True)))
    if chosen.all() or not chosen.any():
        return False
    # A single accident is no variation.
    np.put_along_axis(apart, apart.argmax(1)[:, None], 0.0, 1)
    # All late ranks count as one, which must exceed each of the others.
    series = np.vstack([apart[chosen].mean(0), apart[~chosen]])
    means = stretch_means(series, STRETCHES[0])
    count, first = means.shape[1], int((means.argmax(0) == 0).sum())
    chance = float(special.bdtrc(first - 1, count, 1 / len(series))) * len(series)
    varied = np.log(np.maximum(series.sum(1), 1.0))
    p = 2 * min(chance, p_apart_from_others(varied[:1], varied[1:], MIN_SPREAD))
    return p <= MAX_VARIATION_P and varied[0] > varied[1:].max() + np.log(MIN_VARIATION_RATIO)


def _find_noise(other_work_ns: Float) -> float:
    """Return the excess in ns within which work differs as among the ranks that are not late."""
    late = other_work_ns - column_medians(other_work_ns)
    return NOISE_DEVIATIONS * MAD_SCALE * float(np.nanmedian(np.abs(late)))
