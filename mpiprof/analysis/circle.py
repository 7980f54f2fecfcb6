"""Circles of ranks that wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpiprof.analysis.positions import Call

MOST_TRIED = 64  # ranks from which a circle is looked for


@dataclass(frozen=True)
class Link:
    """A rank that waits in an operation, and the rank that it waits for."""

    rank: int
    call: Call
    waits_for: int


def shortest(links: Mapping[int, Sequence[Link]]) -> tuple[Link, ...]:
    """Return a shortest circle of ranks that wait for each other; empty where there is none."""
    ahead = {rank: {link.waits_for for link in out if link.waits_for in links}
             for rank, out in links.items()}  # fmt: skip
    while dull := [rank for rank, out in ahead.items() if not out]:
        for rank in dull:
            del ahead[rank]
        ahead = {rank: out - set(dull) for rank, out in ahead.items()}
    best: tuple[Link, ...] = ()
    for start in list(ahead)[:MOST_TRIED]:
        found = _way_back(start, links, ahead)
        if found and (not best or len(found) < len(best)):
            best = found
    return best


def _way_back(
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
