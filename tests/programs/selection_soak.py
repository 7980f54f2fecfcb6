"""Random loops of random collectives, every result checked; ends with 1 where one is wrong.

    soak.py SEED SECONDS

All ranks draw from one seed: operations, sizes, roots, communicators (split, duplicated, bridged,
freed), how often a loop turns. Only delays, and from which line a rank calls, are each rank's own.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

Operation = Callable[[Any, random.Random], Callable[[int], bool]]


def pattern(rank: int, turn: int, length: int) -> Any:
    """Return bytes that only this rank sends in this turn."""
    return ((np.arange(length) * 7 + rank * 31 + turn) % 251).astype(np.uint8)


def shares(draw: random.Random, size: int, most: int) -> list[int]:
    """Return how much each rank has: some nothing, some everything."""
    kind = draw.randrange(3)
    if kind == 0:
        return [most] + [0] * (size - 1)
    return [draw.choice((0, most // 2, most)) if kind == 1 else most for _ in range(size)]


def length_of(draw: random.Random) -> int:
    """Return a size: mostly small, at times large."""
    return draw.choice((1, 8, 63, 64, 65, 1000, 5000, 40_000, 300_000))


def bcast(comm: Any, draw: random.Random) -> Callable[[int], bool]:
    """From one rank to all."""
    root, length = draw.randrange(comm.size), length_of(draw)
    data = np.zeros(length, np.uint8)

    def turn(i: int) -> bool:
        if comm.rank == root:
            data[:] = pattern(root, i, length)
            comm.Bcast(data, root)
        else:
            data[:] = 0
            comm.Bcast(data, root)  # another line than the root's, and the same instance
        return np.array_equal(data, pattern(root, i, length))

    return turn


def allgatherv(comm: Any, draw: random.Random) -> Callable[[int], bool]:
    """Irregular shares from all to all."""
    counts = shares(draw, comm.size, length_of(draw))
    data = np.zeros(sum(counts), np.uint8)

    def turn(i: int) -> bool:
        data[:] = 255
        comm.Allgatherv(pattern(comm.rank, i, counts[comm.rank]), [data, counts])
        expected = [pattern(rank, i, count) for rank, count in enumerate(counts)]
        return np.array_equal(data, np.concatenate(expected))

    return turn


def alltoall(comm: Any, draw: random.Random) -> Callable[[int], bool]:
    """A block for each other rank."""
    length = min(length_of(draw), 40_000)
    data = np.zeros((comm.size, length), np.uint8)

    def turn(i: int) -> bool:
        mine = np.stack([pattern(comm.rank + 3 * r, i, length) for r in range(comm.size)])
        if comm.rank % 2:
            comm.Alltoall(mine, data)
        else:
            comm.Alltoall(mine, data)
        expected = [pattern(rank + 3 * comm.rank, i, length) for rank in range(comm.size)]
        return np.array_equal(data, np.stack(expected))

    return turn


def alltoallv(comm: Any, draw: random.Random) -> Callable[[int], bool]:
    """Blocks with sizes that only sender and receiver know."""
    table = [shares(draw, comm.size, length_of(draw) // 8) for _ in range(comm.size)]
    sent = table[comm.rank]
    gets = [table[rank][comm.rank] for rank in range(comm.size)]
    data = np.zeros(sum(gets), np.uint8)

    def turn(i: int) -> bool:
        mine = [pattern(comm.rank + 5 * r, i, count) for r, count in enumerate(sent)]
        comm.Alltoallv([np.concatenate(mine), sent], [data, gets])
        expected = [pattern(r + 5 * comm.rank, i, count) for r, count in enumerate(gets)]
        return np.array_equal(data, np.concatenate(expected))

    return turn


def reduction(name: str) -> Operation:
    """Return sums of integers: reduce, allreduce or reduce_scatter_block."""

    def make(comm: Any, draw: random.Random) -> Callable[[int], bool]:
        root, length = draw.randrange(comm.size), max(1, length_of(draw) // 8)
        scattered = name == "reduce_scatter_block"
        whole = length * comm.size if scattered else length
        result = np.zeros(length, np.int64)

        def turn(i: int) -> bool:
            mine = np.arange(whole, dtype=np.int64) * (comm.rank + 1) + i
            total = comm.size * (comm.size + 1) // 2
            expected = np.arange(whole, dtype=np.int64) * total + i * comm.size
            result[:] = 0
            if name == "reduce":
                comm.Reduce(mine, result if comm.rank == root else None, MPI.SUM, root)
                return comm.rank != root or np.array_equal(result, expected)
            if name == "allreduce":
                comm.Allreduce(mine, result)
                return np.array_equal(result, expected)
            comm.Reduce_scatter_block(mine, result)
            begin = comm.rank * length
            return np.array_equal(result, expected[begin : begin + length])

        return turn

    return make


def gather(comm: Any, draw: random.Random) -> Callable[[int], bool]:
    """To one rank, and back."""
    root, length = draw.randrange(comm.size), min(length_of(draw), 40_000)
    data = np.zeros((comm.size, length), np.uint8)
    back = np.zeros(length, np.uint8)

    def turn(i: int) -> bool:
        mine = pattern(comm.rank, i, length)
        comm.Gather(mine, data if comm.rank == root else None, root)
        comm.Scatter(data if comm.rank == root else None, back, root)
        return np.array_equal(back, mine)

    return turn


def barrier(comm: Any, _: random.Random) -> Callable[[int], bool]:
    """Nothing to check but that all come out."""

    def turn(_: int) -> bool:
        comm.Barrier()
        return True

    return turn


def short_lived(comm: Any, draw: random.Random) -> Callable[[int], bool]:
    """Duplicates that are used a few times and freed."""
    inner = draw.choice((bcast, alltoall, reduction("allreduce")))
    seed = draw.randrange(1 << 30)

    def turn(i: int) -> bool:
        made = comm.Dup()
        right = [inner(made, random.Random(seed))(i + j) for j in range(3)]
        made.Free()
        return all(right)

    return turn


OPERATIONS: tuple[Operation, ...] = (
    bcast,
    allgatherv,
    alltoall,
    alltoallv,
    reduction("reduce"),
    reduction("allreduce"),
    reduction("reduce_scatter_block"),
    gather,
    barrier,
    short_lived,
)


def bridge_turns(comm: Any, draw: random.Random) -> bool:
    """Allgathers between two groups of unequal size."""
    length, turns = length_of(draw) // 4 + 1, draw.randrange(5, 30)
    first = comm.rank < (comm.size + 1) // 2
    half = comm.Split(first, comm.rank)
    other = (comm.size + 1) // 2 if first else 0
    bridge = half.Create_intercomm(0, comm, other)
    data = np.zeros((bridge.remote_size, length), np.uint8)
    right = True
    for i in range(turns):
        data[:] = 255
        bridge.Allgather(pattern(comm.rank, i, length), data)
        expected = [pattern(other + rank, i, length) for rank in range(bridge.remote_size)]
        right = right and np.array_equal(data, np.stack(expected))
    bridge.Free()
    half.Free()
    return right


def loop(comm: Any, draw: random.Random, own: random.Random) -> bool:
    """Turn some operations in order, some times, with delays that come and go."""
    body = [draw.choice(OPERATIONS)(comm, draw) for _ in range(draw.randrange(1, 4))]
    turns = draw.randrange(3, 120)
    late = draw.random() < 0.2
    right = True
    for i in range(turns):
        if late and own.random() < 0.1:
            time.sleep(own.random() * 2e-3)
        for operation in body:
            right = operation(i) and right
    return right


def main() -> int:
    """Continue until rank 0 announces the end of the time."""
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    world = MPI.COMM_WORLD
    draw, own = random.Random(seed), random.Random(seed * 1000 + world.rank)
    end, loops, right = time.monotonic() + seconds, 0, True
    while world.bcast(time.monotonic() < end and right):
        colour = world.rank % draw.choice((1, 1, 2))
        part = world.Split(colour, -world.rank if draw.random() < 0.3 else world.rank)
        if world.size > 1 and draw.random() < 0.15:
            right = bridge_turns(world, draw)
        elif draw.random() < 0.5:
            right = loop(world, draw, own)
        else:
            right = loop(part, random.Random(draw.randrange(1 << 30)), own)
        part.Free()
        loops += 1
        right = world.allreduce(right, MPI.LAND)
    if world.rank == 0:
        print(f"seed {seed}: {loops} loops, {'all right' if right else 'a wrong result'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
