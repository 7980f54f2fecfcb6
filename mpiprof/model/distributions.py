"""How irregular data is spread over processes: the distributions of Träff et al. 2009, Section 3.

With a base of c bytes and p processes, m in all: c in `broadcast` and `spike`, p c in the others
(`half_full`: for even p). The paper's spike is misprinted: m_i = c / (2 (p-1)) makes m = c.
"""

from __future__ import annotations

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
    """For i = 1, 2, 4, ...: c p / (i lg p) on each of the i processes from i-1 on.

    For p = 2^k the levels leave the last process with nothing; for others the last level is not
    complete, and the shares are those whose sum is p c.
    """
    if size == 1:
        return (base,)
    levels = [(rank + 1).bit_length() - 1 for rank in range(size)]
    shares = [1 << levels[-1] - level for level in levels]  # in units of the least
    if size & (size - 1) == 0:
        shares[-1] = 0
    whole = sum(shares)
    made = [base * size * share // whole for share in shares]
    left = base * size - sum(made)
    return tuple(bytes_ + (rank < left) for rank, bytes_ in enumerate(made))


DISTRIBUTIONS: dict[str, Callable[[int, int], Counts]] = {
    "regular": regular,
    "broadcast": broadcast,
    "spike": spike,
    "half_full": half_full,
    "decreasing": decreasing,
    "geometric": geometric,
}
