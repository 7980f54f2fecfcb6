"""A healthy program without an end: objects, collectives and messages, on any number of ranks."""

import time
from pathlib import Path

from mpi4py import MPI

STARTED = 20

comm = MPI.COMM_WORLD
step = 0
while True:
    parameters = comm.bcast({"step": step} if comm.rank == 0 else None)
    time.sleep(0.0005 * (comm.rank + 1))
    comm.sendrecv(parameters, (comm.rank + 1) % comm.size)
    comm.allreduce(comm.rank)
    if step == STARTED and comm.rank == 0:
        Path("started").touch()
    step += 1
