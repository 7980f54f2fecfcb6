"""Messages of all processes by round: schedules without their buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpiprof.errors import MpiprofError
from mpiprof.model.buffer_contract import list_groups
from mpiprof.model.schedule import Algorithm, Problem, Schedule, read_group_round

FACTS_PER_MESSAGE = 4  # per process: sends, receives, bytes reduced, barriers
INITIAL_CAPACITY = 1024


def applies_to(algorithm: Algorithm, problem: Problem) -> bool:
    """Return whether an algorithm can solve a problem."""
    try:
        Schedule(algorithm, problem, 0).close()
    except MpiprofError:
        return False
    return True


@dataclass(frozen=True)
class Round:
    """One round of all processes. Sends are in order of the sender, then of emission."""

    sources: NDArray[np.int64]
    targets: NDArray[np.int32]
    lengths: NDArray[np.int64]
    sends: NDArray[np.int64]
    receives: NDArray[np.int64]
    reduced: NDArray[np.int64]
    barriers: NDArray[np.int64]


class Traffic:
    """Schedules of all processes, the local group first; a resource that must be closed."""

    def __init__(self, algorithm: Algorithm, problem: Problem) -> None:
        self.size = problem.size + problem.remote_size
        self._numbers = np.arange(self.size)
        self.schedules: list[Schedule] = []
        self._groups: list[tuple[NDArray[np.uint64], int, int]] = []
        self._peers = np.empty(INITIAL_CAPACITY, np.int32)
        self._lengths = np.empty(INITIAL_CAPACITY, np.int64)
        self._facts = np.zeros((self.size, FACTS_PER_MESSAGE), np.int64)
        try:
            for group, first, remote_first in list_groups(problem):
                for rank in range(group.size):
                    self.schedules.append(Schedule(algorithm, group, rank))
                handles = np.array([s.handle for s in self.schedules[first:]], np.uint64)
                self._groups.append((handles, first, remote_first))
        except BaseException:
            self.close()
            raise
        self.rounds = max(s.rounds for s in self.schedules)
        self.groups = [(first, first + len(handles)) for handles, first, _ in self._groups]

    def close(self) -> None:
        """Release all contexts."""
        for schedule in self.schedules:
            schedule.close()
        self.schedules = []

    def read_round(self, r: int) -> Round | None:
        """Return round r, or None if its messages do not match within the round."""
        begin, balance = 0, np.zeros(1, np.uint64)
        for handles, first, remote_first in self._groups:
            facts = self._facts[first : first + len(handles)]
            while True:
                before = balance.copy()
                arrays = (facts, self._peers[begin:], self._lengths[begin:])
                count = read_group_round(handles, r, first, remote_first, arrays, balance)
                if begin + count <= len(self._peers):
                    break
                balance = before
                more = begin + count - len(self._peers)
                self._peers = np.pad(self._peers, (0, more))
                self._lengths = np.pad(self._lengths, (0, more))
            begin += count
        if balance[0]:
            return None
        sends, receives, reduced, barriers = self._facts.T
        sources = np.repeat(self._numbers, sends)
        messages = (sources, self._peers[:begin], self._lengths[:begin])
        return Round(*messages, sends, receives, reduced, barriers)
