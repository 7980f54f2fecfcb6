"""Where the lateness of a pattern began, and whose it was: from walks back along the chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.analysis import tails
from mpiprof.analysis.chain import Walk
from mpiprof.analysis.chance import persistence
from mpiprof.analysis.grid import Grid
from mpiprof.analysis.patterns import SURE, Pattern
from mpiprof.analysis.where import place_of
from mpiprof.trace.trace import Trace

MOSTLY = 0.5  # of the walks back from a rank that lead to another one; of what is collected
LEAST = 0.1  # of the walks from a pattern's instances that must begin with its ranks
FEWEST = 3  # instances over which lateness is collected


def walks_from(walks: Sequence[Walk], one: Pattern, grid: Grid) -> Sequence[Walk]:
    """Return the walks that tell where a pattern's lateness began.

    Who comes early has no lateness, and what happened at other times tells nothing of an accident.
    """
    if one.cause == "early":
        return []
    if one.cause != "outlier":
        return walks
    times = set(grid.first_ns[one.instances].tolist())
    return [walk for walk in walks if walk.first_arrival in times]


def origins(
    trace: Trace, walks: Sequence[Walk], one: Pattern, instances: int
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return whose lateness makes a pattern's ranks late, and where most of it began.

    A rank that was kept by another one is not to blame: where most walks back from it lead to
    another rank, that one stands in its place. A walk weighs as much as it was late, but no more
    than the pattern is: else those of the many instances in which a rank that is late now and then
    comes last by next to nothing would tell where its lateness begins. Where a rank is mostly late
    behind others, hardly any walk begins with it: then nothing is known.
    """
    mine = [walk for walk in walks if walk.steps[-1].rank in one.ranks]
    if len(mine) < LEAST * len(walks) * len(one.instances) / instances:
        return one.ranks, {}
    weights = [min(walk.late, one.late_ns) for walk in mine]
    blamed = []
    for rank in one.ranks:
        led, share = _heaviest(
            (walk.origin.rank, weight)
            for walk, weight in zip(mine, weights, strict=True)
            if walk.steps[-1].rank == rank and walk.origin.how != "unknown"
        )
        blamed.append(rank if led is None or share < MOSTLY else led)
    return tuple(dict.fromkeys(blamed)), began_at(trace, mine, weights)


def _heaviest(weighed: Iterable[tuple[Any, float]]) -> tuple[Any, float]:
    """Return what weighs most, and its share of all; None where there is nothing."""
    sums: dict[Any, float] = {}
    for what, weight in weighed:
        sums[what] = sums.get(what, 0.0) + weight
    heaviest = max(sums, key=lambda what: sums[what], default=None)
    return heaviest, sums[heaviest] / sum(sums.values()) if heaviest is not None else 0.0


def began_at(trace: Trace, walks: Sequence[Walk], weights: Sequence[float]) -> dict[str, Any]:
    """Return where most lateness began, and in which share of the walks; {} without any."""
    origin, share = _heaviest(zip((walk.origin for walk in walks), weights, strict=True))
    if origin is None:
        return {}
    found = {
        "doing": place_of(trace, origin.rank, origin.after, origin.callsite),
        "origin_rank": origin.rank,
        "origin_callsite": origin.callsite,
        "origin_after": origin.after,
        "origin_how": origin.how,
        "origin_share": share,
    }
    added = [_added(walk) for walk in walks if walk.origin == origin]
    many = [one for one in added if one is not None]
    if len(many) <= MOSTLY * len(added):
        return found
    worst = max(many, key=lambda one: one["late_ns"])
    often = float(np.median([one["instances"] for one in many]))
    return found | {"collected": worst | {"usual_instances": round(often)}}


def inside_of(walks: Sequence[Walk]) -> tuple[int | None, float]:
    """Return the call site inside which most lateness was made, on any rank, and its share."""
    made = ((walk.origin.callsite, walk) for walk in walks if walk.origin.how == "inside")
    callsite, _ = _heaviest((callsite, walk.late) for callsite, walk in made)
    of = (walk for walk in walks if walk.origin.how == "inside")
    late = sum(walk.late for walk in of if walk.origin.callsite == callsite)
    return callsite, late / max(sum(walk.late for walk in walks), 1.0)


def _added(walk: Walk) -> dict[str, Any] | None:
    """Return over how many instances a walk's lateness was collected; None where in a few.

    p: how likely chance makes it. A walk ends where its rank was in time: of a rank that wanders
    that is where it began to fall behind, so any number of instances may be the one that is tested.
    """
    whole = sum(walk.added)
    if len(walk.added) < FEWEST or max(walk.added) >= MOSTLY * whole:
        return None
    values = np.array(walk.added)
    free = np.array([max(len(values) / persistence(values) - 1, 1.0)])
    score = values.mean() / max(float(values.std(ddof=1)), 1.0) * np.sqrt(free)
    return {
        "instances": len(values),
        "late_ns": whole,
        "cut": walk.cut,
        "p": min(float(tails.student(free, score)[0]) * len(values), 1.0),
    }


def collected_by(one: Pattern, began: Mapping[str, Any], ranks: int) -> Pattern | None:
    """Return an accident that is none: in each of many instances before, a rank added to it.

    None where it may be an accident: any of so many ranks may come last by chance.
    """
    collected = began.get("collected")
    if one.cause != "outlier" or not one.ranks or collected is None:
        return None
    p, who = collected["p"] * ranks, (began["origin_rank"],)
    if p > SURE:
        return None
    return replace(one, cause="rank", ranks=who, late_ns=collected["late_ns"], p=p)
