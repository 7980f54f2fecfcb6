"""Wait matrix: wait time of ranks by the rank waited for, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.batch_map import BatchPass
from mpiprof.metrics.instance_metrics import InstanceMetrics, take_complete
from mpiprof.metrics.sampling_estimates import callsite_scales
from mpiprof.metrics.wait_states import awaited_rows, compute_waits
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

MAX_ROWS = 64


@dataclass(frozen=True)
class WaitMatrix:
    """Wait of the ranks of each row for the ranks of each column, in ns over all instances."""

    ranks: tuple[tuple[int, int], ...]  # first and last world rank of each row and column
    # A row sums to the wait of its ranks, and a column to the wait that its ranks caused.
    total_wait_ns: Float


def compute_wait_matrix(trace: Trace, callsites: Sequence[int] = ()) -> WaitMatrix:
    """Return the wait matrix of some call sites, by default all; many ranks are joined to runs."""
    row = assign_rows(trace, MAX_ROWS)
    count = int(row[-1]) + 1
    sums = np.zeros(count * count)
    arguments = (frozenset(callsites), row, callsite_scales(trace))
    for part in BatchPass(trace, _batch_wait_matrix, *arguments, known=trace.aggregate[1]):
        sums += part.value
    return WaitMatrix(list_rank_runs(row), sums.reshape(count, count))


def assign_rows(trace: Trace, rows: int) -> Int:
    """Return the row of each rank in a picture of at most `rows` rows."""
    count = min(rows, trace.ranks)
    return np.arange(trace.ranks) * count // trace.ranks


def list_rank_runs(row: Int) -> tuple[tuple[int, int], ...]:
    """Return the first and last world rank of each row, from the row of each rank."""
    edges = np.flatnonzero(np.diff(row, prepend=-1))
    ends = [*(edges[1:] - 1).tolist(), len(row) - 1]
    return tuple(zip(edges.tolist(), ends, strict=True))


def _batch_wait_matrix(
    measure: InstanceMetrics, batch: Batch, callsites: frozenset[int], row: Int, scale_of: Float
) -> Float:
    """Return the wait matrix of one batch, flattened: waiting rows x rows waited for."""
    count = int(row[-1]) + 1
    sums = np.zeros(count * count)
    cell = row[batch.communicator.ranks]
    for signature, index in measure.group_by_signature(batch):
        if callsites and signature.callsite not in callsites:
            continue
        if not signature.is_whole or signature.state is None or len(cell) < 2:
            continue
        arrival, begin, finish = take_complete(batch, signature, index)
        wait = compute_waits(arrival, begin, finish, signature.group)
        awaited_cell: Int = cell[awaited_rows(arrival, signature.group)]
        at = cell[:, None] * count + awaited_cell
        scale = float(scale_of[signature.callsite])
        sums += scale * np.bincount(at.ravel(), wait.ravel(), count * count)
    return sums
