"""Steps of a fixed amount of work and an allreduce, in blocks, as where_cost.c makes them.

Arguments: kind of work ("python": interpreted; "numpy": in C code), number of blocks.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

STEPS, BATCHES, CALLS = 20, 20, 1000
NUMBERS = 200_000  # of the interpreted loop
VECTOR, PASSES = np.linspace(0.0, 1.0, 10_000), 250
world, alone = MPI.COMM_WORLD, MPI.COMM_SELF


def work(kind: str) -> float:
    """Return the result of a fixed amount of work."""
    total = 0.0
    if kind == "numpy":
        for _ in range(PASSES):
            total += float(np.sqrt(VECTOR).sum())
        return total
    for number in range(NUMBERS):
        total = total * 0.999 + number
    return total


def main() -> None:
    """Run the steps, then short calls on one rank alone; rank 0 prints the times."""
    kind, blocks = sys.argv[1], int(sys.argv[2])
    for block in range(blocks + 1):
        begin = time.perf_counter_ns()
        for _ in range(STEPS):
            world.allreduce(work(kind))
        if world.rank == 0 and block > 0:  # the first block warms up
            print("block", time.perf_counter_ns() - begin)
    for _ in range(BATCHES if world.rank == 0 else 0):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            alone.Barrier()
        print("call", (time.perf_counter_ns() - begin) / CALLS)
    world.Barrier()


main()
