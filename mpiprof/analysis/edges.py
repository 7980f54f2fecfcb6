"""Where the lateness of some ranks begins, ends, or changes from one level to another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.analysis.grid import Grid, mean_of, median_of
from mpiprof.analysis.phases import best_cut, change_points, period_of, without_period
from mpiprof.trace.types import Float, Int

REACH = 16  # instances around the end of a phase, among which it is
ABRUPT = 0.6  # of a phase's lateness, or of what it changes by, must begin and end with it
STEP = 0.3  # of a phase's lateness: a lesser change at its ends is none that begins or ends it
QUARTERS = 4
FLAT = 0.15  # of a phase's lateness, by which the middles of its quarters may differ
UNLIKE = 1.5  # times: levels of lateness that are told apart


def phases_of(grid: Grid, arrival: Float) -> list[Int]:
    """Return the columns of each phase, in which the same ranks may be late."""
    signal, last = signals(grid, arrival)
    every = period_of(signal, grid.number)
    edges = change_points(without_period(signal, grid.number, every), last)
    return np.split(np.arange(grid.instances), edges)


def signals(grid: Grid, arrival: Float) -> tuple[Float, Int]:
    """Return the logarithm of each instance's spread, and who came last, -1 where not known."""
    low, high = np.nanmin(arrival, 0), np.nanmax(arrival, 0)
    row = np.nanargmax(arrival, 0)
    spread = high - low
    last = np.where(spread > grid.least_ns, grid.ranks[row], -1)
    return np.log(np.maximum(spread, grid.least_ns)), last


def lateness(arrival: Float, rows: Int) -> Float:
    """Return by how much some rows come after the others in each instance."""
    others = np.setdiff1d(np.arange(len(arrival)), rows)
    return np.asarray(np.nan_to_num(mean_of(arrival[rows]) - median_of(arrival[others])))


def is_flat(late: Float) -> bool:
    """Whether lateness stays as it is in all quarters of a phase: that of who wanders does not."""
    middles = [float(np.median(part)) for part in np.array_split(late, QUARTERS) if len(part)]
    return max(middles) - min(middles) < FLAT * abs(float(np.median(late)))


def exact(grid: Grid, arrival: Float, rows: Int, columns: Int, spans: list[Int]) -> Int | None:
    """Return the columns of a phase with its ends where the lateness of some rows changes.

    Phases are found from all ranks' spread, which is less exact than the rows' own lateness. None
    where that does not change at once: ranks that wander are late by turns, without phases.
    """
    others = np.setdiff1d(np.arange(len(arrival)), rows)
    if not len(others):
        return columns
    late = lateness(arrival, rows)
    begin, end = int(columns[0]), int(columns[-1]) + 1
    usual = float(np.median(late[begin:end]))
    flat = is_flat(late[begin:end])
    near = [span for span in spans if begin - 1 in span[-1:] or end in span[:1]]
    beside = [float(np.median(late[span])) if flat else 0.0 for span in near]
    half = (begin + end) // 2
    if begin > 0:
        low = max(begin - REACH, 0)
        begin = low + best_cut(late[low : min(begin + REACH, half), None])
        if not _abrupt(late[begin:], late[:begin][::-1], usual, beside[0]):
            return None
    if end < grid.instances:
        start, high = max(end - REACH, half), min(end + REACH, grid.instances)
        end = start + best_cut(late[start:high, None])
        if not _abrupt(late[:end][::-1], late[end:], usual, beside[-1]):
            return None
    return np.arange(begin, end)


def _abrupt(inside: Float, outside: Float, usual: float, beside: float) -> bool:
    """Whether lateness changes at an edge by most of what it differs by from the phase beside.

    inside, outside: from the edge on, in the phase and beside it.
    """
    inside, outside = inside[:REACH], outside[:REACH]
    if not len(inside) or not len(outside):
        return False
    step = float(inside.mean() - outside.mean()) * np.sign(usual - beside)
    return bool(step > max(ABRUPT * abs(usual - beside), STEP * abs(usual)))


def levels_of(phases: Sequence[tuple[Int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Return the first and last column of each phase, and its lateness; () where all are alike."""
    late = [abs(by) for _, by in phases]
    if max(late) < UNLIKE * min(late):
        return ()
    return tuple(sorted((int(of[0]), int(of[-1]), by) for of, by in phases))
