"""Simulated times agree with closed forms, and the simulators agree with each other."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.irregular_problem import make_irregular_problem
from support.rabenseifner import paper_time
from support.uniform_machine import make_uniform

from mpiprof.collectives import ring_fast_path
from mpiprof.collectives.distributions import DISTRIBUTIONS
from mpiprof.collectives.machine import Machine
from mpiprof.collectives.round_simulator import applies_to
from mpiprof.collectives.schedule import Algorithm, Problem, find, load_catalogue
from mpiprof.collectives.simulate import lower_bound, simulate
from mpiprof.errors import MpiprofError

ALPHA, BETA, GAMMA = 1000.0, 2.0, 0.5
MACHINE = make_uniform(ALPHA, BETA, GAMMA)
CLUSTER = Machine(ALPHA, BETA, GAMMA, 100.0, 0.25)
HALF: dict[str, Any] = {"one_way_alpha": 0.5, "one_way_beta": 0.75}


def message(length: float) -> float:
    """Return the time of one message."""
    return ALPHA + length * BETA


def ends(operation: str, name: str, problem: Problem, **options: object) -> float:
    """Return the time when the last process ends an algorithm."""
    timing = simulate(find(operation, name), problem, MACHINE, **options)  # type: ignore[arg-type]
    return float(timing.finish.max())


@pytest.mark.parametrize("size", [2, 7, 16, 33])
def test_alltoall_rings(size: int) -> None:
    every = (size - 1) * message(48)
    assert ends("alltoall", "ring", Problem(size, 48)) == every
    assert ends("alltoall", "simple", Problem(size, 48)) == every
    barrier = (size - 1).bit_length() * ALPHA
    assert ends("alltoall", "ring_one_barrier", Problem(size, 48)) == barrier + every
    tokens = (size - 2) * ALPHA  # none before the first phase
    assert ends("alltoall", "ring_light_barrier", Problem(size, 48)) == tokens + every


@pytest.mark.parametrize("power", [1, 3, 5])
def test_powers_of_two(power: int) -> None:
    size = 1 << power
    bruck = power * message(size / 2 * 48)
    assert ends("alltoall", "bruck", Problem(size, 48)) == bruck
    binomial = power * message(4800)
    assert ends("bcast", "binomial", Problem(size, 4800, root=1)) == binomial
    doubling = power * (message(4800) + 4800 * GAMMA)
    assert ends("allreduce", "recursive_doubling", Problem(size, 4800, unit=8)) == doubling


@pytest.mark.parametrize("size", [3, 10, 32])
def test_pipelines(size: int) -> None:
    chain = (12 + size - 2) * message(400)
    assert ends("bcast", "chain", Problem(size, 4800, block_size=400)) == chain
    one = Problem(size, counts=(4800,) + (0,) * (size - 1), block_size=400)
    assert ends("allgatherv", "pipelined_ring", one) == chain
    assert ends("allgatherv", "linear_ring", one) == (size - 1) * message(4800)
    regular = Problem(size, counts=(400,) * size)
    assert ends("allgatherv", "linear_ring", regular) == (size - 1) * message(400)
    assert ends("allgatherv", "pipelined_ring", regular) == (size - 1) * message(400)


def test_a_receiver_serves_one_sender_at_a_time_in_the_order_of_their_offers() -> None:
    arrivals = [0.0, 30_000.0, 0.0, 5_000.0]
    timing = simulate(find("gather", "linear"), Problem(4, 500), MACHINE, arrivals, trace=True)
    order = [m.source for m in sorted(timing.messages, key=lambda m: m.start)]
    assert order == [2, 3, 1]
    assert timing.finish.tolist() == [32_000.0, 32_000.0, 2_000.0, 7_000.0]


def test_arrivals_shift_everything() -> None:
    for a in (find("alltoall", "simple"), find("allgather", "bruck"), find("bcast", "circulant")):
        plain = simulate(a, Problem(9, 64), MACHINE)
        late = simulate(a, Problem(9, 64), MACHINE, np.full(9, 4096.0))
        assert (late.finish == plain.finish + 4096.0).all()
        assert late.after_last == plain.after_last


def test_one_late_rank() -> None:
    late = [0.0] * 5 + [1e6] + [0.0] * 2
    every = 7 * message(48)
    ring = simulate(find("alltoall", "ring"), Problem(8, 48), MACHINE, late)
    assert ring.finish[5] == ring.finish.max() == 1e6 + every
    assert ring.after_last == every
    # Rank 5 is a leaf of the tree, so no other rank notices it. The flat tree's root waits for it.
    tree = simulate(find("bcast", "binomial"), Problem(8, 48), MACHINE, late)
    assert np.flatnonzero(tree.finish >= 1e6).tolist() == [1, 5]
    flat = simulate(find("bcast", "flat_tree"), Problem(8, 48), MACHINE, late)
    assert np.flatnonzero(flat.finish >= 1e6).tolist() == [0, 5, 6, 7]


@pytest.mark.parametrize(
    ("operation", "name", "size"),
    [
        *(("reduce", "binary_tree", p) for p in (2, 8, 13)),
        *(("allreduce", "binary_tree", p) for p in (2, 8, 16)),
        *(("allreduce", "recursive_doubling", p) for p in (2, 16)),
        *((op, "ring", p) for op in ("allreduce", "reduce") for p in (3, 13)),
        *((op, "halving_doubling", p) for op in ("allreduce", "reduce") for p in (2, 16)),
        ("reduce", "halving_doubling", 13),
    ],
)
def test_one_way_costs_are_those_of_the_formulas(operation: str, name: str, size: int) -> None:
    """Rabenseifner and Adamidis 2004, Section 3, with f_alpha 0.5 and f_beta 0.75."""
    machine, n = replace(MACHINE, **HALF), 16 * 13 * 48
    problem = Problem(size, n, unit=8)
    expected = paper_time(operation, name, size, n, machine)
    # In a flow simulation, the start-ups of messages to one root overlap.
    for method in ("", "events", "flows")[: 2 if (operation, name) == ("reduce", "ring") else 3]:
        timing = simulate(find(operation, name), problem, machine, method=method)
        assert timing.after_last == pytest.approx(expected, rel=1e-9)


def test_messages_in_a_chain_go_both_ways_at_inner_processes() -> None:
    """The first message goes one way: its receiver sends nothing yet."""
    machine = replace(MACHINE, **HALF)
    one_way, both = 0.5 * ALPHA + 400 * 0.75 * BETA, message(400)
    problem = Problem(3, 800, block_size=400)
    # Rank 0 sends block 2 to rank 1 while rank 1 sends block 1 to rank 2.
    timing = simulate(find("bcast", "chain"), problem, machine)
    assert timing.after_last == one_way + both + one_way


def test_within_and_between_nodes() -> None:
    between, within = ALPHA + 48 * BETA, 100 + 48 * 0.25
    timing = simulate(find("allgather", "ring"), Problem(4, 48), CLUSTER, nodes=[0, 0, 1, 1])
    assert timing.finish.max() == 3 * between
    timing = simulate(find("allgather", "ring"), Problem(4, 48), CLUSTER, nodes=[0, 0, 0, 0])
    assert timing.finish.max() == 3 * within


def test_one_port_a_node() -> None:
    # Round 2 of the ring has two messages in each direction, one after the other through one port
    # per node.
    nodes, every = [0, 0, 1, 1], message(48)
    shared = Machine(ALPHA, BETA, 0, ALPHA, BETA, node_port=True)
    problem, ring = Problem(4, 48), find("alltoall", "ring")
    assert simulate(ring, problem, MACHINE, nodes=nodes).finish.max() == 3 * every
    assert simulate(ring, problem, shared, nodes=nodes).finish.max() == 4 * every
    # One process per node: the same as without nodes.
    assert simulate(ring, problem, shared).finish.max() == 3 * every


def make_problem(a: Algorithm, size: int, remote: int, seed: int) -> Problem:
    """Return an irregular problem for any algorithm."""
    random = np.random.default_rng([size, remote, seed])
    counts, more = (
        (8 * random.integers(0, 50, n) * (random.random(n) < 0.6)).tolist() for n in (size, remote)
    )
    return make_irregular_problem(
        a,
        64,
        counts,
        more,
        nodes=tuple(i // 3 for i in range(size)) if seed else (),
        order=("spread", "both", "ranks")[seed],
        block_size=(0, 7, 100)[seed],
        equal_blocks=seed == 1,
        alpha=ALPHA,
        beta=BETA,
    )


@pytest.mark.parametrize("a", load_catalogue(), ids=lambda a: f"{a.operation}-{a.name}")
def test_all_ways_agree_and_none_beats_the_bound(a: Algorithm) -> None:
    for size in (1, 2, 5, 6, 8, 13):
        for remote in (3, size, 9) if a.intercommunicator else (0,):
            for seed in range(3):
                problem = make_problem(a, size, remote, seed)
                if not applies_to(a, problem):
                    continue
                nodes = [i // 3 for i in range(size)] + [100 + i // 2 for i in range(remote)]
                random = np.random.default_rng(seed)
                arrivals = random.random(size + remote) * (0, 3000, 30000)[seed]
                machine = replace(CLUSTER, **HALF) if seed == 2 else CLUSTER
                setting = (machine, arrivals, nodes)
                simulated = simulate(a, problem, *setting)
                one_by_one = simulate(a, problem, *setting, method="events")
                assert (simulated.finish == one_by_one.finish).all()
                bound = lower_bound(a.operation, problem, machine, arrivals)
                assert simulated.finish.max() >= bound * (1 - 1e-12)
                if ring_fast_path.applies_to(a, problem, machine, np.array(nodes)):
                    ring = simulate(a, problem, *setting, method="ring")
                    assert (simulated.finish == ring.finish).all()


@pytest.mark.parametrize("base", [2, 300])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("order", ["ranks", "spread"])
def test_longer_rings_agree_too(distribution: str, order: str, base: int) -> None:
    counts = DISTRIBUTIONS[distribution](base, 41)
    for block in (0, 64, 1000):
        problem = Problem(41, counts=counts, order=order, block_size=block, alpha=ALPHA, beta=BETA)
        for name in ("linear_ring", "pipelined_ring"):
            a, arrivals = find("allgatherv", name), [i % 7 * 900.0 for i in range(41)]
            general = simulate(a, problem, MACHINE, arrivals, method="rounds")
            ring = simulate(a, problem, MACHINE, arrivals, method="ring")
            assert (general.finish == ring.finish).all()


@pytest.mark.slow
@pytest.mark.heavy
def test_65536_processes() -> None:
    size = 65536
    counts = DISTRIBUTIONS["geometric"](65536, size)
    timing = simulate(find("allgatherv", "linear_ring"), Problem(size, counts=counts), MACHINE)
    # The largest block is in transit all the time.
    assert timing.finish.max() == pytest.approx((size - 1) * message(max(counts)), rel=1e-9)


@pytest.mark.heavy
def test_a_ring_takes_no_more_memory_than_its_blocks() -> None:
    """Every second process has no data, the others have one block, so most messages wait."""
    size = 4096
    problem = Problem(size, counts=DISTRIBUTIONS["half_full"](64, size), alpha=ALPHA, beta=BETA)
    tracemalloc.start()
    timing = simulate(find("allgatherv", "pipelined_ring"), problem, MACHINE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 * size
    # Each process sends a block in every second round.
    assert timing.finish.max() == (size - 1) * message(128)


def test_1024_processes_that_arrive_at_random() -> None:
    arrivals = np.random.default_rng(1).random(1024) * 1e6
    timing = simulate(find("alltoall", "simple"), Problem(1024, 48), MACHINE, arrivals)
    assert timing.finish.max() >= 1023 * message(48)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(MpiprofError, match="a power of two"):
        simulate(find("alltoall", "pair"), Problem(6, 8), MACHINE)
    with pytest.raises(MpiprofError, match="all 4 processes"):
        simulate(find("alltoall", "ring"), Problem(4, 8), MACHINE, [0.0])


def test_bounds() -> None:
    assert lower_bound("bcast", Problem(4, 100), MACHINE) == message(100)
    assert lower_bound("alltoall", Problem(4, 100), MACHINE) == message(300)
    assert lower_bound("allgatherv", Problem(3, counts=(5, 0, 7)), MACHINE) == message(12)
    assert lower_bound("gather", Problem(4, 100), MACHINE, [0, 9e9, 0, 0]) == 9e9 + message(100)
    assert lower_bound("barrier", Problem(4), MACHINE) == ALPHA
    assert lower_bound("bcast", Problem(1, 100), MACHINE) == 0


@pytest.mark.parametrize("size", [2, 6, 16, 5772])
def test_sums_of_distributions(size: int) -> None:
    base = 65536
    for name, spread in DISTRIBUTIONS.items():
        counts = spread(base, size)
        total = base if name in ("broadcast", "spike") else base * size
        assert len(counts) == size
        assert min(counts) >= 0
        if name in ("regular", "broadcast", "spike", "half_full"):
            assert sum(counts) == total
        elif name == "decreasing":
            assert total - size < sum(counts) <= total
        else:
            assert sum(counts) == total
    assert DISTRIBUTIONS["spike"](8000, 5) == (4000, 1000, 1000, 1000, 1000)
    assert DISTRIBUTIONS["geometric"](300, 4) == (600, 300, 300, 0)  # lg 4 levels
    assert DISTRIBUTIONS["geometric"](70, 6) == (153, 77, 76, 38, 38, 38)  # of 420


@pytest.mark.parametrize("spread", [0.0, 300.0, 1e5])
def test_many_messages_in_one_round(spread: float) -> None:
    """Messages are served send by send if that is exact, otherwise in the order of the offers."""
    arrivals, nodes = np.random.default_rng(4).random(40) * spread, np.arange(40) // 4
    setting = (find("alltoall", "simple"), Problem(40, 48), CLUSTER, arrivals, nodes)
    assert (simulate(*setting).finish == simulate(*setting, method="events").finish).all()
