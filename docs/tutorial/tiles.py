"""Render a film in tiles: how long a tile takes depends on what is in it.

Each rank renders its share of every frame; then all ranks get the whole frame, and agree on its
brightness. The work is a timer, so that the times do not depend on the machine.

    mpiexec -n 4 python tiles.py                 each rank has neighbouring tiles
    mpiexec -n 4 python tiles.py --deal          the tiles are dealt out in turn
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from mpi4py import MPI

TILES, PIXELS = 32, 1024


def seconds(tile: int) -> float:
    """Return how long a tile takes: the nearer the middle of the picture, the longer."""
    return 4e-3 * float(np.exp(-((tile - 12) ** 2) / 20)) + 0.2e-3


def render(tile: int, frame: int) -> np.ndarray:
    """Return the pixels of a tile."""
    return np.full(PIXELS, tile * frame % 251, np.float64)


def main() -> None:
    """Render the film."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--deal", action="store_true")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    share = TILES // comm.size
    if options.deal:
        mine = range(comm.rank, TILES, comm.size)
    else:
        mine = range(comm.rank * share, (comm.rank + 1) * share)
    picture = np.empty((comm.size, share, PIXELS))
    brightness, total = np.zeros(1), np.zeros(1)
    for frame in range(options.frames):
        time.sleep(sum(seconds(tile) for tile in mine))
        tiles = np.stack([render(tile, frame) for tile in mine])
        comm.Allgather(tiles, picture)
        comm.Allreduce(tiles.sum(keepdims=True).ravel(), brightness)
        total += brightness
    if comm.rank == 0:
        print(f"{options.frames} frames, brightness {total[0] / picture.size / options.frames:.3f}")


if __name__ == "__main__":
    main()
