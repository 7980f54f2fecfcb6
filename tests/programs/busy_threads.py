"""Rank 1 computes in other threads of Python between two barriers, while its main thread waits.

The argument selects the thread: "persistent", a new one in "each" step, or those of "blas".
"""

import sys
import threading
import time

import numpy as np
from mpi4py import MPI

STEPS, COMPUTE_S, SIZE = 20, 0.02, 700
world = MPI.COMM_WORLD
kind = sys.argv[1]
begin, end = threading.Barrier(2), threading.Barrier(2)
matrix = np.ones((SIZE, SIZE))


def compute() -> None:
    until = time.thread_time() + COMPUTE_S
    while time.thread_time() < until:
        pass


def run_steps() -> None:
    for _ in range(STEPS):
        begin.wait()
        compute()
        end.wait()


def make_step() -> None:
    if kind == "blas":
        matrix @ matrix
    elif kind == "persistent":
        begin.wait()
        end.wait()
    else:
        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()


if world.rank == 1 and kind == "persistent":
    threading.Thread(target=run_steps, daemon=True).start()
for _ in range(STEPS):
    world.Barrier()
    if world.rank == 1:
        make_step()
world.Barrier()
