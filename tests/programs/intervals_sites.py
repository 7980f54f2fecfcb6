"""Work before the call that completes a nonblocking collective, and before a call on objects."""

from __future__ import annotations

import time

from mpi4py import MPI

world = MPI.COMM_WORLD
for _ in range(5):
    request = world.Ibarrier()
    time.sleep(0.01)
    request.Wait()
    time.sleep(0.005)
    world.bcast([0] * 100 if world.rank == 0 else None)
