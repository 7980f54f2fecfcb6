"""Details of a pattern of delays that its sentences state: onset, changes and each rank's delay."""

from __future__ import annotations

import numpy as np

from mpiprof.diagnosis.delay_matrix import DelayMatrix
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.trace.trace import Trace


def find_onset(trace: Trace, matrix: DelayMatrix, pattern: Pattern) -> int | None:
    """Return when a pattern begins, in ns after the start of the run; None at the first column."""
    first = int(pattern.instances[0])
    return int(matrix.columns.begin_ns[first]) - trace.run_start_ns if first else None


def find_last_change(matrix: DelayMatrix, pattern: Pattern) -> int | None:
    """Return the number from which a delay has its last level, or None if it has none."""
    if pattern.course is None or pattern.course.until is None:
        return None
    columns = pattern.instances if pattern.period else np.arange(matrix.instance_count)
    if pattern.instances[-1] < columns[-1]:  # the delay ends
        return None
    return int(matrix.number[columns[pattern.course.until]])


def find_spared_ranks(trace: Trace, pattern: Pattern) -> list[int]:
    """Return the ranks that are not late if most ranks are, otherwise []."""
    is_majority = pattern.cause == "rank" and 2 * len(pattern.ranks) > trace.ranks
    return np.setdiff1d(np.arange(trace.ranks), pattern.ranks).tolist() if is_majority else []


def find_stay(matrix: DelayMatrix, pattern: Pattern) -> list[int]:
    """Return the least and most columns for which the delay stays at a rank before it moves.

    They are the quartiles over the columns, because noise divides the stay at some ranks.
    """
    latest = np.nanargmax(matrix.work_ns[:, pattern.instances], axis=0)
    edges = np.flatnonzero(np.diff(latest)) + 1
    lengths = np.diff([0, *edges, len(latest)])
    quartiles = np.quantile(np.repeat(lengths, lengths), (0.25, 0.75), method="inverted_cdf")
    return [int(length) for length in quartiles]


def find_lateness(matrix: DelayMatrix, pattern: Pattern) -> list[tuple[int, float]]:
    """Return the usual delay of each rank of a pattern in ns, the largest first."""
    excess = matrix.compute_excess(pattern.ranks, pattern.instances)[:, pattern.instances]
    row = np.searchsorted(matrix.ranks, pattern.ranks)
    late = np.median(excess[row], axis=1).tolist() if len(row) else []
    return sorted(zip(pattern.ranks, late, strict=True), key=lambda pair: -pair[1])
