"""Whose arrival each rank waits for when an algorithm of ours runs, whatever messages cost.

    bcast, binomial, root 0:    0 -+- 4       Rank 5 can't leave before 0 and 1 have come: what
                                   +- 2 - 6   it receives has gone through both.
                                   +- 1 -+- 5
                                         +- 3 - 7

A rank sends a round's messages when it has come and has received those of the rounds before. So
who has reached a rank is known from the schedule alone; the time of messages is left out, as it is
no waiting for anybody.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.model.schedule import BARRIER, RECEIVE, SEND, Algorithm, Problem, Schedule

MOST_LEVELS = 512  # of a chain of more ranks nobody wants each link's waiting
MOST_MESSAGES = 1 << 16

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dependence:
    """States of ranks as they receive, each the union of the states that lead to it.

    State r < p is rank r's arrival. levels: for each level the states it is made from, in a row,
    and where those of each begin; the level's states follow the level's before. final: the state in
    which each rank leaves.
    """

    levels: tuple[tuple[Index, Index], ...]
    final: Index

    def latest(self, arrival: NDArray[Any]) -> NDArray[Any]:
        """Return for each rank the latest arrival that it waits for, its own included.

        arrival: ranks x instances, or ranks; anything that can be ordered.
        """
        count = len(self.final) + sum(len(begins) for _, begins in self.levels)
        state = np.empty((count, *arrival.shape[1:]), arrival.dtype)
        done = len(self.final)
        state[:done] = arrival
        for inputs, begins in self.levels:
            state[done : done + len(begins)] = np.maximum.reduceat(state[inputs], begins, axis=0)
            done += len(begins)
        return np.asarray(state[self.final])


@lru_cache(maxsize=256)
def dependence(algorithm: Algorithm, problem: Problem) -> Dependence | None:
    """Return what an algorithm makes ranks wait for; None where that is too much to follow.

    One group of processes. Raises MpiprofError where the algorithm does not apply.
    """
    rounds: list[list[Round]] = []
    messages = 0
    for rank in range(problem.size):
        found = _rounds(algorithm, problem, rank)
        if found is None:
            return None
        rounds.append(found)
        messages += sum(len(sends) for sends, _ in found)
        if messages > MOST_MESSAGES:
            return None
    return _Walk(rounds).result()


Round = tuple[list[int], list[int]]  # peers that a rank sends to, and receives from


def _rounds(algorithm: Algorithm, problem: Problem, rank: int) -> list[Round] | None:
    """Return the messages of a rank by round; None where there are barriers among them."""
    with Schedule(algorithm, problem, rank) as schedule:
        found: list[Round] = [([], []) for _ in range(schedule.rounds)]
        steps = schedule.steps(0, schedule.rounds)
    for at, kind, peer in steps[np.isin(steps[:, 1], (SEND, RECEIVE, BARRIER)), :3].tolist():
        if kind == BARRIER:
            return None
        found[at][kind == RECEIVE].append(peer)
    return found


class _Walk:
    """Goes through all ranks' rounds, each as far as what it receives has been sent."""

    def __init__(self, rounds: list[list[Round]]) -> None:
        self.rounds = rounds
        size = len(rounds)
        self.reached = [1 << rank for rank in range(size)]  # sets of ranks, as bits
        self.state = list(range(size))
        self.level = [0] * size  # by state
        self.made: list[list[int]] = []  # what each further state is made from
        self.sent: defaultdict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)

    def result(self) -> Dependence | None:
        size = len(self.rounds)
        at, entered = [0] * size, [-1] * size
        ready = deque(range(size))
        while ready:
            rank = ready.popleft()
            while at[rank] < len(self.rounds[rank]):
                sends, receives = self.rounds[rank][at[rank]]
                if entered[rank] < at[rank]:
                    entered[rank] = at[rank]
                    for peer in sends:
                        self.sent[rank, peer].append((self.reached[rank], self.state[rank]))
                        ready.append(peer)
                if not self._receive(rank, receives):
                    break
                at[rank] += 1
        if any(at[rank] < len(self.rounds[rank]) for rank in range(size)):
            return None
        return self._by_level()

    def _receive(self, rank: int, peers: list[int]) -> bool:
        """Take the messages of a round, if all have been sent."""
        if any(len(self.sent[peer, rank]) < peers.count(peer) for peer in set(peers)):
            return False
        inputs = [self.state[rank]]
        for peer in peers:
            reached, state = self.sent[peer, rank].popleft()
            if reached & ~self.reached[rank]:
                self.reached[rank] |= reached
                inputs.append(state)
        if len(inputs) > 1:
            self.state[rank] = len(self.level)
            self.level.append(1 + max(self.level[state] for state in inputs))
            self.made.append(inputs)
        return True

    def _by_level(self) -> Dependence | None:
        """Number the states by level, so that each level is made at once."""
        size, levels = len(self.rounds), max(self.level)
        if levels > MOST_LEVELS:
            return None
        order = sorted(range(size, len(self.level)), key=lambda state: self.level[state])
        number = {state: new for new, state in enumerate([*range(size), *order])}
        found = []
        for level in range(1, levels + 1):
            made = [self.made[s - size] for s in order if self.level[s] == level]
            begins = np.cumsum([0, *map(len, made)])[:-1]
            inputs = [number[state] for one in made for state in one]
            found.append((np.array(inputs, np.int64), begins.astype(np.int64)))
        return Dependence(tuple(found), np.array([number[s] for s in self.state], np.int64))
