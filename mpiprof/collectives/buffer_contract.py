"""Buffer contract: contents of an operation's buffers before and after it, as labels for proofs.

A label names one element of the data: the process that contributes it and its index there. In
reductions an element is `unit` bytes, and a label's upper bits are an expression (`Expressions`).
Otherwise an element is a byte. Processes are numbered 0 .. size - 1, followed by the remote group
of an inter-communicator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.schedule import Problem
from mpiprof.facts.operations import OPERATIONS

STRIDE = 1 << 40
EMPTY = -1
SCATTERS = ("scatter", "scatterv")
GATHERS, ALLGATHERS = ("gather", "gatherv"), ("allgather", "allgatherv")
REDUCE_SCATTERS = ("reduce_scatter", "reduce_scatter_block")
REDUCTIONS = tuple(name for name, o in OPERATIONS.items() if o.reduces)
# With MPI_IN_PLACE, OUT of these operations lies within IN. For all others IN lies within OUT.
IN_PLACE_FROM_IN = (*SCATTERS, *REDUCE_SCATTERS)

Labels = NDArray[np.int64]


class ExpressionTable:
    """Interned association trees of operands; leaf r is the operand of process r."""

    def __init__(self, size: int) -> None:
        self.known: dict[tuple[int, int], int] = {}
        self.members = [1 << r for r in range(size)]  # of each tree, as bits
        self.ordered = [True] * size

    def combine(self, left: int, right: int) -> int:
        """Return the tree of left op right; raises ValueError if an operand would count twice."""
        expression = self.known.get((left, right))
        if expression is not None:
            return expression
        a, b = self.members[left], self.members[right]
        if a & b:
            twice = (a & b).bit_length() - 1
            raise ValueError(f"the operand of rank {twice} counts twice")
        # Rank order: both sides are runs of ranks, and the right one begins at the end of the left.
        follows = a.bit_length() == (b & -b).bit_length() - 1
        self.known[left, right] = len(self.members)
        self.ordered.append(self.ordered[left] and self.ordered[right] and follows)
        self.members.append(a | b)
        return len(self.members) - 1


def make_labels(process: int, length: int, start: int = 0) -> Labels:
    """Return the labels of `length` elements of a process's data, from index `start` on."""
    return process * STRIDE + np.arange(start, start + length, dtype=np.int64)


def make_block_labels(first: int, lengths: Sequence[int], starts: int | Labels = 0) -> Labels:
    """Return the joined labels of consecutive processes' data, from index `starts` of each on."""
    length = np.array(lengths, np.int64)
    begins = np.cumsum(length) - length
    processes = np.arange(first, first + len(length))
    shift = np.asarray(processes * STRIDE - begins + starts, np.int64)
    return np.repeat(shift, length) + np.arange(length.sum())


def block_sizes(problem: Problem) -> list[int]:
    """Return the bytes of each rank's block, in the local group."""
    return list(problem.counts) if problem.counts else [problem.bytes] * problem.size


def count_elements(operation: str, problem: Problem) -> int:
    """Return the number of elements of a reduction's vector."""
    scattered = operation in REDUCE_SCATTERS
    return (sum(block_sizes(problem)) if scattered else problem.bytes) // problem.unit


def mirror_problem(problem: Problem) -> Problem:
    """Return an inter-communicator's problem as seen by the remote group."""
    return replace(
        problem,
        size=problem.remote_size,
        remote_size=problem.size,
        bytes=problem.remote_bytes,
        remote_bytes=problem.bytes,
        counts=problem.remote_counts,
        remote_counts=problem.counts,
        first_group=not problem.first_group,
    )


def list_groups(problem: Problem) -> list[tuple[Problem, int, int]]:
    """Return each group's problem, and the first process of the group and of its remote group."""
    groups = [(problem, 0, problem.size)]
    if problem.remote_size:
        groups.append((mirror_problem(problem), problem.size, 0))
    return groups


def initial_contents(operation: str, problem: Problem, rank: int, process: int) -> Labels:
    """Return the initial contents of IN (for bcast: of OUT at the root)."""
    p, length = problem, 0
    if operation in REDUCTIONS:
        length = count_elements(operation, p)
    elif operation == "alltoall":
        length = p.bytes * p.size
    elif operation == "alltoallv":
        length = sum(p.rows[rank])
    elif operation in SCATTERS and rank == p.root:
        length = sum(block_sizes(p))
    elif operation in (*GATHERS, *ALLGATHERS):
        length = block_sizes(p)[rank]
    return make_labels(process, length)


def required_contents(operation: str, problem: Problem, rank: int) -> Labels:
    """Return the required contents of OUT at the end; for reductions, only the indices."""
    p = problem
    if operation == "bcast":
        return make_labels(p.root, p.bytes)
    if operation == "allreduce" or (operation == "reduce" and rank == p.root):
        return make_labels(0, p.bytes // p.unit)
    if operation in REDUCE_SCATTERS:
        parts = [n // p.unit for n in block_sizes(p)]
        return make_labels(0, parts[rank], sum(parts[:rank]))
    if operation == "alltoall":
        return make_block_labels(0, [p.bytes] * p.size, rank * p.bytes)
    if operation == "alltoallv":
        before = np.array([sum(row[:rank]) for row in p.rows], np.int64)
        return make_block_labels(0, [row[rank] for row in p.rows], before)
    if operation in SCATTERS:
        sizes = block_sizes(p)
        return make_labels(p.root, sizes[rank], sum(sizes[:rank]))
    if operation in ALLGATHERS and p.remote_size:
        return make_block_labels(p.size if p.first_group else 0, block_sizes(mirror_problem(p)))
    if operation in ALLGATHERS or (operation in GATHERS and rank == p.root):
        return make_block_labels(0, block_sizes(p))
    return make_labels(0, 0)


def make_buffers(
    operation: str, problem: Problem, rank: int, process: int, in_place: bool
) -> tuple[Labels, Labels]:
    """Return the initial IN and OUT; with in_place, one is a slice of the other."""
    initial = initial_contents(operation, problem, rank, process)
    required = required_contents(operation, problem, rank)
    filled = operation == "bcast" and rank == problem.root
    out = required if filled else np.full_like(required, EMPTY)
    block = find_in_place_block(operation, problem, rank) if in_place else None
    if block is None:
        return initial, out
    offset, length = block
    if operation in IN_PLACE_FROM_IN:
        return initial, initial[offset : offset + length]
    shared = out[offset : offset + length]
    shared[:] = initial
    return shared, out


def find_in_place_block(operation: str, problem: Problem, rank: int) -> tuple[int, int] | None:
    """Return offset and length of IN's block in OUT with MPI_IN_PLACE; None if not applicable.

    For operations in IN_PLACE_FROM_IN it is the reverse: offset and length of OUT's block in IN.
    """
    if problem.remote_size:
        return None
    at_root = rank == problem.root
    if operation in ALLGATHERS or (operation in (*GATHERS, *SCATTERS) and at_root):
        sizes = block_sizes(problem)
        return sum(sizes[:rank]), sizes[rank]
    if operation == "allreduce" or (operation == "reduce" and at_root):
        return 0, problem.bytes // problem.unit
    if operation in REDUCE_SCATTERS:
        return 0, block_sizes(problem)[rank] // problem.unit
    return None
