"""Begins of the windows in which ranks are compared, compared with a search of all meetings."""

from __future__ import annotations

import numpy as np
import pytest
from support.halo_waits import find_first, order_groups

from mpiprof.account.delay_costs import WindowFinder
from mpiprof.account.delay_graph import Waits
from mpiprof.trace.types import Bool, Int

NEVER_NS = -(1 << 62)
RANKS = 5


def make_waits(seed: int) -> tuple[Waits, Bool]:
    """Return groups of waits in order, and whether the members of each group meet."""
    random = np.random.default_rng(seed)
    count = 60
    until = random.integers(100, 400, count)
    awaited = random.integers(0, RANKS, count)
    members = [
        (group, rank, int(until[group] - random.integers(1, 60)))
        for group in range(count)
        for rank in random.permutation(RANKS)[: random.integers(1, RANKS)].tolist()
        if rank != awaited[group]
    ]
    used, group = np.unique([member[0] for member in members], return_inverse=True)
    rank, begin = (np.array([member[i] for member in members]) for i in (1, 2))
    order, of_member, group = order_groups(until[used], group)
    awaited, until = awaited[used][order], until[used][order]
    rank, begin = rank[of_member], begin[of_member]
    since = np.full(len(awaited), NEVER_NS)
    first = find_first(group, len(awaited))
    waits = Waits(awaited, until, since, first, rank, begin, until[group])
    assert waits.group.tolist() == group.tolist()
    return waits, random.random(len(awaited)) < 0.5


def find_windows(waits: Waits, meets: Bool) -> WindowFinder:
    values = {"count": len(waits.awaited), "awaited": waits.awaited, "until_ns": waits.until_ns}
    values |= {"first": waits.first, "rank": waits.rank, "begin_ns": waits.begin_ns}
    return WindowFinder(values | {"meets": meets, "since_ns": waits.since_ns})


@pytest.mark.parametrize("seed", range(5))
def test_a_window_begins_at_the_last_meeting_of_all_its_ranks(seed: int) -> None:
    waits, meets = make_waits(seed)
    random = np.random.default_rng(seed)
    is_member = random.random(RANKS) < 0.8
    times = np.sort(random.integers(0, 500, [0, 1, 5, 50, 500][seed]))
    find_windows(waits, meets).add_meetings(is_member, times)
    for group in range(len(waits.awaited)):
        mine = waits.group == group
        ranks = [int(waits.awaited[group]), *waits.rank[mine].tolist()]
        before = times[times <= waits.begin_ns[mine].min()]
        expected = before[-1] if is_member[ranks].all() and len(before) else NEVER_NS
        assert waits.since_ns[group] == expected


@pytest.mark.parametrize("seed", range(5))
def test_a_window_begins_at_the_last_wait_of_each_pair(seed: int) -> None:
    waits, meets = make_waits(seed)
    find_windows(waits, meets).add_pairs(RANKS)
    counts = np.diff(waits.first)
    pairs: dict[frozenset[int], int] = {}
    expected = np.full(len(counts), NEVER_NS)
    ascending = np.argsort(waits.until_ns, kind="stable")
    for group in ascending.tolist():
        if meets[group] and counts[group] > 1:
            continue
        met: list[Int | int] = []
        for i in np.flatnonzero(waits.group == group).tolist():
            pair = frozenset((int(waits.awaited[group]), int(waits.rank[i])))
            last = pairs.get(pair, NEVER_NS)
            met.append(last if last <= waits.begin_ns[i] else NEVER_NS)
            pairs[pair] = int(waits.until_ns[group])
        expected[group] = min(met)
    assert waits.since_ns.tolist() == expected.tolist()
