"""Checksum of a chunk, compared with its definition."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.trace.checksum import compute_checksum

GOLDEN_RATIO = 0x9E3779B97F4A7C15


def define_checksum(chunk: bytes, offset: int) -> int:
    """Return the NH hash of the words, of which each half is added to half of its key."""
    content = bytearray(chunk)
    content[offset : offset + 4] = bytes(4)
    total = 0
    for i, word in enumerate(np.frombuffer(content, "<u8").tolist(), 1):
        key = i * GOLDEN_RATIO
        low = (word + key) & 0xFFFFFFFF
        high = ((word >> 32) + (key >> 32)) & 0xFFFFFFFF
        total += low * high
    total &= (1 << 64) - 1
    return (total ^ total >> 32) & 0xFFFFFFFF or 1


@pytest.mark.parametrize("offset", [0, 4, 6, 12, 84, 92])
def test_the_checksum_of_a_chunk_is_that_of_its_definition(offset: int) -> None:
    chunk = np.random.default_rng(offset).bytes(96)
    assert compute_checksum(chunk, offset) == define_checksum(chunk, offset)
    assert compute_checksum(np.frombuffer(chunk, np.uint8), offset) == define_checksum(
        chunk, offset
    )
