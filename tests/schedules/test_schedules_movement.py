"""Proofs of broadcast, allgather, gather, scatter and barrier, and their cost formulas."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray
from support.cost_formulas import cost
from support.round_counts import (
    broadcast_rounds,
    every_size,
    is_power_of_two,
    ring_rounds,
    spread_ring_rounds,
)

from mpiprof.collectives import pipeline_formulas
from mpiprof.collectives.schedule import (
    ORDERS,
    RECEIVE,
    SEND,
    Algorithm,
    Problem,
    Schedule,
    find,
    load_catalogue,
)
from mpiprof.collectives.verify import BrokenScheduleError, verify

OPERATIONS = (
    "bcast",
    "allgather",
    "allgatherv",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "barrier",
)
ROOTED = ("bcast", "gather", "gatherv", "scatter", "scatterv")
MOVEMENT = [a for a in load_catalogue() if a.operation in OPERATIONS and not a.intercommunicator]
RING = find("allgatherv", "pipelined_ring")

every_algorithm = pytest.mark.parametrize(
    "algorithm", MOVEMENT, ids=lambda a: f"{a.operation}-{a.name}"
)


def applies(algorithm: Algorithm, size: int) -> bool:
    if "power of two" in algorithm.restrictions:
        return is_power_of_two(size)
    return "even" not in algorithm.restrictions or size % 2 == 0


def roots(algorithm: Algorithm, size: int) -> list[int]:
    if algorithm.operation not in ROOTED:
        return [0]
    return list(range(size)) if size < 9 else [0, size // 2 + 1, size - 1]


def irregular(size: int, seed: int) -> tuple[int, ...]:
    """Return random counts, many of them zero; sometimes all, or all but one."""
    dice = random.Random(1000 * size + seed)
    full = dice.choice([0.0, 0.2, 0.5, 1.0])
    counts = [dice.randint(1, 9) if dice.random() < full else 0 for _ in range(size)]
    counts[dice.randrange(size)] = dice.choice([0, 1, 40])
    return tuple(counts)


def problems(algorithm: Algorithm, size: int) -> Iterator[Problem]:
    small, messages = size < 18, sorted({0, 1, size - 1, size, 1000 if size < 18 else size})
    blocks = (7, 64) if "block_size" in algorithm.parameters else (0,)
    for root in roots(algorithm, size):
        if algorithm.operation == "barrier":
            yield Problem(size)
        elif algorithm.operation.endswith("v"):
            for seed in range(4 if small else 1):
                counts = irregular(size, seed + root)
                yield Problem(size, root=root, counts=counts, block_size=blocks[0] // 3)
        else:
            for m in messages if size < 34 and root in (0, size - 1) else (size,):
                # As many blocks as in a shorter message.
                yield Problem(size, m, root, block_size=blocks[m == 1000] if any(blocks) else 0)


@pytest.mark.heavy
@every_algorithm
@every_size
def test_every_rank_ends_with_the_right_data(algorithm: Algorithm, sizes: list[int]) -> None:
    for size in sizes:
        if not applies(algorithm, size):
            continue
        for problem in problems(algorithm, size):
            verify(algorithm, problem)
            if size < 14 and algorithm.operation not in ("bcast", "barrier"):
                verify(algorithm, problem, in_place=True)


# ---- cost


def cost_problem(algorithm: Algorithm, size: int) -> Problem:
    """Return a problem with equal parts and blocks."""
    root = size - 1 if algorithm.operation in ROOTED else 0
    counts = (
        tuple(2 + 2 * (i * 7 % 5) for i in range(size)) if algorithm.operation[-1] == "v" else ()
    )
    if algorithm.operation == "barrier":
        return Problem(size)
    m = 8 * size if algorithm.operation == "bcast" else 3
    block = size if algorithm.operation == "bcast" else 2
    return Problem(size, m, root, counts=counts, block_size=block if algorithm.parameters else 0)


def catalogue_cost(algorithm: Algorithm, p: Problem, alpha: int, beta: int) -> float:
    """Evaluate the cost text of the catalogue."""
    counts = p.counts or (p.bytes,)
    text = algorithm.cost.split(", ")[0].replace("ceil(lg p)", "q").replace("lg p", "q")
    text = text.replace("ceil(lg(p-1))", "o")
    values = {
        "(b - min b_i)": f"({ring_rounds(counts, p.block_size or 1)})",
        "max m_i": str(max(counts)),
        "(m - m_root)": str(sum(counts) - counts[p.root % len(counts)]),
    }
    for words, value in values.items():
        text = text.replace(words, value)
    text = re.sub(r"(?<=[\w)]) ?(?=\()|(?<=[\w)]) (?=[a-zA-Z])", "*", text)
    names = {"p": p.size, "m": p.bytes, "q": pipeline_formulas.ceil_log2(p.size), "B": p.block_size}
    names |= {"o": pipeline_formulas.ceil_log2(p.size - 1)}
    names |= {"n": -(-p.bytes // p.block_size) if p.block_size else 0}
    return float(eval(text, {"alpha": alpha, "beta": beta, **names}))


@pytest.mark.heavy
@every_algorithm
@every_size
def test_cost(algorithm: Algorithm, sizes: list[int]) -> None:
    """The proof's measures agree with the formula and with the catalogue's text."""
    for size in sizes:
        if size == 1 or not applies(algorithm, size):
            continue
        problem = cost_problem(algorithm, size)
        proof = verify(algorithm, problem)
        formula = cost(algorithm.operation, algorithm.name, problem)
        assert (proof.span, proof.volume) == (formula.startups, formula.volume), size
        for alpha, beta in ((1, 0), (0, 1)) if size > 2 or "p > 2" not in algorithm.cost else ():
            assert catalogue_cost(algorithm, problem, alpha, beta) == pytest.approx(
                formula.time(alpha, beta)
            )
        at_once = algorithm.name in ("linear", "flat_tree") and algorithm.operation != "barrier"
        assert proof.conflicts == (at_once and size > 2)
        if at_once:
            assert proof.rounds == 1


def test_without_more_than_one_process_nothing_is_sent() -> None:
    for algorithm in (a for a in MOVEMENT if applies(a, 1)):
        proof = verify(algorithm, Problem(1, 8, counts=(8,)))
        assert (proof.rounds, proof.span) == (0, 0)


# ---- the pipelined ring


def test_figure_3() -> None:
    counts = (3, 3, 3, 0, 0, 0)
    clustered = verify(RING, Problem(6, counts=counts, block_size=1))
    spread = verify(RING, Problem(6, counts=counts, block_size=1, order="spread"))
    assert clustered.span == 11 == ring_rounds(counts, 1)
    assert spread.span == 9 == spread_ring_rounds(counts, 1)


def longest(problem: Problem) -> int:
    most = 0
    for rank in range(problem.size):
        with Schedule(RING, problem, rank) as schedule:
            most = max(most, schedule.rounds)
    return most


@pytest.mark.heavy
@pytest.mark.parametrize("size", [2, 3, 5, 8, 13, 32])
def test_ring_takes_b_less_the_fewest_rounds(size: int) -> None:
    for seed in range(8):
        counts = tuple(max(1, n) for n in irregular(size, seed))
        for block in (1, 2, 7):
            problem = Problem(size, counts=counts, block_size=block)
            proof = verify(RING, problem)
            assert proof.span == longest(problem) == ring_rounds(counts, block)
            assert proof.conflicts == 0


@pytest.mark.heavy
def test_ring_rounds_with_empty_processes() -> None:
    dice = random.Random(5)
    for _ in range(400):
        size = dice.randint(2, 12)
        counts = tuple(dice.choice([0, 0, 0, 1, 2, 3, 7]) for _ in range(size))
        nodes = tuple(dice.randrange(4) for _ in range(size)) if dice.random() < 0.7 else ()
        order, block = dice.choice(ORDERS), dice.choice([1, 2, 3])
        equal = dice.random() < 0.5
        problem = Problem(
            size, counts=counts, nodes=nodes, order=order, block_size=block, equal_blocks=equal
        )
        proof = verify(RING, problem, in_place=dice.random() < 0.5)
        ring = pipeline_formulas.ring_order(counts, order, nodes)
        assert proof.span == pipeline_formulas.count_skipping_ring_rounds(
            [counts[r] for r in ring], block
        )
        if any(counts):
            assert proof.span == longest(problem) <= ring_rounds(counts, block)
        blocks = pipeline_formulas.count_blocks(counts, block)
        empty = int(np.count_nonzero(blocks == 0))
        if order == "spread" and empty < size:
            distance = -(-empty // (size - empty))
            if np.all((blocks == 0) | (blocks > distance)):
                assert proof.span == spread_ring_rounds(counts, block)


def test_ring_goes_through_each_node_once() -> None:
    """Figure 1: one process per node receives from another node, and one sends to another node.

    The sending process has data.
    """
    nodes = (0, 1, 1, 2, 1, 0, 1, 2, 3)
    counts = (4, 0, 2, 0, 3, 0, 0, 0, 1)
    for order in ("nodes", "both"):
        problem = Problem(9, counts=counts, nodes=nodes, order=order, block_size=1)
        ring = pipeline_formulas.ring_order(counts, order, nodes)
        borders = [(a, b) for a, b in pairwise([*ring, ring[0]]) if nodes[a] != nodes[b]]
        assert len(borders) == len({nodes[a] for a, _ in borders}) == 4
        assert all(counts[a] or nodes[a] == 2 for a, _ in borders)
        for rank in range(9):
            with Schedule(RING, problem, rank) as schedule:
                steps = schedule.read_steps(0, schedule.rounds)
            place = ring.index(rank)
            assert set(steps[steps[:, 1] == SEND, 2]) <= {ring[(place + 1) % 9]}
            assert set(steps[steps[:, 1] == RECEIVE, 2]) <= {ring[place - 1]}


def test_a_ring_of_65536_processes() -> None:
    counts = np.zeros(65536, np.int64)
    counts[7] = 1 << 30
    problem = Problem(65536, counts=tuple(counts.tolist()), block_size=32768, order="both")
    with Schedule(RING, problem, 5000) as schedule:
        assert schedule.rounds >= 32768
        assert len(schedule.read_steps(0, schedule.rounds)) == 2 * 32768
        assert (
            pipeline_formulas.count_skipping_ring_rounds(np.roll(counts, -8), 32768)
            == 32768 + 65534
        )


# ---- the circulant broadcast


@pytest.mark.heavy
def test_circulant_takes_the_fewest_rounds() -> None:
    algorithm = find("bcast", "circulant")
    for size in range(2, 130):
        for blocks in (1, 2, pipeline_formulas.ceil_log2(size) + 1) if size < 66 else (8,):
            proof = verify(algorithm, Problem(size, blocks, size // 3, block_size=1))
            assert proof.span == proof.rounds == broadcast_rounds(size, blocks)
            assert proof.conflicts == 0


@pytest.mark.parametrize("size", [257, 5772, 65535, 65536, 100_003])
def test_circulant_on_many_processes(size: int) -> None:
    """Each block arrives once, before it is sent on, and both sides agree on it."""
    algorithm, blocks = find("bcast", "circulant"), 40
    problem = Problem(size, blocks, block_size=1)
    dice = random.Random(size)

    def steps(rank: int) -> NDArray[np.int64]:
        with Schedule(algorithm, problem, rank) as schedule:
            return schedule.read_steps(0, schedule.rounds)

    for rank in [0, 1, size - 1, *(dice.randrange(size) for _ in range(20))]:
        rows = steps(rank)
        received = rows[rows[:, 1] == RECEIVE]
        arrival = {int(row[4]): int(row[0]) for row in received}
        assert len(received) == len(arrival) == (blocks if rank else 0)
        for row in rows[rows[:, 1] == SEND]:
            assert arrival.get(int(row[4]), -1 if rank == 0 else size) < row[0]
        for row in dice.sample(received.tolist(), min(5, len(received))):
            sent = steps(row[2])
            mine = (sent[:, 0] == row[0]) & (sent[:, 1] == SEND)
            assert sent[mine][:, [2, 4, 5]].tolist() == [[rank, row[4], row[5]]]


# ---- broken on purpose


def test_a_barrier_that_somebody_leaves_early_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Schedule.read_steps

    def steps(self: Schedule, first: int, last: int) -> NDArray[np.int64]:
        rows = honest(self, first, last)
        retained: NDArray[np.int64] = rows[rows[:, 0] != 1]
        return retained

    monkeypatch.setattr(Schedule, "read_steps", steps)
    with pytest.raises(BrokenScheduleError, match=r"exits before rank \d has arrived \(rank 0"):
        verify(find("barrier", "dissemination"), Problem(8))


@pytest.mark.parametrize("name", ["circulant", "chain", "binomial"])
def test_a_broadcast_of_the_wrong_block_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Schedule.read_steps

    def steps(self: Schedule, first: int, last: int) -> NDArray[np.int64]:
        rows = honest(self, first, last)
        if self.rank == 0:
            at = np.flatnonzero(rows[:, 1] == SEND)[0]
            rows[at, 4] += 1 if rows[at, 4] < 2 else -1
            rows[at, 5] = min(rows[at, 5], 1)
        return rows

    monkeypatch.setattr(Schedule, "read_steps", steps)
    with pytest.raises(BrokenScheduleError, match="rank"):
        verify(find("bcast", name), Problem(5, 4, block_size=1))


def test_orders_agree_on_all_ranks() -> None:
    for order, seed in product(ORDERS, range(20)):
        counts, nodes = irregular(17, seed), tuple(i * i % 5 for i in range(17))
        ring = pipeline_formulas.ring_order(counts, order, nodes)
        assert sorted(ring) == list(range(17))
        problem = Problem(17, counts=counts, nodes=nodes, order=order, block_size=3)
        for place, rank in enumerate(ring):
            with Schedule(RING, problem, rank) as schedule:
                rows = schedule.read_steps(0, schedule.rounds)
            assert set(rows[rows[:, 1] == SEND, 2]) <= {ring[(place + 1) % 17]}
