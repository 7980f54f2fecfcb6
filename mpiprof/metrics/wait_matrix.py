"""Wait matrix: wait time of ranks by the rank waited for, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.metrics.batch_map import Pass
from mpiprof.metrics.instance_metrics import Measure
from mpiprof.metrics.raster_data import row_of
from mpiprof.metrics.sampling_estimates import scales
from mpiprof.metrics.wait_states import awaited, waits
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

ROWS = 64


@dataclass(frozen=True)
class Whom:
    """Wait of the ranks of each row for the ranks of each column, in ns over all instances.

    ranks: first and last world rank of each row, equal for the columns. A row sums to the wait of
    its ranks. A column sums to the wait that its ranks caused (metrics/rank_totals.py).
    """

    ranks: tuple[tuple[int, int], ...]
    total_wait_ns: Float


def waiting_for(trace: Trace, callsites: Sequence[int] = ()) -> Whom:
    """Return the wait matrix of some call sites, by default all; many ranks are joined to runs."""
    row = row_of(trace, ROWS)
    count = int(row[-1]) + 1
    sums = np.zeros(count * count)
    arguments = (frozenset(callsites), row, scales(trace))
    for part in Pass(trace, _waiting, *arguments, known=trace.aggregate[1]):
        sums += part.found
    edges = np.flatnonzero(np.diff(row, prepend=-1))
    ends = [*(edges[1:] - 1).tolist(), trace.ranks - 1]
    ranks = tuple(zip(edges.tolist(), ends, strict=True))
    return Whom(ranks, sums.reshape(count, count))


def _waiting(
    measure: Measure, batch: Batch, callsites: frozenset[int], row: Int, scale_of: Float
) -> Float:
    """Return the wait matrix of one batch, flattened: waiting rows x rows waited for."""
    count = int(row[-1]) + 1
    sums = np.zeros(count * count)
    cell = row[batch.communicator.ranks]
    for signature, index in measure.signatures(batch):
        if callsites and signature.callsite not in callsites:
            continue
        whole = signature.comparable and bool(signature.present.all())
        if not whole or signature.state is None or len(cell) < 2:
            continue
        part = np.arange(len(batch)) if index is None else index
        part = part[(batch.finish[:, part] != 0).all(0)]
        arrival, begin, finish = (
            np.take(m, part, axis=1) for m in (batch.arrival, batch.begin, batch.finish)
        )
        wait = waits(arrival, begin, finish, signature.group)
        whom: Int = cell[awaited(arrival, signature.group)]
        at = cell[:, None] * count + whom
        scale = float(scale_of[signature.callsite])
        sums += scale * np.bincount(at.ravel(), wait.ravel(), count * count)
    return sums
