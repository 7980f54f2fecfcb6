"""Measures a library's transport: eager limit, buffering, and cost of an unexpected message.

Two ranks take part, on different nodes if there are several. The receiver is late on purpose, and
sleeps outside MPI. A message is eager if its send ends long before the receive begins. It is
buffered if its send ends in less than half of the time that its bytes take.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.bench.harness.calls import import_mpi
from mpiprof.bench.harness.timing import Ranks, first_rank_of_nodes
from mpiprof.model.machine import Machine

SIZES = tuple(1 << power for power in range(10, 23))
PAUSE_NS = 50_000_000  # of the receiver, besides three times the message time
REPETITIONS = 3
COPIED_BYTES = 64 << 10  # at most


def measure_transport(ranks: Ranks, machine: Machine) -> dict[str, Any]:
    """Return the fields of Machine for the transport; collective, with equal results.

    The window is the eager limit: as many bytes are under way without any help of the receiver.
    """
    world = ranks.world
    nodes = first_rank_of_nodes(world)
    partner = next((rank for rank in range(world.size) if nodes[rank] != nodes[0]), 1)
    limit = 0
    for size in SIZES:
        pause_ns = PAUSE_NS + int(3 * (machine.alpha + size * machine.beta))
        took = [_send_to_late_rank(world, partner, size, pause_ns) for _ in range(REPETITIONS)]
        if min(sent for sent, _ in took) > pause_ns * 0.75:
            break
        limit = size
    copied = min(limit, COPIED_BYTES)
    pause_ns = PAUSE_NS + int(3 * (machine.alpha + copied * machine.beta))
    empty, full = (
        np.array([_send_to_late_rank(world, partner, n, pause_ns) for _ in range(REPETITIONS)])
        for n in (0, copied)
    )
    sending, receiving = full.min(0) - empty.min(0)
    copy = max(int(receiving), 0) / copied if copied else 0.0
    buffered = bool(copied and sending < copied * machine.beta / 2)
    return {"eager_limit": limit, "window": limit, "copy": copy, "buffered": buffered}


def _send_to_late_rank(world: Any, partner: int, size: int, pause_ns: int) -> tuple[int, int]:
    """Return how long a send takes, and the receive that begins after a pause; in ns."""
    buffer: NDArray[np.uint8] = np.zeros(max(size, 1), np.uint8)
    message = [buffer, size, import_mpi().BYTE]
    took = np.zeros(2, np.int64)
    world.Barrier()
    began = time.monotonic_ns()
    if world.rank == 0:
        world.Send(message, partner)
        took[0] = time.monotonic_ns() - began
    elif world.rank == partner:
        time.sleep(pause_ns / 1e9)
        began = time.monotonic_ns()
        world.Recv(message, 0)
        took[1] = time.monotonic_ns() - began
    every = np.zeros_like(took)
    world.Allreduce(took, every, import_mpi().MAX)
    return int(every[0]), int(every[1])
