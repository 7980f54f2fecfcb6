"""The cost formulas of exchanges and reductions agree with the measures of the proof."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.cost_formulas import COSTS, Cost, cost
from support.intergroup_cost import FORMULAS
from support.round_counts import is_power_of_two
from support.uniform_machine import make_uniform

from mpiprof.collectives.buffer_contract import REDUCTIONS
from mpiprof.collectives.round_simulator import applies_to
from mpiprof.collectives.schedule import Algorithm, Problem, find, load_catalogue
from mpiprof.collectives.simulate import simulate
from mpiprof.collectives.verify import verify
from mpiprof.errors import MpiprofError

SIZES = [*range(1, 14), 16, 17, 24, 27, 32, 33]
OPERATIONS = ("alltoall", "alltoallv", *REDUCTIONS)
BETWEEN_GROUPS = [a for a in load_catalogue() if a.intercommunicator]


def problem_for(algorithm: Algorithm, size: int) -> Problem:
    """Return a problem that repeated halving divides evenly."""
    operation, dice = algorithm.operation, random.Random(size)
    if operation == "alltoall":
        return Problem(size, 3)
    if operation == "alltoallv":
        rows = [tuple(dice.choice([1, 2, 9]) for _ in range(size)) for _ in range(size)]
        return Problem(size, rows=tuple(rows))
    if operation == "reduce_scatter":
        return Problem(size, counts=tuple(8 * dice.randint(1, 9) for _ in range(size)), unit=8)
    if algorithm.name == "late_last":  # in 4 ceil(lg p) blocks
        return Problem(size, 15 * 256 * size, unit=8)
    return Problem(size, 8 if operation == "reduce_scatter_block" else 256 * size, unit=8)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "algorithm",
    [a for a in load_catalogue() if a.operation in OPERATIONS],
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
            # All messages are sent at once: the schedule does not define their best order.
            assert measured >= stated
        elif (algorithm.operation, algorithm.name) == ("allreduce", "binary_blocks"):
            if size.bit_count() <= 2:
                assert measured == stated, size
            assert stated[0] - 2 <= measured[0] <= stated[0], size
            assert 0.85 * stated[1] <= measured[1] <= stated[1], size
        elif algorithm.operation == "alltoallv":
            # The longest messages of the rounds belong to different ranks.
            assert measured[0] == stated[0]
            assert 0.6 * stated[1] <= measured[1] <= stated[1], size
        elif problem.counts and algorithm.name == "recursive_halving":
            # The slowest chain is not always that of the largest shares.
            assert measured[0] == stated[0]
            assert 0.85 * stated[1] <= measured[1] <= 1.15 * stated[1], size
        else:
            assert measured == stated, size


@pytest.mark.parametrize(
    "algorithm",
    [a for a in load_catalogue() if a.operation in REDUCTIONS and a.name != "binary_blocks"],
    ids=lambda a: f"{a.operation}-{a.name}",
)
def test_simulation_takes_the_cost_with_gamma(algorithm: Algorithm) -> None:
    """For equal parts. The longest chain of binary blocks depends on the parts."""
    for size in SIZES:
        if algorithm.operation == "reduce_scatter":
            problem = Problem(size, counts=(64,) * size, unit=8)
        else:
            problem = problem_for(algorithm, size)
        if size == 1 or not applies_to(algorithm, problem):
            continue
        formula = cost(algorithm.operation, algorithm.name, problem)
        for alpha, beta, gamma in ((0.0, 0.0, 1.0), (1000.0, 2.0, 0.5)):
            took = simulate(algorithm, problem, make_uniform(alpha, beta, gamma)).after_last
            assert took == pytest.approx(formula.time(alpha, beta, gamma)), (size, alpha)


def test_every_algorithm_has_a_cost() -> None:
    named = {(a.operation, a.name, a.intercommunicator) for a in load_catalogue()}
    assert named == {(*one, False) for one in COSTS} | {(*one, True) for one in FORMULAS}


@pytest.mark.parametrize("algorithm", BETWEEN_GROUPS, ids=lambda a: f"{a.operation}-{a.name}")
def test_costs_between_groups(algorithm: Algorithm) -> None:
    """Exact for equal messages if the group sizes are multiples, otherwise close."""
    for p, q in ((1, 1), (6, 2), (8, 8), (4, 16), (9, 3), (5, 3), (25, 7), (7, 25), (13, 12)):
        for k_a, k_b in ((240, 240), (240, 960), (2400, 240)):
            irregular = algorithm.operation == "allgatherv"
            sizes: dict[str, Any] = {"bytes": k_a, "remote_bytes": k_b}
            if irregular:
                sizes = {"counts": (k_a,) * p, "remote_counts": (k_b,) * q}
            problem = Problem(p, remote_size=q, **sizes)
            proof = verify(algorithm, problem)
            formula = cost(algorithm.operation, algorithm.name, problem)
            multiples = max(p, q) % min(p, q) == 0
            if "kang" in algorithm.name and multiples and not irregular:
                assert (proof.span, proof.volume) == (formula.startups, formula.volume), (p, q)
            assert 0.8 * formula.startups <= proof.span <= 1.05 * formula.startups, (p, q)
            assert 0.75 * formula.volume <= proof.volume <= 1.01 * formula.volume, (p, q)


@pytest.mark.parametrize("name", ["kang", "kang_unsegmented", "kang_two_step"])
def test_costs_between_groups_of_random_messages(name: str) -> None:
    dice = np.random.default_rng(3)
    algorithm = find("allgatherv", name, intercommunicator=True)
    for _ in range(20):
        p, q = dice.integers(1, 17, 2).tolist()
        a, b = (tuple(np.exp(dice.normal(6, 1.0, n)).astype(int).tolist()) for n in (p, q))
        problem = Problem(p, remote_size=q, counts=a, remote_counts=b)
        proof, formula = verify(algorithm, problem), cost("allgatherv", name, problem)
        assert 0.6 * formula.startups <= proof.span <= 1.6 * formula.startups
        assert 0.5 * formula.volume <= proof.volume <= 1.3 * formula.volume


def test_time() -> None:
    assert Cost(3, 100, 50).time(1000.0, 2.0, 0.5) == 3225.0
    ring = Problem(8, 1 << 20)
    assert cost("allgather", "ring", ring).time(5.0, 1.0) == 7 * (5.0 + (1 << 20))
    with pytest.raises(MpiprofError, match="no cost formula for allgather kang"):
        cost("allgather", "kang", ring)


def test_long_vectors_want_rings_and_halves() -> None:
    """An allreduce needs to send only 2 (p-1)/p of the vector."""
    long = Problem(16, 1 << 20, unit=8)
    best = 2 * 15 / 16 * (1 << 20)
    for name in ("ring", "halving_doubling", "binary_blocks", "circulant"):
        assert float(cost("allreduce", name, long).volume) == best
        assert verify(find("allreduce", name), Problem(16, 1 << 10, unit=8)).volume == best / 1024
    assert cost("allreduce", "recursive_doubling", long).volume == 4 << 20
