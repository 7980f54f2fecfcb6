"""Rounds of processes in a simulation: steps, barriers, and the way from round to round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpiprof.errors import MpiprofError
from mpiprof.model.machine import Machine, Numbers
from mpiprof.model.pipeline_formulas import ceil_log2
from mpiprof.model.schedule import BARRIER, RECEIVE, REDUCE, REMOTE, SEND, Schedule

ROUNDS_AT_ONCE = 64


class Message(NamedTuple):
    """One simulated message; times in ns, processes numbered over both groups."""

    source: int
    target: int
    start: float
    end: float
    bytes: int
    round: int


class Steps(NamedTuple):
    """One round of a process: (peer, bytes) of sends, peers of receives, and local work."""

    sends: list[tuple[int, int]]
    receives: list[int]
    reduced: int
    barrier: bool


NO_STEPS = Steps([], [], 0, False)


@dataclass
class Process:
    """Position of a process in its schedule."""

    rounds: Iterator[Steps]
    group: range
    round: int = -1
    steps: Steps = NO_STEPS
    sent: int = 0
    open: int = 0  # unfinished messages of the round
    at_barrier: float | None = None  # time of arrival at the barrier
    done: bool = False


def _read_rounds(schedule: Schedule, first: int, group: range, remote: range) -> Iterator[Steps]:
    for begin in range(first, schedule.rounds, ROUNDS_AT_ONCE):
        end = min(begin + ROUNDS_AT_ONCE, schedule.rounds)
        rows = schedule.read_steps(begin, end)
        rows = rows[np.isin(rows[:, 1], (SEND, RECEIVE, REDUCE, BARRIER))]
        edges = np.searchsorted(rows[:, 0], np.arange(begin, end + 1))
        for i in range(end - begin):
            part = rows[edges[i] : edges[i + 1]].tolist()
            steps = [
                (kind, peer + (remote if flags & REMOTE else group).start, length)
                for _, kind, peer, _, _, length, _, _, flags in part
            ]
            yield Steps(
                [(peer, length) for kind, peer, length in steps if kind == SEND],
                [peer for kind, peer, _ in steps if kind == RECEIVE],
                sum(length for kind, _, length in steps if kind == REDUCE),
                any(kind == BARRIER for kind, _, _ in steps),
            )


def _find_groups(schedules: Sequence[Schedule]) -> tuple[range, range]:
    """Return the numbers of the local and of the remote group's processes."""
    local_size = schedules[0].problem.size
    return range(local_size), range(local_size, len(schedules))


def open_rounds(schedules: Sequence[Schedule], first_round: int) -> list[Iterator[Steps]]:
    """Return the rounds of each process from a round on, which are read when they are needed."""
    local, remote = _find_groups(schedules)
    return [
        _read_rounds(schedule, first_round, *((local, remote) if i in local else (remote, local)))
        for i, schedule in enumerate(schedules)
    ]


class ProcessRounds(ABC):
    """All processes from a round on; `messages`, if given, receives each message.

    `rounds` are those of `open_rounds`, which several simulations of the same schedules may share
    as lists.
    """

    def __init__(
        self,
        schedules: Sequence[Schedule],
        machine: Machine,
        nodes: Numbers,
        first_round: int,
        messages: list[Message] | None,
        rounds: Sequence[Iterable[Steps]] = (),
    ) -> None:
        self.machine, self.nodes, self.messages = machine, nodes.tolist(), messages
        self.size = size = len(schedules)
        local, remote = _find_groups(schedules)
        self.processes = [
            Process(iter(steps), local if i in local else remote, first_round - 1)
            for i, steps in enumerate(rounds or open_rounds(schedules, first_round))
        ]
        self.finish = np.zeros(size)

    @abstractmethod
    def schedule_entry(self, who: int, time: float) -> None:
        """Schedule the time when a process is ready for the messages of its round."""

    def leave_round(self, who: int, now: float) -> None:
        """Move a process from a finished round to its next round with messages or a barrier."""
        process = self.processes[who]
        for steps in process.rounds:
            process.round += 1
            if steps.barrier:
                process.steps, process.at_barrier = steps, now
                self._release_barrier(process.group)
                return
            now += steps.reduced * self.machine.gamma
            if steps.sends or steps.receives:
                process.steps = steps
                self.schedule_entry(who, now)
                return
        process.done = True
        self.finish[who] = now

    def _release_barrier(self, group: range) -> None:
        """Release a group from a barrier after its last arrival."""
        times = [t for i in group if (t := self.processes[i].at_barrier) is not None]
        if len(times) < len(group):
            return
        now = max(times) + ceil_log2(len(group)) * self.machine.alpha
        for i in group:
            self.processes[i].at_barrier = None
            reduced = self.processes[i].steps.reduced
            self.schedule_entry(i, now + reduced * self.machine.gamma)

    def check_all_done(self) -> None:
        """Raise MpiprofError if a process has not ended its schedule."""
        stuck = [i for i, p in enumerate(self.processes) if not p.done]
        if stuck:
            at = self.processes[stuck[0]].round
            raise MpiprofError(f"rank {stuck[0]} waits forever in round {at}")
