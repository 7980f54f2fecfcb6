"""Simulation of an algorithm under alpha, beta, gamma and any arrival pattern.

The model:

- A process enters its first round at its arrival. It enters each next round when all its messages
  of the previous round have left and arrived. In a round it first does the reductions (gamma per
  byte; copies are free). Then all its messages are open at once.
- Every process has one full-duplex port: it sends one message at a time and, independently,
  receives one at a time. Its sends leave in order of emission. It offers the next send when the
  previous one has left.
- A message starts when it is offered, the receiver has entered the round with the matching receive,
  and the receiver's port is free (rendezvous). It takes alpha + beta * bytes and ends on both sides
  at once. Tokens have 0 bytes. A receiver serves offers in order of time, then of rank.
- A message goes one way if its sender receives nothing, and its receiver sends nothing, in their
  rounds. Then factors of the machine apply to alpha and beta.
- Alpha and beta differ between and within nodes. With `node_port`, all processes of a node share
  one more full-duplex port for messages to and from other nodes. A message between nodes starts
  only if both nodes' ports are free, too.
- A barrier ends for all processes ceil(lg p) * alpha after its last arrival.

Times are float64 nanoseconds. Rounds with all messages matched within the round are computed for
all processes at once. From the first other round on, processes in different rounds are computed at
once (model/vector_simulator.py). Rounds with several messages one way, and `node_port`, are
computed message by message (model/message_simulator.py). Rings of many processes have a fast path
(model/ring_fast_path.py). All methods agree exactly.

A machine with a transport has eager messages, and messages that meet at a port. It has its own
model (model/flow_simulator.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpiprof.errors import MpiprofError
from mpiprof.model import ring_fast_path
from mpiprof.model.flow_simulator import FlowSimulation
from mpiprof.model.machine import DEFAULT, Machine, Numbers, Times
from mpiprof.model.message_rounds import Round, Traffic
from mpiprof.model.message_simulator import MessageSimulation
from mpiprof.model.pipeline_formulas import ceil_log2
from mpiprof.model.process_rounds import Message, open_rounds
from mpiprof.model.schedule import Algorithm, Problem
from mpiprof.model.vector_simulator import simulate_vectors

MIN_RING_SIZE = 256  # minimum number of processes for the fast path of rings
MIN_WAVE_SENDS = 16  # minimum mean number of messages per wave, so that waves are faster


@dataclass(frozen=True)
class Timing:
    """Arrivals and ends of processes; processes of a remote group follow the local group."""

    arrivals: Times
    finish: Times
    messages: list[Message] = field(default_factory=list)  # in no particular order

    @property
    def after_last(self) -> float:
        """Time from the last arrival to the last end."""
        return float(self.finish.max() - self.arrivals.max())


def simulate(
    algorithm: Algorithm,
    problem: Problem,
    machine: Machine = DEFAULT,
    arrivals: Sequence[float] | Times = (),  # of each process, by default 0
    nodes: Sequence[int] | Numbers = (),  # of each process, by default one node per process
    *,
    trace: bool = False,  # whether to return the messages
    method: str = "",  # "rounds", "events", "ring" or "flows" forces a method, for tests
) -> Timing:
    """Return the times of an algorithm; raises MpiprofError if it does not apply."""
    size = problem.size + problem.remote_size
    begin = np.array(arrivals, np.float64) if len(arrivals) else np.zeros(size)
    place = np.array(nodes, np.int64) if len(nodes) else np.arange(size)
    if len(begin) != size or len(place) != size:
        raise MpiprofError(f"arrivals and nodes must be given for all {size} processes")
    messages: list[Message] | None = [] if trace else None
    if not method and machine.has_transport:
        method = "flows"
    if not method and not trace and runs_as_ring(algorithm, problem, machine, place):
        method = "ring"
    if method == "ring":
        finish = ring_fast_path.simulate_ring(algorithm, problem, machine, begin, place)
    else:
        with closing(Traffic(algorithm, problem)) as traffic:
            if method == "flows":
                flows = FlowSimulation(traffic.schedules, machine, place, messages)
                finish = flows.run(begin)
            else:
                one_by_one = machine.node_port if not method else method == "events"
                finish = _run_rounds(traffic, machine, begin, place, messages, one_by_one)
    return Timing(begin, finish, messages or [])


def simulate_patterns(
    algorithm: Algorithm,
    problem: Problem,
    machine: Machine,
    patterns: Sequence[Times],  # of arrivals
    nodes: Sequence[int] | Numbers = (),
) -> list[Timing]:
    """Return the times of `simulate` for each arrival pattern.

    With a transport, the schedules are read once for all patterns.
    """
    if not machine.has_transport:
        return [simulate(algorithm, problem, machine, arrivals, nodes) for arrivals in patterns]
    size = problem.size + problem.remote_size
    place = np.array(nodes, np.int64) if len(nodes) else np.arange(size)
    with closing(Traffic(algorithm, problem)) as traffic:
        rounds = [list(steps) for steps in open_rounds(traffic.schedules, 0)]
        several = []
        for arrivals in patterns:
            flows = FlowSimulation(traffic.schedules, machine, place, None, rounds)
            several.append(Timing(arrivals, flows.run(arrivals)))
    return several


def _run_rounds(
    traffic: Traffic,
    machine: Machine,
    begin: Times,
    nodes: Numbers,
    messages: list[Message] | None,
    one_by_one: bool,
) -> Times:
    """Compute whole rounds as far as possible, then with the fastest method that applies."""
    run = _RoundSimulation(machine, nodes, messages)
    done = 0 if one_by_one else run.run_rounds(traffic, begin.copy())
    now = begin if one_by_one else run.now
    if done >= traffic.rounds:
        return now
    schedules = traffic.schedules
    if not one_by_one and messages is None:
        finish = simulate_vectors(schedules, machine, now, nodes, done)
        if finish is not None:
            return finish
    return MessageSimulation(schedules, machine, nodes, done, messages).run(now)


def runs_as_ring(algorithm: Algorithm, problem: Problem, machine: Machine, nodes: Numbers) -> bool:
    """Return whether `simulate` takes the short way of rings."""
    size = problem.size + problem.remote_size
    if machine.has_transport or size < MIN_RING_SIZE:
        return False
    return ring_fast_path.applies_to(algorithm, problem, machine, nodes)


class _RoundSimulation:
    """State of all processes, computed round by round."""

    def __init__(self, machine: Machine, nodes: Numbers, messages: list[Message] | None) -> None:
        self.machine, self.nodes, self.messages = machine, nodes, messages
        self.now = np.zeros(0)

    def run_rounds(self, traffic: Traffic, begin: Times) -> int:
        """Compute rounds from the first one on; return the first that needs another method."""
        self.now = begin
        for r in range(traffic.rounds):
            part = traffic.read_round(r)
            if part is None:
                return r
            if part.barriers.any():
                # A barrier of one group does not wait for the other group.
                for first, last in traffic.groups:
                    if part.barriers[first:last].any():
                        cost = ceil_log2(last - first) * self.machine.alpha
                        self.now[first:last] = self.now[first:last].max() + cost
            if part.reduced.any():
                self.now += part.reduced * self.machine.gamma
            if len(part.targets):
                self._send_messages(part, r)
        return traffic.rounds

    def _send_messages(self, part: Round, r: int) -> None:
        source, target = part.sources, part.targets
        one_way = None
        if self.machine.distinguishes_ways:
            one_way = (part.receives[source] == 0) & (part.sends[target] == 0)
        between = self.nodes[source] != self.nodes[target]
        takes = self.machine.message_times(part.lengths, between, one_way)
        if part.sends.max() <= 1 and part.receives.max() <= 1:
            start = np.maximum(self.now[source], self.now[target])
        else:
            in_waves = self._serve_in_waves(part, takes)
            start = self._serve_in_order(part, takes) if in_waves is None else in_waves
        end = start + takes
        if self.messages is not None:
            rows = (source, target, start, end, part.lengths, np.full(len(source), r))
            columns = [column.tolist() for column in rows]
            self.messages += [Message(*row) for row in zip(*columns, strict=True)]
        np.maximum.at(self.now, source, end)
        np.maximum.at(self.now, target, end)

    def _serve_in_waves(self, part: Round, takes: Times) -> Times | None:
        """Serve the k-th sends of all processes together; return their starts, or None."""
        most = int(part.sends.max())
        if len(takes) < MIN_WAVE_SENDS * most:
            return None
        first = np.cumsum(part.sends) - part.sends
        sending, receiving = self.now.copy(), self.now.copy()
        offered = np.full(len(self.now), -np.inf)
        start = np.empty(len(takes))
        for k in range(most):
            who = np.flatnonzero(part.sends > k)
            which = first[who] + k
            to = part.targets[which]
            # This is exact if no two of them have the same receiver, and if each receiver gets
            # offers in order of the waves.
            if (np.bincount(to) > 1).any() or (sending[who] <= offered[to]).any():
                return None
            offered[to] = sending[who]
            start[which] = np.maximum(sending[who], receiving[to])
            sending[who] = receiving[to] = start[which] + takes[which]
        return start

    def _serve_in_order(self, part: Round, takes: Times) -> Times:
        """Serve offers in order; return the start of each message."""
        free = self.now.tolist()
        first = (np.cumsum(part.sends) - part.sends).tolist()
        last = np.cumsum(part.sends).tolist()
        targets, durations = part.targets.data, takes.data
        offers = [(time, who) for who, time in enumerate(free) if first[who] < last[who]]
        heapq.heapify(offers)
        start = np.empty(len(takes))
        while offers:
            offer, who = offers[0]
            which = first[who]
            to = targets[which]
            begin = max(offer, free[to])
            free[to] = end = begin + durations[which]
            start[which] = begin
            first[who] += 1
            if first[who] < last[who]:
                heapq.heapreplace(offers, (end, who))
            else:
                heapq.heappop(offers)
        return start


def lower_bound(
    operation: str, problem: Problem, machine: Machine, arrivals: Sequence[float] | Times = ()
) -> float:
    """Return a lower bound for the end of any algorithm, with one port per process."""
    moved = count_port_bytes(operation, problem)
    begin = np.array(arrivals, np.float64) if len(arrivals) else np.zeros(len(moved))
    alpha = min(machine.alpha, machine.alpha_within) * min(machine.one_way_alpha, 1.0)
    beta = min(machine.beta, machine.beta_within) * min(machine.one_way_beta, 1.0)
    talks = moved > 0 if operation != "barrier" else np.full(len(moved), problem.size > 1)
    # The arrival of a process plus alpha plus beta times the bytes it must send or receive,
    # maximised over processes. It is at least the last arrival.
    return float((begin + np.where(talks, alpha + moved * beta, 0.0)).max())


def count_port_bytes(operation: str, problem: Problem) -> NDArray[np.float64]:
    """Return the larger of the bytes that each process must send and must receive."""
    p, size = problem, problem.size
    counts = np.array(p.counts or [p.bytes] * size, np.float64)
    root = np.arange(size) == p.root
    if size + p.remote_size == 1 or operation == "barrier":
        return np.zeros(size)
    if p.remote_size:
        other = np.array(p.remote_counts or [p.remote_bytes] * p.remote_size, np.float64)
        return np.concatenate([np.maximum(counts, other.sum()), np.maximum(other, counts.sum())])
    if operation == "alltoallv":
        rows = np.array(p.rows, np.float64)
        np.fill_diagonal(rows, 0)
        return np.asarray(np.maximum(rows.sum(0), rows.sum(1)))
    if operation == "allreduce":
        return np.full(size, 2 * (size - 1) / size * p.bytes)
    if operation in ("bcast", "reduce"):
        return np.full(size, float(p.bytes))
    if operation in ("gather", "gatherv", "scatter", "scatterv"):
        return np.where(root, counts.sum() - counts, counts)
    # allgather(v) receives, reduce_scatter(_block) sends, alltoall does both
    return np.asarray(np.maximum(counts.sum() - counts, counts))
