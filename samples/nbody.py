"""Gravitating bodies, direct method: every body attracts every other body.

Each process moves its share of the bodies. A step starts with an allgather of all positions.
Every few steps, a gather collects the state on rank 0, which computes the energy while the other
ranks continue, so rank 0 is late at the next allgather. Checks: energy and momentum are
conserved, and the gathered positions equal the positions of the allgather.

    mpiexec -n 4 python nbody.py
    mpiexec -n 4 python -m mpiprof run nbody.py --bodies 1024
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Array = NDArray[np.float64]

SOFTENING = 0.05  # smooths close encounters, so that a fixed time step is sufficient


def make_bodies(bodies: int, padded: int) -> tuple[Array, Array, Array]:
    """Return masses, positions and velocities of a slowly rotating ball with its centre at rest.

    Allgather requires equal shares: massless bodies, which move nothing, pad the last shares.
    """
    random = np.random.default_rng(2008)
    masses = np.zeros(padded)
    positions = np.zeros((padded, 3))
    velocities = np.zeros((padded, 3))
    masses[:bodies] = 1.0 / bodies
    directions = random.normal(size=(bodies, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    positions[:bodies] = directions * random.uniform(size=(bodies, 1)) ** (1 / 3)
    velocities[:bodies] = 0.6 * np.cross([0.0, 0.0, 1.0], positions[:bodies])
    velocities[:bodies] -= velocities[:bodies].mean(axis=0)
    return masses, positions, velocities


def accelerations(mine: Array, everybody: Array, masses: Array) -> Array:
    """Return the acceleration of this process's bodies by all bodies, (mine, 3)."""
    distance = everybody[None, :, :] - mine[:, None, :]
    squared = np.einsum("ijk,ijk->ij", distance, distance) + SOFTENING**2
    pull: Array = np.einsum("ij,ijk->ik", masses / (squared * np.sqrt(squared)), distance)
    return pull


def energy(masses: Array, positions: Array, velocities: Array) -> float:
    """Return the kinetic plus potential energy of all bodies."""
    kinetic = 0.5 * np.sum(masses * np.einsum("ij,ij->i", velocities, velocities))
    distance = positions[None, :, :] - positions[:, None, :]
    lengths = np.sqrt(np.einsum("ijk,ijk->ij", distance, distance) + SOFTENING**2)
    potential = np.outer(masses, masses) / lengths
    return float(kinetic - 0.5 * (potential.sum() - np.trace(potential)))


def main() -> int:
    parser = argparse.ArgumentParser(description="gravitating bodies by the naive method")
    parser.add_argument("--bodies", type=int, default=400)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="steps between two energies")
    parser.add_argument("--dt", type=float, default=0.005)
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    share = -(-options.bodies // size)
    masses, positions, velocities = make_bodies(options.bodies, share * size)
    own = slice(rank * share, (rank + 1) * share)
    mine, speed = positions[own].copy(), velocities[own].copy()
    energies = [energy(masses, positions, velocities)] if rank == 0 else []
    collected = np.empty((size, 2, share, 3))

    push = accelerations(mine, positions, masses)
    for step in range(1, options.steps + 1):
        speed += 0.5 * options.dt * push
        mine += options.dt * speed
        comm.Allgather(mine, positions)
        push = accelerations(mine, positions, masses)
        speed += 0.5 * options.dt * push
        if step % options.every == 0 or step == options.steps:
            comm.Gather(np.stack([mine, speed]), collected if rank == 0 else None)
            if rank == 0:
                velocities = collected[:, 1].reshape(-1, 3)
                energies.append(energy(masses, collected[:, 0].reshape(-1, 3), velocities))

    if rank > 0:
        return 0
    drift = max(abs(value / energies[0] - 1) for value in energies)
    momentum = float(np.abs(masses @ velocities).max())
    print(f"result: {options.bodies} bodies, {options.steps} steps, energy {energies[-1]:.8f}")
    if not drift < 1e-3:
        print(f"check failed: the energy drifts by {drift:.1e} of itself")
        return 1
    if not momentum < 1e-12:
        print(f"check failed: the momentum grew to {momentum:.1e}")
        return 1
    if options.steps and not np.array_equal(collected[:, 0].reshape(-1, 3), positions):
        print("check failed: gather and allgather brought different positions")
        return 1
    print("check ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
