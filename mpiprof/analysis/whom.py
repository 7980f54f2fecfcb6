"""Who waits for whom: one pass over the trace, in memory of the picture's cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.analysis.measure import Measure
from mpiprof.analysis.parts import Pass
from mpiprof.analysis.pictures import row_of
from mpiprof.analysis.sampled import scales
from mpiprof.analysis.waits import awaited, waits
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

ROWS = 64


@dataclass(frozen=True)
class Whom:
    """total_wait_ns: waiting of the ranks of a row for those of a column, over all instances.

    ranks: first and last world rank of each row, which is that of each column, too. The sum of a
    row is its ranks' waiting, that of a column what they caused (see ranks.rank_totals).
    """

    ranks: tuple[tuple[int, int], ...]
    total_wait_ns: Float


def waiting_for(trace: Trace, callsites: Sequence[int] = ()) -> Whom:
    """Return who waits for whom at some call sites, at all without; runs of ranks where many."""
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
    """Return who waits for whom in one batch: cells of a row of ranks and one waited for."""
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
        wait = waits(signature.state, arrival, begin, finish, signature.group)
        whom: Int = cell[awaited(signature.state, arrival, signature.group)]
        at = cell[:, None] * count + whom
        scale = float(scale_of[signature.callsite])
        sums += scale * np.bincount(at.ravel(), wait.ravel(), count * count)
    return sums
