"""The simulation of a machine's transport: known answers of eager messages and shared ports."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.irregular_problem import make_irregular_problem
from support.uniform_machine import make_uniform

from mpiprof.collectives.machine import Machine, scale_machine
from mpiprof.collectives.round_simulator import applies_to
from mpiprof.collectives.schedule import Algorithm, Problem, find, load_catalogue
from mpiprof.collectives.simulate import lower_bound, runs_as_ring, simulate, simulate_patterns

ALPHA, BETA, COPY, BYTES = 1000.0, 2.0, 0.25, 4000
PLAIN = make_uniform(ALPHA, BETA, 0.5)
RENDEZVOUS = replace(PLAIN, window=1 << 20)
EAGER = replace(RENDEZVOUS, eager_limit=BYTES, copy=COPY)
PORTS_ONLY = replace(EAGER, alpha=0.0, alpha_within=0.0)
MESSAGE = ALPHA + BYTES * BETA
TRANSPORTS = {
    "eager": EAGER,
    "rendezvous": RENDEZVOUS,
    "buffered": replace(EAGER, buffered=True),
    "mixed": replace(EAGER, eager_limit=64, window=96),
    "shared ports": replace(EAGER, node_port=True, window=1000),
    "latency": replace(EAGER, latency_share=0.5),
    "contention": replace(EAGER, contention=0.5),
}
FAST_PORTS = replace(EAGER, port_beta=BETA / 2)


def run(
    name: str, machine: Machine, arrivals: list[float], nodes: Sequence[int] = ()
) -> list[float]:
    """Return the ends of the processes in an algorithm, such as "gather linear"."""
    algorithm, problem = find(*name.split()), Problem(len(arrivals), BYTES)
    ends = simulate(algorithm, problem, machine, arrivals, nodes).finish.tolist()
    return list(map(float, ends))


@pytest.mark.parametrize(
    "machine", [EAGER, RENDEZVOUS, replace(EAGER, window=100), FAST_PORTS, *TRANSPORTS.values()]
)
def test_a_single_message_takes_alpha_and_beta(machine: Machine) -> None:
    assert run("bcast flat_tree", machine, [0.0, 0.0])[1] == MESSAGE


def test_two_messages_into_one_port_halve_the_bandwidth() -> None:
    one, two = (run("gather linear", PORTS_ONLY, [0.0] * size)[0] for size in (2, 3))
    assert (one, two) == (BYTES * BETA, 2 * BYTES * BETA)
    # Under rendezvous, a sender ends when it has been received: both at half of the bandwidth.
    slow = run("gather linear", replace(PORTS_ONLY, eager_limit=-1), [0.0] * 3)
    assert slow[1:] == [two, two]


def test_a_message_that_overlaps_half_of_another_delays_it_by_half() -> None:
    late = BYTES * BETA / 2
    timing = simulate(
        find("gather", "linear"), Problem(3, BYTES), PORTS_ONLY, [0.0, 0.0, late], trace=True
    )
    ends = {m.source: m.end for m in timing.messages}
    assert ends == {1: 3 * late, 2: 4 * late}


def test_an_eager_send_ends_before_its_receive_is_posted() -> None:
    sender, receiver = run("bcast flat_tree", EAGER, [0.0, 1e6])
    assert sender == ALPHA / 2 + BYTES * BETA
    assert receiver == 1e6 + BYTES * COPY


def test_a_buffered_send_ends_when_it_is_copied_unless_the_buffer_is_full() -> None:
    buffered = replace(EAGER, buffered=True)
    copied = ALPHA / 2 + BYTES * COPY
    assert run("bcast flat_tree", buffered, [0.0, 0.0]) == [copied, MESSAGE]
    full = replace(buffered, window=BYTES - 1)
    assert run("bcast flat_tree", full, [0.0, 0.0])[0] == ALPHA / 2 + BYTES * BETA


def test_a_message_that_is_still_under_way_is_not_copied() -> None:
    assert run("bcast flat_tree", EAGER, [0.0, MESSAGE / 2])[1] == MESSAGE


def test_a_rendezvous_waits_for_the_receive() -> None:
    above = replace(EAGER, eager_limit=BYTES - 1)
    assert run("bcast flat_tree", above, [0.0, 1e6]) == [1e6 + MESSAGE] * 2


def test_a_late_receiver_does_not_delay_others_of_the_round() -> None:
    ends = run("bcast flat_tree", RENDEZVOUS, [0.0, 1e6, 0.0])
    assert ends[2] == MESSAGE
    assert ends[0] == ends[1] == 1e6 + MESSAGE


def test_processes_of_a_node_share_its_port() -> None:
    nodes = [0, 0, 1, 1]
    free, shared = (
        max(run("alltoall simple", machine, [0.0] * 4, nodes=nodes))
        for machine in (PORTS_ONLY, replace(PORTS_ONLY, node_port=True))
    )
    # Each process sends three blocks, and each node four blocks to the other node.
    assert (free, shared) == (3 * BYTES * BETA, 4 * BYTES * BETA)


def test_an_idle_port_sends_its_first_bytes_at_once() -> None:
    """A message takes burst_beta for the first `burst` bytes, and beta for the others."""
    for burst in (BYTES // 4, BYTES, 2 * BYTES):
        machine = replace(PORTS_ONLY, burst=burst, burst_beta=BETA / 8)
        first = min(burst, BYTES)
        took = first * BETA / 8 + (BYTES - first) * BETA
        assert run("bcast flat_tree", machine, [0.0, 0.0])[1] == took


def test_a_port_sends_at_its_rate_after_its_credit() -> None:
    machine = replace(PORTS_ONLY, burst=BYTES, burst_beta=0.0)
    # Of three messages, the first leaves at once, and the others at the rate of the port.
    assert max(run("bcast flat_tree", machine, [0.0] * 4)) == 2 * BYTES * BETA
    # Three senders have credit each, but the port of their receiver has it once.
    assert run("gather linear", machine, [0.0] * 4)[0] == 2 * BYTES * BETA


def test_an_idle_port_saves_credit_at_its_rate() -> None:
    """The second message begins when the port has saved credit for half of it."""
    machine = replace(PORTS_ONLY, burst=BYTES, burst_beta=0.0)
    half = BYTES * BETA / 2
    ends = run("gather linear", machine, [0.0, 0.0, half])
    assert ends[0] == 2 * half


def test_latency_delays_a_message_and_occupies_no_port() -> None:
    """The last of seven messages leaves after seven times the overhead of a port."""
    machine = replace(EAGER, latency_share=0.5)
    overhead, latency = ALPHA / 4, ALPHA / 2
    sends = 7 * (overhead + BYTES * BETA)
    ends = run("bcast flat_tree", machine, [0.0] * 8)
    assert ends[0] == sends
    assert ends[7] == sends + latency + overhead
    received = run("gather linear", replace(machine, beta=0.0, beta_within=0.0), [0.0] * 8)[0]
    assert received == overhead + latency + 7 * overhead


def test_a_byte_occupies_a_port_for_less_than_it_takes() -> None:
    """Seven messages leave at the ports' rate; the last one arrives after the rest of its time."""
    ends = run("bcast flat_tree", FAST_PORTS, [0.0] * 8)
    assert ends[0] == 7 * (ALPHA / 2 + BYTES * BETA / 2)
    assert ends[7] == ends[0] + BYTES * BETA / 2 + ALPHA / 2


