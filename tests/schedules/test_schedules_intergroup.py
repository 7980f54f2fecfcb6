"""Proofs of allgather and allgatherv on inter-communicators, and their bytes against the bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.intergroup_bounds import (
    SETTINGS,
    Setting,
    algorithm_1_bound,
    algorithm_1_bytes,
    algorithm_2_bound,
    best_root_gathering_bytes,
    concurrent_root_gathering_bytes,
    improvement_limit,
    least_bytes,
    root_gathering_bytes,
    unsegmented_bytes,
)
from support.uniform_machine import make_uniform

from mpiprof.collectives.schedule import (
    RECEIVE,
    REMOTE,
    SEND,
    Algorithm,
    Problem,
    Schedule,
    find,
    load_catalogue,
)
from mpiprof.collectives.simulate import simulate
from mpiprof.collectives.verify import ScheduleProof, verify

GROUPS = [(p, q) for p in range(1, 10) for q in range(1, 10)]
UNEQUAL = [(25, 7), (7, 25)]


def named(operation: str) -> list[Algorithm]:
    return [a for a in load_catalogue() if a.operation == operation and a.intercommunicator]


def name_of(algorithm: Algorithm) -> str:
    return algorithm.name


def allgather(name: str, p: int, q: int, k_a: int, k_b: int) -> ScheduleProof:
    algorithm = find("allgather", name, intercommunicator=True)
    return verify(algorithm, Problem(p, k_a, remote_size=q, remote_bytes=k_b))


def allgatherv(
    name: str, a: Sequence[int], b: Sequence[int], *, first: bool = True
) -> ScheduleProof:
    algorithm = find("allgatherv", name, intercommunicator=True)
    problem = Problem(
        len(a), remote_size=len(b), counts=tuple(a), remote_counts=tuple(b), first_group=first
    )
    return verify(algorithm, problem)


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("allgather"), ids=name_of)
def test_equal_messages(algorithm: Algorithm) -> None:
    for i, (p, q) in enumerate([*GROUPS, *UNEQUAL]):
        for k_a, k_b in ((0, 5), (1, 1), (20, 13), (2, 11)):
            problem = Problem(
                p, k_a, remote_size=q, remote_bytes=k_b, first_group=(i + k_a) % 2 == 0
            )
            assert not verify(algorithm, problem).conflicts


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", named("allgatherv"), ids=name_of)
def test_irregular_messages(algorithm: Algorithm) -> None:
    random = np.random.default_rng(7)
    for i, (p, q) in enumerate([*GROUPS, *UNEQUAL]):
        for most in (1, 3, 50, 1000 if i % 9 == 0 else 4):
            a, b = (
                (random.integers(0, most + 1, n) * random.integers(0, 2, n)).tolist()
                for n in (p, q)
            )
            assert not allgatherv(algorithm.name, a, b, first=i % 2 == 0).conflicts
    one, none = [0, 0, 100, 0, 0], [0, 0, 0]
    for a, b in ((one, none), (none, one), (one, one), (none, none), ([7] * 5, one[:3])):
        allgatherv(algorithm.name, a, b)


def test_remote_counts_are_needed_only_to_cut_or_gather_local_data() -> None:
    needing = {a.name for a in named("allgatherv") if a.needs_counts}
    gathering = {f"root_gathering_{how}" for how in ("sequential", "concurrent", "ring", "best")}
    assert needing == {"kang"} | gathering
    assert not any(a.needs_counts for a in named("allgather"))


# ---- bytes


def test_algorithm_1_costs_agree_with_the_paper() -> None:
    for p, q, k_a, k_b in ((6, 2, 8, 9), (8, 8, 5, 5), (9, 3, 4, 90), (2, 8, 12, 7), (16, 4, 1, 4)):
        proof = allgather("kang", p, q, k_a, k_b)
        assert proof.volume == algorithm_1_bytes(p, q, k_a, k_b)
        assert proof.volume <= algorithm_1_bound(p, q, k_a, k_b)
        assert proof.span == max(p, q) // min(p, q) + max(p, q) - 1


def test_algorithm_1_satisfies_theorem_1_if_groups_do_not_divide() -> None:
    for p, q in ((25, 7), (8, 3), (9, 4), (7, 5), (3, 8)):
        for k_a, k_b in ((420, 420), (1680, 420), (420, 1680)):
            proof = allgather("kang", p, q, k_a, k_b)
            assert proof.volume >= least_bytes([k_a] * p, [k_b] * q)
            # Shares of Algorithm 2 in whole bytes; Theorem 3 counts the larger message.
            assert proof.volume <= algorithm_2_bound([k_a] * p, [k_b] * q) + p + q
            if (p > q) == (k_b >= k_a):
                assert proof.volume <= algorithm_1_bound(p, q, k_a, k_b) + p + q


def test_figure_2() -> None:
    """Groups of 8 and 3: teams 0-2, 3-5 and 6-7, each of which exchanges with one rank of B."""
    teams, k_a, k_b = ((0, 1, 2), (3, 4, 5), (6, 7)), 12, 18
    algorithm = find("allgather", "kang_teams", intercommunicator=True)
    larger = Problem(8, k_a, remote_size=3, remote_bytes=k_b)
    smaller = Problem(3, k_b, remote_size=8, remote_bytes=k_a, first_group=False)
    for j, team in enumerate(teams):
        part = k_b // len(team)
        rows = across(algorithm, smaller, j)
        assert rows[SEND] == [(i, a, i * part, part) for i, a in enumerate(team)]
        assert rows[RECEIVE] == [(i, a, a * k_a, k_a) for i, a in enumerate(team)]
        for i, a in enumerate(team):
            rows = across(algorithm, larger, a)
            assert rows[SEND] == [(0, j, 0, k_a)]
            assert rows[RECEIVE] == [(0, j, j * k_b + i * part, part)]
    proof = allgather("kang_teams", 8, 3, k_a, k_b)
    # 3 k_A, or k_B, in the exchange; then the rings, with pieces of 3 k_A and at most k_B / 2.
    assert proof.volume == 3 * k_a + max(2 * 3 * k_a, 7 * k_b // 2)
    assert proof.span == 3 + 7


def across(algorithm: Algorithm, problem: Problem, rank: int) -> dict[int, list[tuple[int, ...]]]:
    """Return (round, peer, offset, length) of messages between the groups, by direction."""
    with Schedule(algorithm, problem, rank) as schedule:
        rows = schedule.read_steps(0, schedule.rounds).tolist()
    wanted = [row for row in rows if row[8] & REMOTE]
    return {
        kind: [(r[0], r[2], r[4], r[5]) for r in wanted if r[1] == kind] for kind in (SEND, RECEIVE)
    }


def test_teams_are_algorithm_1_where_groups_divide() -> None:
    for p, q in ((6, 2), (8, 8), (2, 8), (7, 1)):
        for first in (True, False):
            problem = Problem(p, 20, remote_size=q, remote_bytes=13, first_group=first)
            for rank in range(p):
                kang, teams = (
                    Schedule(find("allgather", name, intercommunicator=True), problem, rank)
                    for name in ("kang", "kang_teams")
                )
                with kang, teams:
                    assert kang.rounds == teams.rounds
                    assert np.array_equal(
                        kang.read_steps(0, kang.rounds), teams.read_steps(0, teams.rounds)
                    )


def test_whole_pieces_of_teams_of_unequal_size_wait_for_the_largest() -> None:
    """25 and 7 processes: the largest piece has 4 messages, the mean is 25/7."""
    k = 120
    proof, shares = (allgather(name, 25, 7, k, k) for name in ("kang_teams", "kang"))
    assert proof.volume == 4 * k + 6 * 4 * k
    assert proof.volume == pytest.approx(1.12 * least_bytes([k] * 25, [k] * 7))
    assert shares.volume < 1.05 * least_bytes([k] * 25, [k] * 7)


@pytest.mark.parametrize("name", ["kang_teams", "kang_two_step"])
def test_pieces_in_blocks_do_not_wait_for_the_largest(name: str) -> None:
    """Teams of 4 and 3 processes: all pieces are multiples of the block."""
    k = 12_000
    problem = Problem(25, k, remote_size=7, remote_bytes=k, block_size=1000)
    proof = verify(find("allgather", name, intercommunicator=True), problem)
    assert proof.volume < 1.05 * least_bytes([k] * 25, [k] * 7)


def test_unsegmented_messages_cost_agrees_with_the_paper() -> None:
    for p, q, k_a, k_b in ((6, 2, 8, 9), (8, 8, 5, 5), (16, 2, 1, 100)):
        proof = allgather("kang_unsegmented", p, q, k_a, k_b)
        assert proof.volume == unsegmented_bytes(p, q, k_a, k_b)
        segmented = allgather("kang_two_step", p, q, k_a, 8 * k_b)
        assert segmented.volume == algorithm_1_bytes(p, q, k_a, 8 * k_b)
    # "Not bounded by any multiple" of the minimum time.
    assert unsegmented_bytes(1000, 2, 1, 1000) > 100 * least_bytes([1] * 1000, [1000] * 2)


def test_root_gathering_cost_agrees_with_the_paper() -> None:
    for p in (4, 8, 16, 32):
        for k in (64, 640):
            lost = 3 * k  # broadcasts send 2 (1 - 1/p) times all, not 2 times
            one, both = (
                allgather(f"root_gathering_{how}", p, p, k, k).volume
                for how in ("sequential", "concurrent")
            )
            assert root_gathering_bytes(p, p, k, k) - 2 * lost <= one
            assert one <= root_gathering_bytes(p, p, k, k)
            assert concurrent_root_gathering_bytes(p, p, k, k) - lost <= both
            assert both <= concurrent_root_gathering_bytes(p, p, k, k)


@pytest.mark.parametrize(("p", "q"), [(8, 8), (25, 7), (5, 9)])
def test_best_root_gathering_takes_formula_1(p: int, q: int) -> None:
    """In blocks far smaller than the data, the broadcast sends everything once."""
    k = 1 << 20
    algorithm = find("allgather", "root_gathering_best", intercommunicator=True)
    problem = Problem(p, k, remote_size=q, remote_bytes=k)
    took = simulate(algorithm, problem, make_uniform(0.0, 1.0)).after_last
    stated = best_root_gathering_bytes(p, q, k, k)
    assert stated <= took <= 1.02 * stated


def test_gathering_along_ranks_in_blocks_takes_the_lower_bound() -> None:
    """The paper: "the ring-based intragroup Gather algorithm achieves the lower bound"."""
    rising = tuple(1000 * i for i in range(8))
    total = sum(rising)
    groups = Problem(8, remote_size=8, counts=rising, remote_counts=rising, block_size=100)
    algorithm = find("allgatherv", "root_gathering_ring", intercommunicator=True)
    exchanged, broadcast = 2 * total, 2 * 2 * 7 * total // 8
    assert verify(algorithm, groups).volume == total + exchanged + broadcast


def test_gathering_whole_messages_along_ranks_repeats_the_longest() -> None:
    """Each of the 7 steps has the last rank's 70 bytes in it; equal messages take their sum."""
    rising = [10 * i for i in range(8)]
    gathered, exchanged, broadcast = 7 * 70, 2 * 280, 2 * 2 * 7 * 280 // 8
    proof = allgatherv("root_gathering_ring", rising, rising)
    assert proof.volume == gathered + exchanged + broadcast
    equal = [80] * 8
    one, other = (
        allgatherv(f"root_gathering_{how}", equal, equal) for how in ("ring", "sequential")
    )
    assert one.volume == other.volume and one.span == other.span + 7 - 3


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"setting{s.number}")
def test_settings(setting: Setting) -> None:
    a, b = setting.messages(64, 4000)
    assert improvement_limit(sum(a), sum(b)) == pytest.approx(setting.limit, abs=0.006)
    if setting.operation == "allgather":
        proof = allgather("kang", len(a), len(b), a[0], b[0])
        old = allgather("root_gathering_sequential", len(a), len(b), a[0], b[0])
    else:
        proof = allgatherv("kang", a, b)
        old = allgatherv("root_gathering_sequential", a, b)
        # Rounds that couple both directions cost at most 1 %.
        assert proof.volume <= 1.01 * algorithm_2_bound(a, b)
    assert least_bytes(a, b) <= proof.volume <= 1.1 * least_bytes(a, b)
    # In setting 6 the roots have the shortest messages and collect more than (2) states.
    assert 0.9 * setting.limit <= old.volume / proof.volume <= 1.02 * setting.limit


