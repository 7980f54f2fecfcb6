"""Schedules in which the rank that is expected to be last joins last."""

from __future__ import annotations

import pytest
from support.uniform_machine import make_uniform

from mpiprof.collectives.catalogue import find
from mpiprof.collectives.proofs import prove
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate

ALPHA, BETA, GAMMA = 1000.0, 2.0, 0.5
SIZES = (2, 3, 4, 5, 7, 8, 13, 16, 17)


@pytest.mark.heavy
@pytest.mark.parametrize("operation", ["bcast", "reduce", "allreduce"])
def test_any_rank_may_be_the_last_to_join(operation: str) -> None:
    """Proved for each late rank and, for reduce and bcast, each root of up to 6 processes."""
    algorithm = find(operation, "late_last")
    found = prove(algorithm, range(1, 7))
    assert found.failure == ""
    assert found.processes == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("size", SIZES)
def test_a_late_rank_costs_a_reduce_one_message(size: int) -> None:
    """By hand: alpha + n beta + n gamma after its arrival, for any root."""
    n = 8 * 1024
    after = ALPHA + n * (BETA + GAMMA)
    for late in {0, 1, size - 1}:
        for root in {0, size - 1}:
            assert taken("reduce", "late_last", size, n, late, root) == pytest.approx(after)


@pytest.mark.parametrize("size", SIZES)
def test_a_late_rank_costs_an_allreduce_a_pipeline(size: int) -> None:
    """By hand: 4 q blocks need 4 q - 1 + q rounds, q = ceil(lg p)."""
    levels = (size - 1).bit_length()
    n = 8 * 1024 * 15 * levels
    rounds = 5 * levels - 1
    after = rounds * (ALPHA + n / (4 * levels) * (BETA + GAMMA))
    for late in {0, 1, size - 1}:
        assert taken("allreduce", "late_last", size, n, late) == pytest.approx(after)


@pytest.mark.parametrize("size", SIZES[1:])
def test_only_one_rank_waits_for_a_late_receiver_of_a_broadcast(size: int) -> None:
    """Other ranks take as long as circulant without the late rank; one of them serves it."""
    n, block = 64 * 1024, 1024
    machine = make_uniform(ALPHA, BETA, GAMMA)
    expected = simulate(
        find("bcast", "circulant"), Problem(size - 1, n, block_size=block), machine
    ).after_last
    for late in {1, size // 2, size - 1} - {0}:
        arrivals = [0.0] * size
        arrivals[late] = 10 * expected
        problem = Problem(size, n, late=late, block_size=block)
        ends = simulate(find("bcast", "late_last"), problem, machine, arrivals).finish
        after = 10 * expected + ALPHA + n * BETA
        waiting = [rank for rank in range(size) if ends[rank] > expected * 1.001]
        assert len(waiting) == 2 and late in waiting and (0 not in waiting or size == 2)
        assert ends[late] == pytest.approx(after)


def test_no_other_algorithm_is_as_fast_after_the_last_one() -> None:
    """16 processes, 1 MB: all others take at least 1.3 times as long."""
    for operation, others in (
        ("reduce", ("binary_tree", "halving_doubling", "binary_blocks", "ring")),
        ("allreduce", ("recursive_doubling", "halving_doubling", "circulant", "ring")),
    ):
        ours = taken(operation, "late_last", 16, 1 << 20, 15)
        assert min(taken(operation, name, 16, 1 << 20, 15) for name in others) >= 1.3 * ours


def taken(operation: str, name: str, size: int, n: int, late: int, root: int = 0) -> float:
    """Return the time after the last arrival in ns, which is 40 messages late."""
    arrivals = [0.0] * size
    arrivals[late] = 40 * (ALPHA + n * BETA)
    problem = Problem(size, n, root, unit=8, late=late)
    machine = make_uniform(ALPHA, BETA, GAMMA)
    return simulate(find(operation, name), problem, machine, arrivals).after_last
