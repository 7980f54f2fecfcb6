"""The set of ranks whose lateness explains most of the wait of some instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mpiprof.diagnosis.rank_sets import RankSet, find_rank_sets
from mpiprof.diagnosis.work_matrix import WorkMatrix
from mpiprof.trace.types import Float, Int

MAX_P = 0.002  # maximum p-value, corrected for all tests
COMPLEXITY = {"rank": 1.1, "early": 1.1, "node": 1.1, "gradient": 1.05, "each": 1.2}
MAX_TRIED = 16  # larger sets are not tested rank by rank
MIN_RANK_GAIN = 0.02  # minimum share of the set's wait that each of its ranks must explain


def compute_gain(matrix: WorkMatrix, work_ns: Float, shift: Float, waits: Float) -> float:
    """Return the wait that vanishes if ranks work less by `shift`."""
    return float((waits - matrix.compute_waiting(work_ns - shift)).sum())


def find_costliest_set(
    matrix: WorkMatrix, work_ns: Float, waits: Float, columns: Int, tests: int
) -> RankSet | None:
    """Return the rank set that explains most of the wait of some instances."""

    def gain(rank_set: RankSet) -> float:
        shift = np.zeros_like(work_ns)
        shift[:, columns] = rank_set.shift[:, None]
        return compute_gain(matrix, work_ns, shift, waits)

    best, most = None, 0.0
    for rank_set in find_rank_sets(matrix, work_ns[:, columns], MAX_P / tests):
        explained = gain(rank_set)
        # A more complex set must explain more wait.
        if explained > (COMPLEXITY[rank_set.kind] * most if best is not None else 0.0):
            best, most = rank_set, explained
    return _needed_ranks(best, most, gain) if best is not None else None


def _needed_ranks(rank_set: RankSet, most: float, gain: Callable[[RankSet], float]) -> RankSet:
    """Remove the ranks from a set for which nobody waits, as in a broadcast."""
    if rank_set.kind not in ("rank", "early") or not 1 < len(rank_set.rows) <= MAX_TRIED:
        return rank_set
    for row in rank_set.rows.tolist():
        shift = rank_set.shift.copy()
        shift[row] = 0.0
        rows = rank_set.rows[rank_set.rows != row]
        less = replace(rank_set, rows=rows, shift=shift, late_ns=abs(float(shift[rows[0]])))
        if gain(less) >= most * (1 - MIN_RANK_GAIN):
            return _needed_ranks(less, most, gain)
    return rank_set
