"""One rank leaves a loop of reductions one step early, and then reduces its number of steps.

Arguments: buffers or objects, and the rank. Two further reductions and a barrier follow.
"""

import sys

import numpy as np
from mpi4py import MPI

STEPS = 40
form, early = sys.argv[1], int(sys.argv[2])
comm = MPI.COMM_WORLD
norm, steps = np.full(1, 0.5), np.zeros(1, int)
total, highest, lowest = np.empty_like(norm), np.empty_like(steps), np.empty_like(steps)

if form == "buffers":
    while steps[0] < STEPS - (comm.rank == early):
        comm.Allreduce(norm, total)
        steps += 1
    comm.Allreduce(steps, highest, MPI.MAX)
    comm.Allreduce(steps, lowest, MPI.MIN)
else:
    while steps[0] < STEPS - (comm.rank == early):
        comm.allreduce(norm[0])
        steps += 1
    comm.allreduce(steps[0], MPI.MAX)
    comm.allreduce(steps[0], MPI.MIN)
comm.Barrier()
