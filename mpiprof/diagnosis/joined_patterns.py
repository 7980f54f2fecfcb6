"""Patterns of delays that are one cause: in several matrices, or of ranks that hide each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from mpiprof.diagnosis.delay_matrix import DelayMatrix
from mpiprof.diagnosis.pattern import Pattern

MIN_JOINED_SHARE = 0.2  # minimum gain of joined ranks, over that of the ranks that hide their delay
MIN_COMMON_SHARE = 0.8  # of the columns of two patterns that are joined

FoundPattern: TypeAlias = tuple[DelayMatrix, Pattern]


def join_matrices(found: Sequence[FoundPattern]) -> list[list[FoundPattern]]:
    """Join patterns of the same ranks in several matrices, the costliest of each first."""
    groups: dict[Any, list[FoundPattern]] = {}
    for grid, pattern in found:
        key = pattern.cause, frozenset(pattern.ranks), pattern.period, pattern.each
        groups.setdefault(key, []).append((grid, pattern))
    return [sorted(parts, key=lambda part: -part[1].gain_ns) for parts in groups.values()]


def sum_gains(parts: Sequence[FoundPattern]) -> float:
    """Return the waiting in ns that the parts of a pattern explain."""
    return sum(pattern.gain_ns for _, pattern in parts)


def join_ranks(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Join late ranks with those that hide their delay, if both are late in the same columns."""
    joined: list[Pattern] = []
    at: list[int] = []  # index in `joined` of each pattern
    for pattern in patterns:
        first = at[pattern.once] if pattern.once is not None else None
        if first is not None and _belong_together(joined[first], pattern):
            joined[first] = replace(
                joined[first],
                ranks=(*joined[first].ranks, *pattern.ranks),
                gain_ns=joined[first].gain_ns + pattern.gain_ns,
                late_ns=max(joined[first].late_ns, pattern.late_ns),
                p=max(joined[first].p, pattern.p),
            )
            at.append(first)
        else:
            at.append(len(joined))
            joined.append(pattern)
    return joined


def _belong_together(first: Pattern, second: Pattern) -> bool:
    """Return whether two patterns are of late ranks, constant, and in mostly the same columns.

    If the repair of the first ranks gains nearly everything, they are the cause alone.
    """
    if not first.cause == second.cause == "rank" or first.grows or second.grows:
        return False
    if second.gain_ns < MIN_JOINED_SHARE * first.gain_ns:
        return False
    common = len(np.intersect1d(first.instances, second.instances))
    return common >= MIN_COMMON_SHARE * max(len(first.instances), len(second.instances))