def test_messages_of_two_senders_that_meet_take_longer() -> None:
    """With contention of 0.5, each of two takes a quarter of its time longer; in turn none does."""
    contended = replace(PORTS_ONLY, contention=0.5)
    took = BYTES * BETA
    assert run("gather linear", contended, [0.0] * 3)[0] == 2 * took + 2 * took / 4
    assert run("gather linear", contended, [0.0, 0.0, took + 1])[0] == 2 * took + 1
    assert run("alltoall ring", contended, [0.0] * 8) == run("alltoall ring", PORTS_ONLY, [0.0] * 8)


def test_a_message_within_the_window_leaves_at_once() -> None:
    """Two messages of two chunks: the second one begins after the first."""
    machine = replace(PORTS_ONLY, window=BYTES)
    assert run("bcast flat_tree", machine, [0.0] * 3)[1:] == [BYTES * BETA, 2 * BYTES * BETA]


def test_a_window_limits_the_bytes_under_way() -> None:
    """A window of one quarter: the sender ends when at most a quarter has not been received."""
    whole, windowed = (
        run("gather linear", replace(PORTS_ONLY, window=window), [0.0] * 3)[1:]
        for window in (0, BYTES // 4)
    )
    assert whole == [BYTES * BETA] * 2
    assert all(end >= (2 * BYTES - BYTES / 2) * BETA for end in windowed)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "name", ["alltoall ring", "alltoall pair", "allgather ring", "bcast binomial"]
)
def test_without_contention_the_last_end_is_that_of_the_plain_model(
    name: str, transport: str
) -> None:
    arrivals = [0.0] * 8
    plain = max(run(name, PLAIN, arrivals))
    assert max(run(name, TRANSPORTS[transport], arrivals)) == pytest.approx(plain)


