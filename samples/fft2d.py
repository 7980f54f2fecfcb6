"""Blur of a picture by two-dimensional Fourier transforms (as FFT-2D).

Each process transforms its rows, an all-to-all transposes, and each process transforms its columns.
The blur is a product in Fourier space, and the same steps lead back. With `--pieces` above 1, the
all-to-all of one piece of rows (ialltoall) overlaps the transform of the next piece. Checks:
transform and blurred picture equal numpy's results on the whole picture.

    mpiexec -n 4 python fft2d.py
    mpiexec -n 4 python -m mpiprof run fft2d.py --order 512 --pieces 4
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Picture = NDArray[np.complex128]


def pack(rows: Picture, size: int, thin: int, wide: int) -> Picture:
    """Return rows (n, columns) as transposed, padded blocks per process (size, wide, thin)."""
    padded = np.zeros((thin, wide * size), dtype=np.complex128)
    padded[: rows.shape[0], : rows.shape[1]] = rows
    return np.ascontiguousarray(padded.reshape(thin, size, wide).transpose(1, 2, 0))


def transform(comm: MPI.Intracomm, rows: Picture, pieces: int, inverse: bool = False) -> Picture:
    """Return this process's rows (share, order) of the transform, given its rows of the picture.

    The result is transposed: a forward and an inverse transform together restore the order.
    """
    size, (share, order) = comm.Get_size(), rows.shape
    fft = np.fft.ifft if inverse else np.fft.fft
    wide = -(-order // size)
    thin = -(-share // pieces)
    blocks, turned, requests = [], [], []
    for first in range(0, share, thin):
        blocks.append(pack(fft(rows[first : first + thin], axis=1), size, thin, wide))
        turned.append(np.empty_like(blocks[-1]))
        if pieces == 1:
            comm.Alltoall(blocks[-1], turned[-1])
        else:
            requests.append(comm.Ialltoall(blocks[-1], turned[-1]))
    MPI.Request.Waitall(requests)
    # (piece, source process, column of this process, row of the piece) -> (column, row)
    columns = np.stack(turned).transpose(2, 1, 0, 3).reshape(wide, size, -1)[:, :, :share]
    return fft(columns.reshape(wide, -1)[:, :order], axis=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="a picture blurred by 2-D FFT")
    parser.add_argument("--order", type=int, default=256, help="rows, and columns")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--pieces", type=int, default=1)
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, size, order = comm.Get_rank(), comm.Get_size(), options.order
    share = -(-order // size)
    own = slice(rank * share, min((rank + 1) * share, order))  # the last may have fewer or none
    whole = np.random.default_rng(32).uniform(size=(order, order)).astype(np.complex128)
    frequencies = np.fft.fftfreq(order)
    blur = np.exp(-10 * (frequencies[:, None] ** 2 + frequencies[None, :] ** 2))
    expected = np.fft.fft2(whole)

    mine = np.zeros((share, order), dtype=np.complex128)
    local_blur = np.zeros((share, order))
    count = len(whole[own])
    mine[:count], local_blur[:count] = whole[own], blur[own]
    worst = np.zeros(1)
    for _ in range(options.repetitions):
        spectrum = transform(comm, mine, options.pieces)
        difference = np.abs(spectrum[:count] - expected.T[own])
        worst = np.maximum(worst, difference.max(initial=0.0) / order)
        mine = transform(comm, spectrum * local_blur, options.pieces, inverse=True)
        expected *= blur
    difference = np.abs(mine[:count] - np.fft.ifft2(expected)[own])
    worst = np.maximum(worst, difference.max(initial=0.0))
    contrast = np.array([np.sum(np.abs(mine[:count] - 0.5) ** 2)])
    comm.Allreduce(MPI.IN_PLACE, worst, op=MPI.MAX)
    comm.Allreduce(MPI.IN_PLACE, contrast)

    failed = not worst[0] < 1e-9
    if rank == 0:
        print(f"result: order {order}, {options.repetitions} blurs, contrast {contrast[0]:.6f}")
        print(f"check failed: numpy's differs by {worst[0]:.1e}" if failed else "check ok")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
