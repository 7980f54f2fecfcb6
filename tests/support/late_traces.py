"""Traces of loops with planted lateness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.trace import Trace
from mpiprof.trace.types import Float
from support.synthetic import Synthetic

MS = 1_000_000
STEP = 20 * MS


def one_site(
    tmp_path: Path, synthetic: Synthetic, late: Float, operation: str = "allreduce", **fields: Any
) -> Trace:
    """Return a trace of one call site with lateness `late` (instances x ranks, ms).

    fields: root and algorithm of the calls, as of Synthetic.add_collective.
    """
    count, ranks = late.shape
    start = (np.arange(count)[:, None] + 1) * STEP
    arrivals = np.rint(start + late * MS).astype(np.int64)
    exits = np.repeat(arrivals.max(1, keepdims=True) + 50_000, ranks, 1)
    synthetic.ended_ns = max((count + 2) * STEP, int(exits.max()))
    synthetic.add_collective(operation, arrivals, exits, site="md.py:93:exchange", **fields)
    return mpiprof.open(synthetic.write(tmp_path / "trace"))


def noise(count: int, ranks: int, scale: float, seed: int = 1) -> Float:
    return np.random.default_rng(seed).normal(10 * scale, scale, (count, ranks))


def steps(tmp_path: Path, count: int = 60, outside_ns: int = 0) -> Trace:
    """Return a trace with 3 ms more work on rank 5 before a bcast, in which only the root delays.

    The lateness appears at the following allreduce; then a barrier precedes an alltoall.
    outside_ns: point-to-point part of the work.
    """
    synthetic, random = Synthetic(6), np.random.default_rng(3)
    now: Any = np.full(6, 10 * MS)
    for _ in range(count):
        a = now + 5 * MS + random.integers(0, 50_000, 6)
        a[5] += 3 * MS
        if outside_ns:
            messages(synthetic, 5, outside_ns)
        leave = np.maximum(a, a[0]) + 20_000
        synthetic.add_collective("bcast", a, leave, root=0, site="md.py:71:spread")
        b = leave + MS + random.integers(0, 50_000, 6)
        synthetic.add_collective(
            "allreduce", b, np.full(6, b.max() + 30_000), site="md.py:93:exchange"
        )
        c = b.max() + 30_000 + random.integers(0, 2 * MS, 6)
        synthetic.add_collective("barrier", c, np.full(6, c.max() + 100_000), site="md.py:95:sync")
        d = c.max() + 100_000 + random.integers(0, 2 * MS, 6)
        synthetic.add_collective("alltoall", d, np.full(6, d.max() + 500_000), site="md.py:97:swap")
        now = np.full(6, d.max() + 500_000)
    synthetic.ended_ns = int(now.max()) + MS
    return mpiprof.open(synthetic.write(tmp_path / "steps"))


def messages(synthetic: Synthetic, rank: int, nanoseconds: int) -> None:
    """Add point-to-point time before the record that is added next."""
    synthetic.add_extension(rank, 1, nanoseconds)
