"""Measures the message times of a study's ranks, while all ranks shift messages around a ring.

The result is a machine table in the recorder's format. It includes the evidence by which
`mpiprof.trace.machine.find_fault` refuses times that would not repeat (see
core/timing/repetitions.c).
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.bench.harness.calls import import_mpi
from mpiprof.bench.harness.timing import Ranks, first_rank_of_nodes
from mpiprof.trace.machine import MIN_REPETITIONS

Times = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Two large sizes determine the slope, because an idle port sends its first bytes at once.
MESSAGE_SIZES = (0, 65536, 262144)
REPETITIONS = 16
EXCHANGES = 3  # per round; the shortest counts
SPREAD_PARTS = 8  # parts of the rounds, in order of time
MAX_DURATION_NS = 3_000_000_000  # if ranks outnumber cores, an exchange may take 100 ms


def measure_message_times(ranks: Ranks) -> dict[str, Any]:
    """Return the machine table of these ranks; collective over all ranks, with equal results."""
    world = ranks.world
    nodes = first_rank_of_nodes(world)
    # On several nodes, the times are from the ranks that send to another node.
    sending = [r for r in range(world.size) if nodes[r] != nodes[(r + 1) % world.size]]
    times, clean = _measure_rounds(world, blocking=bool(sending))
    every_time = np.zeros((world.size, *times.shape))
    every_clean = np.zeros((world.size, *clean.shape), np.bool_)
    world.Allgather(times, every_time)
    world.Allgather(clean, every_clean)
    chosen = every_time[sending] if sending else every_time
    link = fit_link(np.median(chosen, axis=0), np.asarray(every_clean.all(axis=0)))
    return {"source": "bench", "between" if sending else "within": link}


def fit_link(times: Times, clean: Flags) -> dict[str, Any]:
    """Return the link of a table from times, MESSAGE_SIZES x rounds; `clean`: undisturbed ones."""
    measured = [_time_and_spread(t, c) for t, c in zip(times, clean, strict=True)]
    small, middle, large = (took for took, _ in measured)
    return {
        "alpha_ns": small,
        "beta_ns_per_byte": (large - middle) / (MESSAGE_SIZES[2] - MESSAGE_SIZES[1]),
        "sizes": list(MESSAGE_SIZES),
        "undisturbed_rounds": clean.sum(axis=1).tolist(),
        "spread": [spread for _, spread in measured],
    }


def _time_and_spread(times: Times, clean: Flags) -> tuple[float, float]:
    """Return the repeatable time, and the relative excess of the middle part of the rounds."""
    count = int(clean.sum())
    chosen = times[clean == (count >= MIN_REPETITIONS or count >= len(times) - count)]
    took = float(np.sort(chosen)[len(chosen) // 10])
    parts = np.array_split(chosen, min(SPREAD_PARTS, len(chosen)))
    shortest = sorted(float(part.min()) for part in parts)
    return took, max(shortest[len(shortest) // 2] / took, 1.0)


def _measure_rounds(world: Any, *, blocking: bool) -> tuple[Times, Flags]:
    """Return this rank's times in ns, and if it stayed on its core, MESSAGE_SIZES x rounds.

    blocking: whether receives may give up the core, as those from other nodes.
    """
    byte, largest = import_mpi().BYTE, max(MESSAGE_SIZES)
    buffer, into = np.zeros(largest, np.uint8), np.zeros(largest, np.uint8)
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    times = np.zeros((len(MESSAGE_SIZES), REPETITIONS))
    clean = np.zeros_like(times, np.bool_)
    start, count = time.monotonic_ns(), 0
    # The first round makes the connections; a round's first exchange synchronises the ranks.
    for number in range(-1, REPETITIONS):
        late = time.monotonic_ns() - start > MAX_DURATION_NS
        if world.bcast(late and number >= MIN_REPETITIONS):
            break
        count = number + 1
        for i, n in enumerate(MESSAGE_SIZES):
            before, took = count_switches(blocking=blocking), []
            for _ in range(EXCHANGES):
                began = time.monotonic_ns()
                world.Sendrecv([buffer, n, byte], right, 0, [into, n, byte], left, 0)
                took.append(time.monotonic_ns() - began)
            times[i, number] = min(took)
            clean[i, number] = count_switches(blocking=blocking) == before
    # MPI requires contiguous arrays, and a slow network allows fewer rounds than requested.
    return np.ascontiguousarray(times[:, :count]), np.ascontiguousarray(clean[:, :count])


def count_switches(*, blocking: bool) -> int:
    """Return how often this thread has lost its core, as core/timing/pingpong.c counts.

    A voluntary context switch is no disturbance if receives may block.
    """
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_nivcsw + (0 if blocking else used.ru_nvcsw)
