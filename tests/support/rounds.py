"""Rounds in closed form, which the schedules are held to (Träff et al. 2009)."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.model.rounds import Counts, blocks_of, doublings

SIZES = [*range(1, 34), 64, 100]
LARGEST = pytest.param([128], marks=pytest.mark.everything)
every_size = pytest.mark.parametrize("sizes", [SIZES, LARGEST], ids=["up to 100", "128"])


def is_power_of_two(size: int) -> bool:
    """Return whether p = 2^k."""
    return size & (size - 1) == 0


def broadcast_rounds(size: int, blocks: int) -> int:
    """Return n - 1 + ceil(lg p), the fewest rounds for n blocks (Träff 2024)."""
    return blocks - 1 + doublings(size) if size > 1 and blocks else 0


def chain_rounds(size: int, blocks: int) -> int:
    """Return n + p - 2, the rounds of a pipeline of n blocks."""
    return blocks + size - 2 if size > 1 and blocks else 0


def ring_rounds(counts: Counts, block_size: int) -> int:
    """Return formula (1), b - min b_i with b_i = max(1, ceil(m_i / B)).

    Exact where everybody contributes, or where those who don't follow each other in the ring.
    """
    blocks = np.maximum(1, blocks_of(counts, block_size))
    return int(blocks.sum() - blocks.min())


def spread_ring_rounds(counts: Counts, block_size: int) -> int:
    """Return the rounds with the z empty processes at equal distances (Section 2.3).

    b - z - 1 + ceil(z / (p - z)), where every b_i is larger than the distance. The paper rounds
    down, as if p - z divided z: but the last of the longest run of empty processes has to get all
    blocks, and gets none before they have passed the others.
    """
    blocks = blocks_of(counts, block_size)
    full = int(np.count_nonzero(blocks))
    empty = len(blocks) - full
    if not full or not empty:
        return ring_rounds(counts, block_size) if full else 0
    return int(blocks.sum()) - 1 + -(-empty // full)
