"""Wait dependences of an mpiprof algorithm: arrivals that each rank waits for, at any message cost.

    bcast, binomial, root 0     0 -+- 4       Rank 5 cannot leave before ranks 0 and 1 arrive,
                                   +- 2 - 6   because its data passes through both.
                                   +- 1 -+- 5
                                         +- 3 - 7

A rank sends a round's messages after its arrival and after it received the messages of all earlier
rounds. So the schedule alone determines the ranks that reach it. Message times are excluded,
because they are no waiting for a rank.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.schedule import BARRIER, RECEIVE, SEND, Algorithm, Problem, Schedule

MAX_LEVELS = 512  # a longer chain is not resolved into each link's wait
MAX_MESSAGES = 1 << 16

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dependence:
    """States of ranks as they receive; each state is the union of the states that lead to it.

    State r < p is rank r's arrival. levels: per level, the concatenated input states and the start
    of each new state's inputs. A level's states follow the states of the previous level. final: the
    state in which each rank leaves.
    """

    levels: tuple[tuple[Index, Index], ...]
    final: Index

    def latest_awaited(self, arrival: NDArray[Any]) -> NDArray[Any]:
        """Return the latest arrival each rank waits for, or its own; shape: ranks [x instances]."""
        count = len(self.final) + sum(len(begins) for _, begins in self.levels)
        state = np.empty((count, *arrival.shape[1:]), arrival.dtype)
        done = len(self.final)
        state[:done] = arrival
        for inputs, begins in self.levels:
            state[done : done + len(begins)] = np.maximum.reduceat(state[inputs], begins, axis=0)
            done += len(begins)
        return np.asarray(state[self.final])


@lru_cache(maxsize=256)
def find_dependence(algorithm: Algorithm, problem: Problem) -> Dependence | None:
    """Return the wait dependences of an algorithm, or None if they are too many or undefined.

    For one group of processes. Raises MpiprofError if the algorithm does not apply.
    """
    rounds: list[list[Round]] = []
    messages = 0
    for rank in range(problem.size):
        rank_rounds = _rank_rounds(algorithm, problem, rank)
        messages += sum(len(sends) for sends, _ in rank_rounds or ())
        if rank_rounds is None or messages > MAX_MESSAGES:
            return None
        rounds.append(rank_rounds)
    return _RoundWalk(rounds).find_dependence()


Round = tuple[list[int], list[int]]  # peers that a rank sends to and receives from


def _rank_rounds(algorithm: Algorithm, problem: Problem, rank: int) -> list[Round] | None:
    """Return the messages of a rank by round, or None if there are barriers."""
    with Schedule(algorithm, problem, rank) as schedule:
        walked: list[Round] = [([], []) for _ in range(schedule.rounds)]
        steps = schedule.read_steps(0, schedule.rounds)
    for at, kind, peer in steps[np.isin(steps[:, 1], (SEND, RECEIVE, BARRIER)), :3].tolist():
        if kind == BARRIER:
            return None
        walked[at][kind == RECEIVE].append(peer)
    return walked


class _RoundWalk:
    """Walks through all ranks' rounds; a rank proceeds when its messages have been sent."""

    def __init__(self, rounds: list[list[Round]]) -> None:
        self.rounds = rounds
        size = len(rounds)
        self.reached = [1 << rank for rank in range(size)]  # sets of ranks, as bits
        self.state = list(range(size))
        self.level = [0] * size  # by state
        self.made: list[list[int]] = []  # inputs of each further state
        self.sent: defaultdict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)

    def find_dependence(self) -> Dependence | None:
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
        return self._sort_by_level()

    def _receive(self, rank: int, peers: list[int]) -> bool:
        """Receive the messages of a round; returns False if some have not been sent."""
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

    def _sort_by_level(self) -> Dependence | None:
        """Number the states by level, so that each level is one array operation."""
        size, levels = len(self.rounds), max(self.level)
        if levels > MAX_LEVELS:
            return None
        order = sorted(range(size, len(self.level)), key=lambda state: self.level[state])
        number = {state: new for new, state in enumerate([*range(size), *order])}
        sorted_levels = []
        for level in range(1, levels + 1):
            groups = [self.made[s - size] for s in order if self.level[s] == level]
            begins = np.cumsum([0, *map(len, groups)])[:-1]
            inputs = [number[state] for group in groups for state in group]
            sorted_levels.append((np.array(inputs, np.int64), begins.astype(np.int64)))
        return Dependence(tuple(sorted_levels), np.array([number[s] for s in self.state], np.int64))
