"""Few instances that hold much of the waiting at a call site, and who came late in them."""

from __future__ import annotations

import numpy as np

from mpiprof.analysis.grid import Grid, median_of
from mpiprof.trace.types import Float, Int

FEW = 0.02  # of the instances
MOST = 8
FEWEST = 4  # instances of which some can be few
OUTLYING = 10.0  # times the usual waiting
NOTABLE = 0.1  # of the worst one's waiting: what is less is none of its kind
MUCH = 0.4  # of the waiting, that they hold


def outlying(grid: Grid, arrival: Float, waits: Float) -> Int:
    """Return the columns of the few instances that hold much of the waiting; empty without any.

    Those in which the same ranks were late as in the worst one, where these hold much by
    themselves: two accidents have two causes, and a time each.
    """
    nothing = np.zeros(0, np.int64)
    count, whole = len(waits), float(waits.sum())
    if count < FEWEST or whole <= 0:
        return nothing
    worst = np.argsort(-waits, kind="stable")[: min(max(int(FEW * count), 1), MOST)]
    least = max(OUTLYING * float(np.median(waits)), NOTABLE * float(waits[worst[0]]))
    costly = worst[waits[worst] > least]
    if waits[costly].sum() < MUCH * whole:
        return nothing
    who = [frozenset(blamed(grid, arrival[:, [column]])) for column in costly.tolist()]
    alike = costly[[ranks == who[0] for ranks in who]]
    return np.sort(alike if waits[alike].sum() >= MUCH * whole else costly)


def blamed(grid: Grid, arrival: Float) -> tuple[int, ...]:
    """Return who came far behind all others, the latest first; empty where nobody did.

    Nobody did where some came far before all others, who came late together.
    """
    low, high = np.nanmin(arrival, 0), np.nanmax(arrival, 0)
    middle = median_of(arrival)
    far = (arrival - middle) > (high - middle) / 2
    far &= far.sum(0) <= len(arrival) / 2
    far &= (arrival > (low + high) / 2).sum(0) <= len(arrival) / 2
    rows = np.flatnonzero(far.any(1))
    late = np.nanmax(np.where(far, arrival, 0.0), 1)[rows]
    return tuple(grid.ranks[rows[np.argsort(-late, kind="stable")]].tolist())


def ahead(grid: Grid, arrival: Float) -> tuple[int, ...]:
    """Return who came far before most others in an instance, the earliest first; else nobody."""
    low, high = np.nanmin(arrival, 0), np.nanmax(arrival, 0)
    early = (arrival < (low + high) / 2).all(1)
    rows = np.flatnonzero(early)
    if len(rows) >= len(arrival) / 2:
        return ()
    return tuple(grid.ranks[rows[np.argsort(arrival[rows, 0], kind="stable")]].tolist())


def also_costly(waits: Float, columns: Int) -> int:
    """Return how many other instances wait a tenth of what the least of some do, or more."""
    others = np.delete(waits, columns)
    return int((others * OUTLYING >= waits[columns].min()).sum())
