"""Repeated transposition of a matrix in blocks of rows by an all-to-all (as MT).

Each process sends to every other process the block of its rows in the other's columns. `--datatype`
describes the block in the matrix to MPI by a strided type instead of packing the block.
Checks: every element is exact after every transposition.

    mpiexec -n 4 python transpose.py
    mpiexec -n 4 python -m mpiprof run transpose.py --order 1024 --datatype
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Array = NDArray[np.float64]


def transpose_packed(comm: MPI.Intracomm, rows: Array) -> Array:
    """Return this process's rows of the transposed matrix, with blocks packed before sending."""
    share, size = len(rows), comm.Get_size()
    blocks = np.ascontiguousarray(rows.reshape(share, size, share).transpose(1, 2, 0))
    received = np.empty_like(blocks)
    comm.Alltoall(blocks, received)
    return received.transpose(1, 0, 2).reshape(share, size * share)


def transpose_strided(comm: MPI.Intracomm, rows: Array, block: MPI.Datatype) -> Array:
    """Return the same rows, with blocks exchanged by a strided type and transposed on arrival."""
    received = np.empty_like(rows)
    comm.Alltoall([rows, 1, block], [received, 1, block])
    share = len(rows)
    for first in range(0, rows.shape[1], share):
        square = received[:, first : first + share]
        square[:] = square.T.copy()
    return received


def main() -> int:
    parser = argparse.ArgumentParser(description="a matrix transposed by an all-to-all")
    parser.add_argument("--order", type=int, default=512, help="rows, and columns")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--datatype", action="store_true", help="strided blocks, nothing packed")
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    share = -(-options.order // size)  # the last rows and columns may be padding
    padded = share * size
    i = np.arange(rank * share, (rank + 1) * share, dtype=np.float64)[:, None]
    j = np.arange(padded, dtype=np.float64)[None, :]
    matrix = i * options.order + j
    straight, turned = matrix.copy(), j * options.order + i
    vector = MPI.DOUBLE.Create_vector(share, share, padded)
    block = vector.Create_resized(0, share * MPI.DOUBLE.Get_size()).Commit()

    wrong = np.zeros(1, dtype=np.int64)
    for repetition in range(options.repetitions):
        if options.datatype:
            matrix = transpose_strided(comm, matrix, block)
        else:
            matrix = transpose_packed(comm, matrix)
        wrong += np.count_nonzero(matrix != (straight if repetition % 2 else turned))
    block.Free()
    vector.Free()

    real = (i < options.order) & (j < options.order)
    checksum = np.array([((i + 1) * matrix)[real].sum()])  # integers below 2^53, so exact
    comm.Allreduce(MPI.IN_PLACE, checksum)
    comm.Allreduce(MPI.IN_PLACE, wrong)
    if rank == 0:
        count = f"{options.repetitions} transpositions of order {options.order}"
        print(f"result: {count}, checksum {checksum[0]:.0f}")
        print(f"check failed: {wrong[0]} elements are wrong" if wrong[0] else "check ok")
    return int(wrong[0] > 0)


if __name__ == "__main__":
    sys.exit(main())
