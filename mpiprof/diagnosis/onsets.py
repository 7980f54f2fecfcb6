"""Abrupt changes of lateness over the run: onsets (begin, end or another level)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.diagnosis.phases import find_best_cut, find_change_points, find_edges
from mpiprof.diagnosis.significance import p_apart_from_others, p_of_levels
from mpiprof.diagnosis.work_matrix import WorkMatrix, column_medians
from mpiprof.metrics.message_volume import column_means
from mpiprof.trace.types import Float, Int

EDGE_REACH = 16  # instances on both sides of a phase boundary, searched for the exact boundary
ABRUPT_SHARE = 0.6  # share of the change in lateness that must happen at the phase boundary
STEP_SHARE = 0.3  # minimum change at a boundary, as a share of the phase's lateness
QUARTERS = 4
FLAT_TOLERANCE = 0.15  # maximum difference between medians of a phase's quarters, over its lateness
MIN_LEVEL_RATIO = 1.5  # minimum ratio between separate levels of lateness


def find_phases(matrix: WorkMatrix, work_ns: Float) -> list[Int]:
    """Return the columns of each phase. Within a phase the same ranks may be late."""
    signal, last = phase_signals(matrix, work_ns)
    _, edges = find_edges(signal, matrix.number, last)
    return np.split(np.arange(matrix.instance_count), edges)


def split_phases(matrix: WorkMatrix, work_ns: Float) -> list[Int]:
    """Return the columns of each phase of some instances, in which no period is sought."""
    edges = find_change_points(*phase_signals(matrix, work_ns))
    return np.split(np.arange(work_ns.shape[1]), edges)


def phase_signals(matrix: WorkMatrix, work_ns: Float) -> tuple[Float, Int]:
    """Return the logarithm of each instance's spread, and its last rank (-1 if unknown)."""
    low, high = np.nanmin(work_ns, 0), np.nanmax(work_ns, 0)
    row = np.nanargmax(work_ns, 0)
    spread = high - low
    last = np.where(spread > matrix.least_ns, matrix.ranks[row], -1)
    return np.log(np.maximum(spread, matrix.least_ns)), last


def rows_lateness(work_ns: Float, rows: Int) -> Float:
    """Return how much longer some rows work than the other rows, per instance."""
    other_rows = np.setdiff1d(np.arange(len(work_ns)), rows)
    return np.asarray(
        np.nan_to_num(column_means(work_ns[rows]) - column_medians(work_ns[other_rows]))
    )


def is_flat(late: Float) -> bool:
    """Return whether lateness is constant over the quarters of a phase, unlike a random walk."""
    middles = [float(np.median(part)) for part in np.array_split(late, QUARTERS) if len(part)]
    return max(middles) - min(middles) < FLAT_TOLERANCE * abs(float(np.median(late)))


def refine_span(
    matrix: WorkMatrix, work_ns: Float, rows: Int, columns: Int, spans: list[Int]
) -> Int | None:
    """Return the columns of a phase, with boundaries moved to changes of these rows' lateness.

    Phases are found from the spread of all ranks, which is less exact than the lateness of the
    rows. Returns None if that lateness does not change abruptly: wandering ranks are late for a
    while, without phases.
    """
    other_rows = np.setdiff1d(np.arange(len(work_ns)), rows)
    if not len(other_rows):
        return columns
    late = rows_lateness(work_ns, rows)
    begin, end = int(columns[0]), int(columns[-1]) + 1
    usual = float(np.median(late[begin:end]))
    flat = is_flat(late[begin:end])
    near = [span for span in spans if begin - 1 in span[-1:] or end in span[:1]]
    beside = [float(np.median(late[span])) if flat else 0.0 for span in near]
    half = (begin + end) // 2
    if begin > 0:
        low = max(begin - EDGE_REACH, 0)
        begin = low + find_best_cut(late[low : min(begin + EDGE_REACH, half), None])
        if not _is_abrupt(late[begin:], late[:begin][::-1], usual, beside[0]):
            return None
    if end < matrix.instance_count:
        start, high = max(end - EDGE_REACH, half), min(end + EDGE_REACH, matrix.instance_count)
        end = start + find_best_cut(late[start:high, None])
        if not _is_abrupt(late[:end][::-1], late[end:], usual, beside[-1]):
            return None
    return np.arange(begin, end)


def _is_abrupt(inside: Float, outside: Float, usual: float, beside: float) -> bool:
    """Return whether lateness changes at an edge by most of the difference between two phases.

    inside, outside: lateness from the edge on, in the phase and in its neighbour.
    """
    inside, outside = inside[:EDGE_REACH], outside[:EDGE_REACH]
    if not len(inside) or not len(outside):
        return False
    step = float(inside.mean() - outside.mean()) * np.sign(usual - beside)
    return bool(step > max(ABRUPT_SHARE * abs(usual - beside), STEP_SHARE * abs(usual)))


def p_of_phases(late: Float, phases: Sequence[Int]) -> float:
    """Return the p-value that wandering ranks would be so late in phases of the run; 0 if in all.

    late: lateness of some rows in each instance. Phases are chosen for their lateness, so it is
    compared with the changes in the whole run.
    """
    edges = sorted({int(edge) for columns in phases for edge in (columns[0], columns[-1] + 1)})
    edges = [edge for edge in edges if 0 < edge < len(late)]
    if not edges:
        return 0.0
    stretches = np.searchsorted(edges, [int(columns[0]) for columns in phases], side="right")
    return float(p_of_levels(late, edges)[stretches].max())


def p_apart_in_phases(work_ns: Float, rows: Int, phases: Sequence[Int]) -> float:
    """Return the p-value that rows late in some phases wander as the other rows do.

    Each of the other rows counts with the phase in which it is latest, in or between these phases.
    """
    edges = sorted({int(edge) for columns in phases for edge in (columns[0], columns[-1] + 1)})
    edges = [edge for edge in edges if 0 < edge < work_ns.shape[1]]
    spans = np.split(np.arange(work_ns.shape[1]), edges)
    centred = work_ns - column_medians(work_ns)
    levels = np.stack([column_means(centred[:, span].T) for span in spans])
    late = np.stack([column_means(centred[rows][:, columns].T) for columns in phases])
    others = np.delete(levels, rows, axis=1)
    return p_apart_from_others(late.min(0), others.max(0))


def find_levels(phases: Sequence[tuple[Int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Return first column, last column and lateness of each phase; () if all levels are similar."""
    late = [abs(by) for _, by in phases]
    if max(late) < MIN_LEVEL_RATIO * min(late):
        return ()
    return tuple(sorted((int(of[0]), int(of[-1]), by) for of, by in phases))
