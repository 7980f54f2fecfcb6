"""Simulation message by message, for rounds that do not match and for node ports.

`ProcessRounds` leads the processes from round to round: steps, barriers and ends. Two simulations
are built on it: that of this module, with the model of model/simulate.py, and that of transports
(model/flow_simulator.py).

Here every sender offers at most one message. An offer that cannot start is parked at its obstacle.
The obstacle is its pair of processes until the receive is posted, else a busy port.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpiprof.collectives.machine import Machine, Numbers, Times
from mpiprof.collectives.pipeline_formulas import ceil_log2
from mpiprof.collectives.schedule import BARRIER, RECEIVE, REDUCE, REMOTE, SEND, Schedule
from mpiprof.errors import MpiprofError

ROUNDS_AT_ONCE = 64


class Message(NamedTuple):
    """One simulated message; times in ns, processes numbered over both groups."""

    source: int
    target: int
    start: float
    end: float
    bytes: int
    round: int


class RoundSteps(NamedTuple):
    """One round of a process: (peer, bytes) of sends, peers of receives, and local work."""

    sends: list[tuple[int, int]]
    receives: list[int]
    reduced: int
    barrier: bool


NO_STEPS = RoundSteps([], [], 0, False)


@dataclass
class SimulatedProcess:
    """Position of a process in its schedule."""

    rounds: Iterator[RoundSteps]
    group: range
    round: int = -1
    steps: RoundSteps = NO_STEPS
    sent: int = 0
    open: int = 0  # unfinished messages of the round
    at_barrier: float | None = None  # time of arrival at the barrier
    done: bool = False


def _read_rounds(
    schedule: Schedule, first: int, group: range, remote: range
) -> Iterator[RoundSteps]:
    for begin in range(first, schedule.rounds, ROUNDS_AT_ONCE):
        end = min(begin + ROUNDS_AT_ONCE, schedule.rounds)
        rows = schedule.read_steps(begin, end)
        rows = rows[np.isin(rows[:, 1], (SEND, RECEIVE, REDUCE, BARRIER))]
        edges = np.searchsorted(rows[:, 0], np.arange(begin, end + 1))
        for i in range(end - begin):
            sends, receives, reduced, has_barrier = [], [], 0, False
            for row in rows[edges[i] : edges[i + 1]].tolist():
                kind, length = row[1], row[5]
                peer = row[2] + (remote if row[8] & REMOTE else group).start
                if kind == SEND:
                    sends.append((peer, length))
                elif kind == RECEIVE:
                    receives.append(peer)
                elif kind == REDUCE:
                    reduced += length
                else:
                    has_barrier = True
            yield RoundSteps(sends, receives, reduced, has_barrier)


def _find_groups(schedules: Sequence[Schedule]) -> tuple[range, range]:
    """Return the numbers of the local and of the remote group's processes."""
    local_size = schedules[0].problem.size
    return range(local_size), range(local_size, len(schedules))


def open_rounds(schedules: Sequence[Schedule], first_round: int) -> list[Iterator[RoundSteps]]:
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
        rounds: Sequence[Iterable[RoundSteps]] = (),
    ) -> None:
        self.machine, self.nodes, self.messages = machine, nodes.tolist(), messages
        self.size = size = len(schedules)
        local, remote = _find_groups(schedules)
        self.processes = [
            SimulatedProcess(iter(steps), local if i in local else remote, first_round - 1)
            for i, steps in enumerate(rounds or open_rounds(schedules, first_round))
        ]
        self.finish = np.zeros(size)

    @abstractmethod
    def schedule_entry(self, number: int, time: float) -> None:
        """Schedule the time when a process is ready for the messages of its round."""

    def leave_round(self, number: int, now: float) -> None:
        """Move a process from a finished round to its next round with messages or a barrier."""
        process = self.processes[number]
        for steps in process.rounds:
            process.round += 1
            if steps.barrier:
                process.steps, process.at_barrier = steps, now
                self._release_barrier(process.group)
                return
            now += steps.reduced * self.machine.gamma
            if steps.sends or steps.receives:
                process.steps = steps
                self.schedule_entry(number, now)
                return
        process.done = True
        self.finish[number] = now

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


# ---- messages

Offer = tuple[float, int]
Pair = tuple[int, int]


