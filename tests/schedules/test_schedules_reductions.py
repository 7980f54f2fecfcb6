"""Proofs of the reductions and of alltoallv, and their costs against the paper's formulas."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from support.rabenseifner import Machine, largest_exponent_gap, paper_time, static_choice

from mpiprof.collectives.schedule import (
    REDUCE,
    RIGHT,
    Algorithm,
    Problem,
    Schedule,
    find,
    load_catalogue,
)
from mpiprof.collectives.verify import BrokenScheduleError, ScheduleProof, verify
from mpiprof.errors import MpiprofError

SMALL = range(1, 34)
LARGE = (64, 100, 128)
STARTUPS, VOLUME, REDUCED = Machine(1, 0, 0), Machine(0, 1, 0), Machine(0, 0, 1)


def named(*operations: str) -> list[Algorithm]:
    return [a for a in load_catalogue() if a.operation in operations and not a.intercommunicator]


def ident(algorithm: Algorithm) -> str:
    return f"{algorithm.operation}-{algorithm.name}"


def lengths(size: int) -> set[int]:
    return {0, 1, size - 1, size, 1000}


def both_places(algorithm: Algorithm, problem: Problem) -> ScheduleProof:
    verify(algorithm, problem, in_place=True)
    return verify(algorithm, problem)


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("reduce", "allreduce"), ids=ident)
def test_vectors(algorithm: Algorithm) -> None:
    for size in SMALL:
        for i, n in enumerate(sorted(lengths(size))):
            unit = 1 + 7 * ((size + i) % 2)
            problem = Problem(size, unit * n, unit=unit, root=(size + i) % size)
            proof = verify(algorithm, problem, in_place=(size + i) % 3 == 0)
            assert proof.ordered or not algorithm.keeps_order
            assert not proof.conflicts


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("reduce", "allreduce"), ids=ident)
@pytest.mark.parametrize("size", [*LARGE[:2], pytest.param(LARGE[2], marks=pytest.mark.everything)])
def test_vectors_of_many(algorithm: Algorithm, size: int) -> None:
    verify(algorithm, Problem(size, 8000, unit=8, root=size - 1), in_place=size == 100)
    if algorithm.name != "ring":
        for n in (0, 5, size - 1, size):
            verify(algorithm, Problem(size, n, root=1))


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("reduce"), ids=ident)
def test_every_root(algorithm: Algorithm) -> None:
    for size in range(1, 18):
        for root in range(size):
            verify(algorithm, Problem(size, 19, root=root), in_place=root % 2 == 0)


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("reduce_scatter_block"), ids=ident)
def test_equal_shares(algorithm: Algorithm) -> None:
    for size in (*SMALL, *(LARGE if algorithm.name != "pairwise" else LARGE[:1])):
        for share in (0, 1, 3) if size < 34 else (1,):
            both_places(algorithm, Problem(size, 8 * share, unit=8))


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("reduce_scatter"), ids=ident)
def test_irregular_shares(algorithm: Algorithm) -> None:
    random = np.random.default_rng(4)
    for size in (*SMALL, LARGE[0]):
        for most in (1, 5, 40) if size < 34 else (3,):
            counts = random.integers(0, most, size) * random.integers(0, 2, size)
            both_places(algorithm, Problem(size, unit=8, counts=tuple(8 * counts)))
    only = [0] * 12
    only[7] = 1000
    both_places(algorithm, Problem(12, counts=tuple(only)))


def matrix(size: int, seed: int, most: int) -> Problem:
    random = np.random.default_rng(seed)
    rows = random.integers(0, most, (size, size)) * random.integers(0, 2, (size, size))
    return Problem(size, rows=tuple(tuple(row) for row in rows.tolist()))


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("alltoallv"), ids=ident)
def test_alltoallv(algorithm: Algorithm) -> None:
    for size in (*SMALL, LARGE[0]):
        proof = verify(algorithm, matrix(size, size, 30))
        assert proof.messages < size
        assert not proof.conflicts or algorithm.name == "simple"
        verify(algorithm, Problem(size, rows=((0,) * size,) * size))


# ---- costs


def test_the_largest_gap_of_exponents_is_the_papers() -> None:
    gaps = {1: (96, 60), 2: (61, 80, 235, 251), 3: (36, 77, 100), 0: (1, 2, 64)}
    for gap, sizes in gaps.items():
        assert [largest_exponent_gap(size) for size in sizes] == [gap] * len(sizes)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("reduce", "binary_tree"),
        ("reduce", "halving_doubling"),
        ("reduce", "ring"),
        ("allreduce", "binary_tree"),
        ("allreduce", "recursive_doubling"),
        ("allreduce", "halving_doubling"),
        ("allreduce", "ring"),
    ],
)
def test_cost_is_the_papers(operation: str, name: str) -> None:
    for size in range(2, 34):
        n = 32 * size
        proof = verify(find(operation, name), Problem(size, n))
        assert proof.span == pytest.approx(paper_time(operation, name, size, n, STARTUPS))
        assert proof.volume == pytest.approx(paper_time(operation, name, size, n, VOLUME))


def test_binary_blocks_of_a_power_of_two_are_halving_and_doubling() -> None:
    for operation in ("reduce", "allreduce"):
        for size in (2, 4, 8, 16, 32):
            blocks, halving = (
                verify(find(operation, name), Problem(size, 320))
                for name in ("binary_blocks", "halving_doubling")
            )
            assert blocks == halving


def test_binary_blocks_send_less_than_halving_where_blocks_are_of_like_size() -> None:
    blocks, halving = find("allreduce", "binary_blocks"), find("allreduce", "halving_doubling")
    for size in (3, 6, 12, 24):
        n = 32 * size
        proof = verify(blocks, Problem(size, n))
        assert proof.volume < verify(halving, Problem(size, n)).volume
        top = 1 << size.bit_length() - 1
        # In addition to halving and doubling: three messages with parts of the larger block.
        assert proof.volume == 2 * n * (1 - Fraction(1, top)) + 3 * Fraction(n, top)
        assert proof.span == 2 * (top.bit_length() - 1) + 3


def test_the_root_may_be_anyone_at_no_cost() -> None:
    for name in ("binary_tree", "halving_doubling", "ring"):
        proofs = {
            (proof.span, proof.volume)
            for root in range(13)
            for proof in [verify(find("reduce", name), Problem(13, 13 * 32, root=root))]
        }
        assert len(proofs) == 1


def test_circulant_takes_twice_the_logarithm_of_any_size() -> None:
    for size in range(2, 34):
        proof = verify(find("allreduce", "circulant"), Problem(size, 8 * size))
        assert proof.span == proof.rounds == 2 * (size - 1).bit_length()
        assert proof.volume == proof.sent == 2 * 8 * (size - 1)


def test_reduce_scatter_costs_agree_with_the_formula() -> None:
    for size in (2, 4, 8, 16, 32, 5, 7, 12, 31):
        n, power = 4 * size, not size & (size - 1)
        pairwise = verify(find("reduce_scatter_block", "pairwise"), Problem(size, 4))
        assert (pairwise.span, pairwise.volume) == (size - 1, n - 4)
        halving = verify(find("reduce_scatter_block", "recursive_halving"), Problem(size, 4))
        assert halving.span == size.bit_length() - 1 + (0 if power else 2)
        if power:
            assert halving.volume == n - 4
        else:
            assert halving.volume <= 2 * n + 4


def test_paper_times_end_where_the_paper_rounds_them() -> None:
    machine = Machine(1, 1, 1)
    big = 1 << 40
    all_, one = (
        paper_time(operation, "halving_doubling", (1 << 20) + 1, big, machine) / big
        for operation in ("allreduce", "reduce")
    )
    assert all_ == pytest.approx(4 + 1.5, rel=1e-4)
    assert one == pytest.approx(3 + 1.5, rel=1e-4)
    half = Machine(0, 1, 0, one_way_beta=0.5)
    assert paper_time("reduce", "binary_tree", 8, 10, half) == 15
    assert paper_time("reduce", "ring", 2, 10, REDUCED) == 5
    assert paper_time("allreduce", "ring", 1, 10, machine) == 0
    with pytest.raises(MpiprofError, match="binary_blocks on 12 processes"):
        paper_time("allreduce", "binary_blocks", 12, 10, machine)


@pytest.mark.parametrize(
    ("operation", "size", "n", "name"),
    [
        ("allreduce", 100, 32, "recursive_doubling"),
        ("allreduce", 100, 1024, "binary_tree"),
        ("allreduce", 64, 1024, "recursive_doubling"),
        ("reduce", 64, 32, "binary_tree"),
        ("allreduce", 64, 1 << 20, "halving_doubling"),
        ("allreduce", 17, 32768, "ring"),
        ("allreduce", 15, 65536, "binary_blocks"),
        ("allreduce", 15, 65537, "ring"),
        ("allreduce", 96, 16384, "binary_blocks"),
        ("allreduce", 33, 16384, "halving_doubling"),
        ("allreduce", 33, 1 << 20, "binary_blocks"),
        ("reduce", 129, 1 << 18, "halving_doubling"),
    ],
)
def test_static_choice(operation: str, size: int, n: int, name: str) -> None:
    assert static_choice(operation, size, n) == name
    find(operation, name)


# ---- what the proof must find


def spoiled(monkeypatch: pytest.MonkeyPatch, operation: str, name: str, rank: int) -> str:
    """Verify with exchanged operands in a rank's last reduction."""
    honest = Schedule.read_steps

    def steps(self: Schedule, first: int, last: int) -> NDArray[np.int64]:
        rows = honest(self, first, last)
        if self.rank == rank:
            rows[np.flatnonzero(rows[:, 1] == REDUCE)[-1:], 8] ^= RIGHT
        return rows

    monkeypatch.setattr(Schedule, "read_steps", steps)
    with pytest.raises(BrokenScheduleError) as error:
        verify(find(operation, name), Problem(4, 32))
    return str(error.value)


def test_operands_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "changes the order" in spoiled(monkeypatch, "reduce", "binary_tree", 0)


def test_other_bits_on_one_rank_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = spoiled(monkeypatch, "allreduce", "recursive_doubling", 3)
    assert "associates operands differently from another rank (rank 3" in text
