"""Folders with traces of one program at several commits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.synthetic import Synthetic

MS = 1_000_000


def write_runs(folder: Path, count: int, change: int, program: str = "solver.py") -> Path:
    """Write traces in which rank 2 is 3 ms later from run `change` on, in shuffled order."""
    random = np.random.default_rng(count)
    for run in random.permutation(count).tolist():
        synthetic = Synthetic(4)
        late = random.normal(1, 0.05, (20, 4))
        late[:, 2] += 3 * (run >= change)
        arrivals = np.rint((np.arange(20)[:, None] + 1 + late / 20) * 20 * MS).astype(np.int64)
        exits = np.repeat(arrivals.max(1, keepdims=True) + 50_000, 4, 1)
        synthetic.ended_ns = 440 * MS
        synthetic.add_collective("allreduce", arrivals, exits, site="solver.py:120:step")
        synthetic.meta |= {
            "program": program,
            "started": f"2026-03-{run + 1:02d}T08:00:00Z",
            "commit": f"{run:040x}",
        }
        synthetic.write(folder / f"mpiprof-{program}-{random.integers(10**9)}-{run}")
    return folder
