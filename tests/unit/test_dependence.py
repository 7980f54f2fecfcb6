"""Dependence in a schedule: known trees, and properties of every schedule."""

from __future__ import annotations

import numpy as np
import pytest
from support.uniform_machine import make_uniform

from mpiprof.account.wait_states import Group, awaited_rows, compute_waits
from mpiprof.collectives.dependence import find_dependence
from mpiprof.collectives.schedule import Problem, find
from mpiprof.collectives.simulate import simulate
from mpiprof.facts.operations import WaitRule
from mpiprof.trace.types import Int

ROOTED = [
    ("bcast", "flat_tree"),
    ("bcast", "binomial"),
    ("bcast", "scatter_allgather_ring"),
    ("bcast", "chain"),
    ("bcast", "circulant"),
    ("scatter", "linear"),
    ("scatter", "binomial"),
    ("gather", "linear"),
    ("gather", "binomial"),
    ("reduce", "binary_tree"),
    ("reduce", "halving_doubling"),
    ("reduce", "binary_blocks"),
    ("reduce", "ring"),
]


def needs(operation: str, name: str, size: int, root: int = 0) -> Int:
    """Return the 0/1 matrix: the row's rank cannot leave before the column's rank arrives."""
    problem = Problem(size, bytes=80 * size, unit=8, root=root, block_size=160)
    found = find_dependence(find(operation, name), problem)
    assert found is not None
    return np.asarray(found.latest_awaited(np.eye(size, dtype=np.int64)))


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13, 32])
def test_trees(size: int) -> None:
    """In the binomial tree, the parent is the rank (from the root) without its highest bit."""
    for root in (0, size - 1):
        wanted = np.zeros((size, size), np.int64)
        for place in range(size):
            above = place
            while True:
                wanted[(place + root) % size, (above + root) % size] = 1
                if not above:
                    break
                above -= 1 << (above.bit_length() - 1)
        assert (needs("bcast", "binomial", size, root) == wanted).all()
    chain = np.tril(np.ones((size, size), np.int64))
    assert (needs("bcast", "chain", size) == chain).all()
    flat = np.eye(size, dtype=np.int64)
    flat[:, 0] = 1
    assert (needs("bcast", "flat_tree", size) == flat).all()
    assert (needs("gather", "linear", size) == flat.T).all()


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 16])
@pytest.mark.parametrize(("operation", "name"), ROOTED)
def test_what_any_algorithm_needs(operation: str, name: str, size: int) -> None:
    """All receive from the root, or the root from all; no rank ends before a rank that it needs.

    The simulator's messages take no time here, but also wait for their receivers, so it is never
    earlier.
    """
    found = needs(operation, name, size)
    assert (np.diag(found) == 1).all()
    assert (found[:, 0] if operation in ("bcast", "scatter") else found[0]).all()
    random = np.random.default_rng(size)
    problem = Problem(size, bytes=80 * size, unit=8, block_size=160)
    known = find_dependence(find(operation, name), problem)
    assert known is not None
    for _ in range(20):
        arrival = random.permutation(size).astype(np.float64)
        latest = np.where(found == 1, arrival[None, :], -1.0).max(1)
        assert (known.latest_awaited(arrival) == latest).all()
        timing = simulate(find(operation, name), problem, make_uniform(0.0, 0.0), arrival)
        assert (timing.finish >= latest).all()


def test_a_late_inner_rank_is_waited_for() -> None:
    """8 ranks, a binomial tree: 1 passes on to 3 and 5, 3 to 7; ranks x 2 instances."""
    through = find_dependence(find("bcast", "binomial"), Problem(8, bytes=8))
    group = Group(WaitRule.ALL_FOR_ROOT, (8, 0), root=0, through=through)
    arrival = np.zeros((8, 2), np.int64)
    arrival[1, 0], arrival[0, 1] = 50, 20
    finish = np.full((8, 2), 60)
    waited = compute_waits(arrival, arrival, finish, group)
    assert waited[:, 0].tolist() == [0, 0, 0, 50, 0, 50, 0, 50]
    assert waited[:, 1].tolist() == [0, *[20] * 7]
    rows = awaited_rows(arrival, group)
    assert rows[[3, 5, 7], 0].tolist() == [1, 1, 1] and (rows[:, 1] == 0).all()
    alone = Group(WaitRule.ALL_FOR_ROOT, (8, 0), root=0)
    assert compute_waits(arrival, arrival, finish, alone)[:, 0].tolist() == [0] * 8


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        (Group(WaitRule.ALL_FOR_ALL, (4, 0)), [2, 2, 2, 2]),
        (Group(WaitRule.ALL_FOR_ROOT, (4, 0), root=1), [1, 1, 2, 1]),
        (Group(WaitRule.ROOT_FOR_ALL, (4, 0), root=1), [0, 2, 2, 3]),
        (Group(WaitRule.RANK_FOR_LOWER, (4, 0)), [0, 1, 2, 2]),
        (Group(WaitRule.ALL_FOR_ALL, (2, 2)), [2, 2, 2, 1]),
    ],
)
def test_who_is_waited_for(group: Group, wanted: list[int]) -> None:
    arrival = np.array([[0], [5], [9], [3]])
    assert awaited_rows(arrival, group)[:, 0].tolist() == wanted


@pytest.mark.heavy
def test_what_is_too_much_is_not_followed() -> None:
    assert find_dependence(find("bcast", "chain"), Problem(600, bytes=8)) is None