@pytest.mark.heavy
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_algorithm_ends_and_none_beats_the_bound(transport: str) -> None:
    machine = TRANSPORTS[transport]
    for a in load_catalogue():
        for size, remote in ((5, 3), (8, 8)):
            problem = make_problem(a, size, remote if a.intercommunicator else 0)
            if not applies_to(a, problem):
                continue
            total = size + problem.remote_size
            arrivals = make_arrivals(total)
            nodes = [i // 2 for i in range(total)]
            timing = simulate(a, problem, machine, arrivals, nodes)
            assert (timing.finish >= timing.arrivals).all()
            # A late process may find its messages received. So the bound is without arrivals.
            bound = lower_bound(a.operation, problem, machine)
            assert timing.finish.max() >= bound * (1 - 1e-12)


def make_arrivals(size: int) -> list[float]:
    """Return different arrivals up to 7 µs."""
    return [i * 37 % 11 * 700.1 for i in range(size)]


def make_problem(a: Algorithm, size: int, remote: int) -> Problem:
    """Return an irregular problem for any algorithm."""
    counts, more = (tuple(8 * (i * 5 % 7) for i in range(n)) for n in (size, remote))
    return make_irregular_problem(a, 256, counts, more, block_size=40, alpha=ALPHA, beta=BETA)


def test_everything_is_proportional_to_the_times_of_the_machine() -> None:
    for machine in TRANSPORTS.values():
        once, twice = (
            run("alltoall bruck", m, [0.0] * 6, nodes=[0, 0, 0, 1, 1, 1])
            for m in (machine, scale_machine(machine, 2.0))
        )
        assert [2 * end for end in once] == pytest.approx(twice)


# ---- without a transport


def test_a_plain_machine_keeps_its_fast_methods() -> None:
    ring, problem, nodes = find("allgather", "ring"), Problem(300, 64), np.arange(300)
    assert runs_as_ring(ring, problem, PLAIN, nodes)
    assert not runs_as_ring(ring, problem, EAGER, nodes)


RECORDED = (
    *("alltoall simple", "alltoall bruck", "alltoallv ring_light_barrier", "alltoall pair"),
    *("allgatherv pipelined_ring", "allgather neighbour_exchange", "bcast circulant"),
    *("allreduce halving_doubling", "allreduce circulant", "reduce late_last", "gather binomial"),
    *("reduce_scatter pairwise", "scatterv linear", "barrier tournament"),
)


@pytest.mark.parametrize(
    ("node_port", "digest"), [(False, "8abbb1055eb21aa2"), (True, "a48eaa0725976fc8")]
)
def test_results_of_plain_machines_are_bit_identical(node_port: bool, digest: str) -> None:
    """The digests are of the simulator before it knew transports."""
    machine = Machine(1000.0, 2.1, 0.3, 100.0, 0.27, node_port=node_port)
    found = hashlib.sha256()
    for name in RECORDED:
        a, arrivals = find(*name.split()), make_arrivals(8)
        timing = simulate(a, make_problem(a, 8, 0), machine, arrivals, np.arange(8) // 2)
        found.update(timing.finish.tobytes())
    ring = simulate(
        find("allgather", "ring"), Problem(300, 64), machine, [7.7 * i for i in range(300)]
    )
    found.update(ring.finish.tobytes())
    assert found.hexdigest()[:16] == digest


@pytest.mark.parametrize("machine", [PLAIN, *TRANSPORTS.values()], ids=["plain", *TRANSPORTS])
def test_patterns_are_simulated_as_separately(machine: Machine) -> None:
    """The shared rounds do not depend on an earlier pattern, also with a barrier and reductions."""
    random = np.random.default_rng(5)
    patterns = [random.uniform(0, 1e5, 8) for _ in range(3)]
    for operation, name in (("alltoall", "pair_one_barrier"), ("allreduce", "halving_doubling")):
        problem = Problem(8, 4096, unit=8)
        algorithm = find(operation, name)
        several = simulate_patterns(algorithm, problem, machine, patterns)
        for arrivals, timing in zip(patterns, several, strict=True):
            wanted = simulate(algorithm, problem, machine, arrivals)
            assert np.array_equal(timing.finish, wanted.finish)
            assert np.array_equal(timing.arrivals, arrivals)
