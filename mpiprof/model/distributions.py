"""How irregular data is spread over processes: the distributions of Träff et al. 2009, Section 3.

With a base of c bytes and p processes, m in all: c in `broadcast` and `spike`, p c in the others
(`half_full`: for even p). The paper's spike is misprinted: m_i = c / (2 (p-1)) makes m = c.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Counts = tuple[int, ...]


def regular(base: int, size: int) -> Counts:
    """m_i = c."""
    return (base,) * size


def broadcast(base: int, size: int) -> Counts:
    """m_0 = c, all others 0."""
    return (base,) + (0,) * (size - 1)


def spike(base: int, size: int) -> Counts:
    """m_0 = c/2, all others c / (2 (p-1))."""
    if size == 1:
        return (base,)
    each = base // (2 * (size - 1))
    return (base - each * (size - 1),) + (each,) * (size - 1)


def half_full(base: int, size: int) -> Counts:
    """2c on even ranks, 0 on odd ones."""
    return tuple(2 * base * (rank % 2 == 0) for rank in range(size))


def decreasing(base: int, size: int) -> Counts:
    """m_i = 2c (p-1-i) / (p-1)."""
    if size == 1:
        return (base,)
    return tuple(2 * base * (size - 1 - rank) // (size - 1) for rank in range(size))


def geometric(base: int, size: int) -> Counts:
    """For i = 1, 2, 4, ...: c p / (i lg p) on each of the i processes from i-1 on."""
    if size == 1:
        return (base,)
    largest = base * size / math.log2(size)
    return tuple(int(largest / (1 << ((rank + 1).bit_length() - 1))) for rank in range(size))


DISTRIBUTIONS: dict[str, Callable[[int, int], Counts]] = {
    "regular": regular,
    "broadcast": broadcast,
    "spike": spike,
    "half_full": half_full,
    "decreasing": decreasing,
    "geometric": geometric,
}
