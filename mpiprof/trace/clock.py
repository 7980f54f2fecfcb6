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
from numpy.typing import ArrayLike

from mpiprof.trace.batch import Batch
from mpiprof.trace.types import Array, Bool, Float, Int, Problems

MAX_DRIFT = 5e-4  # largest drift of a clock that is being slewed
TIME_BUCKETS = 64
NEVER = np.iinfo(np.int64).max
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

    def to_local(self, joint: int) -> int:
        """Return the local time at a time of the joint clock, to about a nanosecond."""
        local = joint - self.offset_ns
        for _ in range(2 if self.drift else 0):  # a step divides the error by more than 1000
            local = joint - self.offset_at(local)
        return local

    def offset_at(self, local: int) -> int:
        """Return the offset in ns at a local time."""
        return self.offset_ns + round(self.drift * (local - self.origin_ns))


# A bound of a node's offset: at local time `local_ns`, offset >= value (lower) or <= value.
BOUND = np.dtype([("local_ns", "<i8"), ("value", "<i8"), ("lower", "?")])
NO_BOUNDS: Array = np.zeros(0, BOUND)


def make_bounds(local_ns: ArrayLike, value: ArrayLike, lower: ArrayLike) -> Array:
    """Return bounds as an array of BOUND; `lower` may be one value for all."""
    bounds: Array = np.empty(np.shape(local_ns), BOUND)
    bounds["local_ns"], bounds["value"], bounds["lower"] = local_ns, value, lower
    return bounds


