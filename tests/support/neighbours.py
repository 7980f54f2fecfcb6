"""Neighbours of the ranks of a simulated program, with the edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.trace.types import Int

MOST_NEIGHBOURS = 128  # of a rank; a logged call has at most 256 messages


@dataclass(frozen=True)
class Neighbours:
    """Edges from ranks to their neighbours, by rank; a rank without neighbours has none.

    ranks: all with neighbours. first, degree: the first edge and the number of edges of each.
    Arrays per edge: row (index into `ranks`), peer, position (among the edges of its rank),
    occurrence (among the edges between the same two ranks), reverse (the edge of the peer).
    """

    ranks: Int
    first: Int
    degree: Int
    row: Int
    peer: Int
    position: Int
    occurrence: Int
    reverse: Int

    @property
    def rank(self) -> Int:
        """Return the rank of each edge."""
        ranks: Int = self.ranks[self.row]
        return ranks


def make_neighbours(lists: Sequence[Sequence[int]]) -> Neighbours:
    """Return the neighbours of each rank, from their lists; ValueError if one is not mutual."""
    edges: dict[tuple[int, int, int], int] = {}
    for rank, peers in enumerate(lists):
        if len(peers) > MOST_NEIGHBOURS:
            raise ValueError(f"rank {rank} has more than {MOST_NEIGHBOURS} neighbours")
        seen: Counter[int] = Counter()
        for peer in peers:
            edges[rank, peer, seen[peer]] = len(edges)
            seen[peer] += 1
    try:
        reverse = [edges[peer, rank, nth] for rank, peer, nth in edges]
    except KeyError as error:
        rank, peer, _ = error.args[0]
        raise ValueError(f"rank {peer} has neighbour {rank}, which has not {peer}") from None
    degree = np.array([len(peers) for peers in lists], np.int64)
    ranks = np.flatnonzero(degree)
    degree = degree[ranks]
    first = np.cumsum(degree) - degree
    row = np.repeat(np.arange(len(ranks)), degree)
    peer_of, occurrence = (np.array([edge[i] for edge in edges], np.int64) for i in (1, 2))
    position = np.arange(len(row)) - first[row]
    reversed_ = np.array(reverse, np.int64)
    return Neighbours(ranks, first, degree, row, peer_of, position, occurrence, reversed_)


def make_ring(ranks: int, periodic: bool = True) -> Neighbours:
    """Return the left and right neighbour of each rank, in this order."""
    return make_grid((ranks,), periodic)


def make_grid(shape: Sequence[int], periodic: bool = True) -> Neighbours:
    """Return the neighbours in a grid, ranks in C order: both of each dimension."""
    numbers = np.arange(np.prod(shape)).reshape(shape)
    lists: list[list[int]] = []
    for index in np.ndindex(*shape):
        peers = []
        for dimension, size in enumerate(shape):
            for step in (-1, 1):
                at = list(index)
                at[dimension] += step
                if periodic:
                    at[dimension] %= size
                if 0 <= at[dimension] < size:
                    peers.append(int(numbers[tuple(at)]))
        lists.append(peers)
    return make_neighbours(lists)
