"""Uneven fronts: a delay that moves over the ranks at a changing speed, or to and fro.

The latest rank of each instance shows the way of the front. Ranks that are late by chance, for
however long, follow each other in random order: two thirds of their moves are turning points
(Bienaymé 1874). A front turns rarely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.work_matrix import column_medians
from mpiprof.trace.types import Float, Int

MIN_ROWS = 4  # that the front visits
MIN_MOVES = 10
MAX_REACH = 0.25  # usual length of a move, over the number of rows
MIN_BACKWARD_SHARE = 0.3  # of the moves; a front that returns to the first row moves on a circle
MIN_ALIGNED_SHARE = 0.5  # of the variance within instances, that the profile explains
NEAR_ROWS = 2  # on both sides of the latest row, whose lateness shows the centre of the front
BINS_PER_ROW = 4  # of the profile


@dataclass(frozen=True)
class UnevenFront:
    """A front. due: latest row of each instance. reverses: whether it moves to and fro.

    profile: lateness by row and instance in ns, from the distance to the front. p: p-value.
    """

    due: Int
    reverses: bool
    profile: Float
    p: float


def find_uneven_front(work_ns: Float) -> UnevenFront | None:
    """Return the front that moves from row to row at any speed, or None."""
    rows, _ = work_ns.shape
    if rows < MIN_ROWS or np.isnan(work_ns).any():
        return None
    late = work_ns - column_medians(work_ns)
    due = late.argmax(0)
    way = due[np.flatnonzero(np.diff(due, prepend=-1))]
    moves = np.diff(way)
    if len(moves) < MIN_MOVES or len(np.unique(way)) < MIN_ROWS:
        return None
    if np.median(np.abs(moves)) > max(MAX_REACH * rows, 1):
        return None
    profile = _find_profile(late, _find_centre(late, due))
    spread = float(((late - late.mean(0)) ** 2).sum())
    left = late - profile
    if float(((left - left.mean(0)) ** 2).sum()) > (1 - MIN_ALIGNED_SHARE) * spread:
        return None
    forward = float((moves > 0).mean())
    reverses = min(forward, 1 - forward) >= MIN_BACKWARD_SHARE
    return UnevenFront(due, reverses, profile, _p_of_turns(moves))


def _find_centre(late: Float, due: Int) -> Float:
    """Return the centre of gravity of the lateness near the latest row, per instance."""
    rows = np.arange(len(late))[:, None]
    weight = np.where(np.abs(rows - due) <= NEAR_ROWS, np.maximum(late, 0.0), 0.0)
    whole = weight.sum(0)
    return np.asarray(np.where(whole > 0, (weight * rows).sum(0) / np.maximum(whole, 1e-9), due))


def _find_profile(late: Float, centre: Float) -> Float:
    """Return the median lateness at each distance from the centre, for each row and instance.

    It falls with the distance, and the far half of the rows is not late.
    """
    distance = np.abs(np.arange(len(late))[:, None] - centre)
    bins = np.round(distance * BINS_PER_ROW).astype(np.int64)
    order = np.argsort(bins, axis=None, kind="stable")
    edges = np.flatnonzero(np.diff(bins.ravel()[order])) + 1
    medians = np.full(int(bins.max()) + 1, np.inf)
    for cells in np.split(order, edges):
        medians[bins.flat[cells[0]]] = np.median(late.flat[cells])
    far = medians[len(medians) // 2 :]
    falling = np.minimum.accumulate(medians - np.median(far[np.isfinite(far)]))
    return np.asarray(np.maximum(falling, 0.0)[bins])


def _p_of_turns(moves: Int) -> float:
    """Return the p-value that rows in random order have so few turning points.

    moves: from each latest row to another one.
    """
    from scipy import special

    count = len(moves) + 1
    turns = int((moves[1:] * moves[:-1] < 0).sum())
    deviation = np.sqrt((16 * count - 29) / 90)
    return float(special.ndtr((turns + 0.5 - 2 * (count - 2) / 3) / deviation))
