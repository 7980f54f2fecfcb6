"""Programs of live_causes.py in Python. Arguments: the program's name, and the number of steps.

Work is sleeping. Each rank with a planted delay prints its length, as the C programs do. With the
variable LIVE_REPAIRED no rank has one.
"""

import gc
import os
import sys
import time
from collections.abc import Callable

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.rank, world.size
planted_ns = [0, 0]  # wall time and processor time
OBJECTS = 150_000


def plant(delay: Callable[[], object]) -> None:
    """Run a planted delay and measure it, unless the program is repaired."""
    if "LIVE_REPAIRED" in os.environ:
        return
    before = time.perf_counter_ns(), time.thread_time_ns()
    delay()
    planted_ns[0] += time.perf_counter_ns() - before[0]
    planted_ns[1] += time.thread_time_ns() - before[1]


def late(of: int, seconds: float) -> None:
    """Sleep longer on one rank."""
    if rank == of:
        plant(lambda: time.sleep(seconds))


def bcast_objects(step: int) -> None:
    """The root of a broadcast of objects is late."""
    time.sleep(0.002)
    late(0, 0.006)
    world.bcast({"step": step} if rank == 0 else None)
    world.barrier()


def send_objects(step: int) -> None:
    """One rank sends objects late to both neighbours."""
    time.sleep(0.002)
    late(2, 0.006)
    sends = [world.isend([step], (rank + by) % ranks, tag=3) for by in (1, -1)]
    for by in (1, -1):
        world.recv(source=(rank + by) % ranks, tag=3)
    MPI.Request.Waitall(sends)
    world.allreduce(step)


def collect_garbage(step: int) -> None:
    """Python collects garbage on one rank."""
    time.sleep(0.002)
    if rank == 1:
        plant(gc.collect)
    world.allreduce(step)


def reduce_objects(step: int) -> None:
    """The root works alone on what it has reduced."""
    time.sleep(0.002)
    world.reduce(step)
    late(0, 0.005)
    world.scatter(list(range(ranks)) if rank == 0 else None)


def main() -> None:
    """Run a program."""
    step = {
        of.__name__: of for of in (bcast_objects, send_objects, collect_garbage, reduce_objects)
    }[sys.argv[1]]
    kept = [[n] for n in range(OBJECTS)] if step is collect_garbage and rank == 1 else []
    gc.disable()
    for number in range(int(sys.argv[2])):
        step(number)
    del kept
    if planted_ns[0]:
        print("planted", rank, *planted_ns, flush=True)


main()
