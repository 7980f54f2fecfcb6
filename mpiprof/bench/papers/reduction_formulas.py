"""Costs of the protocols of Rabenseifner and Adamidis 2004, Section 3.

The scan's formulas lack their minus signs. Each restored formula is the sum of the costs of the
protocol's steps, as the text states them. As p grows, halving and doubling off a power of two must
tend to the paper's rounded forms: (3 + 2 floor(lg p)) alpha + 4 n beta + 3/2 n gamma for allreduce,
and (2 + 2 floor(lg p)) alpha + 3 n beta + 3/2 n gamma for reduce.
"""

from __future__ import annotations

from itertools import pairwise

from mpiprof.errors import MpiprofError
from mpiprof.model.machine import Machine


def largest_exponent_gap(size: int) -> int:
    """Return delta_expo,max: the largest gap between exponents of the binary form of `size`."""
    exponents = [e for e in range(size.bit_length()) if size >> e & 1]
    return max((b - a for a, b in pairwise(exponents)), default=0)


def paper_time(operation: str, name: str, size: int, n: int, m: Machine) -> float:
    """Return T of Section 3 for a vector of n bytes; binary blocks only for powers of two.

    Raises MpiprofError if the paper has no formula.
    """
    if size == 1:
        return 0.0
    power = not size & (size - 1)
    lower = 1 << size.bit_length() - 1
    doublings = (size - 1).bit_length()
    a, b, c = m.alpha, n * m.beta, n * m.gamma
    a1, b1 = m.one_way_alpha * a, m.one_way_beta * b
    everyone = operation == "allreduce"
    if name == "binary_blocks" and power:
        name = "halving_doubling"
    if name == "binary_tree":
        return doublings * (2 * a1 + 2 * b1 + c if everyone else a1 + b1 + c)
    if name == "recursive_doubling" and everyone:
        return doublings * (a + b + c) + (0.0 if power else a1 + b1)
    if name == "ring":
        returned = (a, b) if everyone else (a1, b1)
        return (size - 1) * (a + returned[0]) + (b + returned[1] + c) * (1 - 1 / size)
    if name == "halving_doubling":
        steps = lower.bit_length() - 1
        returned = (a, b) if everyone else (a1, b1)
        time = steps * (a + returned[0]) + (b + returned[1] + c) * (1 - 1 / lower)
        if not power:
            time += a + a1 + (b + b1) / 2 + c / 2 + (a + b if everyone else 0.0)
        return time
    raise MpiprofError(f"the paper has no formula for {operation} {name} on {size} processes")
