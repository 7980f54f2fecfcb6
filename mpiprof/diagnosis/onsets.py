"""Onsets of lateness: where lateness of ranks begins, ends or changes to another level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.diagnosis.arrival_matrix import Grid, mean_of, median_of
from mpiprof.diagnosis.phases import best_cut, change_points, period_of, without_period
from mpiprof.trace.types import Float, Int

REACH = 16  # instances on both sides of a phase boundary that are searched for the exact boundary
ABRUPT = 0.6  # share of the change in lateness that must happen at the phase boundary
STEP = 0.3  # minimum change at a boundary, as a share of the phase's lateness
QUARTERS = 4
FLAT = 0.15  # maximum difference between medians of a phase's quarters, over its lateness
UNLIKE = 1.5  # minimum ratio between separate levels of lateness


def phases_of(grid: Grid, arrival: Float) -> list[Int]:
    """Return the columns of each phase. Within a phase the same ranks may be late."""
    signal, last = signals(grid, arrival)
    every = period_of(signal, grid.number)
    edges = change_points(without_period(signal, grid.number, every), last)
    return np.split(np.arange(grid.instances), edges)


def signals(grid: Grid, arrival: Float) -> tuple[Float, Int]:
    """Return the logarithm of each instance's spread, and its last rank (-1 if unknown)."""
    low, high = np.nanmin(arrival, 0), np.nanmax(arrival, 0)
    row = np.nanargmax(arrival, 0)
    spread = high - low
    last = np.where(spread > grid.least_ns, grid.ranks[row], -1)
    return np.log(np.maximum(spread, grid.least_ns)), last


def lateness(arrival: Float, rows: Int) -> Float:
    """Return how much later some rows arrive than the other rows, per instance."""
    others = np.setdiff1d(np.arange(len(arrival)), rows)
    return np.asarray(np.nan_to_num(mean_of(arrival[rows]) - median_of(arrival[others])))


def is_flat(late: Float) -> bool:
    """Return whether lateness is constant over the quarters of a phase, unlike a random walk."""
    middles = [float(np.median(part)) for part in np.array_split(late, QUARTERS) if len(part)]
    return max(middles) - min(middles) < FLAT * abs(float(np.median(late)))


def exact(grid: Grid, arrival: Float, rows: Int, columns: Int, spans: list[Int]) -> Int | None:
    """Return the columns of a phase, with boundaries moved to changes of these rows' lateness.

    Phases are found from the spread of all ranks, which is less exact than the lateness of the
    rows. Returns None if that lateness does not change abruptly: wandering ranks are late for a
    while, without phases.
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
    """Return whether lateness changes at an edge by most of the difference between two phases.

    inside, outside: lateness from the edge on, in the phase and in its neighbour.
    """
    inside, outside = inside[:REACH], outside[:REACH]
    if not len(inside) or not len(outside):
        return False
    step = float(inside.mean() - outside.mean()) * np.sign(usual - beside)
    return bool(step > max(ABRUPT * abs(usual - beside), STEP * abs(usual)))


def levels_of(phases: Sequence[tuple[Int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Return first column, last column and lateness of each phase; () if all levels are similar."""
    late = [abs(by) for _, by in phases]
    if max(late) < UNLIKE * min(late):
        return ()
    return tuple(sorted((int(of[0]), int(of[-1]), by) for of, by in phases))
