"""Origin of a pattern's lateness: its call site and rank, from walks back along the chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.diagnosis.arrival_matrix import ArrivalMatrix
from mpiprof.diagnosis.delay_chain import START, Walk
from mpiprof.diagnosis.pattern import Pattern
from mpiprof.diagnosis.patterns import MAX_P
from mpiprof.diagnosis.sampled_code import find_sampled_code
from mpiprof.diagnosis.significance import persistence_ratio
from mpiprof.trace.trace import Trace

MAIN_SHARE = 0.5  # of the walks from a rank that lead to another rank; of accumulated lateness
MIN_SHARE = 0.1  # minimum share of the walks from a pattern's instances that start at its ranks
MIN_WALKS = 3  # minimum number of instances over which lateness accumulates


def select_walks(walks: Sequence[Walk], pattern: Pattern, grid: ArrivalMatrix) -> Sequence[Walk]:
    """Return the walks that show the origin of a pattern's lateness.

    An early rank has no lateness. For an outlier, only walks from its instances count.
    """
    if pattern.cause == "early":
        return []
    if pattern.cause != "outlier":
        return walks
    times = set(grid.first_ns[pattern.instances].tolist())
    return [walk for walk in walks if walk.first_arrival in times]


def find_origins(
    trace: Trace, walks: Sequence[Walk], pattern: Pattern, instances: int
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the ranks to blame for a pattern, and the origin of most of its lateness.

    The origin is {} if unknown. A rank that was delayed by another rank is not to blame. If most
    walks from it lead to another rank, that rank replaces it. A walk's weight is its lateness, at
    most the pattern's. Without this limit, the many instances in which an occasionally late rank is
    last by almost nothing would decide. If a rank is mostly late behind other ranks, hardly any
    walk starts at it, and the origin is unknown.
    """
    mine = [walk for walk in walks if walk.steps[-1].rank in pattern.ranks]
    if len(mine) < MIN_SHARE * len(walks) * len(pattern.instances) / instances:
        return pattern.ranks, {}
    weights = [min(walk.late, pattern.late_ns) for walk in mine]
    blamed = []
    for rank in pattern.ranks:
        led, share = _find_heaviest(
            (walk.origin.rank, weight)
            for walk, weight in zip(mine, weights, strict=True)
            if walk.steps[-1].rank == rank and walk.origin.how != "unknown"
        )
        blamed.append(rank if led is None or share < MAIN_SHARE else led)
    return tuple(dict.fromkeys(blamed)), find_begin(trace, mine, weights)


def _find_heaviest(weighed: Iterable[tuple[Any, float]]) -> tuple[Any, float]:
    """Return the key of the largest weight and its share of the sum; None without weights."""
    sums: dict[Any, float] = {}
    for key, weight in weighed:
        sums[key] = sums.get(key, 0.0) + weight
    heaviest = max(sums, key=lambda key: sums[key], default=None)
    return heaviest, sums[heaviest] / sum(sums.values()) if heaviest is not None else 0.0


def find_begin(trace: Trace, walks: Sequence[Walk], weights: Sequence[float]) -> dict[str, Any]:
    """Return the origin of most lateness and its share of the walks; {} without walks."""
    origin, share = _find_heaviest(zip((walk.origin for walk in walks), weights, strict=True))
    if origin is None:
        return {}
    evidence = {
        "doing": find_location(trace, origin.rank, origin.after, origin.callsite),
        "origin_rank": origin.rank,
        "origin_callsite": origin.callsite,
        "origin_after": origin.after,
        "origin_how": origin.how,
        "origin_share": share,
    }
    added = [_find_accumulation(walk) for walk in walks if walk.origin == origin]
    accumulations = [accumulation for accumulation in added if accumulation is not None]
    if len(accumulations) <= MAIN_SHARE * len(added):
        return evidence
    worst = max(accumulations, key=lambda accumulation: accumulation["late_ns"])
    often = float(np.median([accumulation["instances"] for accumulation in accumulations]))
    return evidence | {"collected": worst | {"usual_instances": round(often)}}


def find_callsite_inside(walks: Sequence[Walk]) -> tuple[int | None, float]:
    """Return the call site inside which most lateness arose, on any rank, and its share."""
    inside = [walk for walk in walks if walk.origin.how == "inside"]
    callsite, _ = _find_heaviest((walk.origin.callsite, walk.late) for walk in inside)
    late = sum(walk.late for walk in inside if walk.origin.callsite == callsite)
    return callsite, late / max(sum(walk.late for walk in walks), 1.0)


def _find_accumulation(walk: Walk) -> dict[str, Any] | None:
    """Return the accumulation of a walk's lateness over instances; None if few made most of it.

    p: p-value of the accumulation. A walk ends where its rank was in time. For a wandering rank
    this is the start of the delay, so the test is corrected for any number of instances.
    """
    whole = sum(walk.added)
    if len(walk.added) < MIN_WALKS or max(walk.added) >= MAIN_SHARE * whole:
        return None
    from scipy import special

    values = np.array(walk.added)
    free = max(len(values) / persistence_ratio(values) - 1, 1.0)
    score = values.mean() / max(float(values.std(ddof=1)), 1.0) * np.sqrt(free)
    return {
        "instances": len(values),
        "late_ns": whole,
        "cut": walk.cut,
        "p": min(float(special.stdtr(free, -score)) * len(values), 1.0),
    }


def find_accumulating_rank(
    pattern: Pattern, began: Mapping[str, Any], ranks: int
) -> Pattern | None:
    """Return a persistently late rank in place of an outlier, if it was late over many instances.

    Returns None if chance explains the outlier: any of the ranks may be last by chance.
    """
    collected = began.get("collected")
    if pattern.cause != "outlier" or not pattern.ranks or collected is None:
        return None
    p, who = collected["p"] * ranks, (began["origin_rank"],)
    if p > MAX_P:
        return None
    return replace(pattern, cause="rank", ranks=who, late_ns=collected["late_ns"], p=p)


def find_location(trace: Trace, rank: int, after: int, callsite: int) -> dict[str, Any] | None:
    """Return the code that a rank mostly executes between two call sites (START: MPI_Init)."""
    if not trace.tables.presite_samples:
        return None
    sites = {number: key.sites for key, number in trace.aggregate[1].items()}
    before = {START} if after == START else sites.get(after, frozenset())
    return find_sampled_code(trace, rank, before, sites.get(callsite, frozenset()))
