"""Vector simulation: processes in different rounds are computed at once.

The model is that of model/simulate.py. If a process has at most one message each way per round, its
port is always free. A message then starts when both sides have entered their rounds, whatever the
order of computation. So all messages with both sides entered are computed at once. Then all
processes with finished messages proceed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpiprof.errors import MpiprofError
from mpiprof.model.machine import Machine, Numbers, Times
from mpiprof.model.schedule import Schedule, read_current_rounds

NO_PEER = -1


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
        to, bytes_, of, reduced, more = rows.T
        # A barrier, or several messages one way: use model/message_simulator.py.
        if more.any():
            return None
        target[going], length[going], source[going] = to, bytes_, of
        one_sided[going] = (to == NO_PEER) | (of == NO_PEER)
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
