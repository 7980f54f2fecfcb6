"""Flow simulation: eager and unexpected messages, and messages that meet at a port.

It replaces the model of model/simulate.py if the machine describes its transport
(model/machine.py). Rounds, reductions and barriers are the same. Messages differ:

- All messages of a round are open at once, and no message waits until an earlier one has left.
- A message of at most `eager_limit` bytes leaves when it is sent. Its send ends when the message
  has left its port. If the transport is buffered, it ends when the message has been copied, unless
  more than a window of bytes to the same process would wait for the port.
- A longer message leaves when its receive is posted, too (rendezvous). Its send ends when it has
  been received.
- A message leaves in chunks of 64 KB, or of half a window if that is less. A port sends one chunk
  at a time, and serves its messages in turn. A message that fits into the window leaves at once. At
  most one window of a message is under way.
- Of alpha, `latency_share` occupies no port: the last chunk arrives that much later (L of LogP).
  Half of the rest occupies the sending port, and half the receiving port (o of LogP).
- A receiving port queues the chunks. While k ports send to it, its queue grows by k - 1 bytes per
  byte of time, so that two messages halve the bandwidth of each other. A chunk has been received
  when everything has been received that was in the queue when the chunk's last byte arrived.
- If `port_beta` is less than beta, a byte occupies a port for that time. The rest of beta (copies,
  which overlap other messages) is latency of the message (G of LogGP is port_beta).
- After an idle time, a port sends or receives up to `burst` bytes in `burst_beta` each (a token
  bucket). While it does nothing, it saves the credit for them at its rate of a byte in beta.
- While messages of k sending ports are under way or waiting to leave to a receiving port, its bytes
  and start-ups take (k - 1) / k * `contention` longer. So many senders at once cost more than the
  same messages in phases.
- An eager message that was received before its receive was posted is copied afterwards, at `copy`
  per byte, before the process sends.
- A message goes one way if its sender receives nothing in its round, and its receiver sends nothing
  in the round in which it is when the message is sent.
- With `node_port`, the processes of a node share the two ports for messages to and from other
  nodes. Other messages use the ports of processes.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpiprof.collectives.machine import Machine, Numbers, Times
from mpiprof.collectives.message_simulator import Message, ProcessRounds, RoundSteps
from mpiprof.collectives.schedule import Schedule

# Bytes that a port sends of one message before it serves the next one: TCP's largest segment. Of
# 16, 32 and 64 KB, it predicts an emulated cluster of 8 nodes best.
CHUNK = 65536
MAX_CHUNKS = 64  # of one message; its chunks are larger if it is long
MIN_UNDER_WAY = 2  # chunks; with one chunk, the ports would wait for each other
Pair = tuple[int, int]
Event = tuple[float, int, Callable[..., None], tuple[Any, ...]]  # time, number, handler


@dataclass(slots=True)
class _Flow:
    """A message under way."""

    source: int
    target: int
    bytes: int
    round: int
    eager: bool
    buffered: bool
    ports: tuple[int, int]  # of the sender and of the receiver
    overhead: float  # ns of each port besides its bytes
    latency: float  # ns that occupy no port
    beta: float  # ns per byte of each port
    burst_beta: float  # the same for the first bytes through an idle port
    chunk: int
    most: float  # chunks under way
    left: int  # bytes that have not been sent
    under_way: int = 0  # chunks that have left and have not been received
    stopped: bool = False  # by the window
    start: float = -1.0  # -1: has not left
    matched: bool = False  # its receive has been posted
    arrived: bool = False


@dataclass(slots=True)
class _SendingPort:
    credit: float  # ns of the bytes that leave at once
    most: float  # credit of an idle port
    since: float = 0.0  # time of the credit
    busy: bool = False
    waiting: deque[_Flow] = field(default_factory=deque)

    def send(self, flow: _Flow, length: int, now: float) -> float:
        """Return how long the port sends some bytes, and reduce its credit."""
        credit = min(self.most, self.credit + now - self.since)
        took = max(length * flow.burst_beta, length * flow.beta - credit)
        self.credit = min(self.most, credit + took - length * flow.beta)
        self.since = now + took
        return took


@dataclass(slots=True)
class _ReceivingPort:
    queue: float  # ns that the queue takes; negative for credit
    least: float  # of an idle port
    sources: Counter[int] = field(default_factory=Counter)  # messages by sending port
    rate: float = 0.0  # at which other ports send to this one now, over its own rate
    since: float = 0.0  # time of queue and rate

    def advance(self, now: float) -> None:
        """Let the queue grow or shrink until now."""
        self.queue = max(self.least, self.queue + (self.rate - 1) * (now - self.since))
        self.since = now

    def forget(self, source: int) -> None:
        """End a message of a sending port."""
        self.sources[source] -= 1
        if not self.sources[source]:
            del self.sources[source]


class FlowSimulation(ProcessRounds):
    """Simulation of all processes; `messages`, if given, receives each message."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        machine: Machine,
        nodes: Numbers,
        messages: list[Message] | None,
        rounds: Sequence[Iterable[RoundSteps]] = (),
    ) -> None:
        super().__init__(schedules, machine, nodes, 0, messages, rounds)
        ports = self.size + max(self.nodes) + 1  # of processes, then of nodes
        credit = machine.burst * max(machine.beta - machine.burst_beta, 0.0)
        self.sending = [_SendingPort(credit, credit) for _ in range(ports)]
        self.receiving = [_ReceivingPort(-credit, -credit) for _ in range(ports)]
        self.posted: defaultdict[Pair, int] = defaultdict(int)  # receives without a message
        self.unmatched: defaultdict[Pair, deque[_Flow]] = defaultdict(deque)
        self.unsent: defaultdict[Pair, int] = defaultdict(int)  # bytes that have not left
        self.agenda: list[Event] = []
        self.count = 0  # of events so far, so that simultaneous events stay in order

    def run(self, begin: Times) -> Times:
        """Return the end of each process, if it arrives at `begin`."""
        for i, time in enumerate(begin.tolist()):
            self.leave_round(i, time)
        while self.agenda:
            now, _, handle, arguments = heapq.heappop(self.agenda)
            handle(*arguments, now)
        self.check_all_done()
        return self.finish

    def schedule_entry(self, number: int, time: float) -> None:
        """Schedule the time when a process is ready for the messages of its round."""
        self._schedule(time, self._enter_round, number)

    def _schedule(self, time: float, handle: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.agenda, (time, self.count, handle, arguments))
        self.count += 1

    # ---- rounds

    def _enter_round(self, number: int, now: float) -> None:
        process = self.processes[number]
        process.open = len(process.steps.sends) + len(process.steps.receives)
        if not process.open:
            self.leave_round(number, now)
            return
        posted = [self._post(source, number, now) for source in process.steps.receives]
        copied = [flow for flow in posted if flow is not None]
        if copied:
            took = sum(flow.bytes for flow in copied) * self.machine.copy
            self._schedule(now + took, self._end_copies, number, copied)
        else:
            self._send_all(number, now)

    def _end_copies(self, number: int, copied: list[_Flow], now: float) -> None:
        """Send after the unexpected messages of a round have been copied."""
        self._send_all(number, now)
        for flow in copied:
            self._end_receive(flow, now)

    def _send_all(self, number: int, now: float) -> None:
        for target, length in self.processes[number].steps.sends:
            self._send(number, target, length, now)

    def _end_message(self, number: int, now: float) -> None:
        """End a send or a receive of a process."""
        process = self.processes[number]
        process.open -= 1
        if process.open == 0:
            self.leave_round(number, now)

    def _end_receive(self, flow: _Flow, now: float) -> None:
        if self.messages is not None:
            ends = (flow.source, flow.target, flow.start, now)
            self.messages.append(Message(*ends, flow.bytes, flow.round))
        self._end_message(flow.target, now)

    # ---- matching

    def _send(self, number: int, target: int, length: int, now: float) -> None:
        m, pair = self.machine, (number, target)
        within = self.nodes[number] == self.nodes[target]
        one_way = not (self.processes[number].steps.receives or self.processes[target].steps.sends)
        alpha, beta = m.message_costs(between=not within, one_way=one_way)
        ports = (number, target)
        if m.node_port and not within:
            ports = (self.size + self.nodes[number], self.size + self.nodes[target])
        eager, at = length <= m.eager_limit, self.processes[number].round
        buffered = m.buffered and eager and self.unsent[pair] + length <= m.window
        kinds, chunks = (eager, buffered), self._limit_chunks(length)
        outside = alpha * m.latency_share
        port_beta = min(m.port_beta or beta, beta)
        latency = outside + length * (beta - port_beta)
        burst_beta = port_beta if within or not m.burst else min(m.burst_beta, port_beta)
        costs = ((alpha - outside) / 2, latency, port_beta, burst_beta)
        flow = _Flow(number, target, length, at, *kinds, ports, *costs, *chunks, length)
        self.unsent[pair] += length
        if buffered:
            self._schedule(now + flow.overhead + length * m.copy, self._end_message, number)
        if self.posted[pair]:
            self.posted[pair] -= 1
            flow.matched = True
        else:
            self.unmatched[pair].append(flow)
        if flow.matched or eager:
            self._open(flow, now)

    def _limit_chunks(self, length: int) -> tuple[int, float]:
        """Return the bytes of a chunk of a message, and how many may be under way."""
        window = self.machine.window
        chunk = max(min(CHUNK, window // MIN_UNDER_WAY or CHUNK), -(-length // MAX_CHUNKS))
        return chunk, max(window // chunk, MIN_UNDER_WAY) if window else math.inf

    def _post(self, source: int, number: int, now: float) -> _Flow | None:
        """Post a receive; return its message if that has been received already."""
        waiting = self.unmatched[source, number]
        if not waiting:
            self.posted[source, number] += 1
            return None
        flow = waiting.popleft()
        flow.matched = True
        if flow.arrived:
            return flow
        if not flow.eager:
            self._open(flow, now)
        return None

    # ---- ports

    def _open(self, flow: _Flow, now: float) -> None:
        """Queue the first chunk of a message."""
        self.receiving[flow.ports[1]].sources[flow.ports[0]] += 1
        self._queue_chunk(flow, now)

    def _queue_chunk(self, flow: _Flow, now: float) -> None:
        port = self.sending[flow.ports[0]]
        port.waiting.append(flow)
        if not port.busy:
            self._start_chunk(port, now)

    def _start_chunk(self, port: _SendingPort, now: float) -> None:
        flow = port.waiting.popleft()
        port.busy = True
        overhead = flow.overhead if flow.start < 0 else 0.0
        if flow.start < 0:
            flow.start = now
        length = min(flow.left, flow.chunk)
        flow.left -= length
        flow.under_way += 1
        if length == 0:
            self._schedule(now + overhead, self._end_chunk, flow, 0, 0.0)
        elif overhead:
            self._schedule(now + overhead, self._begin_data, flow, length)
        else:
            self._begin_data(flow, length, now)

    def _begin_data(self, flow: _Flow, length: int, now: float) -> None:
        port = self.receiving[flow.ports[1]]
        port.advance(now)
        took = self.sending[flow.ports[0]].send(flow, length, now)
        rate = 0.0
        if took:
            rate = length * flow.beta / took
            port.rate += rate
        else:
            port.queue += length * flow.beta
        self._schedule(now + took, self._end_chunk, flow, length, rate)

    def _end_chunk(self, flow: _Flow, length: int, rate: float, now: float) -> None:
        """End a chunk at its sending port."""
        receiving, sending = self.receiving[flow.ports[1]], self.sending[flow.ports[0]]
        receiving.advance(now)
        receiving.rate -= rate
        meeting = len(receiving.sources)
        longer = self.machine.contention * (meeting - 1) / meeting
        receiving.queue += longer * length * flow.beta
        waits = max(receiving.queue, 0.0)
        if not flow.left:
            receiving.queue += (1 + longer) * flow.overhead
            waits += (1 + longer) * flow.overhead + flow.latency
        self._schedule(now + waits, self._receive_chunk, flow)
        sending.busy = False
        flow.stopped = flow.left > 0 and flow.under_way >= flow.most
        if flow.left and not flow.stopped:
            if flow.bytes <= flow.most * flow.chunk:  # it fits into the window
                sending.waiting.appendleft(flow)
            else:
                sending.waiting.append(flow)
        if not flow.left:
            self.unsent[flow.source, flow.target] -= flow.bytes
            if flow.eager and not flow.buffered:
                self._end_message(flow.source, now)
        if sending.waiting and not sending.busy:
            self._start_chunk(sending, now)

    def _receive_chunk(self, flow: _Flow, now: float) -> None:
        flow.under_way -= 1
        if flow.stopped:
            flow.stopped = False
            self._queue_chunk(flow, now)
        if flow.left or flow.under_way:
            return
        flow.arrived = True
        self.receiving[flow.ports[1]].forget(flow.ports[0])
        if not flow.eager:
            self._end_message(flow.source, now)
        if flow.matched:
            self._end_receive(flow, now)
