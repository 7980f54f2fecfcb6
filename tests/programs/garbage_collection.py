"""Rank 1 reaches the second barrier late, because Python collects garbage."""

import gc

from mpi4py import MPI

STEPS, OBJECTS = 12, 300_000
world = MPI.COMM_WORLD
kept = [[n] for n in range(OBJECTS)] if world.rank == 1 else []
gc.disable()
for _ in range(STEPS):
    world.Barrier()  # before the step
    sum(range(20_000))
    if world.rank == 1:
        gc.collect()
    world.Barrier()  # after the step
