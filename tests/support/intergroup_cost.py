"""Costs of allgather and allgatherv on inter-communicators, as start-ups and bytes.

`a` and `b` are the messages of both groups, p and q of them; P processes are in the larger group, Q
in the smaller one (Kang et al. 2019). Each function returns the start-ups and the bytes of the
slowest chain. These are upper bounds if messages or teams differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.pipeline_formulas import DEFAULT_BLOCK_SIZE, ceil_log2
from support.intergroup_bounds import algorithm_2_bound
from support.round_counts import broadcast_rounds

Messages = Sequence[int]
Taken = tuple[int, int]
Gather = Callable[[Messages], Taken]
Broadcast = Callable[[int, int], Taken]


def _over_tree(messages: Messages) -> Taken:
    return ceil_log2(len(messages)), sum(messages) - messages[0]


def _along_ranks(messages: Messages) -> Taken:
    """Gather along the ranks: each step lasts as long as the longest message still to come."""
    longest = np.maximum.accumulate(np.array(messages[:0:-1], np.int64))
    return len(messages) - 1, int(longest.sum())


def _by_scatter(size: int, total: int) -> Taken:
    return ceil_log2(size) + size - 1, 2 * -(-total * (size - 1) // size)


def _in_blocks(size: int, total: int) -> Taken:
    blocks = -(-total // DEFAULT_BLOCK_SIZE)
    rounds = broadcast_rounds(size, blocks)
    return rounds, rounds * -(-total // blocks) if blocks else 0


def _longer(one: Taken, other: Taken) -> Taken:
    return max(one[0], other[0]), max(one[1], other[1])


def root_gathering(
    a: Messages,
    b: Messages,
    *,
    concurrent: bool,
    gather: Gather = _over_tree,
    broadcast: Broadcast = _by_scatter,
) -> Taken:
    """Gather to the roots, exchange, broadcast; sequentially or concurrently.

    As formula (2) of the paper, with broadcasts of 2 (1 - 1/p) times all data, or as formula (1).
    """
    gathered = _longer(gather(a), gather(b))
    to_a, to_b = broadcast(len(a), sum(b)), broadcast(len(b), sum(a))
    if concurrent:
        across = 1, max(sum(a), sum(b))
        rest = _longer(to_a, to_b)
    else:
        across = 2, sum(a) + sum(b)
        rest = to_a[0] + to_b[0], to_a[1] + to_b[1]
    return gathered[0] + across[0] + rest[0], gathered[1] + across[1] + rest[1]


def kang(a: Messages, b: Messages) -> Taken:
    """Algorithm 1 if one group's size is a multiple of the other's, else Algorithm 2."""
    larger, smaller = _ordered(a, b)
    return shares(a, b) if len(larger) % len(smaller) else in_teams(a, b)


def in_teams(a: Messages, b: Messages) -> Taken:
    """Algorithm 1, teams of unequal size included."""
    larger, smaller = _ordered(a, b)
    teams = _teams(larger, len(smaller))
    segments = [-(-m // len(team)) for m, team in zip(smaller, teams, strict=True)]
    rings = (len(larger) - 1) * max(segments), (len(smaller) - 1) * max(map(sum, teams))
    exchange = _exchange(segments, teams, len(teams[0]))
    return len(teams[0]) + len(larger) - 1, exchange + max(rings)


def shares(a: Messages, b: Messages) -> Taken:
    """Algorithm 2; the bytes are Theorem 3's bound, which random messages may exceed by a quarter.

    A single receiver has no ring, and receives all data directly. The start-ups are those of the
    process with the most partners, and of the longer ring.
    """
    partners = max(_most_partners(a, len(b)), _most_partners(b, len(a)))
    volume = max(
        algorithm_2_bound(m, []) if receivers > 1 else sum(m)
        for m, receivers in ((a, len(b)), (b, len(a)))
    )
    return partners + max(len(a), len(b)) - 1, volume


def unsegmented(a: Messages, b: Messages) -> Taken:
    """Whole messages to every member of a team, then rings across the teams."""
    larger, smaller = _ordered(a, b)
    members, teams = len(larger) // len(smaller), _teams(larger, len(smaller))
    steps, within = len(teams[0]), (len(smaller) - 1) * max(map(sum, teams))
    across = _across(len(larger), len(smaller)) - 1
    volume = _exchange(smaller, teams, members) + max(across * max(smaller), within)
    return steps + max(across, len(smaller) - 1), volume


def two_step(a: Messages, b: Messages) -> Taken:
    """Segments to the members of a team, a ring within each team, then rings across the teams."""
    larger, smaller = _ordered(a, b)
    members, teams = len(larger) // len(smaller), _teams(larger, len(smaller))
    segments = [-(-m // members) for m in smaller]
    steps, within = len(teams[0]), (len(smaller) - 1) * max(map(sum, teams))
    across = _across(len(larger), len(smaller)) - 1
    rings = (members - 1) * max(segments) + across * max(smaller)
    volume = _exchange(segments, teams, members) + max(rings, within)
    return steps + max(members - 1 + across, len(smaller) - 1), volume


def _ordered(a: Messages, b: Messages) -> tuple[Messages, Messages]:
    return (a, b) if len(a) >= len(b) else (b, a)


def _teams(larger: Messages, count: int) -> list[Messages]:
    """Return the messages of each team; team sizes differ by at most one, larger teams first."""
    base, more = divmod(len(larger), count)
    edges = [j * base + min(j, more) for j in range(count + 1)]
    return [larger[edges[j] : edges[j + 1]] for j in range(count)]


def _exchange(pieces: Messages, teams: Sequence[Messages], members: int) -> int:
    """Return the bytes of the slowest sequential exchange of a process with its team."""
    return max(
        sum(max(piece if i < members else 0, m) for i, m in enumerate(team))
        for piece, team in zip(pieces, teams, strict=True)
    )


def _across(larger: int, smaller: int) -> int:
    """Return the number of processes of the longest ring across the teams."""
    members, odd = larger // smaller, larger % smaller
    return smaller + -(-odd // members)


def _most_partners(senders: Messages, receivers: int) -> int:
    """Return the maximum number of partners of a process on either side, with equal shares."""
    begins = np.concatenate([[0], np.cumsum(np.array(senders, np.int64))])
    total = int(begins[-1])
    base, more = divmod(total, receivers)
    at = np.arange(receivers + 1)
    edges = at * base + np.minimum(at, more)
    return max(_overlaps(begins, edges), _overlaps(edges, begins)) if total else 0


def _overlaps(intervals: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """Return the maximum number of non-empty `others` that one interval overlaps."""
    others = np.unique(others)
    first = np.searchsorted(others, intervals[:-1], "right") - 1
    last = np.searchsorted(others, intervals[1:], "left")
    return int(np.where(intervals[1:] > intervals[:-1], last - first, 0).max())


FORMULAS: dict[tuple[str, str], Callable[[Messages, Messages], Taken]] = {
    ("allgather", "kang"): kang,
    ("allgather", "kang_teams"): in_teams,
    ("allgatherv", "kang"): shares,
    ("allgatherv", "root_gathering_ring"): lambda a, b: root_gathering(
        a, b, concurrent=False, gather=_along_ranks
    ),
    **{
        (operation, name): formula
        for operation in ("allgather", "allgatherv")
        for name, formula in (
            ("root_gathering_sequential", lambda a, b: root_gathering(a, b, concurrent=False)),
            ("root_gathering_concurrent", lambda a, b: root_gathering(a, b, concurrent=True)),
            (
                "root_gathering_best",
                lambda a, b: root_gathering(a, b, concurrent=True, broadcast=_in_blocks),
            ),
            ("kang_unsegmented", unsegmented),
            ("kang_two_step", two_step),
        )
    },
}
