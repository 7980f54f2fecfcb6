"""Bounds of Kang et al. 2019 for allgather(v) on inter-communicators, in bytes on one port.

Multiplied by beta they are transfer times. p processes of group A send k_a bytes each, q of B send
k_b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mpiprof.errors import UsageError


def least_bytes(a: Sequence[int], b: Sequence[int]) -> int:
    """Return M, a lower bound: a process receives all data of the other group."""
    return max(sum(a), sum(b))


def algorithm_1_bound(p: int, q: int, k_a: int, k_b: int) -> int:
    """Return Theorem 1's bound: M plus one message of the smaller group."""
    return max(p * k_a, q * k_b) + (k_b if q <= p else k_a)


def algorithm_1_bytes(p: int, q: int, k_a: int, k_b: int) -> Fraction:
    """Return the left side of (3): bytes of Algorithm 1 if q divides p, and p / q divides k_b."""
    if p < q:
        return algorithm_1_bytes(q, p, k_b, k_a)
    exchange = max(Fraction(p, q) * k_a, Fraction(k_b))
    return exchange + max((p - Fraction(p, q)) * k_a, (q - Fraction(q, p)) * k_b)


def algorithm_2_bound(a: Sequence[int], b: Sequence[int]) -> int:
    """Return Theorem 3's bound (4), without the exchange of the counts (log(pq) in the paper).

    The bound is for each direction alone, with shares of whole bytes. Rounds that pair a send with
    a receive of another length may take more.
    """
    return max(sum(a) + max(a, default=0), sum(b) + max(b, default=0))


def unsegmented_bytes(p: int, q: int, k_a: int, k_b: int) -> Fraction:
    """Return the bytes of the variant with whole messages, if q divides p."""
    if p < q:
        return unsegmented_bytes(q, p, k_b, k_a)
    ratio = Fraction(p, q)
    return ratio * max(k_a, k_b) + max((p - ratio) * k_a, Fraction((q - 1) * k_b))


def root_gathering_bytes(p: int, q: int, k_a: int, k_b: int) -> int:
    """Return (2), one direction after the other; broadcasts send everything twice."""
    return max((p - 1) * k_a, (q - 1) * k_b) + 3 * p * k_a + 3 * q * k_b


def best_root_gathering_bytes(p: int, q: int, k_a: int, k_b: int) -> int:
    """Return (1): gather, exchange and broadcast, each sending everything once."""
    return max((p - 1) * k_a, (q - 1) * k_b) + 2 * max(p * k_a, q * k_b)


def concurrent_root_gathering_bytes(p: int, q: int, k_a: int, k_b: int) -> int:
    """Return the analogue of (2) for both directions at once."""
    return max((p - 1) * k_a, (q - 1) * k_b) + 3 * max(p * k_a, q * k_b)


def improvement_limit(a: int, b: int) -> float:
    """Return (5): the gain over sequential root gathering for groups with a and b bytes."""
    if a == b == 0:
        raise UsageError("no data, no improvement: give one of the groups some bytes")
    return (max(a, b) + 3 * a + 3 * b) / max(a, b)


@dataclass(frozen=True)
class Setting:
    """One of the settings of Section 5: the groups' shares of all processes, and their messages.

    `weight_a` and `weight_b` are the proportions of the mean messages. The paper has no numbers for
    them, only the limits 4.21 and 6.68, which imply 4 to 1. `arithmetic`: rank i sends in
    proportion to i.
    """

    number: int
    operation: str
    parts_a: int
    parts_b: int
    weight_a: int
    weight_b: int
    arithmetic: bool
    limit: float

    def sizes(self, processes: int) -> tuple[int, int]:
        """Return the number of processes of each group."""
        p = round(processes * Fraction(self.parts_a, self.parts_a + self.parts_b))
        return p, processes - p

    def messages(self, processes: int, largest: int) -> tuple[list[int], list[int]]:
        """Return the messages' bytes, none above `largest`."""
        top = max(self.weight_a, self.weight_b)
        p, q = self.sizes(processes)
        return (
            self._messages(p, largest * self.weight_a // top),
            self._messages(q, largest * self.weight_b // top),
        )

    def _messages(self, size: int, largest: int) -> list[int]:
        if not self.arithmetic:
            return [largest] * size
        return [largest * i // max(size - 1, 1) for i in range(size)]


SETTINGS = (
    Setting(1, "allgather", 1, 1, 1, 1, False, 7.0),
    Setting(2, "allgather", 25, 7, 1, 1, False, 4.84),
    Setting(3, "allgather", 25, 7, 4, 1, False, 4.21),
    Setting(4, "allgather", 25, 7, 1, 4, False, 6.68),
    Setting(5, "allgatherv", 1, 1, 1, 1, False, 7.0),
    Setting(6, "allgatherv", 1, 1, 1, 1, True, 7.0),
    Setting(7, "allgatherv", 25, 7, 1, 1, False, 4.84),
    Setting(8, "allgatherv", 25, 7, 1, 1, True, 4.84),
)
