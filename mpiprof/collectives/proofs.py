"""Proofs of an algorithm: the set of problems to verify, and the result.

For each number of processes the problems cover:
- every root (of many processes the first, one in the middle and the last);
- sizes that do not divide, size zero, contributions of zero bytes, each value of each parameter;
- MPI_IN_PLACE if the operation has it;
- on an inter-communicator, groups of unequal size, seen from either side.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mpiprof.collectives.buffer_contract import REDUCTIONS, find_in_place_block
from mpiprof.collectives.catalogue import Algorithm, applies_to_size, parse_parameters
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.verify import BrokenScheduleError, verify
from mpiprof.facts.operations import OPERATIONS

PROVED_SIZES = (*range(1, 18), 24, 31, 32, 33)
ALL_ROOTS_BELOW = 8  # maximum number of processes for which every rank is tried as root
MAX_SMALL_SIZE = 17  # maximum number of processes for which long vectors are tried
ELEMENT_BYTES = 8
LONG_VECTOR = 1000  # elements
BLOCK_SIZES = (7, 64)


@dataclass(frozen=True)
class Proofs:
    """Proved problems and numbers of processes; `failure` is the fault that ended it, or ""."""

    algorithm: Algorithm
    processes: tuple[int, ...]
    roots: int
    least_bytes: int
    most_bytes: int
    problems: int
    failure: str = ""

    def as_row(self) -> dict[str, Any]:
        """Return the result as data."""
        a, row = self.algorithm, dict(vars(self))
        del row["algorithm"]
        names = {"operation": a.operation, "algorithm": a.name}
        return names | {"intercommunicator": a.intercommunicator} | row


def prove(algorithm: Algorithm, sizes: Sequence[int] = PROVED_SIZES) -> Proofs:
    """Prove an algorithm on all problems for some numbers of processes, until a proof fails."""
    done: list[int] = []
    roots: set[tuple[int, int]] = set()
    lengths: set[int] = set()
    count, failure = 0, ""
    try:
        for size in (size for size in sizes if applies_to_size(algorithm, size)):
            for problem in make_problems(algorithm, size):
                verify(algorithm, problem)
                count += 1
                if find_in_place_block(algorithm.operation, problem, problem.root) is not None:
                    verify(algorithm, problem, in_place=True)
                    count += 1
                roots.add((size, problem.root))
                lengths.add(problem_bytes(problem))
            done.append(size)
    except BrokenScheduleError as error:
        failure = str(error)
    several = len(roots) if OPERATIONS[algorithm.operation].rooted else 0
    smallest, largest = min(lengths, default=0), max(lengths, default=0)
    return Proofs(algorithm, tuple(done), several, smallest, largest, count, failure)


def problem_bytes(problem: Problem) -> int:
    """Return the bytes of a problem: of its vector or block, or of all contributions."""
    if problem.rows:
        return sum(map(sum, problem.rows))
    return sum((*problem.counts, *problem.remote_counts)) or problem.bytes


def make_problems(algorithm: Algorithm, size: int) -> Iterator[Problem]:
    """Yield the problems for `size` processes, with each value of the algorithm's parameters."""
    plain = inter_problems if algorithm.intercommunicator else intra_problems
    for i, problem in enumerate(plain(algorithm.operation, size)):
        yield from vary_parameters(algorithm, problem, i)


def vary_parameters(algorithm: Algorithm, problem: Problem, number: int) -> Iterator[Problem]:
    """Yield a problem with a block size and, alternating by problem, with other parameters."""
    values = parse_parameters(algorithm)
    if "block_size" in values:  # similar numbers of blocks in long and short messages
        long = problem_bytes(problem) > ELEMENT_BYTES * MAX_SMALL_SIZE
        problem = replace(problem, block_size=BLOCK_SIZES[long], equal_blocks=number % 2 == 1)
    late = {0, number % problem.size, problem.size - 1} if "late" in values else {0}
    for rank, order in product(sorted(late), values.get("order", ("ranks",))):
        nodes = tuple(rank * 3 % 4 for rank in range(problem.size)) if order != "ranks" else ()
        yield replace(problem, late=rank, order=order, nodes=nodes)


def intra_problems(operation: str, size: int) -> Iterator[Problem]:
    """Yield problems of an operation on one group."""
    if operation == "barrier":
        yield Problem(size)
        return
    for root in roots_to_prove(operation, size):
        if operation == "alltoallv":
            yield from make_matrices(size)
        elif operation.endswith("v") or operation == "reduce_scatter":
            unit = ELEMENT_BYTES if operation == "reduce_scatter" else 1
            for counts in irregular_counts(size, root):
                yield Problem(size, root=root, unit=unit, counts=tuple(unit * n for n in counts))
        elif operation in REDUCTIONS:
            for i, n in enumerate(vector_lengths(size)):
                unit = ELEMENT_BYTES if (size + i) % 2 else 1
                yield Problem(size, unit * n, root, unit=unit)
        else:
            blocks = [0, 1, 5, *([LONG_VECTOR] if size <= ALL_ROOTS_BELOW else [])]
            for n in vector_lengths(size) if operation == "bcast" else blocks:
                yield Problem(size, n, root)


def inter_problems(operation: str, size: int) -> Iterator[Problem]:
    """Yield problems of an operation on two groups, the first with `size` processes."""
    for i, remote_size in enumerate(sorted({1, size // 2 + 1, size + 3})):
        problem = Problem(size, remote_size=remote_size, first_group=(size + i) % 2 == 0)
        if operation.endswith("v"):
            both = zip(irregular_counts(size, 0), irregular_counts(remote_size, 1), strict=True)
            for counts, remote_counts in both:
                yield replace(problem, counts=counts, remote_counts=remote_counts)
            continue
        for local_bytes, remote_bytes in ((0, 5), (1, 1), (20, 13)):
            yield replace(problem, bytes=local_bytes, remote_bytes=remote_bytes)


def roots_to_prove(operation: str, size: int) -> list[int]:
    """Return the roots to prove an operation with."""
    if not OPERATIONS[operation].rooted:
        return [0]
    return list(range(size)) if size <= ALL_ROOTS_BELOW else [0, size // 2 + 1, size - 1]


def vector_lengths(size: int) -> list[int]:
    """Return vector lengths: 0, fewer than and as many as processes, and long without dividing."""
    return sorted({0, 1, size - 1, size, LONG_VECTOR if size <= MAX_SMALL_SIZE else size + 1})


def irregular_counts(size: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield contributions: some zero, none zero, all but one zero, all zero."""
    dice = random.Random(1000 * size + seed)
    yield tuple(dice.randint(1, 9) * dice.randint(0, 1) for _ in range(size))
    yield tuple(dice.randint(1, 9) for _ in range(size))
    index = dice.randrange(size)
    yield tuple(40 * (rank == index) for rank in range(size))
    yield (0,) * size


def make_matrices(size: int) -> Iterator[Problem]:
    """Yield bytes between all pairs of ranks: random with zeros, and all zero."""
    dice = random.Random(size)
    for largest in (30, 0):
        drawn = [dice.randint(0, largest) * dice.randint(0, 1) for _ in range(size * size)]
        yield Problem(size, rows=tuple(tuple(drawn[i : i + size]) for i in range(0, size**2, size)))
