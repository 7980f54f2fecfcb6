"""Message simulation: message by message, for rounds that do not match and for node ports.

The model is that of model/simulate.py. Every sender offers at most one message. An offer that
cannot start is parked at its obstacle. The obstacle is its pair of processes until the receive is
posted, else a busy port.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from mpiprof.model.machine import Machine, Numbers, Times
from mpiprof.model.process_rounds import Message, ProcessRounds
from mpiprof.model.schedule import Schedule

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
                _, who, event = heapq.heappop(self.agenda)
                self._handle_event(who, event, now)
            while self.ready:
                offer, who, woken_by = heapq.heappop(self.ready)
                self._start((offer, who), woken_by, now)
        self.check_all_done()
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
                self.leave_round(i, now)

    def schedule_entry(self, who: int, time: float) -> None:
        """Schedule the time when a process is ready for the messages of its round."""
        heapq.heappush(self.agenda, (time, who, -1))

    def _enter_round(self, who: int, now: float) -> None:
        process = self.processes[who]
        process.sent = 0
        process.open = len(process.steps.sends) + len(process.steps.receives)
        if not process.open:
            self.leave_round(who, now)
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
