"""Molecular dynamics of copper: embedded atoms (Sutton and Chen), periodic box.

An atom is embedded in the density that its neighbours contribute, so the forces require the
densities of all atoms. The two variants give the same trajectories up to rounding:

    allreduce    a process has all atoms; densities and forces are summed, rank 0 broadcasts the
                 settings of each step line by line, and a barrier ends the step (as LAMMPS)
    allgatherv   a process moves its atoms; coordinates and densities are collected one by one,
                 energies and pressures are summed (as ParaDyn)

Checks: energy and momentum are conserved, and the last forces equal those of one process.

    mpiexec -n 4 python metal.py --variant allgatherv
    mpiexec -n 4 python -m mpiprof run metal.py
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Units: edge of the crystal cell, energy of a pair at that distance, mass of an atom.
REPULSION, DENSITY = 9, 6  # powers of the distance
EMBEDDING = 39.432
CUTOFF = 1.8
TEMPERATURE = 2.0  # about 290 K
SCRIPT = (  # settings that rank 0 sends in each step, as an input script
    "units metal",
    "boundary periodic periodic periodic",
    "atom_style atomic",
    "pair_style sutton_chen 9 6 39.432",
    "neighbor none",
    "fix all nve",
    "thermo 1",
    "timestep {dt!r}" + " " * 600,  # the length of a line with many settings
)


def make_atoms(cells: int) -> tuple[Array, Array]:
    """Return positions and velocities of a face-centred cubic crystal at rest: 4 cells^3 atoms."""
    corner = np.array([[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    grid = np.stack(np.meshgrid(*3 * [np.arange(cells)], indexing="ij"), axis=-1).reshape(-1, 1, 3)
    positions = (grid + corner).reshape(-1, 3)
    velocities = np.random.default_rng(1720).normal(size=positions.shape) * TEMPERATURE**0.5
    return positions, velocities - velocities.mean(axis=0)


def power(r: Array, exponent: int) -> tuple[Array, Array]:
    """Return r^-exponent and its slope, both shifted so that they vanish at the cutoff."""
    edge = CUTOFF**-exponent
    slope = exponent * edge / CUTOFF
    return r**-exponent - edge + slope * (r - CUTOFF), slope - exponent * r ** (-exponent - 1)


class Neighbours:
    """Distances of some atoms from all atoms, and the powers of those within the cutoff."""

    def __init__(self, atoms: slice, positions: Array, box: float) -> None:
        away = positions[atoms][:, None, :] - positions[None, :, :]
        self.away = away - box * np.rint(away / box)
        squared = np.einsum("ijk,ijk->ij", self.away, self.away)
        self.near = (squared > 0) & (squared < CUTOFF**2)
        self.r = np.sqrt(np.where(self.near, squared, 1.0))

    def densities(self) -> Array:
        """Return the density in which each of the atoms is embedded."""
        total: Array = np.where(self.near, power(self.r, DENSITY)[0], 0.0).sum(axis=1)
        return total

    def forces(self, atoms: slice, density: Array) -> tuple[Array, float, Array]:
        """Return forces on the atoms, their share of the potential energy, and of the pressure."""
        repulsion, push = power(self.r, REPULSION)
        pull = power(self.r, DENSITY)[1]
        root = 1 / np.sqrt(density)
        slope = push - 0.5 * EMBEDDING * (root[atoms][:, None] + root[None, :]) * pull
        force = -np.where(self.near, slope / self.r, 0.0)[..., None] * self.away
        energy = 0.5 * np.where(self.near, repulsion, 0.0).sum()
        energy -= EMBEDDING * np.sqrt(density[atoms]).sum()
        pressure = np.einsum("ijk,ijl->kl", self.away, force)
        return force.sum(axis=1), float(energy), pressure[np.triu_indices(3)]


def broadcast_settings(comm: MPI.Intracomm, dt: float) -> float:
    """Send the script line by line, each after its length; return the time step in it."""
    settings = {}
    for line in SCRIPT:
        text = line.format(dt=dt).encode() if comm.rank == 0 else b""
        length = np.array([len(text)], np.int32)
        comm.Bcast(length)
        buffer = bytearray(text if comm.rank == 0 else int(length[0]))
        comm.Bcast(buffer)
        name, _, values = buffer.decode().partition(" ")
        settings[name] = values.strip()
    return float(settings["timestep"])


def main() -> int:
    parser = argparse.ArgumentParser(description="molecular dynamics of copper, embedded atoms")
    parser.add_argument("--variant", choices=["allreduce", "allgatherv"], default="allreduce")
    parser.add_argument("--cells", type=int, default=4, help="crystal cells of 4 atoms a side")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dt", type=float, default=0.001)
    options = parser.parse_args()
    if options.cells < 2 * CUTOFF:
        parser.error(f"--cells {options.cells}: at least 4, so that an atom has no neighbour twice")

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    replicated = options.variant == "allreduce"
    atoms, box = 4 * options.cells**3, float(options.cells)
    bounds = [atoms * i // size for i in range(size + 1)]
    counts = np.diff(bounds)
    share = slice(bounds[rank], bounds[rank + 1])

    def join(mine: Array) -> Array:
        """Return the values of all atoms, given those of this process's share."""
        everyone = np.zeros((atoms, *mine.shape[1:]))
        if replicated:
            everyone[share] = mine
            comm.Allreduce(MPI.IN_PLACE, everyone)
            return everyone
        columns = mine.reshape(len(mine), -1)
        for axis in range(columns.shape[1]):
            column = np.empty(atoms)
            comm.Allgatherv(np.ascontiguousarray(columns[:, axis]), [column, counts])
            everyone.reshape(atoms, -1)[:, axis] = column
        return everyone

    def compute_forces(moved: Array) -> tuple[Array, Array]:
        """Return the forces on the moved atoms, and the sums of this process's share."""
        neighbours = Neighbours(share, moved if replicated else join(moved), box)
        force, energy, pressure = neighbours.forces(share, join(neighbours.densities()))
        return join(force) if replicated else force, np.append(energy, pressure)

    if replicated:
        state = np.stack(make_atoms(options.cells))
    else:
        state = np.stack(make_atoms(options.cells)) if rank == 0 else np.empty((2, atoms, 3))
        comm.Bcast(state)
    own = slice(None) if replicated else share  # atoms that this process moves
    positions, velocities = state[0][own].copy(), state[1][own].copy()
    forces, _ = compute_forces(positions)
    energies = np.empty(options.steps)
    comm.Barrier()
    start = MPI.Wtime()
    for step in range(options.steps):
        dt = broadcast_settings(comm, options.dt) if replicated else options.dt
        velocities += 0.5 * dt * forces
        positions += dt * velocities
        forces, sums = compute_forces(positions)
        velocities += 0.5 * dt * forces
        kinetic = np.array([0.5 * np.sum(velocities**2)])
        comm.Allreduce(MPI.IN_PLACE, sums)
        if replicated:
            comm.Barrier()
        else:
            comm.Allreduce(MPI.IN_PLACE, kinetic)
        energies[step] = sums[0] + kinetic[0]
    comm.Barrier()
    seconds = MPI.Wtime() - start
    momentum = velocities.sum(axis=0)
    if not replicated:
        positions, forces = join(positions), join(forces)
        comm.Allreduce(MPI.IN_PLACE, momentum)
    if rank > 0:
        return 0

    print(f"measured: {seconds:.3f} s")
    spread = float(np.abs(positions - make_atoms(options.cells)[0]).mean())
    print(f"result: {atoms} atoms, {options.steps} steps, mean way {spread:.9f}")
    every = slice(0, atoms)
    serial = Neighbours(every, positions, box)
    expected, _, _ = serial.forces(every, serial.densities())
    difference = float(np.abs(forces - expected).max())
    drift = float(np.ptp(energies)) / atoms if options.steps else 0.0
    failed = not (difference < 1e-8 and drift < 0.01 and np.abs(momentum).max() < 1e-8)
    if failed:
        text = f"forces {difference:.1e}, energy {drift:.1e}, momentum {np.abs(momentum).max():.1e}"
        print(f"check failed: {text}")
    else:
        print("check ok")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
