"""Wait-for cycles: ranks that wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpiprof.hang.rank_state import Pending, Position
from mpiprof.hang.wait_graph import has_left
from mpiprof.metrics.disagreement import Side
from mpiprof.operations import OPERATIONS, awaited_ranks, base_operation
from mpiprof.trace import Trace
from mpiprof.trace.call import Call, Key

MAX_STARTS = 64  # maximum number of ranks from which a cycle is searched


@dataclass(frozen=True)
class Link:
    """An edge of the wait-for graph: a rank waiting in an operation, and the rank it waits for."""

    rank: int
    call: Call
    waits_for: int


def shortest_cycle(links: Mapping[int, Sequence[Link]]) -> tuple[Link, ...]:
    """Return a shortest cycle of the wait-for graph; empty if there is none."""
    ahead = {rank: {link.waits_for for link in out if link.waits_for in links}
             for rank, out in links.items()}  # fmt: skip
    while dull := [rank for rank, out in ahead.items() if not out]:
        for rank in dull:
            del ahead[rank]
        ahead = {rank: out - set(dull) for rank, out in ahead.items()}
    best: tuple[Link, ...] = ()
    for start in list(ahead)[:MAX_STARTS]:
        found = _path_back(start, links, ahead)
        if found and (not best or len(found) < len(best)):
            best = found
    return best


def _path_back(
    start: int, links: Mapping[int, Sequence[Link]], ahead: Mapping[int, set[int]]
) -> tuple[Link, ...]:
    came: dict[int, Link] = {}
    queue = deque([start])
    while queue:
        rank = queue.popleft()
        for link in links[rank]:
            if link.waits_for not in ahead or link.waits_for in came:
                continue
            came[link.waits_for] = link
            if link.waits_for == start:
                way = [link]
                while way[0].rank != start:
                    way.insert(0, came[way[0].rank])
                return tuple(way)
            queue.append(link.waits_for)
    return ()


def find(
    trace: Trace, positions: Sequence[Position], pending: Sequence[Pending], long: set[Key]
) -> tuple[tuple[Link, ...], tuple[int, ...]]:
    """Return a cycle of pending operations and the ranks to look at; both empty if there is none.

    A rank with a thread outside all operations may still arrive, so it adds no edge. long: keys of
    long-pending instances.
    """
    links: dict[int, list[Link]] = {}
    by_key = {one.key: one for one in pending}
    for position in positions:
        for call in position.open:
            one = by_key.get(call.key)
            stuck = not position.free and not has_left(position)
            if one is not None and one.missing and stuck:
                for other in _awaited_ranks(trace, position.rank, call, one, call.key in long):
                    links.setdefault(position.rank, []).append(Link(position.rank, call, other))
    cycle = shortest_cycle(links)
    return cycle, _odd_ranks(trace, positions, cycle) if cycle else ()


def _awaited_ranks(trace: Trace, rank: int, call: Call, one: Pending, is_long: bool) -> list[int]:
    """Return the missing ranks that a rank waits for.

    In a long-pending instance it waits for all of them, because a library may synchronise all
    members.
    """
    missing = [other for other in one.missing if other != rank]
    known = OPERATIONS.get(base_operation(call.operation))
    if is_long or known is None:
        return missing if is_long else []
    communicator = trace.tables.communicators[call.key[0]]
    sources = trace.tables.sources.get((communicator.index, rank), ())
    awaited = awaited_ranks(
        known.wait_rule,
        communicator.find_column(rank),
        communicator.sizes,
        communicator.find_column(call.shape.root),
        [communicator.find_column(source) for source in sources],
    )
    return [other for other in missing if communicator.find_column(other) in awaited]


def _odd_ranks(
    trace: Trace, positions: Sequence[Position], cycle: Sequence[Link]
) -> tuple[int, ...]:
    """Return the ranks in the less frequent operation, of all ranks that could be in any."""
    calls = {link.call.key: link.call for link in cycle}
    members = [set(trace.tables.communicators[key[0]].ranks.tolist()) for key in calls]
    both = set.intersection(*members)
    groups = [
        Side(
            key[1],
            tuple(r for r in sorted(both) if any(c.key == key for c in positions[r].open)),
            (),
        )
        for key in calls
    ]
    groups.sort(key=lambda side: -len(side.ranks))
    if len(groups) == 2 and len(groups[0].ranks) > len(groups[1].ranks) > 0:
        return groups[1].ranks
    return tuple(sorted(link.rank for link in cycle))
