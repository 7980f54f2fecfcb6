"""A shock tube: two-dimensional gas dynamics, one axis after the other (as VH-1).

Processes have blocks of rows. A sweep moves the gas along the rows, an all-to-all transposes, and
the next sweep is along the columns; two more sweeps lead back. An allreduce computes the time step
that the fastest wave permits. The method is MUSCL-Hancock with HLL fluxes (Harten, Lax and van
Leer). Checks: mass and energy are constant, momentum grows by the end pressures, and the density
is that of Sod's exact solution. `--axis y` puts the tube along the columns.

    mpiexec -n 4 python hydro.py
    mpiexec -n 4 python -m mpiprof run hydro.py --cells 192 --axis y
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Gas = NDArray[np.float64]  # density, momentum along the sweep, momentum across, energy: (4, ...)

GAMMA = 1.4
END = 0.2  # time before the waves reach the ends of the tube
LEFT, RIGHT = (1.0, 1.0), (0.125, 0.1)  # density and pressure


def pressure(gas: Gas) -> NDArray[np.float64]:
    """Return the pressure of an ideal gas in each cell."""
    moving = 0.5 * (gas[1] ** 2 + gas[2] ** 2) / gas[0]
    thermal: NDArray[np.float64] = (GAMMA - 1) * (gas[3] - moving)
    return thermal


def fastest(gas: Gas) -> float:
    """Return the speed of the fastest wave along either axis."""
    speed = np.maximum(np.abs(gas[1]), np.abs(gas[2])) / gas[0]
    return float((speed + np.sqrt(GAMMA * pressure(gas) / gas[0])).max(initial=0.0))


def flux(gas: Gas) -> Gas:
    """Return the flux along the sweep, per unit of time and width."""
    speed, p = gas[1] / gas[0], pressure(gas)
    return np.stack([gas[1], gas[1] * speed + p, gas[2] * speed, (gas[3] + p) * speed])


def sweep(gas: Gas, ratio: float) -> Gas:
    """Move the gas (4, rows, cells) along its rows by a time step of `ratio` cell widths."""
    wide = np.pad(gas, ((0, 0), (0, 0), (2, 2)), mode="edge")
    step = np.diff(wide, axis=2)
    a, b = step[..., :-1], step[..., 1:]
    slope = np.where(a * b > 0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)
    low, high = wide[..., 1:-1] - 0.5 * slope, wide[..., 1:-1] + 0.5 * slope
    half = 0.5 * ratio * (flux(low) - flux(high))
    left, right = (high + half)[..., :-1], (low + half)[..., 1:]
    sound_left = np.sqrt(GAMMA * pressure(left) / left[0])
    sound_right = np.sqrt(GAMMA * pressure(right) / right[0])
    u, v = left[1] / left[0], right[1] / right[0]
    slow = np.minimum(np.minimum(u - sound_left, v - sound_right), 0.0)
    fast = np.maximum(np.maximum(u + sound_left, v + sound_right), 0.0)
    through = fast * flux(left) - slow * flux(right) + slow * fast * (right - left)
    moved: Gas = gas - ratio * np.diff(through / (fast - slow), axis=2)
    return moved


def transpose(comm: MPI.Intracomm, gas: Gas) -> Gas:
    """Return this process's columns, given its rows (4, rows, cells); the momenta are swapped."""
    size, cells = comm.Get_size(), gas.shape[2]
    share = -(-cells // size)
    padded = np.zeros((4, share, share * size))  # blocks of equal size
    padded[:, : gas.shape[1], :cells] = gas[[0, 2, 1, 3]]
    blocks = np.ascontiguousarray(padded.reshape(4, share, size, share).transpose(2, 0, 3, 1))
    received = np.empty_like(blocks)
    comm.Alltoall(blocks, received)
    columns = received.transpose(1, 2, 0, 3).reshape(4, share, share * size)
    mine = min(max(cells - comm.Get_rank() * share, 0), share)
    return columns[:, :mine, :cells]


def sod(x: NDArray[np.float64], time: float) -> NDArray[np.float64]:
    """Return the exact density of Sod's tube: rarefaction, contact, shock (middle state: p, u)."""
    p, u, shock = 0.3031301780, 0.9274526200, 1.7521557320
    sound, tail = GAMMA**0.5, u - (GAMMA * p / 0.4263194281) ** 0.5
    fan = (2 + (GAMMA - 1) / sound * (sound - (x - 0.5) / time - sound)) / (GAMMA + 1)
    bounds = [(x - 0.5) / time < speed for speed in (-sound, tail, u, shock)]
    return np.select(bounds, [1.0, fan ** (2 / (GAMMA - 1)), 0.4263194281, 0.2655737117], 0.125)


def main() -> int:
    parser = argparse.ArgumentParser(description="a shock tube in two dimensions")
    parser.add_argument("--cells", type=int, default=96, help="along each axis")
    parser.add_argument("--axis", choices=["x", "y"], default="x", help="where the tube points")
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, cells = comm.Get_rank(), options.cells
    share = -(-cells // comm.Get_size())
    x = (np.arange(cells) + 0.5) / cells
    mine = slice(rank * share, (rank + 1) * share)
    tube = np.where(x < 0.5, np.array([LEFT]).T, np.array([RIGHT]).T)[:, None, :]
    gas = np.zeros((4, len(x[mine]), cells))
    gas[[0, 3]] = tube if options.axis == "x" else tube.transpose(0, 2, 1)[:, mine]
    gas[3] /= GAMMA - 1
    before = gas.sum(axis=(1, 2))

    time, steps = 0.0, 0
    speed = np.empty(1)
    while END - time > 1e-12:
        comm.Allreduce(np.array([fastest(gas)]), speed, op=MPI.MAX)
        dt = min(0.8 / cells / float(speed[0]), 0.5 * (END - time))
        gas = transpose(comm, sweep(gas, dt * cells))
        gas = sweep(sweep(gas, dt * cells), dt * cells)  # symmetric order: second order in time
        gas = sweep(transpose(comm, gas), dt * cells)
        time += 2 * dt
        steps += 1

    exact = sod(x, END)[None, :] if options.axis == "x" else sod(x, END)[mine, None]
    sums = np.append(gas.sum(axis=(1, 2)) - before, np.abs(gas[0] - exact).sum()) / cells**2
    comm.Allreduce(MPI.IN_PLACE, sums)
    expected = np.zeros(4)
    expected[1 if options.axis == "x" else 2] = END * (LEFT[1] - RIGHT[1])
    lost = float(np.abs(sums[:4] - expected).max())
    failed = not (lost < 1e-9 and sums[4] < 1.5 / cells)
    if rank == 0:
        print(f"result: {cells}^2 cells, {steps} steps, {sums[4]:.9f} from the exact density")
        print(f"check failed: {lost:.1e} lost, {sums[4]:.4f} off" if failed else "check ok")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