@pytest.mark.heavy
def test_algorithm_2_is_near_theorem_3_for_any_messages() -> None:
    random = np.random.default_rng(11)
    for _ in range(60):
        p, q = random.integers(1, 21, 2).tolist()
        a, b = (np.exp(random.normal(6, 1.5, n)).astype(int).tolist() for n in (p, q))
        proof = allgatherv("kang", a, b)
        # Shares are whole bytes, so each step of a ring adds up to one byte.
        assert proof.volume <= 1.2 * algorithm_2_bound(a, b) + p + q
        assert proof.volume >= least_bytes(a, b)


@pytest.mark.heavy
def test_a_single_direction_satisfies_theorem_3() -> None:
    random = np.random.default_rng(12)
    for _ in range(60):
        p, q = random.integers(1, 21, 2).tolist()
        a = np.exp(random.normal(6, 1.5, p)).astype(int).tolist()
        proof = allgatherv("kang", a, [0] * q)
        assert proof.volume <= algorithm_2_bound(a, []) + q


def test_senders_with_several_receivers_come_first_and_last() -> None:
    # Shares of 10: a1 ends in b0 and begins b1, a3 continues into b2.
    counts = (7, 5, 3, 9, 6)
    problem = Problem(5, remote_size=3, counts=counts, remote_counts=(0,) * 3)
    algorithm = find("allgatherv", "kang", intercommunicator=True)
    turns = {}
    for rank in range(5):
        with Schedule(algorithm, problem, rank) as schedule:
            rows = schedule.read_steps(0, schedule.rounds)
            turns[rank] = [(r[0], r[2], r[5]) for r in rows.tolist() if r[1] == SEND]
    assert turns[1] == [(0, 0, 3), (2, 1, 2)]
    assert turns[0] == [(1, 0, 7)]
    assert turns[2] == [(1, 1, 3)]
    assert turns[3] == [(0, 1, 5), (1, 2, 4)]
    assert turns[4] == [(0, 2, 6)]
