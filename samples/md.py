"""Molecular dynamics: argon atoms near the melting point, Lennard-Jones forces, periodic box.

Every process has all atoms and computes a share of the forces. The two variants give the same
trajectories up to rounding, as the two NTUBE programs of Faraj et al. do:

    allgatherv   a process computes all forces on its atoms; the forces are collected (NTUBE 1)
    allreduce    a process computes the forces of its share of pairs; forces are summed (NTUBE 2)

Also uses bcast (rank 0 makes the atoms), allreduce (energy), barrier (around the timed loop).
Checks: energy and momentum are conserved, and the last forces equal a serial sum.

    mpiexec -n 4 python md.py --variant allreduce
    mpiexec -n 4 python -m mpiprof run md.py
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Array = NDArray[np.float64]

DENSITY, TEMPERATURE = 0.8442, 0.72  # in units of the potential: sigma, epsilon and the mass
CUTOFF = 2.5


def make_atoms(cells: int) -> tuple[Array, Array]:
    """Return positions and velocities of a face-centred cubic crystal at rest: 4 cells^3 atoms."""
    corner = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    grid = np.stack(np.meshgrid(*3 * [np.arange(cells)], indexing="ij"), axis=-1).reshape(-1, 1, 3)
    positions = (grid + corner).reshape(-1, 3) * (4 / DENSITY) ** (1 / 3)
    velocities = np.random.default_rng(1716).normal(size=positions.shape) * TEMPERATURE**0.5
    return positions, velocities - velocities.mean(axis=0)


def pair_forces(distance: Array, box: float) -> tuple[Array, Array]:
    """Return forces along `distance` (n, 3) and potentials (n); both vanish at the cutoff."""
    distance = distance - box * np.rint(distance / box)
    squared = np.einsum("ij,ij->i", distance, distance)
    near = (squared > 0) & (squared < CUTOFF**2)
    r = np.sqrt(np.where(near, squared, 1.0))
    edge = 24 * (2 * CUTOFF**-13 - CUTOFF**-7)
    force = np.where(near, 24 * (2 * r**-13 - r**-7) - edge, 0.0)
    potential = 4 * (r**-12 - r**-6 - CUTOFF**-12 + CUTOFF**-6) + edge * (r - CUTOFF)
    return distance * (force / r)[:, None], np.where(near, potential, 0.0)


def forces_on(atoms: NDArray[np.intp], positions: Array, box: float) -> tuple[Array, float]:
    """Return the forces of all atoms on `atoms`, and half the potential energy of their pairs."""
    distance = positions[atoms][:, None, :] - positions[None, :, :]
    force, potential = pair_forces(distance.reshape(-1, 3), box)
    return force.reshape(len(atoms), -1, 3).sum(axis=1), 0.5 * float(potential.sum())


def forces_of_pairs(first: NDArray[np.intp], positions: Array, box: float) -> tuple[Array, float]:
    """Return the forces on all atoms, and the potential energy, of pairs (first, later atom)."""
    i, j = (first[:, None] < np.arange(len(positions))).nonzero()
    i = first[i]
    force, potential = pair_forces(positions[i] - positions[j], box)
    total = np.zeros_like(positions)
    np.add.at(total, i, force)
    np.subtract.at(total, j, force)
    return total, float(potential.sum())


def main() -> int:
    parser = argparse.ArgumentParser(description="molecular dynamics with Lennard-Jones forces")
    parser.add_argument("--variant", choices=["allgatherv", "allreduce"], default="allgatherv")
    parser.add_argument("--cells", type=int, default=4, help="crystal cells of 4 atoms a side")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--dt", type=float, default=0.004)
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    atoms = 4 * options.cells**3
    box = float((atoms / DENSITY) ** (1 / 3))
    state = np.stack(make_atoms(options.cells)) if rank == 0 else np.empty((2, atoms, 3))
    comm.Bcast(state)
    positions, velocities = state
    shares = np.array_split(np.arange(atoms), size)
    counts = [3 * len(share) for share in shares]
    forces = np.empty_like(positions)

    def exchange() -> float:
        """Compute `forces` on all processes; return the local share of the potential energy."""
        if options.variant == "allgatherv":
            mine, potential = forces_on(shares[rank], positions, box)
            comm.Allgatherv(mine, [forces, counts])
        else:  # pairs of every size-th atom, because the first atoms have more pairs
            part, potential = forces_of_pairs(np.arange(rank, atoms, size), positions, box)
            comm.Allreduce(part, forces)
        return potential

    exchange()
    energies = np.empty(options.steps)
    comm.Barrier()
    start = MPI.Wtime()
    for step in range(options.steps):
        velocities += 0.5 * options.dt * forces
        positions += options.dt * velocities
        potential = np.array([exchange()])
        velocities += 0.5 * options.dt * forces
        comm.Allreduce(MPI.IN_PLACE, potential)
        energies[step] = potential[0] + 0.5 * np.sum(velocities**2)
    comm.Barrier()
    seconds = MPI.Wtime() - start
    if rank > 0:
        return 0

    print(f"measured: {seconds:.3f} s")
    spread = float(np.abs(positions - make_atoms(options.cells)[0]).mean())
    print(f"result: {atoms} atoms, {options.steps} steps, mean way {spread:.9f}")
    serial, _ = forces_on(np.arange(atoms), positions, box)
    difference = float(np.abs(forces - serial).max())
    drift = float(np.ptp(energies)) / atoms if options.steps else 0.0
    momentum = float(np.abs(velocities.sum(axis=0)).max())
    failed = not (difference < 1e-9 and drift < 1e-3 and momentum < 1e-9)
    if failed:
        print(f"check failed: forces {difference:.1e}, energy {drift:.1e}, momentum {momentum:.1e}")
    else:
        print("check ok")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
