"""Waits of a simulated halo exchange with one slow rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.account.delay_graph import Waits, WorkIntervals
from mpiprof.trace.types import Int

LATENCY_NS = 2_000
LEAST_WAIT_NS = 1_000
EXCHANGES = 5  # per step; then all ranks meet


def halo_waits(
    ranks: int, slow: int, steps: int, noise: float = 0.0, work_ns: int = 10**6, extra: int = 8
) -> tuple[Waits, WorkIntervals]:
    """Return waits and work of ranks in a ring.

    In each step a rank works `work_ns` before each of 5 exchanges with its neighbours. The slow
    rank works `extra` times longer in addition before the first one. noise: standard deviation of
    the work over its mean.
    """
    random = np.random.default_rng(0)
    time = np.zeros(ranks, np.int64)
    waits: list[tuple[int, int, int]] = []  # awaited, until, since
    members: list[tuple[int, int, int, int]] = []  # group, rank, begin, end
    work: list[tuple[int, int, int, int]] = []  # rank, begin, end, key
    last: dict[tuple[int, ...], int] = {}
    met = 0
    for _ in range(steps):
        for exchange in range(EXCHANGES):
            own = (work_ns * (1 + noise * random.standard_normal(ranks))).astype(np.int64)
            own[slow] += extra * work_ns * (exchange == 0)
            arrival = time + own
            work += [(r, int(time[r]), int(arrival[r]), int(exchange > 0)) for r in range(ranks)]
            for rank in range(ranks):
                awaited = max((rank - 1) % ranks, (rank + 1) % ranks, key=lambda r: arrival[r])
                begin, until = int(arrival[rank]), int(arrival[awaited])
                if until - begin > LEAST_WAIT_NS:
                    pair = tuple(sorted((rank, awaited)))
                    members.append((len(waits), rank, begin, until))
                    waits.append((awaited, until, min(max(last.get(pair, 0), met), begin)))
                    last[pair] = until
                time[rank] = max(begin, until + LATENCY_NS)
        awaited, until = int(time.argmax()), int(time.max())
        early = [r for r in range(ranks) if until - time[r] > LEAST_WAIT_NS]
        members += [(len(waits), r, int(time[r]), until) for r in early]
        waits += [(awaited, until, met)] * bool(early)
        met = until
        time[:] = until + LATENCY_NS
    return order_waits(*_columns(waits), *_columns(members)), WorkIntervals(*_columns(work))


def order_groups(until_ns: Int, group: Int) -> tuple[Int, Int, Int]:
    """Return the order of groups, the order of members, and the new group of each of these.

    until_ns: of each group. group: of each member.
    """
    order = np.argsort(-until_ns, kind="stable")
    group = np.argsort(order)[group]
    members = np.argsort(group, kind="stable")
    return order, members, group[members]


def order_waits(
    awaited: Int, until_ns: Int, since_ns: Int, group: Int, rank: Int, begin_ns: Int, end_ns: Int
) -> Waits:
    """Return waits with the latest group first and the members by group.

    group, rank, begin_ns, end_ns: of each member, in any order.
    """
    order, members, group = order_groups(until_ns, group)
    first = find_first(group, len(order))
    of_members = rank[members], begin_ns[members], end_ns[members]
    return Waits(awaited[order], until_ns[order], since_ns[order], first, *of_members)


def find_first(group: Int, groups: int) -> Int:
    """Return the first member of each group, and the number of members; group: ascending."""
    return np.searchsorted(group, np.arange(groups + 1))


def _columns(rows: Sequence[tuple[int, ...]]) -> list[Int]:
    return list(np.array(rows, np.int64).T)
