"""Wait states: time that a rank spent in a call only because another rank had not arrived yet.

A rank waits until its earliest possible exit, whatever the algorithm. The functions in EARLIEST
compute this exit from the semantics of the operation (MPI 4.1, Chapter 6; state names as in
Scalasca). The score of an algorithm begins at the same time (metrics/algorithm_score.py). If
mpiprof's own algorithm ran a broadcast, reduction or similar, its schedule gives more. In a tree, a
rank also waits for the inner ranks that its data passes through.
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
    """Members of an instance and their roles.

    - side: group of each row (0, or 0 and 1 of an inter-communicator).
    - root: row of the root, or -1.
    - sources: rows that each row receives from in a process topology.
    - idle: rows that take no part (MPI_PROC_NULL).
    - through: rows that each row waits for in the algorithm that ran, if these are more than the
      operation requires.
    """

    side: Int
    root: int = -1
    sources: tuple[Int, ...] = ()
    idle: tuple[int, ...] = ()
    through: Dependence | None = None

    @classmethod
    def of(cls, size: int, remote_size: int = 0, root: int = -1) -> Group:
        """Return the group of all members of a communicator; rows of a remote group come last."""
        return cls(np.repeat([0, 1], [size, remote_size]), root)

    @property
    def inter(self) -> bool:
        """Return whether both groups of an inter-communicator take part."""
        return bool(self.side.any())


# ---- earliest possible exit of each rank; a single row if it is equal for all ranks


def after_all(arrival: Times, group: Group) -> Times:
    """Barrier and N x N: the last arrival, in an inter-communicator that of the other group."""
    if not group.inter:
        return np.asarray(arrival.max(0))
    earliest = arrival.copy()
    for side in (0, 1):
        own = group.side == side
        earliest[own] = np.maximum(arrival[own], arrival[~own].max(0))
    return earliest


def after_root(arrival: Times, group: Group) -> Times:
    """Broadcast and scatter: the root's arrival, for receiving ranks."""
    if group.root < 0:
        return arrival
    earliest: Times = np.maximum(arrival, arrival[group.root])
    earliest[list(group.idle)] = arrival[list(group.idle)]
    return earliest


def after_senders(arrival: Times, group: Group) -> Times:
    """Reduce and gather: the last sender's arrival for the root, its own arrival for a sender."""
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
    """Scan and exscan: the last arrival of the ranks up to the rank itself."""
    return np.asarray(np.maximum.accumulate(arrival, axis=0))


def after_sources(arrival: Times, group: Group) -> Times:
    """Neighbourhood collectives: the last arrival of the rank's sources."""
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
    """Return the earliest possible exit of each rank, in the algorithm that ran."""
    if group.through is not None:
        return group.through.latest(arrival)
    return EARLIEST[state](arrival, group)


# ---- waits


def waits(state: str, arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Return the wait of each rank between its begin and its finish.

    A gathering may synchronise all members. It did so if no rank left before the last arrival.
    """
    wait: Int = np.minimum(earliest(state, arrival, group), finish)
    wait -= begin
    np.maximum(wait, 0, out=wait)
    if state == "gathering":
        wait[:, finish.min(0) < arrival.max(0)] = 0
    return wait


def awaited(state: str, arrival: Int, group: Group) -> Int:
    """Return the row that each row had to wait for, or the row itself if it waits for none."""
    order = np.argsort(arrival, axis=0, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(order))[:, None], axis=0)
    last = np.broadcast_to(earliest(state, place, group), place.shape)
    return np.asarray(np.take_along_axis(order, last, axis=0))


def completion_skew(begin: Int, finish: Int) -> Float:
    """Return time in a synchronising operation after the first exit, summed over ranks."""
    first = finish.min(0)
    skew = finish - np.maximum(first, begin)
    np.maximum(skew, 0, out=skew)
    total: Float = skew.sum(0).astype(np.float64)
    return total
