"""Work of the ranks of simulated programs, with a small random part."""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Int

MS = 1_000_000
SPREAD = 0.02  # standard deviation of the work, over its mean


class Noise:
    """Work of each rank with a small random part."""

    def __init__(self, ranks: int, seed: int = 1) -> None:
        self.random, self.ranks = np.random.default_rng(seed), ranks

    def work(self, mean_ns: float = MS, spread: float = SPREAD) -> Int:
        """Return the work of each rank in ns."""
        factor = 1 + spread * self.random.standard_normal(self.ranks)
        return np.maximum(mean_ns * factor, 0).astype(np.int64)
