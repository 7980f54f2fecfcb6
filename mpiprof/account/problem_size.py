"""Problem of an operation, derived from the bytes that its ranks sent and received."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpiprof.collectives.schedule import Problem
from mpiprof.facts.operations import OPERATIONS
from mpiprof.trace.types import Int

SIZED_BY_RECEIVED = ("reduce_scatter_block", "scatter")  # by the bytes that a rank receives
EXACT_BELOW = 64  # bytes; up to this limit each size is a class


def known_bytes(operation: str, sizes: tuple[int, int], sent: Int, received: Int) -> Int:
    """Return the bytes that all members know, in the convention of plans; -1 if there are none.

    sizes: sizes of the local and the remote group. sent, received: ranks x instances, -1 if
    unknown.
    """
    local_size, remote_size = sizes
    if not OPERATIONS[operation].sized or (operation == "allgatherv" and remote_size):
        return np.full(sent.shape[1], -1, np.int64)
    if operation == "alltoall":
        return np.asarray(sent.max(0) // local_size)
    if operation == "allgatherv":
        return np.asarray(np.maximum(sent, 0).sum(0))
    if operation == "bcast":
        return np.asarray(np.maximum(sent, received).max(0))
    if operation == "allgather" and remote_size:
        return np.asarray(sent[:local_size].max(0) + sent[local_size:].max(0))
    return np.asarray((received if operation in SIZED_BY_RECEIVED else sent).max(0))


def size_classes(byte_counts: Int) -> Int:
    """Return the size classes of the recorder's keys: powers of two, small sizes exact."""
    doubled = EXACT_BELOW + np.ceil(np.log2(np.maximum(byte_counts, 1))).astype(np.int64)
    return np.where(byte_counts <= EXACT_BELOW, byte_counts, doubled)


def class_span(size_class: int) -> tuple[int, int] | None:
    """Return the first and last byte count of a size class, or None for unknown sizes."""
    if size_class <= EXACT_BELOW:
        return (size_class, size_class) if size_class >= 0 else None
    last = 1 << (size_class - EXACT_BELOW)
    return max(last // 2, EXACT_BELOW) + 1, last


def make_problem(
    operation: str, sizes: tuple[int, int], root: int, sent: Int, received: Int
) -> Problem:
    """Return the problem of one instance; sent and received by rank, as in `known_bytes`.

    For an alltoallv the trace contains only each rank's totals. Messages are estimated in
    proportion to the totals of sender and receiver.
    """
    group_size, remote = sizes
    sent, received = np.maximum(sent, 0), np.maximum(received, 0)
    problem = Problem(group_size, root=max(root, 0), remote_size=remote)
    if operation == "barrier":
        return problem
    if operation == "alltoallv":
        return replace(problem, rows=_alltoallv_rows(sent, received))
    if operation in ("allgatherv", "gatherv"):
        counts = tuple(sent.tolist())
        return replace(problem, counts=counts[:group_size], remote_counts=counts[group_size:])
    if operation in ("scatterv", "reduce_scatter"):
        problem = replace(problem, counts=tuple(received.tolist()))
    elif operation == "allgather" and remote:
        local_bytes, remote_bytes = (int(s.max()) for s in (sent[:group_size], sent[group_size:]))
        problem = replace(problem, bytes=local_bytes, remote_bytes=remote_bytes)
    else:
        byte_counts = known_bytes(operation, sizes, sent[:, None], received[:, None])
        problem = replace(problem, bytes=int(byte_counts[0]))
    if OPERATIONS[operation].reduces:
        problem = replace(problem, unit=_element_size(problem))
    return problem


def _alltoallv_rows(sent: Int, received: Int) -> tuple[tuple[int, ...], ...]:
    total = float(max(received.sum(), sent.sum(), 1))
    share = sent[:, None].astype(np.float64) * received[None, :] / total
    return tuple(map(tuple, np.rint(share).astype(np.int64).tolist()))


def _element_size(problem: Problem) -> int:
    """Return the largest element size that divides all sizes. Traces do not record the type."""
    sizes = problem.counts or (problem.bytes,)
    return next(u for u in (8, 4, 2, 1) if not any(n % u for n in sizes))