class MessageSimulation(ProcessRounds):
    """Simulation of all processes from a round on; `messages`, if given, receives each message."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        machine: Machine,
        nodes: Numbers,
        first_round: int,
        messages: list[Message] | None,
    ) -> None:
        super().__init__(schedules, machine, nodes, first_round, messages)
        # Port numbers: the receiving sides of processes, then out and in of each node.
        self.busy = [False] * (self.size + 2 * (max(self.nodes) + 1))
        self.parked: defaultdict[int | Pair, list[Offer]] = defaultdict(list)
        self.posted: defaultdict[Pair, int] = defaultdict(int)
        self.ready: list[tuple[float, int, int | Pair | None]] = []
        self.agenda: list[tuple[float, int, int]] = []  # time, process, event: see `_handle_event`

    def run(self, begin: Times) -> Times:
        """Return the end of each process, if it enters the first round at `begin`."""
        for i, time in enumerate(begin.tolist()):
            self.leave_round(i, time)
        while self.agenda:
            now = self.agenda[0][0]
            while self.agenda and self.agenda[0][0] == now:
                _, number, event = heapq.heappop(self.agenda)
                self._handle_event(number, event, now)
            while self.ready:
                offer, number, woken_by = heapq.heappop(self.ready)
                self._start((offer, number), woken_by, now)
        self.check_all_done()
        return self.finish

    def _handle_event(self, number: int, event: int, now: float) -> None:
        """Handle an event: `who` is ready for its messages (-1), or its send to `event` ends."""
        process = self.processes[number]
        if event < 0:
            self._enter_round(number, now)
            return
        for port in self._find_ports(number, event):
            self.busy[port] = False
            self._wake_waiting(port)
        process.sent += 1
        self._offer_send(number, now)
        for i in (number, event):
            self.processes[i].open -= 1
            if self.processes[i].open == 0:
                self.leave_round(i, now)

    def schedule_entry(self, number: int, time: float) -> None:
        """Schedule the time when a process is ready for the messages of its round."""
        heapq.heappush(self.agenda, (time, number, -1))

    def _enter_round(self, number: int, now: float) -> None:
        process = self.processes[number]
        process.sent = 0
        process.open = len(process.steps.sends) + len(process.steps.receives)
        if not process.open:
            self.leave_round(number, now)
            return
        for source in process.steps.receives:
            self.posted[source, number] += 1
            self._wake_waiting((source, number))
        self._offer_send(number, now)

    def _offer_send(self, number: int, now: float) -> None:
        process = self.processes[number]
        if process.sent < len(process.steps.sends):
            heapq.heappush(self.ready, (now, number, None))

    def _wake_waiting(self, obstacle: int | Pair) -> None:
        waiting = self.parked.get(obstacle)
        if waiting:
            offer, number = heapq.heappop(waiting)
            heapq.heappush(self.ready, (offer, number, obstacle))

    def _find_ports(self, source: int, target: int) -> tuple[int, ...]:
        source_node, target_node = self.nodes[source], self.nodes[target]
        if source_node == target_node or not self.machine.node_port:
            return (target,)
        return (target, self.size + 2 * source_node, self.size + 2 * target_node + 1)

    def _start(self, offer: Offer, woken_by: int | Pair | None, now: float) -> None:
        """Start a message, or park it at its obstacle."""
        source = offer[1]
        process = self.processes[source]
        target, length = process.steps.sends[process.sent]
        ports = self._find_ports(source, target)
        pair = (source, target)
        obstacle: int | Pair | None = next((port for port in ports if self.busy[port]), None)
        if not self.posted[pair]:
            obstacle = pair
        if obstacle is not None:
            heapq.heappush(self.parked[obstacle], offer)
            if woken_by not in (None, obstacle) and isinstance(woken_by, int):
                self._wake_waiting(woken_by)
            return
        for port in ports:
            self.busy[port] = True
        self.posted[pair] -= 1
        between = self.nodes[source] != self.nodes[target]
        one_way = not (process.steps.receives or self.processes[target].steps.sends)
        end = now + self.machine.message_time(length, between=between, one_way=one_way)
        heapq.heappush(self.agenda, (end, source, target))
        if self.messages is not None:
            self.messages.append(Message(source, target, now, end, length, process.round))
