"""Delays of late ranks that vary from step to step.

The habits state one usual delay of a rank:

    delay of rank 5  |   .       .
                     |   :   .   :   .          exceeds the usual delay
    usual delay      |-:-:-:-:-:-:-:-:-:-       explained by the habit
                     +-------------------- steps

If the rank's work varies far more than that of the other ranks, all of its delay has one cause,
however large it is at times. Otherwise the excess is noise as other ranks have it, or an accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mpiprof.causes.habits.habit import Habit
from mpiprof.causes.habits.rank_set import compute_gain
from mpiprof.causes.habits.significance import (
    MAD_SCALE,
    STRETCHES,
    p_apart_from_others,
    stretch_means,
)
from mpiprof.causes.habits.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Bool, Float, Int

# Maximum p-value of a delay that varies. The rank is known to be late, and only its cost changes.
MAX_VARIATION_P = 0.02
MIN_VARIATION_RATIO = 1.5  # of late ranks, over that of each other rank
MIN_SPREAD = 0.1  # of the logarithms of the other ranks' variations
MIN_ADDED_SHARE = 0.1  # minimum wait that the variation explains, over that of its habit
MIN_COLUMNS = 5  # fewer columns do not show that a delay varies
MIN_NOTABLE_SHARE = 0.5  # of the columns of a stretch
MIN_HIDDEN_P = 0.01  # probability that delays in so many columns are short or hidden by noise
NOISE_DEVIATIONS = 3.0  # of the other ranks' work, within which an excess is noise


def add_variation(matrix: WorkMatrix, habits: Sequence[Habit]) -> list[Habit]:
    """Return the habits, where late ranks with varying delays also explain what exceeds these."""
    work_ns = matrix.work_ns - _sum_shifts(habits)
    found = []
    for habit in habits:
        is_varied = habit.each or habit.grows or not habit.ranks
        if habit.cause in ("rank", "node", "periodic") and not is_varied:
            joined = _join_variation(matrix, work_ns, habit)
            if joined is not None:
                work_ns = work_ns + _sum_shifts([habit]) - _sum_shifts([joined])
                habit = joined
        found.append(habit)
    return found


def _sum_shifts(habits: Sequence[Habit]) -> Float:
    """Return the work in ns that habits explain together."""
    return np.asarray(sum(np.nan_to_num(habit.shift_ns) for habit in habits), np.float64)


def _join_variation(matrix: WorkMatrix, work_ns: Float, habit: Habit) -> Habit | None:
    """Return the habit with all of its ranks' excess, or None if their delay does not vary.

    work_ns: work that no habit explains.
    """
    rows = np.searchsorted(matrix.ranks, habit.ranks)
    before_ns = work_ns + _sum_shifts([habit])
    others = np.delete(before_ns, rows, 0)
    noise = _find_noise(others)
    excess = np.nan_to_num(before_ns[rows] - column_medians(others))
    late = np.where(excess > noise, excess, 0.0)
    by_noise = float((others - column_medians(others) > noise).mean())
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


def _find_columns(late: Bool, known: Int, by_noise: float) -> Int:
    """Return the columns of a varying delay: a whole stretch if it is notable in most of it.

    The stretch extends over columns that its share of notable delays explains better than noise. A
    delay may be short at the ends of the run, or hidden by noise.
    late: columns with a notable delay. known: columns of the habit. by_noise: probability that
    noise is notable.
    """
    first, end = int(known[0]), int(known[-1]) + 1
    share = float(late[first:end].mean())
    if share < MIN_NOTABLE_SHARE:
        return known
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


def _find_noise(others: Float) -> float:
    """Return the excess in ns within which work differs as among the ranks that are not late."""
    late = others - column_medians(others)
    return NOISE_DEVIATIONS * MAD_SCALE * float(np.nanmedian(np.abs(late)))
