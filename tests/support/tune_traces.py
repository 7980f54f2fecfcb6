"""Traces with best algorithms known from closed forms, for the tests of tuning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.synthetic import Synthetic

ALPHA, BETA, GAMMA = 10_000.0, 1.0, 0.1  # as in synthetic.MACHINE
RANKS = 8
MILLION = 1 << 20
GAP_NS = 50_000_000
LATE_NS = 500_000
HOP = ALPHA + MILLION * BETA


def arrivals(instances: int, late: int = 3, late_ns: int = LATE_NS) -> NDArray[np.int64]:
    """Return arrivals of instances x ranks, with one rank late."""
    arrivals_ns = np.repeat(np.arange(1, instances + 1)[:, None] * GAP_NS, RANKS, axis=1)
    arrivals_ns[:, late] += late_ns
    return arrivals_ns


def one_sender(folder: Path, site: str = "app.py:12:step", instances: int = 20) -> Path:
    """Write an allgatherv of rank 0's data with times of a linear ring, and an optimal allreduce.

    allgatherv: rank i has sent all data after i + 1 hops of alpha + m beta, and the last rank has
    it after p - 1. allreduce of 8 bytes: lg p (alpha + 8 beta + 8 gamma) after the last arrival,
    which no algorithm beats.
    """
    synthetic = Synthetic(RANKS)
    came = arrivals(instances)
    hops = np.minimum(np.arange(RANKS) + 1, RANKS - 1)
    exits = came.min(1, keepdims=True) + (hops * int(HOP))[None, :]
    counts = {rank: MILLION if rank == 0 else 0 for rank in range(RANKS)}
    synthetic.add_collective("allgatherv", came, exits, sent=counts, received=MILLION, site=site)
    came = came + GAP_NS // 2
    exits = came.max(1, keepdims=True) + round(3 * (ALPHA + 8 * BETA + 8 * GAMMA))
    synthetic.add_collective(
        "allreduce", came, np.repeat(exits, RANKS, axis=1), site="app.py:13:step"
    )
    return synthetic.write(folder)
