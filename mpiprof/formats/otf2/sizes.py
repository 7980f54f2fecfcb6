"""Converts the bytes of a call from Score-P's convention to mpiprof's.

Score-P counts the bytes that a process exchanges with all processes, including itself. This is n
times the vector in an allreduce and n times the contribution in an allgather. mpiprof counts the
vector and the contribution. For MPI_IN_PLACE Score-P counts only the other processes. Such sizes
are recognised because n - 1 divides them and n does not.
"""

from __future__ import annotations

import numpy as np

from mpiprof.trace.types import Bool, Int

# Operations to divide by the number of processes. The root of a broadcast receives nothing.
SENT_BY_ALL = ("allgather", "allgatherv", "allreduce", "bcast")
RECEIVED_BY_ALL = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block")


def convert_sizes(
    codes: Int,
    names: list[str],
    sent: Int,
    received: Int,
    members: Int,
    rank_in_group: Int,
    at_root: Bool,
) -> tuple[Int, Int]:
    """Return the bytes sent and received in mpiprof's convention; -1 stays unknown.

    codes: index of each call's operation in `names`. members: size of the (remote) group.
    """
    bases = [name.removesuffix("_init").removeprefix("i") for name in names]

    def of(*operations: str) -> Bool:
        matches: Bool = np.array([name in operations for name in bases], np.bool_)[codes]
        return matches

    sent = np.where(of(*SENT_BY_ALL), _share_without_own(sent, members), sent)
    received = np.where(of(*RECEIVED_BY_ALL), _share_without_own(received, members), received)
    received = np.where(of("bcast") & at_root, 0, received)
    scan, exscan = of("scan"), of("exscan")
    upwards = _divide_exactly(sent, members - rank_in_group - 1)
    downwards = _divide_exactly(received, rank_in_group)
    vector = np.where(rank_in_group + 1 < members, upwards, downwards)
    vector = np.where(scan, _divide_exactly(received, rank_in_group + 1), vector)
    received = np.where(scan | exscan, vector, received)
    received = np.where(exscan & (rank_in_group == 0), 0, received)
    return np.where(scan | exscan, vector, sent), received


def _divide_exactly(total: Int, parts: Int) -> Int:
    return np.where(total < 0, -1, total // np.maximum(parts, 1))


def _share_without_own(total: Int, members: Int) -> Int:
    other_members = np.maximum(members - 1, 1)
    in_place = (total % np.maximum(members, 1) != 0) & (total % other_members == 0)
    return _divide_exactly(total, np.where(in_place, other_members, members))
