"""Patterns of delays that are one cause: in several matrices, or of ranks that hide each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from mpiprof.diagnosis.delay_matrix import DelayMatrix
from mpiprof.diagnosis.onsets import find_levels
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.trace.types import Float

MIN_JOINED_SHARE = 0.2  # minimum gain of joined ranks, over that of the ranks that hide their delay
MIN_COMMON_SHARE = 0.8  # of the columns of two patterns that are joined
MIN_TURNS = 3  # ranks that are late one after the other
MAX_TURN_RATIO = 1.5  # between the delays of the turns
MAX_TURN_GAP = 2  # columns between two turns, or in both

FoundPattern: TypeAlias = tuple[DelayMatrix, Pattern]


def join_matrices(found: Sequence[FoundPattern]) -> list[list[FoundPattern]]:
    """Join patterns of the same ranks in several matrices, the costliest of each first."""
    groups: dict[Any, list[FoundPattern]] = {}
    for matrix, pattern in found:
        key = pattern.cause, frozenset(pattern.ranks), pattern.period, pattern.each
        groups.setdefault(key, []).append((matrix, pattern))
    return [sorted(parts, key=lambda part: -part[1].gain_ns) for parts in groups.values()]


def sum_gains(parts: Sequence[FoundPattern]) -> float:
    """Return the waiting in ns that the parts of a pattern explain."""
    return sum(pattern.gain_ns for _, pattern in parts)


def join_patterns(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Join patterns that are one cause, and drop remains of a period with known late ranks."""
    named = {(one.period, one.offsets) for one in patterns if one.ranks and one.period}
    joined = join_levels(join_turns(join_ranks(patterns)))
    return [one for one in joined if one.ranks or (one.period, one.offsets) not in named]


def join_ranks(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Join late ranks with ranks that hide their delay, if both are late in the same columns."""
    joined: list[Pattern] = []
    at: list[int] = []  # index in `joined` of each pattern
    for pattern in patterns:
        first = at[pattern.prerequisite] if pattern.prerequisite is not None else None
        if first is not None and _belong_together(joined[first], pattern):
            joined[first] = replace(
                joined[first],
                ranks=(*joined[first].ranks, *pattern.ranks),
                gain_ns=joined[first].gain_ns + pattern.gain_ns,
                late_ns=max(joined[first].late_ns, pattern.late_ns),
                p=max(joined[first].p, pattern.p),
                shift_ns=_add_shifts([joined[first], pattern]),
            )
            at.append(first)
        else:
            at.append(len(joined))
            joined.append(pattern)
    return joined


def join_turns(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Join patterns of single ranks in adjacent stretches of the run as a delay that moves."""
    alone = [one for one in patterns if one.cause == "rank" and len(one.ranks) == 1]
    turns = sorted((one for one in alone if not one.grows), key=lambda one: int(one.instances[0]))
    if not _are_turns(turns):
        return list(patterns)
    columns = np.unique(np.concatenate([one.instances for one in turns]))
    moving = replace(
        turns[0],
        cause="moving",
        ranks=tuple(one.ranks[0] for one in turns),
        late_ns=float(np.median([one.late_ns for one in turns])),
        instances=columns,
        gain_ns=sum(one.gain_ns for one in turns),
        p=max(one.p for one in turns),
        prerequisite=None,
        levels=(),
        shift_ns=_add_shifts(turns),
    )
    # The indexes in `prerequisite` are indexes of the given patterns.
    rest = (
        replace(one, prerequisite=None)
        for one in patterns
        if all(one is not turn for turn in turns)
    )
    return [moving, *rest]


def join_levels(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Join patterns of the same late ranks: parts of one delay, found one after the other."""
    groups: dict[Any, list[Pattern]] = {}
    for number, pattern in enumerate(patterns):
        is_constant = pattern.cause in ("rank", "node") and not (pattern.grows or pattern.each)
        key = (pattern.cause, frozenset(pattern.ranks)) if is_constant else number
        groups.setdefault(key, []).append(pattern)
    return [_join_parts(parts) if len(parts) > 1 else parts[0] for parts in groups.values()]


def _join_parts(parts: Sequence[Pattern]) -> Pattern:
    """Return one pattern for parts of a delay: it has levels, or varies if the parts overlap."""
    largest = max(parts, key=lambda one: one.gain_ns)
    columns = np.unique(np.concatenate([one.instances for one in parts]))
    late = [one.late_ns * len(one.instances) for one in parts]
    joined = replace(
        largest,
        late_ns=sum(late) / len(columns),
        instances=columns,
        gain_ns=sum(one.gain_ns for one in parts),
        p=max(one.p for one in parts),
        prerequisite=None,
        levels=find_levels([(one.instances, one.late_ns) for one in parts]),
        shift_ns=_add_shifts(parts),
    )
    if len(columns) == sum(len(one.instances) for one in parts) or joined.shift_ns is None:
        return joined
    of_latest = joined.shift_ns[:, columns].max(0)
    return replace(joined, levels=(), varies=(float(of_latest.mean()), float(of_latest.max())))


def _add_shifts(patterns: Sequence[Pattern]) -> Float | None:
    """Return the work that patterns of the same matrix explain together, None if unknown."""
    known = [one.shift_ns for one in patterns if one.shift_ns is not None]
    return np.sum(known, axis=0) if len(known) == len(patterns) else None


def _are_turns(turns: Sequence[Pattern]) -> bool:
    """Return whether each pattern is of another rank, and begins when the one before ends."""
    if len({one.ranks[0] for one in turns}) < max(len(turns), MIN_TURNS):
        return False
    late = [one.late_ns for one in turns]
    gaps = (int(b.instances[0] - a.instances[-1]) - 1 for a, b in itertools.pairwise(turns))
    return max(late) <= MAX_TURN_RATIO * min(late) and all(abs(gap) <= MAX_TURN_GAP for gap in gaps)


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
