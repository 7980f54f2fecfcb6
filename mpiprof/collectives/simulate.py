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
once (both in model/round_simulator.py). Rounds with several messages one way, and `node_port`, are
computed message by message (model/message_simulator.py). Rings of many processes have a fast path
(model/ring_fast_path.py). All methods agree exactly.

A machine with a transport has eager messages, and messages that meet at a port. It has its own
model (model/flow_simulator.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives import ring_fast_path
from mpiprof.collectives.flow_simulator import FlowSimulation
from mpiprof.collectives.machine import DEFAULT, Machine, Numbers, Times
from mpiprof.collectives.message_simulator import Message, MessageSimulation, open_rounds
from mpiprof.collectives.round_simulator import RoundSimulation, Traffic, simulate_vectors
from mpiprof.collectives.schedule import Algorithm, Problem
from mpiprof.errors import MpiprofError

MIN_RING_SIZE = 256  # minimum number of processes for the fast path of rings


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
    run = RoundSimulation(machine, nodes, messages)
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
        remote_counts = np.array(p.remote_counts or [p.remote_bytes] * p.remote_size, np.float64)
        return np.concatenate(
            [np.maximum(counts, remote_counts.sum()), np.maximum(remote_counts, counts.sum())]
        )
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
