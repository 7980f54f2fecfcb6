"""Heat in a periodic cube, solved with 3-D Fourier transforms (as FT of NAS).

Each process has a slab of planes. It transforms two axes locally, and an all-to-all transposes the
slabs to make the third axis local. The transform is computed once; a step damps it and transforms
back. Uses bcast (parameters), barrier, alltoall (nearly all bytes), reduce (checksums). Checks: the
transform and the checksum of each step equal numpy's on the whole cube.

    mpiexec -n 4 python ft.py
    mpiexec -n 4 python -m mpiprof run ft.py --grid 64
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Cube = NDArray[np.complex128]

ALPHA = 1e-4  # conductivity, small enough for the last step to differ from the mean


def share_of(count: int, comm: MPI.Intracomm) -> slice:
    """Return the planes of this process; the last processes may have fewer planes or none."""
    share = -(-count // comm.Get_size())
    return slice(min(comm.Get_rank() * share, count), min((comm.Get_rank() + 1) * share, count))


def turn(comm: MPI.Intracomm, slab: Cube, planes: int) -> Cube:
    """Exchange the first and last axis of a cube in slabs: (own a, b, c) -> (own c, b, a)."""
    size = comm.Get_size()
    _, middle, last = slab.shape
    thin, wide = -(-planes // size), -(-last // size)
    padded = np.zeros((thin, middle, wide * size), dtype=np.complex128)  # blocks of equal size
    padded[: slab.shape[0], :, :last] = slab
    blocks = np.ascontiguousarray(padded.reshape(thin, middle, size, wide).transpose(2, 3, 1, 0))
    received = np.empty_like(blocks)
    comm.Alltoall(blocks, received)
    turned = received.transpose(1, 2, 0, 3).reshape(wide, middle, thin * size)
    own = share_of(last, comm)
    return turned[: own.stop - own.start, :, :planes]


def forward(comm: MPI.Intracomm, slab: Cube, grid: int) -> Cube:
    """Return the transform (own x, y, z) of a slab (own z, y, x)."""
    return np.fft.fft(turn(comm, np.fft.fft2(slab, axes=(1, 2)), grid), axis=2)


def backward(comm: MPI.Intracomm, slab: Cube, grid: int) -> Cube:
    """Return the inverse transform, the inverse of `forward`."""
    return np.fft.ifft2(turn(comm, np.fft.ifft(slab, axis=2), grid), axes=(1, 2))


def samples_of(cube: Cube, first: int, grid: int) -> complex:
    """Return a slab's part of NAS's checksum, the sum of 1024 scattered elements of the cube."""
    index = np.arange(1, 1025)
    x, y, z = index % grid, 3 * index % grid, 5 * index % grid
    here = (z >= first) & (z < first + cube.shape[0])
    return complex(cube[z[here] - first, y[here], x[here]].sum())


def main() -> int:
    parser = argparse.ArgumentParser(description="heat in a periodic cube by 3-D FFT")
    parser.add_argument("--grid", type=int, default=32, help="points along each axis")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    parameters = np.array([options.grid, options.steps])
    comm.Bcast(parameters)
    grid, steps = (int(value) for value in parameters)
    own = share_of(grid, comm)
    heat = np.random.default_rng(64).uniform(size=(grid, grid, grid)).astype(np.complex128)
    squares = (np.fft.fftfreq(grid) * grid) ** 2
    waves = squares[:, None, None] + squares[None, :, None] + squares[None, None, :]
    damping = np.exp(-4 * np.pi**2 * ALPHA * waves)  # equal for (z, y, x) and (x, y, z)

    whole = np.fft.fftn(heat)
    checksums = np.zeros(steps, dtype=np.complex128)

    comm.Barrier()
    start = MPI.Wtime()
    spectrum = forward(comm, heat[own], grid)
    worst = np.abs(spectrum - whole.transpose(2, 1, 0)[own]).max(initial=0.0)
    for step in range(steps):
        spectrum *= damping[own]
        cube = backward(comm, spectrum, grid)
        part = np.array([samples_of(cube, own.start, grid)])
        comm.Reduce(part, checksums[step : step + 1] if rank == 0 else None)
    seconds = MPI.Wtime() - start
    error = np.array([worst])
    comm.Reduce(MPI.IN_PLACE if rank == 0 else error, error if rank == 0 else None, op=MPI.MAX)
    if rank > 0:
        return 0

    print(f"measured: {seconds:.3f} s")
    last = checksums[-1] if steps else 0j
    print(f"result: {grid}^3 points, {steps} steps, checksum {last.real:.6f} {abs(last.imag):.6f}")
    if not error[0] < 1e-9 * grid**3:
        print(f"check failed: the transform differs from numpy's by {error[0]:.1e}")
        return 1
    for step in range(steps):
        whole *= damping
        expected = samples_of(np.fft.ifftn(whole), 0, grid)
        if not abs(checksums[step] - expected) < 1e-9 * abs(expected):
            print(f"check failed: {checksums[step]:.9f} in step {step}, not {expected:.9f}")
            return 1
    print("check ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
