"""The cost formulas of exchanges and reductions, against what the proof measures."""

from __future__ import annotations

import random

import pytest

from mpiprof.errors import MpiprofError
from mpiprof.model.cost import COSTS, Cost, cost
from mpiprof.model.layout import REDUCTIONS
from mpiprof.model.rounds import is_power_of_two
from mpiprof.model.schedule import Algorithm, Problem, catalogue, find
from mpiprof.model.verify import verify

SIZES = [*range(1, 14), 16, 17, 24, 27, 32, 33]
OPERATIONS = ("alltoall", "alltoallv", *REDUCTIONS)


def problem_for(algorithm: Algorithm, size: int) -> Problem:
    """Make a problem that all parts of halvings divide."""
    operation, dice = algorithm.operation, random.Random(size)
    if operation == "alltoall":
        return Problem(size, 3)
    if operation == "alltoallv":
        rows = [tuple(dice.choice([1, 2, 9]) for _ in range(size)) for _ in range(size)]
        return Problem(size, rows=tuple(rows))
    if operation == "reduce_scatter":
        return Problem(size, counts=tuple(8 * dice.randint(1, 9) for _ in range(size)), unit=8)
    return Problem(size, 8 if operation == "reduce_scatter_block" else 256 * size, unit=8)


@pytest.mark.parametrize(
    "algorithm",
    [a for a in catalogue() if a.operation in OPERATIONS],
    ids=lambda a: f"{a.operation}-{a.name}",
)
def test_proof_measures_the_cost(algorithm: Algorithm) -> None:
    for size in SIZES:
        if "power of two" in algorithm.restrictions and not is_power_of_two(size):
            continue
        problem = problem_for(algorithm, size)
        proof = verify(algorithm, problem)
        formula = cost(algorithm.operation, algorithm.name, problem)
        measured, stated = (proof.span, proof.volume), (formula.startups, formula.volume)
        if algorithm.name == "simple":
            # All messages at once: the best order of them is no part of the schedule.
            assert measured >= stated
        elif (algorithm.operation, algorithm.name) == ("allreduce", "binary_blocks"):
            if size.bit_count() <= 2:
                assert measured == stated, size
            assert stated[0] - 2 <= measured[0] <= stated[0], size
            assert 0.85 * stated[1] <= measured[1] <= stated[1], size
        elif algorithm.operation == "alltoallv":
            # The rounds' longest messages are those of different ranks.
            assert measured[0] == stated[0]
            assert 0.6 * stated[1] <= measured[1] <= stated[1], size
        elif problem.counts and algorithm.name == "recursive_halving":
            # The slowest chain is not always that of the largest shares.
            assert measured[0] == stated[0]
            assert 0.85 * stated[1] <= measured[1] <= 1.15 * stated[1], size
        else:
            assert measured == stated, size


def test_every_algorithm_has_a_cost() -> None:
    named = {(a.operation, a.name) for a in catalogue() if not a.intercommunicator}
    assert named == set(COSTS)


def test_time() -> None:
    assert Cost(3, 100, 50).time(1000.0, 2.0, 0.5) == 3225.0
    ring = Problem(8, 1 << 20)
    assert cost("allgather", "ring", ring).time(5.0, 1.0) == 7 * (5.0 + (1 << 20))
    with pytest.raises(MpiprofError, match="no cost formula for allgather kang"):
        cost("allgather", "kang", ring)


def test_long_vectors_want_rings_and_halves() -> None:
    """2 (p-1)/p of the vector is all that an allreduce needs to send."""
    long = Problem(16, 1 << 20, unit=8)
    best = 2 * 15 / 16 * (1 << 20)
    for name in ("ring", "halving_doubling", "binary_blocks", "circulant"):
        assert float(cost("allreduce", name, long).volume) == best
        assert verify(find("allreduce", name), Problem(16, 1 << 10, unit=8)).volume == best / 1024
    assert cost("allreduce", "recursive_doubling", long).volume == 4 << 20
