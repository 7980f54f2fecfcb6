"""Fronts: a delay that moves over the ranks at a constant speed, which need not be whole ranks.

The ranks near the centre of the delay are late as well, so their lateness by distance from the
centre is the profile of the front.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.work_matrix import column_medians
from mpiprof.trace.types import Float, Int

MIN_INSTANCES = 24
MIN_ROWS = 4
MIN_TURNS = 6  # rows that are due one after the other
MIN_TURN_LENGTH = 1.25  # instances for which a row is due; a faster front is a rotation
FINE_SPEEDS = 8  # speeds tried for each frequency of the series
MIN_ALIGNED_SHARE = 0.5  # of the variance within instances, that the profile explains
BINS_PER_ROW = 4  # of the profile
MAX_COLUMNS = 4096  # of a long run


@dataclass(frozen=True)
class Front:
    """A front. speed: rows per instance. due: row at its centre in each instance.

    profile: lateness by row and instance in ns. p: p-value.
    """

    speed: float
    due: Int
    profile: Float
    p: float


def find_front(work_ns: Float, number: Int) -> Front | None:
    """Return the front that explains most of the variance within instances, or None.

    number: of each instance. Rows are on a circle, so a front that leaves at the last row may
    return at the first one.
    """
    rows, count = work_ns.shape
    if count < MIN_INSTANCES or rows < MIN_ROWS or count > MAX_COLUMNS or np.isnan(work_ns).any():
        return None
    late = work_ns - column_medians(work_ns)
    speed, centre = find_motion(late, number)
    turns = abs(speed) * (number[-1] - number[0]) + 1
    if turns < MIN_TURNS or abs(speed) > 1 / MIN_TURN_LENGTH:
        return None
    distance = np.mod(np.arange(rows)[:, None] - centre + rows / 2, rows) - rows / 2
    profile = _find_profile(late, distance)
    spread = float(((late - late.mean(0)) ** 2).sum())
    left = late - profile
    if float(((left - left.mean(0)) ** 2).sum()) > (1 - MIN_ALIGNED_SHARE) * spread:
        return None
    due = np.round(centre).astype(np.int64) % rows
    return Front(speed, due, np.maximum(profile, 0.0), _p_of_turns(late, due))


def find_motion(late: Float, number: Int) -> tuple[float, Float]:
    """Return the speed in rows per instance, and the centre in each instance.

    The first harmonic of the lateness over the rows turns at the speed of the front.
    """
    rows, since = len(late), number - number[0]
    angle = 2 * np.pi * np.arange(rows) / rows
    harmonic = np.exp(1j * angle) @ late
    span = int(since[-1]) + 1
    largest, speed, at_start = -1.0, 0.0, 0.0
    # The frequencies of a Fourier transform are 1 / span apart, so those between need others.
    for fraction in np.arange(2 * FINE_SPEEDS) / (2 * FINE_SPEEDS):
        series = np.zeros(span, np.complex128)
        np.add.at(series, since, harmonic * np.exp(-2j * np.pi * fraction / span * since))
        sums = np.fft.fft(series)
        turns = np.mod((np.arange(span) + fraction) / span + 0.5, 1.0) - 0.5  # per instance
        magnitudes = np.where(np.abs(turns) * rows * MIN_TURN_LENGTH <= 1, np.abs(sums), -1.0)
        best = int(np.argmax(magnitudes))
        if magnitudes[best] > largest:
            largest, speed = float(magnitudes[best]), float(turns[best]) * rows
            at_start = float(np.angle(sums[best])) * rows / (2 * np.pi)
    return speed, np.mod(at_start + speed * since, rows)


def _find_profile(late: Float, distance: Float) -> Float:
    """Return the median lateness at each distance from the centre, for each row and instance.

    The far half of the rows is not late.
    """
    bins = np.round((distance + len(late) / 2) * BINS_PER_ROW).astype(np.int64)
    order = np.argsort(bins, axis=None, kind="stable")
    edges = np.flatnonzero(np.diff(bins.ravel()[order])) + 1
    medians = np.zeros(int(bins.max()) + 1)
    for cells in np.split(order, edges):
        medians[bins.flat[cells[0]]] = np.median(late.flat[cells])
    centre = len(medians) // 2
    usual = np.median(np.delete(medians, np.arange(centre // 2, centre + centre // 2)))
    return np.asarray((medians - usual)[bins])


def _p_of_turns(late: Float, due: Int) -> float:
    """Return the p-value that so many rows are last in most instances in which they are due.

    A turn counts once, because a wandering row is last for a while as well.
    """
    from scipy import special

    rows, count = late.shape
    last = late.argmax(0)
    turn = np.cumsum(np.diff(due, prepend=due[:1]) != 0)
    turns = int(turn[-1]) + 1
    hits = np.bincount(turn, last == due, turns) > np.bincount(turn, minlength=turns) / 2
    usual = np.bincount(last, minlength=rows).max() / count
    tests = 2 * FINE_SPEEDS * count * rows
    p: float = special.bdtrc(int(hits.sum()) - 1, turns, usual)
    return float(min(p * tests, 1.0))
