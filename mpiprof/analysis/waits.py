"""Wait states: time that a rank spent inside only because another had not come yet.

What a rank waits for follows from when it could leave at the earliest, whatever the algorithm: the
functions of EARLIEST, after the semantics of the operation (MPI 4.1, Chapter 6; the states' names
are Scalasca's). The score of an algorithm begins there, too (score.py). Where an algorithm of ours
ran a broadcast, a reduction or the like, its schedule says more: who waits for an inner rank of a
tree waits for that one, too.

Each wait is capped by the rank's own time in the call that could wait: for a blocking operation
the call itself, for a nonblocking or started one the completing Wait, not the overlap before it.
All matrices are ranks x instances, int64 ns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.model.dependence import Dependence
from mpiprof.trace.types import Float, Int

Times = NDArray[Any]  # integers or floating-point numbers


@dataclass(frozen=True)
class Group:
    """Who is in an instance.

    side: for each row its group (0, or 0 and 1 of an inter-communicator); root: its row, -1 none;
    sources: the rows each row receives from in a process topology; idle: the rows that take no
    part (MPI_PROC_NULL); through: whom each row waits for in the algorithm that ran, where that is
    more than the operation asks for.
    """

    side: Int
    root: int = -1
    sources: tuple[Int, ...] = ()
    idle: tuple[int, ...] = ()
    through: Dependence | None = None

    @classmethod
    def of(cls, size: int, remote_size: int = 0, root: int = -1) -> Group:
        """Return the group of all members of a communicator; the remote group's rows follow."""
        return cls(np.repeat([0, 1], [size, remote_size]), root)

    @property
    def inter(self) -> bool:
        """Whether the two groups of an inter-communicator take part."""
        return bool(self.side.any())


# ---- when each rank could leave at the earliest; a row where that is the same for all


def after_all(arrival: Times, group: Group) -> Times:
    """Barrier and N x N: after the last; across an inter-communicator, of the other group."""
    if not group.inter:
        return np.asarray(arrival.max(0))
    earliest = arrival.copy()
    for side in (0, 1):
        own = group.side == side
        earliest[own] = np.maximum(arrival[own], arrival[~own].max(0))
    return earliest


def after_root(arrival: Times, group: Group) -> Times:
    """Broadcast and scatter: who receives, after the root."""
    if group.root < 0:
        return arrival
    earliest: Times = np.maximum(arrival, arrival[group.root])
    earliest[list(group.idle)] = arrival[list(group.idle)]
    return earliest


def after_senders(arrival: Times, group: Group) -> Times:
    """Reduce and gather: the root, after its last sender; who only sends, at once."""
    root = group.root
    senders = np.ones(len(arrival), np.bool_)
    senders[list(group.idle)] = False
    if root >= 0 and group.inter:
        senders &= group.side != group.side[root]
    if root < 0 or not senders.any():
        return arrival
    earliest = arrival.copy()
    earliest[root] = np.maximum(arrival[root], arrival[senders].max(0))
    return earliest


def after_those_before(arrival: Times, _: Group) -> Times:
    """Scan and exscan: after the last of the ranks up to the own one."""
    return np.asarray(np.maximum.accumulate(arrival, axis=0))


def after_sources(arrival: Times, group: Group) -> Times:
    """Neighbourhood collectives: after the last of the own sources."""
    earliest = arrival.copy()
    for row, sources in enumerate(group.sources):
        if len(sources):
            earliest[row] = np.maximum(arrival[row], arrival[sources].max(0))
    return earliest


EARLIEST = {
    "barrier": after_all,
    "nxn": after_all,
    "late_root": after_root,
    "early_root": after_senders,
    "early_scan": after_those_before,
    "neighbor": after_sources,
    "gathering": after_all,
}


def earliest(state: str, arrival: Times, group: Group) -> Times:
    """Return when each rank could leave at the earliest, in the algorithm that ran."""
    if group.through is not None:
        return group.through.latest(arrival)
    return EARLIEST[state](arrival, group)


# ---- waiting


def waits(state: str, arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Return how long each rank waited between its begin and its finish.

    A gathering may keep all members: it did where nobody left before the last had come.
    """
    wait: Int = np.minimum(earliest(state, arrival, group), finish)
    wait -= begin
    np.maximum(wait, 0, out=wait)
    if state == "gathering":
        wait[:, finish.min(0) < arrival.max(0)] = 0
    return wait


def awaited(state: str, arrival: Int, group: Group) -> Int:
    """Return the row that each row had to wait for, its own where for nobody."""
    order = np.argsort(arrival, axis=0, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(order))[:, None], axis=0)
    last = np.broadcast_to(earliest(state, place, group), place.shape)
    return np.asarray(np.take_along_axis(order, last, axis=0))


def completion_skew(begin: Int, finish: Int) -> Float:
    """Of a synchronising operation: time inside after the first had left, summed over ranks."""
    first = finish.min(0)
    skew = finish - np.maximum(first, begin)
    np.maximum(skew, 0, out=skew)
    total: Float = skew.sum(0).astype(np.float64)
    return total
