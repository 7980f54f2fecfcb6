"""Closed forms of the number of rounds that the schedules must have (Träff et al. 2009)."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.collectives.pipeline_formulas import Counts, ceil_log2, count_blocks

SIZES = [*range(1, 34), 64, 100]
LARGEST = pytest.param([128], marks=pytest.mark.everything)
every_size = pytest.mark.parametrize("sizes", [SIZES, LARGEST], ids=["up to 100", "128"])


def is_power_of_two(size: int) -> bool:
    """Return whether p = 2^k."""
    return size & (size - 1) == 0


def broadcast_rounds(size: int, blocks: int) -> int:
    """Return n - 1 + ceil(lg p), the fewest rounds for n blocks (Träff 2024)."""
    return blocks - 1 + ceil_log2(size) if size > 1 and blocks else 0


def chain_rounds(size: int, blocks: int) -> int:
    """Return n + p - 2, the rounds of a pipeline of n blocks."""
    return blocks + size - 2 if size > 1 and blocks else 0


def ring_rounds(counts: Counts, block_size: int) -> int:
    """Return formula (1), b - min b_i with b_i = max(1, ceil(m_i / B)).

    Exact if every process contributes, or if the empty processes follow each other in the ring.
    """
    blocks = np.maximum(1, count_blocks(counts, block_size))
    return int(blocks.sum() - blocks.min())


def spread_ring_rounds(counts: Counts, block_size: int) -> int:
    """Return the rounds with the z empty processes at equal distances (Section 2.3).

    The result is b - z - 1 + ceil(z / (p - z)), if every b_i is larger than the distance. The paper
    rounds down, as if p - z divided z. But the last process of the longest run of empty processes
    needs all blocks, and receives none before the blocks have passed the other processes.
    """
    blocks = count_blocks(counts, block_size)
    full = int(np.count_nonzero(blocks))
    empty = len(blocks) - full
    if not full or not empty:
        return ring_rounds(counts, block_size) if full else 0
    return int(blocks.sum()) - 1 + -(-empty // full)
