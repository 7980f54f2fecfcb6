"""One clock for all nodes: an affine model for each node, and a bound on its error.

If a node's clock reads `local`, the joint clock (of rank 0's node) reads local + offset. The offset
changes linearly with time. Two sources bound the offset at a moment. One is a round trip that the
recorder measured (offset ± error). The other is every synchronising operation: no rank leaves it
before the last arrival, so each exit on node B is no earlier than each arrival on A. All straight
lines within all bounds form a polygon in the plane (offset at the begin, offset at the end). The
model is the polygon's middle, and the printed error is half its width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.trace.batch import Batch
from mpiprof.trace.types import Bool, Float, Int, Problems

MAX_DRIFT = 5e-4  # largest drift of a clock that is being slewed
TIME_BUCKETS = 64
UNKNOWN_ERROR_NS = 10**9  # assumed spread of the exits from MPI_Init, if clocks were never compared


@dataclass(frozen=True)
class Clock:
    """offset(t) = offset_ns + drift * (t - origin_ns) for a local time t; error in ns."""

    origin_ns: int = 0
    offset_ns: int = 0
    drift: float = 0.0
    error_ns: int = 0

    @property
    def is_identity(self) -> bool:
        """True for the joint clock itself."""
        return self.offset_ns == 0 and self.drift == 0.0

    def to_global(self, local: Int) -> Int:
        """Convert local times (int64 ns) to the joint clock."""
        if self.drift == 0.0:
            return local + self.offset_ns
        moved: Int = np.rint((local - self.origin_ns) * self.drift).astype(np.int64)
        moved += local + self.offset_ns
        return moved

    def offset_at(self, local: int) -> int:
        """Return the offset in ns at a local time."""
        return self.offset_ns + round(self.drift * (local - self.origin_ns))


@dataclass
class Bounds:
    """Bounds of a node's offset. At local time `local_ns`, offset >= value (lower) or <= value."""

    local_ns: Int
    value: Int
    lower: Bool

    @staticmethod
    def make_empty() -> Bounds:
        """Return an object without bounds."""
        return Bounds(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))

    def combine(self, other: Bounds) -> Bounds:
        """Return both objects' bounds together."""
        return Bounds(
            np.concatenate([self.local_ns, other.local_ns]),
            np.concatenate([self.value, other.value]),
            np.concatenate([self.lower, other.lower]),
        )


