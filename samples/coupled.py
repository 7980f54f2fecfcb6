"""Two models in one job, ocean and atmosphere, exchange heat through their surface.

A third of the processes computes the ocean on a fine grid, the others the air on a coarse grid.
In each step, each process receives the whole surface of the other model (allgatherv on the
inter-communicator, uneven shares) and the total and extremes of each remote process (allgather).
Then both models conduct heat along the surface. Checks: received values equal a serial copy of
both models bit by bit, and heat is conserved. Needs at least 2 processes.

    mpiexec -n 4 python coupled.py
    mpiexec -n 4 python -m mpiprof run coupled.py --steps 100
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Surface = NDArray[np.float64]

EXCHANGE, CONDUCTION = 0.02, 0.2  # fractions of a temperature difference that flow in a step


def first_surface(cells: int, ocean: bool) -> Surface:
    """Return the initial temperatures: a warm pool in the ocean, waves in the air."""
    x = (np.arange(cells) + 0.5) / cells
    return 20 + 8 * np.exp(-40 * (x - 0.4) ** 2) if ocean else 15 + 3 * np.sin(6 * np.pi * x)


def onto(other: Surface, cells: int) -> Surface:
    """Return the other model's surface on this model's grid: averages, or repeated values."""
    if len(other) > cells:
        return np.asarray(other.reshape(cells, -1).mean(axis=1))
    return np.repeat(other, cells // len(other))


def advance(surface: Surface, other: Surface) -> Surface:
    """Return the surface after one step: heat exchange, then conduction with closed ends."""
    heated = surface + EXCHANGE * (onto(other, len(surface)) - surface)
    flow = CONDUCTION * np.diff(heated, prepend=heated[:1], append=heated[-1:])
    return heated + np.diff(flow)


def shares(cells: int, processes: int) -> list[slice]:
    """Return uneven blocks of a grid: the last process has about twice as much as process 0."""
    weights = np.cumsum(np.linspace(1, 2, processes))
    ends = [0, *np.rint(cells * weights / weights[-1]).astype(int).tolist()]
    return [slice(ends[k], ends[k + 1]) for k in range(processes)]


def summary(surface: Surface) -> Surface:
    """Return total, minimum and maximum of a process's block, which may be empty."""
    return np.array([surface.sum(), surface.min(initial=99.0), surface.max(initial=-99.0)])


def main() -> int:
    parser = argparse.ArgumentParser(description="two coupled models on two groups of processes")
    parser.add_argument("--cells", type=int, default=300, help="of the air")
    parser.add_argument("--ratio", type=int, default=4, help="cells of the ocean to one of the air")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    if size < 2:
        print("coupled.py: needs at least 2 processes: mpiexec -n 2 ...", file=sys.stderr)
        return 2
    sailors = max(1, size // 3)  # ranks 0 .. sailors - 1 are the ocean
    ocean = rank < sailors
    group = world.Split(color=int(ocean), key=rank)
    assert isinstance(group, MPI.Intracomm)
    inter = group.Create_intercomm(0, world, sailors if ocean else 0, tag=7)
    grids = {True: options.ratio * options.cells, False: options.cells}
    processes = {True: sailors, False: size - sailors}

    own = shares(grids[ocean], processes[ocean])[group.Get_rank()]
    remote = shares(grids[not ocean], processes[not ocean])
    counts = [part.stop - part.start for part in remote]
    arrived = np.empty(grids[not ocean])
    summaries = np.empty((len(remote), 3))
    # Each process conducts heat on a copy of its whole grid, which is small, but sends only its
    # block of the copy. The received surface is therefore combined from all remote processes.
    models = {side: first_surface(grids[side], side) for side in (True, False)}
    mine = models[ocean].copy()
    wrong = np.zeros(1, dtype=np.int64)
    for _ in range(options.steps):
        inter.Allgatherv(mine[own], [arrived, counts])
        inter.Allgather(summary(mine[own]), summaries)
        expected = np.stack([summary(models[not ocean][part]) for part in remote])
        wrong += np.count_nonzero(arrived != models[not ocean])
        wrong += np.count_nonzero(summaries != expected)
        mine = advance(mine, arrived)
        models = {side: advance(models[side], models[not side]) for side in (True, False)}

    # Heat is the mean temperature of a grid, because both models have the same heat capacity.
    before = first_surface(grids[ocean], ocean)
    heat = np.array([mine[own].sum(), before[own].sum()]) / grids[ocean]
    world.Allreduce(MPI.IN_PLACE, heat)
    world.Allreduce(MPI.IN_PLACE, wrong)
    inter.Free()
    group.Free()
    lost = abs(float(heat[0] - heat[1]))
    failed = bool(wrong[0]) or not lost < 1e-9
    if rank == 0:
        warmest = models[True].max()
        print(f"result: {options.steps} steps, heat {heat[0]:.6f}, warmest water {warmest:.6f}")
        print(f"check failed: {wrong[0]} values, {lost:.1e} lost" if failed else "check ok")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
