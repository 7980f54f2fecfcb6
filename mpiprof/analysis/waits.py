"""Wait states: time that a rank spent inside only because another had not come yet.

Each wait is capped by the rank's own time in the call that could wait: for a blocking operation
the call itself, for a nonblocking or started one the completing Wait, not the overlap before it.
All matrices are ranks x instances, int64 ns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Float, Int


@dataclass(frozen=True)
class Group:
    """Who is in an instance.

    side: for each row its group (0, or 0 and 1 of an inter-communicator); root: its row, -1 none;
    sources: the rows each row receives from in a process topology; idle: the rows that take no
    part (MPI_PROC_NULL).
    """

    side: Int
    root: int = -1
    sources: tuple[Int, ...] = ()
    idle: tuple[int, ...] = ()

    @property
    def inter(self) -> bool:
        """Whether the two groups of an inter-communicator take part."""
        return bool(self.side.any())


def _blocked(cause: Int, begin: Int, finish: Int) -> Int:
    """Time from begin until the cause came, never more than the time inside."""
    wait = np.minimum(cause, finish)
    wait -= begin
    np.maximum(wait, 0, out=wait)
    return wait


def wait_all(arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Barrier and N x N: wait for the last; across an inter-communicator, of the other group."""
    if not group.inter:
        return _blocked(arrival.max(0), begin, finish)
    wait = np.zeros_like(arrival)
    for side in (0, 1):
        own, other = group.side == side, group.side != side
        wait[own] = _blocked(arrival[other].max(0), begin[own], finish[own])
    return wait


def wait_late_root(arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Broadcast and scatter: the receivers wait for the root."""
    if group.root < 0:
        return np.zeros_like(arrival)
    wait = _blocked(arrival[group.root], begin, finish)
    wait[group.root] = 0
    wait[list(group.idle)] = 0
    return wait


def wait_early_root(arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Reduce and gather: the root waits for its last sender."""
    wait = np.zeros_like(arrival)
    root = group.root
    senders = np.ones(len(arrival), np.bool_)
    if root >= 0:
        senders[root] = False
        senders[list(group.idle)] = False
        if group.inter:
            senders &= group.side != group.side[root]
    if root >= 0 and senders.any():
        wait[root] = _blocked(arrival[senders].max(0), begin[root], finish[root])
    return wait


def wait_early_scan(arrival: Int, begin: Int, finish: Int, _: Group) -> Int:
    """Scan and exscan: each rank waits for the last of those before it."""
    wait = np.zeros_like(arrival)
    if len(arrival) > 1:
        before = np.maximum.accumulate(arrival[:-1], axis=0)
        wait[1:] = _blocked(before, begin[1:], finish[1:])
    return wait


def wait_neighbors(arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Neighbourhood collectives: each rank waits for the last of its sources."""
    wait = np.zeros_like(arrival)
    for row, sources in enumerate(group.sources):
        if len(sources):
            wait[row] = _blocked(arrival[sources].max(0), begin[row], finish[row])
    return wait


def wait_gathering(arrival: Int, begin: Int, finish: Int, group: Group) -> Int:
    """Calls that may keep all members: they did where nobody left before the last had come."""
    kept = finish.min(0) >= arrival.max(0)
    return np.where(kept, wait_all(arrival, begin, finish, group), 0)


STATE_FUNCTIONS = {
    "barrier": wait_all,
    "nxn": wait_all,
    "late_root": wait_late_root,
    "early_root": wait_early_root,
    "early_scan": wait_early_scan,
    "neighbor": wait_neighbors,
    "gathering": wait_gathering,
}


def completion_skew(begin: Int, finish: Int) -> Float:
    """Of a synchronising operation: time inside after the first had left, summed over ranks."""
    first = finish.min(0)
    skew = finish - np.maximum(first, begin)
    np.maximum(skew, 0, out=skew)
    total: Float = skew.sum(0).astype(np.float64)
    return total