def _select_tightest(local_ns: Int, value: Int, lower: bool) -> Bounds:
    """Return the tightest of many bounds on one side, for each of TIME_BUCKETS intervals."""
    first, last = int(local_ns.min()), int(local_ns.max())
    bucket = ((local_ns - first) * TIME_BUCKETS // max(last - first + 1, 1)).astype(np.int64)
    order = np.lexsort((-value if lower else value, bucket))
    tightest = order[np.unique(bucket[order], return_index=True)[1]]
    return Bounds(local_ns[tightest], value[tightest], np.full(len(tightest), lower))


def compute_instance_bounds(
    batches: Iterable[Batch], synchronising: Bool, node_of: Mapping[int, str], reference: str
) -> dict[str, Bounds]:
    """Return the bounds of each node's offset from synchronising instances, in local times.

    `synchronising`: for each shape, whether its operation synchronises all members.
    """
    bounds_of_node: dict[str, Bounds] = {}
    for batch in batches:
        ranks = batch.communicator.ranks.tolist()
        rows: dict[str, list[int]] = {}
        for row, rank in enumerate(ranks):
            rows.setdefault(node_of.get(rank, "?"), []).append(row)
        if batch.communicator.is_inter or reference not in rows or len(rows) < 2:
            continue
        chosen = synchronising[batch.shape].all(0) & (batch.shape >= 0).all(0)
        open_ = batch.exit_ns == 0
        # No rank has left a call that is still open, so only its arrival is a bound.
        leave = np.where(open_, np.iinfo(np.int64).max, batch.exit_ns)
        if not chosen.any():
            continue
        home_last = batch.arrival_ns[rows[reference]].max(0)
        home_first = leave[rows[reference]].min(0)
        for node, members in rows.items():
            if node in (reference, "?"):
                continue
            first_out, last_in = leave[members].min(0), batch.arrival_ns[members].max(0)
            bounds = bounds_of_node.get(node, Bounds.make_empty())
            left = chosen & (first_out != np.iinfo(np.int64).max)
            if left.any():
                at = first_out[left]
                bounds = bounds.combine(_select_tightest(at, home_last[left] - at, lower=True))
            left = chosen & (home_first != np.iinfo(np.int64).max)
            if left.any():
                at = last_in[left]
                bounds = bounds.combine(_select_tightest(at, home_first[left] - at, lower=False))
            bounds_of_node[node] = _thin_bounds(bounds)
    return bounds_of_node


def _thin_bounds(bounds: Bounds) -> Bounds:
    if len(bounds.local_ns) < 64 * TIME_BUCKETS:
        return bounds
    thinned = Bounds.make_empty()
    for lower in (True, False):
        side = bounds.lower == lower
        if side.any():
            thinned = thinned.combine(
                _select_tightest(bounds.local_ns[side], bounds.value[side], lower)
            )
    return thinned


def _clip_polygon(polygon: Float, normal: Float, limit: float) -> Float:
    """Return the part of a convex polygon (n x 2) with normal . point <= limit."""
    inside = polygon @ normal - limit
    if (inside <= 0).all():
        return polygon
    after = np.roll(polygon, -1, axis=0)
    inside_after = np.roll(inside, -1)
    points = []
    for p, q, a, b in zip(polygon, after, inside.tolist(), inside_after.tolist(), strict=True):
        if a <= 0:
            points.append(p)
        if (a < 0 < b) or (b < 0 < a):
            points.append(p + (q - p) * (a / (a - b)))
    return np.array(points) if points else np.zeros((0, 2))


def _feasible_offsets(bounds: Bounds, span: tuple[int, int], base: int, slack: float) -> Float:
    """Return the polygon of all (offset at begin, offset at end) within the bounds, less `base`."""
    begin, end = span
    length = max(end - begin, 1)
    far = 4.0 * float(np.abs(bounds.value - base).max(initial=0)) + 4 * MAX_DRIFT * length + 1e3
    polygon = np.array([[-far, -far], [far, -far], [far, far], [-far, far]])
    for sign in (1.0, -1.0):
        polygon = _clip_polygon(polygon, np.array([-sign, sign]), MAX_DRIFT * length + 1)
    s = (bounds.local_ns - begin) / length
    value = (bounds.value - base).astype(np.float64)
    for x, v, lower in zip(s.tolist(), value.tolist(), bounds.lower.tolist(), strict=True):
        normal = np.array([1.0 - x, x])
        sign = -1.0 if lower else 1.0
        polygon = _clip_polygon(polygon, sign * normal, sign * v + slack)
        if not len(polygon):
            break
    return polygon


def fit(bounds: Bounds, span: tuple[int, int]) -> Clock | None:
    """Return the clock in the middle of the bounds over the span.

    Returns None if there are no bounds on one of the two sides. If no straight line satisfies all
    bounds (a clock with a changed rate), the bounds are widened until a line does. The widening is
    part of the error.
    """
    if not bounds.lower.any() or bounds.lower.all():
        return None
    base = int(np.median(bounds.value))
    slack = 0.0
    for _ in range(70):
        polygon = _feasible_offsets(bounds, span, base, slack)
        if len(polygon):
            break
        slack = max(2.0 * slack, 1.0)
    else:
        return None
    low, high = polygon.min(0), polygon.max(0)
    middle = (low + high) / 2
    drift = float(middle[1] - middle[0]) / max(span[1] - span[0], 1)
    error = float((high - low).max()) / 2 + slack
    return Clock(span[0], base + round(float(middle[0])), drift, int(np.ceil(error)))


def _round_trip_bounds(lines: list[dict[str, Any]], parent: Clock) -> Bounds:
    """Return the bounds from the recorder's round trips to a node with a known clock."""
    at, value, lower = [], [], []
    for line in lines:
        there = line["at_ns"] + line["offset_ns"]
        offset = line["offset_ns"] + parent.offset_at(there)
        error = line["error_ns"] + parent.error_ns
        at += [line["at_ns"]] * 2
        value += [offset - error, offset + error]
        lower += [True, False]
    return Bounds(np.array(at, np.int64), np.array(value, np.int64), np.array(lower, np.bool_))


def build_clocks(
    lines: list[dict[str, Any]],
    node_of: Mapping[int, str],
    reference: str,
    spans: Mapping[str, tuple[int, int]],
    bounds: Mapping[str, Bounds],
    problems: Problems,
) -> dict[str, Clock]:
    """Return a clock for every node of `spans` (first and last local time), along the tree."""
    clocks = {reference: Clock()}
    of_node: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        of_node.setdefault(line["node"], []).append(line)
    waiting = [node for node in spans if node != reference]
    while waiting:
        # Nodes with a known partner clock come first. Without any, instances are the only source.
        ready = [
            n
            for n in waiting
            if all(node_of.get(x["reference"]) in clocks for x in of_node.get(n, []))
        ] or waiting
        for node in ready:
            known = Bounds.make_empty()
            for line in of_node.get(node, []):
                parent = clocks.get(node_of.get(line["reference"], "?"))
                if parent is not None:
                    known = known.combine(_round_trip_bounds([line], parent))
            clock = fit(known.combine(bounds.get(node, Bounds.make_empty())), spans[node])
            if clock is None:
                offset = spans[reference][0] - spans[node][0]
                length = spans[node][1] - spans[node][0]
                clock = Clock(0, offset, 0.0, UNKNOWN_ERROR_NS + int(MAX_DRIFT * length))
                problems.add(
                    f"node {node}: its clock was never compared with other nodes, so "
                    "differences between nodes are unreliable"
                )
            clocks[node] = clock
        waiting = [node for node in waiting if node not in clocks]
    return clocks


def shared_clock_identities(names: list[str], error_ns: int) -> dict[str, Clock]:
    """Return the clocks of nodes that share one clock already, with an error between two nodes."""
    return {name: Clock(error_ns=error_ns if i == 0 else 0) for i, name in enumerate(names)}


def make_identity_clocks(
    clocks: Mapping[str, Clock], spans: Mapping[str, tuple[int, int]]
) -> dict[str, Clock]:
    """Return identity clocks for nodes with times corrected by another tool, with their errors.

    The error of a node is the largest difference from the clock that the bounds allow, at either
    end of its span.
    """
    lacks = {
        name: max(abs(clock.offset_at(at)) for at in spans[name]) + clock.error_ns
        for name, clock in clocks.items()
    }
    return {name: Clock(error_ns=lack) for name, lack in lacks.items()}
