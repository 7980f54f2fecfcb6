"""Sets of ranks that come late together, or early: from mean arrivals, tested against chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.analysis.chance import p_above
from mpiprof.analysis.grid import Grid, median_of
from mpiprof.analysis.operations import ROOTED
from mpiprof.analysis.variance import nodes_differ
from mpiprof.analysis.waits import awaited, waits
from mpiprof.trace.types import Float, Int

SPLITS = 4  # gaps between mean arrivals at which ranks are divided
LINEAR = 0.9  # share of the differences that a line along the ranks explains
FEWEST_LINEAR = 4  # ranks
ALIKE = 0.6  # of the first one's lateness, that each of a set must have
LEVEL = 0.15  # of the whole range: ranks within it are alike


@dataclass(frozen=True)
class RankSet:
    """Ranks that differ from the others.

    kind: "rank", "early", "node", "gradient", or "each" where all differ and the rows are the
    latest; rows: of the grid, those that differ most first; late_ns: by how much the first does;
    shift: of each row, what it would have to come earlier by (negative: later); p: of chance.
    """

    kind: str
    rows: Int
    late_ns: float
    shift: Float
    p: float
    node: str | None = None


def candidates(grid: Grid, arrival: Float, sure: float) -> Iterator[RankSet]:
    """Yield the sets of ranks that differ more than chance lets them, the simplest first.

    arrival: of the instances that are looked at; sure: how likely chance may be.
    """
    if arrival.shape[1] < 2:
        return
    centred = arrival - median_of(arrival)
    mean = _usual(centred)
    of_node, p = _node_effect(grid, centred, mean)
    if p > sure:
        of_node[:] = 0.0
    if of_node.any():
        yield _slow_nodes(grid, of_node, p)
    yield from _of_root(grid, centred, mean, sure)
    yield from _splits(grid, centred - of_node[:, None], mean - of_node, sure)
    yield from _gradient(grid, centred, mean, sure)
    yield from _everybody(grid, centred, mean, sure)


def _usual(centred: Float) -> Float:
    """Return the mean of the middle half of each row's values: single spikes don't count in it."""
    known = (~np.isnan(centred)).sum(1)
    order = np.sort(centred, axis=1)  # what is not known comes last
    low = known // 4
    high = np.maximum(known - low, low + 1)
    sums = np.hstack([np.zeros((len(order), 1)), np.cumsum(np.nan_to_num(order), axis=1)])
    row = np.arange(len(order))
    high = np.minimum(high, order.shape[1])
    return np.asarray((sums[row, high] - sums[row, low]) / np.maximum(high - low, 1))


def _splits(grid: Grid, centred: Float, mean: Float, sure: float) -> Iterator[RankSet]:
    """Yield divisions of the ranks in two, at the gaps that explain most."""
    order = np.argsort(-mean, kind="stable")
    values = mean[order]
    ranks = len(values)
    size = np.arange(1, ranks)
    above = np.cumsum(values)[:-1] / size
    below = (values.sum() - np.cumsum(values)[:-1]) / (ranks - size)
    between = size * (ranks - size) * (above - below) ** 2
    gaps = values[:-1] - values[1:]
    chosen = [*np.argsort(-between, kind="stable")[:SPLITS], *np.argsort(-gaps, kind="stable")[:1]]
    at = [c for c in dict.fromkeys(map(int, chosen)) if gaps[c] > 0]
    divided = [(order[: c + 1], order[c + 1 :]) for c in at]
    yield from _surely(grid, centred, mean, sure, divided)


def _of_root(grid: Grid, centred: Float, mean: Float, sure: float) -> Iterator[RankSet]:
    """Yield whom most waiting is for, and the root that waits for all, where not all wait for all.

    There others may come later still, and nobody waits for them.
    """
    rooted = [block for block in grid.blocks if block.state in ROOTED and block.group.root >= 0]
    caused = np.zeros(len(mean))
    for block in rooted:
        at: Any = mean[block.rows][:, None]
        waited = waits(block.state, at, at, np.full_like(at, np.inf), block.group)
        who = block.rows[awaited(block.state, at, block.group)[:, 0]]
        np.add.at(caused, who, waited[:, 0] * len(block.columns))
    every = np.arange(len(mean))
    one = np.argmax(caused, keepdims=True)
    divided = [(one, np.setdiff1d(every, one))] if caused[one] > 0 else []
    roots = np.unique([block.rows[block.group.root] for block in rooted])
    if len(roots) == 1:
        divided.append((np.setdiff1d(every, roots), roots))
    yield from _surely(grid, centred, mean, sure, divided)


def _surely(
    grid: Grid, centred: Float, mean: Float, sure: float, divided: Iterable[tuple[Int, Int]]
) -> Iterator[RankSet]:
    """Yield those divisions of the ranks, late ones first, that chance does not make."""
    for upper, lower in divided:
        one = _division(grid, centred, mean, upper, lower)
        if one is not None and one.p <= sure:
            yield one


def _division(grid: Grid, centred: Float, mean: Float, upper: Int, lower: Int) -> RankSet | None:
    """Return what tells two sets of ranks apart: the smaller one is late, or early."""
    few = upper if len(upper) <= len(lower) else lower
    others = lower if few is upper else upper
    sign = 1.0 if few is upper else -1.0
    apart = centred[few] - median_of(centred[others])
    shift = np.zeros(len(mean))
    if np.isnan(centred).any():  # those who are in other instances say nothing of these
        shift[few] = _usual(apart)
    else:
        shift[few] = mean[few] - float(np.median(mean[others]))
    few = few[np.argsort(-sign * shift[few], kind="stable")]
    amount = sign * float(shift[few[0]])
    least = sign * float(shift[few[-1]])
    if least <= max(grid.least_ns, ALIKE * amount):
        return None
    p = min(float(p_above(sign * apart).max()) * len(mean), 1.0)
    return RankSet("rank" if sign > 0 else "early", few, amount, shift, p)


def _node_effect(grid: Grid, centred: Float, mean: Float) -> tuple[Float, float]:
    """Return by how much the node of each rank is late, 0 where it is not, and chance's p.

    A node's lateness is the median of its ranks', so that one late rank makes no slow node.
    """
    found = np.zeros_like(mean)
    counts = np.bincount(grid.node)
    if len(counts) < 2 or counts.max() < 2:
        return found, 1.0
    median = np.array([np.median(mean[grid.node == node]) for node in range(len(counts))])
    order = np.argsort(median, kind="stable")
    gap = int(np.argmax(np.diff(median[order])))
    slow = np.isin(grid.node, order[gap + 1 :])
    apart = float(median[order[gap + 1]] - median[order[gap]])
    difference = median_of(centred[slow]) - median_of(centred[~slow])
    p = min(float(p_above(difference[None, :])[0]) * len(counts), 1.0)
    if apart > grid.least_ns and nodes_differ(mean, grid.node, grid.least_ns):
        found[slow] = np.median(mean[slow]) - np.median(mean[~slow])
    return found, p


def _slow_nodes(grid: Grid, of_node: Float, p: float) -> RankSet:
    """Return the ranks of the nodes that are slower than the others."""
    rows = np.flatnonzero(of_node)
    names = {grid.nodes[node] for node in grid.node[rows]}
    node = names.pop() if len(names) == 1 else None
    return RankSet("node", rows, float(of_node.max()), of_node, p, node)


def _gradient(grid: Grid, centred: Float, mean: Float, sure: float) -> Iterator[RankSet]:
    """Yield lateness that grows along the ranks, where a line explains nearly all of it."""
    ranks = len(mean)
    if ranks < FEWEST_LINEAR:
        return
    along = np.arange(ranks) - (ranks - 1) / 2
    slope = float(along @ mean / (along @ along))
    total = float(((mean - mean.mean()) ** 2).sum())
    if total <= 0 or slope**2 * float(along @ along) < LINEAR * total:
        return
    line = slope * along
    top = ranks - 1 if slope > 0 else 0
    shift = line - line.min()
    if shift[top] <= grid.least_ns:
        return
    slopes = np.sign(slope) * (along @ np.nan_to_num(centred))
    p = float(p_above(slopes[None, :])[0])
    if p <= sure:
        yield RankSet("gradient", np.array([top]), float(shift[top]), shift, p)


def _everybody(grid: Grid, centred: Float, mean: Float, sure: float) -> Iterator[RankSet]:
    """Yield the claim that each rank has its own lateness, and keeps it."""
    if len(mean) < FEWEST_LINEAR or _on_a_level(mean) >= len(mean) / 2:
        return
    shift = mean - mean.min()
    order = np.argsort(-mean, kind="stable")
    rows = order[shift[order] >= shift.max() / 2]
    if len(rows) > len(mean) / 2:
        rows = rows[: len(mean) // 2]
    if not len(rows) or shift[rows[-1]] <= grid.least_ns:
        return
    p = min(float(p_above(centred[rows]).max()) * len(mean), 1.0)
    if p <= sure:
        late = float(mean[rows[0]] - np.median(np.delete(mean, rows)))
        yield RankSet("each", rows, late, shift, p)


def _on_a_level(mean: Float) -> int:
    """Return how many ranks have nearly the same lateness."""
    values = np.sort(mean)
    reach = LEVEL * (values[-1] - values[0])
    return int((np.searchsorted(values, values + reach, "right") - np.arange(len(values))).max())
