"""Simulation of many processes at once: round by round, or each in its own round.

The model is that of model/simulate.py. A round whose messages match within the round is computed
for all processes.

Otherwise, if a process has at most one message each way per round, its port is always free. A
message then starts when both sides have entered their rounds, whatever the order of computation. So
all messages with both sides entered are computed at once. Then all processes with finished messages
proceed.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.buffer_contract import list_groups
from mpiprof.collectives.machine import Machine, Numbers, Times
from mpiprof.collectives.message_simulator import Message
from mpiprof.collectives.pipeline_formulas import ceil_log2
from mpiprof.collectives.schedule import (
    Algorithm,
    Problem,
    Schedule,
    read_current_rounds,
    read_group_round,
)
from mpiprof.errors import MpiprofError

MIN_WAVE_SENDS = 16  # minimum mean number of messages per wave, so that waves are faster
NO_PEER = -1
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
                missing = begin + count - len(self._peers)
                self._peers = np.pad(self._peers, (0, missing))
                self._lengths = np.pad(self._lengths, (0, missing))
            begin += count
        if balance[0]:
            return None
        sends, receives, reduced, barriers = self._facts.T
        sources = np.repeat(self._numbers, sends)
        messages = (sources, self._peers[:begin], self._lengths[:begin])
        return Round(*messages, sends, receives, reduced, barriers)


# ---- rounds


class RoundSimulation:
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
        wave_count = int(part.sends.max())
        if len(takes) < MIN_WAVE_SENDS * wave_count:
            return None
        first = np.cumsum(part.sends) - part.sends
        sending, receiving = self.now.copy(), self.now.copy()
        offered = np.full(len(self.now), -np.inf)
        start = np.empty(len(takes))
        for k in range(wave_count):
            senders = np.flatnonzero(part.sends > k)
            which = first[senders] + k
            to = part.targets[which]
            # This is exact if no two of them have the same receiver, and if each receiver gets
            # offers in order of the waves.
            if (np.bincount(to) > 1).any() or (sending[senders] <= offered[to]).any():
                return None
            offered[to] = sending[senders]
            start[which] = np.maximum(sending[senders], receiving[to])
            sending[senders] = receiving[to] = start[which] + takes[which]
        return start

    def _serve_in_order(self, part: Round, takes: Times) -> Times:
        """Serve offers in order; return the start of each message."""
        free = self.now.tolist()
        first = (np.cumsum(part.sends) - part.sends).tolist()
        last = np.cumsum(part.sends).tolist()
        targets, durations = part.targets.data, takes.data
        offers = [
            (time, sender) for sender, time in enumerate(free) if first[sender] < last[sender]
        ]
        heapq.heapify(offers)
        start = np.empty(len(takes))
        while offers:
            offer, sender = offers[0]
            which = first[sender]
            to = targets[which]
            begin = max(offer, free[to])
            free[to] = end = begin + durations[which]
            start[which] = begin
            first[sender] += 1
            if first[sender] < last[sender]:
                heapq.heapreplace(offers, (end, sender))
            else:
                heapq.heappop(offers)
        return start


# ---- processes in different rounds


def simulate_vectors(
    schedules: Sequence[Schedule], machine: Machine, begin: Times, nodes: Numbers, first_round: int
) -> Times | None:
    """Return the end of each process, if it enters `first_round` at `begin`; None if unsuitable."""
    size, local_size = len(schedules), schedules[0].problem.size
    handles = np.array([s.handle for s in schedules], np.uint64)
    last = np.array([s.rounds for s in schedules], np.int64)
    is_local = np.arange(size)[:, None] < local_size
    firsts = np.where(is_local, [0, local_size], [local_size, 0]).astype(np.int32)
    nth = np.full(size, first_round, np.int64)
    target, source = np.full((2, size), NO_PEER, np.int64)
    length = np.zeros(size, np.int64)
    one_sided = np.zeros(size, np.bool_)  # only sends, or only receives, in its round
    entered, now = np.empty(size), begin.copy()
    going = np.flatnonzero(nth < last)
    while len(going):
        rows = read_current_rounds(handles[going], nth[going], firsts[going])
        to, bytes_, from_rank, reduced, has_more = rows.T
        # A barrier, or several messages one way: use model/message_simulator.py.
        if has_more.any():
            return None
        target[going], length[going], source[going] = to, bytes_, from_rank
        one_sided[going] = (to == NO_PEER) | (from_rank == NO_PEER)
        now[going] += reduced * machine.gamma
        entered[going] = now[going]
        nth[going] += 1
        _deliver_messages(machine, nodes, (target, source, length), one_sided, entered, now)
        going = np.flatnonzero((target == NO_PEER) & (source == NO_PEER) & (nth < last))
    waiting = np.flatnonzero((target != NO_PEER) | (source != NO_PEER))
    if len(waiting):
        raise MpiprofError(f"rank {waiting[0]} waits forever in round {nth[waiting[0]] - 1}")
    return now


def _deliver_messages(
    machine: Machine,
    nodes: Numbers,
    messages: tuple[Numbers, ...],
    one_sided: NDArray[np.bool_],
    entered: Times,
    now: Times,
) -> None:
    """Deliver messages with both sides entered; `now` becomes the last end of each process."""
    target, source, length = messages
    sender = np.flatnonzero(target != NO_PEER)
    sender = sender[source[target[sender]] == sender]
    receiver = target[sender]
    one_way = one_sided[sender] & one_sided[receiver] if machine.distinguishes_ways else None
    takes = machine.message_times(length[sender], nodes[sender] != nodes[receiver], one_way)
    end = np.maximum(entered[sender], entered[receiver]) + takes
    now[sender] = np.maximum(now[sender], end)
    now[receiver] = np.maximum(now[receiver], end)
    target[sender] = source[receiver] = NO_PEER
