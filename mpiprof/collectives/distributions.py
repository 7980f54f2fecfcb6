"""Distributions of irregular data over processes (Träff et al. 2009, Section 3).

With a base of c bytes and p processes, the total is c in `broadcast` and `spike`, and p c otherwise
(in `half_full` for even p). The paper's spike is misprinted; m_i = c / (2 (p-1)) gives the total c.
"""

from __future__ import annotations

from collections.abc import Callable

Counts = tuple[int, ...]


def broadcast_counts(base: int, size: int) -> Counts:
    """Return m_0 = c, all other contributions 0."""
    return (base,) + (0,) * (size - 1)


def spike_counts(base: int, size: int) -> Counts:
    """Return m_0 = c/2, all other contributions c / (2 (p-1))."""
    if size == 1:
        return (base,)
    each = base // (2 * (size - 1))
    return (base - each * (size - 1),) + (each,) * (size - 1)


def decreasing_counts(base: int, size: int) -> Counts:
    """Return m_i = 2c (p-1-i) / (p-1)."""
    if size == 1:
        return (base,)
    return tuple(2 * base * (size - 1 - rank) // (size - 1) for rank in range(size))


def geometric_counts(base: int, size: int) -> Counts:
    """Return c p / (i lg p) on each of the i processes from i-1 on, for i = 1, 2, 4, ..."""
    if size == 1:
        return (base,)
    levels = [(rank + 1).bit_length() - 1 for rank in range(size)]
    shares = [1 << levels[-1] - level for level in levels]  # in units of the smallest share
    # For p = 2^k no level contains the last process, so it contributes 0. For other p the last
    # level is incomplete, and shares are scaled to the sum p c.
    if size & (size - 1) == 0:
        shares[-1] = 0
    total = sum(shares)
    counts = [base * size * share // total for share in shares]
    remainder = base * size - sum(counts)
    return tuple(bytes_ + (rank < remainder) for rank, bytes_ in enumerate(counts))


# half_full: 2c on even ranks, 0 on odd ranks.
DISTRIBUTIONS: dict[str, Callable[[int, int], Counts]] = {
    "regular": lambda base, size: (base,) * size,
    "broadcast": broadcast_counts,
    "spike": spike_counts,
    "half_full": lambda base, size: tuple(2 * base * (r % 2 == 0) for r in range(size)),
    "decreasing": decreasing_counts,
    "geometric": geometric_counts,
}
