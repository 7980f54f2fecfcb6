"""Moving patterns: lateness that passes from rank to rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mpiprof.diagnosis import onsets
from mpiprof.diagnosis.costliest_set import MAX_P, compute_gain
from mpiprof.diagnosis.fronts import find_front
from mpiprof.diagnosis.pattern import Candidate, Pattern
from mpiprof.diagnosis.rotation import find_rotation
from mpiprof.diagnosis.uneven_fronts import find_uneven_front
from mpiprof.diagnosis.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int


def find_moving(matrix: WorkMatrix, work_ns: Float, waits: Float) -> Iterator[Candidate]:
    """Yield the significant candidates of lateness that moves, the simplest first."""
    on_any_way = _make_uneven(matrix, work_ns, waits)
    yield from (one for one in on_any_way if one.pattern.reverses)
    yield from _rotation_candidates(matrix, work_ns, waits)
    yield from _front_candidates(matrix, work_ns, waits)
    yield from (one for one in on_any_way if not one.pattern.reverses)


def _rotation_candidates(matrix: WorkMatrix, work_ns: Float, waits: Float) -> Iterator[Candidate]:
    _, last = onsets.phase_signals(matrix, work_ns)
    row = np.where(last >= 0, np.nanargmax(work_ns, 0), -1)
    rotation = find_rotation(row, matrix.number, waits, len(work_ns))
    if rotation is None:
        return
    columns = np.flatnonzero(rotation.row >= 0)
    at = (rotation.row[columns], columns)
    late = work_ns[at] - _median_of_others(work_ns[:, columns], at[0])
    amount = float(np.median(late))
    if amount <= matrix.least_ns or rotation.p > MAX_P:
        return
    if _is_late_undue(work_ns[:, columns], at[0], amount):
        return
    shift = np.zeros_like(work_ns)
    shift[at] = np.clip(late, 0.0, amount)
    rows = np.unique(at[0])
    ranks = tuple(matrix.ranks[rows].tolist())
    gain = compute_gain(matrix, work_ns, shift, waits)
    cause = "periodic" if len(rows) == 1 else "moving"
    period, offsets, step = rotation.period, rotation.offsets, rotation.step
    moves = Pattern(cause, ranks, amount, columns, gain, rotation.p, period, offsets, step)
    shows = int((late > amount / 2).sum())
    yield Candidate(replace(moves, shows=shows), shift)


def _is_late_undue(work_ns: Float, due: Int, amount: float) -> bool:
    """Return whether a rank is usually late, also while another one is due: it takes no turns.

    due: row that is due in each instance. amount: usual lateness of the rows that are due.
    """
    late = work_ns - column_medians(work_ns)
    rows = np.unique(due)
    usual = (float(np.median(late[row, due != row])) for row in rows if (due != row).any())
    return max(usual, default=0.0) > amount / 2


def _front_candidates(matrix: WorkMatrix, work_ns: Float, waits: Float) -> Iterator[Candidate]:
    """Yield the delay that moves smoothly over the ranks, if any."""
    front = find_front(work_ns, matrix.number)
    if front is None or front.p > MAX_P or front.profile.max() <= matrix.least_ns:
        return
    gain = compute_gain(matrix, work_ns, front.profile, waits)
    columns = np.arange(matrix.instance_count)
    ranks = tuple(matrix.ranks[np.unique(front.due)].tolist())
    late = float(front.profile.max())
    shows = int((work_ns[front.due, columns] > late / 2).sum())
    moves = Pattern("moving", ranks, late, columns, gain, front.p, shows=shows)
    yield Candidate(replace(moves, speed=front.speed), front.profile)


def _make_uneven(matrix: WorkMatrix, work_ns: Float, waits: Float) -> list[Candidate]:
    """Return the candidate of a delay that moves at a changing speed, or to and fro, if any."""
    front = find_uneven_front(work_ns)
    if front is None or front.p > MAX_P or front.profile.max() <= matrix.least_ns:
        return []
    gain = compute_gain(matrix, work_ns, front.profile, waits)
    columns = np.arange(matrix.instance_count)
    late = float(front.profile.max())
    ranks = tuple(matrix.ranks[front.profile.max(1) > late / 2].tolist())
    shows = int((work_ns[front.due, columns] > late / 2).sum())
    moves = Pattern("moving", ranks, late, columns, gain, front.p, shows=shows)
    return [Candidate(replace(moves, reverses=front.reverses), front.profile)]


def _median_of_others(work_ns: Float, row: Int) -> Float:
    """Return for each instance the median work of all rows except one."""
    other_work_ns = work_ns.copy()
    other_work_ns[row, np.arange(work_ns.shape[1])] = np.nan
    return np.asarray(column_medians(other_work_ns))