def _select_tightest(bounds: Array) -> Array:
    """Return the tightest of some bounds on one side, for each of TIME_BUCKETS intervals."""
    local_ns, value = bounds["local_ns"], bounds["value"]
    first, last = int(local_ns.min()), int(local_ns.max())
    bucket = ((local_ns - first) * TIME_BUCKETS // max(last - first + 1, 1)).astype(np.int64)
    order = np.lexsort((-value if bounds["lower"][0] else value, bucket))
    return bounds[order[np.unique(bucket[order], return_index=True)[1]]]


def compute_instance_bounds(
    batches: Iterable[Batch], synchronising: Bool, node_of: Mapping[int, str], reference: str
) -> dict[str, Array]:
    """Return the bounds of each node's offset from synchronising instances, in local times.

    `synchronising`: for each shape, whether its operation synchronises all members.
    """
    bounds_of_node: dict[str, Array] = {}
    for batch in batches:
        rows: dict[str, list[int]] = {}
        for row, rank in enumerate(batch.communicator.ranks.tolist()):
            rows.setdefault(node_of.get(rank, "?"), []).append(row)
        if batch.communicator.is_inter or reference not in rows or len(rows) < 2:
            continue
        chosen = synchronising[batch.shape].all(0) & (batch.shape >= 0).all(0)
        if not chosen.any():
            continue
        # No rank has left a call that is still open, so only its arrival is a bound.
        leave = np.where(batch.exit_ns == 0, NEVER, batch.exit_ns)
        home = rows.pop(reference)
        home_last, home_first = batch.arrival_ns[home].max(0), leave[home].min(0)
        rows.pop("?", None)
        for node, members in rows.items():
            first_out, last_in = leave[members].min(0), batch.arrival_ns[members].max(0)
            bounds = bounds_of_node.get(node, NO_BOUNDS)
            for at, limit, lower in ((first_out, home_last, True), (last_in, home_first, False)):
                usable = chosen & (at != NEVER) & (limit != NEVER)
                if usable.any():
                    side = make_bounds(at[usable], limit[usable] - at[usable], lower)
                    bounds = np.concatenate([bounds, _select_tightest(side)])
            bounds_of_node[node] = _thin_bounds(bounds)
    return bounds_of_node


def _thin_bounds(bounds: Array) -> Array:
    if len(bounds) < 64 * TIME_BUCKETS:
        return bounds
    sides = [bounds[bounds["lower"] == lower] for lower in (True, False)]
    return np.concatenate([_select_tightest(side) for side in sides if len(side)])


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


def _feasible_offsets(bounds: Array, span: tuple[int, int], base: int, slack: float) -> Float:
    """Return the polygon of all (offset at begin, offset at end) within the bounds, less `base`."""
    begin, end = span
    length = max(end - begin, 1)
    value = bounds["value"] - base
    far = 4.0 * float(np.abs(value).max(initial=0)) + 4 * MAX_DRIFT * length + 1e3
    polygon = np.array([[-far, -far], [far, -far], [far, far], [-far, far]])
    for sign in (1.0, -1.0):
        polygon = _clip_polygon(polygon, np.array([-sign, sign]), MAX_DRIFT * length + 1)
    position = (bounds["local_ns"] - begin) / length
    sides = np.where(bounds["lower"], -1.0, 1.0)
    for x, v, sign in zip(position.tolist(), value.tolist(), sides.tolist(), strict=True):
        polygon = _clip_polygon(polygon, sign * np.array([1.0 - x, x]), sign * v + slack)
        if not len(polygon):
            break
    return polygon


def fit(bounds: Array, span: tuple[int, int]) -> Clock | None:
    """Return the clock in the middle of the bounds over the span.

    Returns None if there are no bounds on one of the two sides. If no straight line satisfies all
    bounds (a clock with a changed rate), the bounds are widened until a line does. The widening is
    part of the error.
    """
    if not bounds["lower"].any() or bounds["lower"].all():
        return None
    base = int(np.median(bounds["value"]))
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


def _round_trip_bounds(line: dict[str, Any], parent: Clock) -> Array:
    """Return the bounds from one of the recorder's round trips to a node with a known clock."""
    offset = line["offset_ns"] + parent.offset_at(line["at_ns"] + line["offset_ns"])
    error = line["error_ns"] + parent.error_ns
    return make_bounds([line["at_ns"]] * 2, [offset - error, offset + error], [True, False])


def build_clocks(
    lines: list[dict[str, Any]],
    node_of: Mapping[int, str],
    reference: str,
    spans: Mapping[str, tuple[int, int]],
    bounds: Mapping[str, Array],
    problems: Problems,
) -> dict[str, Clock]:
    """Return a clock for every node of `spans` (first and last local time), along the tree."""
    clocks = {reference: Clock()}
    of_node: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        of_node.setdefault(line["node"], []).append(line)
    waiting = [node for node in spans if node != reference]
    partners = {n: [node_of.get(x["reference"]) for x in of_node.get(n, [])] for n in waiting}
    while waiting:
        # Nodes with a known partner clock come first. Without any, instances are the only source.
        ready = [n for n in waiting if all(p in clocks for p in partners[n])] or waiting
        for node in ready:
            known = []
            for line in of_node.get(node, []):
                parent = clocks.get(node_of.get(line["reference"], "?"))
                if parent is not None:
                    known.append(_round_trip_bounds(line, parent))
            clock = fit(np.concatenate([*known, bounds.get(node, NO_BOUNDS)]), spans[node])
            if clock is None:
                offset = spans[reference][0] - spans[node][0]
                length = spans[node][1] - spans[node][0]
                clock = Clock(0, offset, 0.0, UNKNOWN_ERROR_NS + int(MAX_DRIFT * length))
                defect = "its clock was never compared with other nodes"
                problems.add(f"node {node}: {defect}, so differences between nodes are unreliable")
            clocks[node] = clock
        waiting = [node for node in waiting if node not in clocks]
    return clocks


def make_identity_clocks(
    clocks: Mapping[str, Clock], spans: Mapping[str, tuple[int, int]]
) -> dict[str, Clock]:
    """Return identity clocks for nodes with times corrected by another tool, with their errors."""
    identities = {}
    for name, clock in clocks.items():  # the bounds allow this difference, at either end
        difference_ns = max(abs(clock.offset_at(at)) for at in spans[name])
        identities[name] = Clock(error_ns=difference_ns + clock.error_ns)
    return identities
