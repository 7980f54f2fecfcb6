"""Message simulation: message by message, for rounds that do not match and for node ports.

The model is that of model/simulate.py. Every sender offers at most one message. An offer that
cannot start is parked at its obstacle. The obstacle is its pair of processes until the receive is
posted, else a busy port.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mpiprof.errors import MpiprofError
from mpiprof.model.machine import Machine, Numbers, Times
from mpiprof.model.pipeline_formulas import ceil_log2
from mpiprof.model.schedule import BARRIER, RECEIVE, REDUCE, REMOTE, SEND, Schedule

ROUNDS_AT_ONCE = 64
Offer = tuple[float, int]
Pair = tuple[int, int]


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
class _Process:
    rounds: Iterator[Steps]
    group: range
    round: int = -1
    steps: Steps = NO_STEPS
    sent: int = 0
    open: int = 0
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


class MessageSimulation:
    """Simulation of all processes from a round on; `messages`, if given, receives each message."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        machine: Machine,
        nodes: Numbers,
        first_round: int,
        messages: list[Message] | None,
    ) -> None:
        self.machine, self.nodes, self.messages = machine, nodes.tolist(), messages
        size, local_size = len(schedules), schedules[0].problem.size
        self.size = size
        groups = [range(local_size), range(local_size, size)]
        self.processes = []
        for i, schedule in enumerate(schedules):
            mine, other = groups if i < local_size else reversed(groups)
            steps = _read_rounds(schedule, first_round, mine, other)
            self.processes.append(_Process(steps, mine, first_round - 1))
        # Port numbers: the receiving sides of processes, then out and in of each node.
        self.busy = [False] * (size + 2 * (max(self.nodes) + 1))
        self.parked: defaultdict[int | Pair, list[Offer]] = defaultdict(list)
        self.posted: defaultdict[Pair, int] = defaultdict(int)
        self.ready: list[tuple[float, int, int | Pair | None]] = []
        self.agenda: list[tuple[float, int, int]] = []  # time, process, event: see `_handle_event`
        self.finish = np.zeros(size)

    def run(self, begin: Times) -> Times:
        """Return the end of each process, if it enters the first round at `begin`."""
        for i, time in enumerate(begin.tolist()):
            self._leave_round(i, time)
        while self.agenda:
            now = self.agenda[0][0]
            while self.agenda and self.agenda[0][0] == now:
                _, who, event = heapq.heappop(self.agenda)
                self._handle_event(who, event, now)
            while self.ready:
                offer, who, woken_by = heapq.heappop(self.ready)
                self._start((offer, who), woken_by, now)
        stuck = [i for i, p in enumerate(self.processes) if not p.done]
        if stuck:
            at = self.processes[stuck[0]].round
            raise MpiprofError(f"rank {stuck[0]} waits forever in round {at}")
        return self.finish

    def _handle_event(self, who: int, event: int, now: float) -> None:
        """Handle an event: `who` is ready for its messages (-1), or its send to `event` ends."""
        process = self.processes[who]
        if event < 0:
            self._enter_round(who, now)
            return
        for port in self._find_ports(who, event):
            self.busy[port] = False
            self._wake_waiting(port)
        process.sent += 1
        self._offer_send(who, now)
        for i in (who, event):
            self.processes[i].open -= 1
            if self.processes[i].open == 0:
                self._leave_round(i, now)

    def _leave_round(self, who: int, now: float) -> None:
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
                heapq.heappush(self.agenda, (now, who, -1))
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
            heapq.heappush(self.agenda, (now + reduced * self.machine.gamma, i, -1))

    def _enter_round(self, who: int, now: float) -> None:
        process = self.processes[who]
        process.sent = 0
        process.open = len(process.steps.sends) + len(process.steps.receives)
        if not process.open:
            self._leave_round(who, now)
            return
        for source in process.steps.receives:
            self.posted[source, who] += 1
            self._wake_waiting((source, who))
        self._offer_send(who, now)

    def _offer_send(self, who: int, now: float) -> None:
        process = self.processes[who]
        if process.sent < len(process.steps.sends):
            heapq.heappush(self.ready, (now, who, None))

    def _wake_waiting(self, obstacle: int | Pair) -> None:
        waiting = self.parked.get(obstacle)
        if waiting:
            offer, who = heapq.heappop(waiting)
            heapq.heappush(self.ready, (offer, who, obstacle))

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
