"""Bucket sort of integer keys (as IS of NAS).

In each repetition two keys change. An allreduce sums the numbers of keys per bucket, and all
processes divide the buckets into ranges of about equal size. An alltoall exchanges the numbers of
keys to send, and an alltoallv the keys. Keys have a bell-shaped distribution, so ranges of equal
share differ in width. Checks: order within and between processes (exscan), and a checksum over all
keys and their positions, which must equal that of numpy's sort.

    mpiexec -n 4 python integer_sort.py
    mpiexec -n 4 python -m mpiprof run integer_sort.py --keys 1048576
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Keys = NDArray[np.int64]

BUCKETS = 1024
LARGEST = 1 << 19  # upper limit of keys, excluded


def make_keys(count: int) -> Keys:
    """Return all keys of the program; a key is the mean of four uniform numbers."""
    numbers = np.random.default_rng(33193).integers(0, LARGEST, size=(count, 4))
    keys: Keys = numbers.sum(axis=1) // 4
    return keys


def change(keys: Keys, first: int, repetition: int, repetitions: int) -> None:
    """Set the two keys of this repetition if they are among `keys`, which begin at all[first]."""
    for place, value in ((repetition, repetition), (repetition + repetitions, LARGEST - 1)):
        if first <= place < first + len(keys):
            keys[place - first] = value


def sort(comm: MPI.Intracomm, keys: Keys) -> Keys:
    """Return this process's range of the sorted keys of all processes."""
    size = comm.Get_size()
    buckets = keys * BUCKETS // LARGEST
    totals = np.bincount(buckets, minlength=BUCKETS)
    comm.Allreduce(MPI.IN_PLACE, totals)
    before = np.cumsum(totals) - totals
    owners = np.minimum(before * size // max(int(totals.sum()), 1), size - 1)
    order = np.argsort(buckets, kind="stable")
    sent = np.bincount(owners[buckets], minlength=size)
    received = np.empty_like(sent)
    comm.Alltoall(sent, received)
    mine = np.empty(int(received.sum()), dtype=np.int64)
    comm.Alltoallv([keys[order], sent], [mine, received])
    mine.sort()
    return mine


def checksum(keys: Keys, first: int) -> np.uint64:
    """Return the sum of position times key modulo 2^64, for keys that begin at position `first`."""
    places = np.arange(first, first + len(keys), dtype=np.uint64)
    return np.uint64((places * keys.astype(np.uint64)).sum(dtype=np.uint64))


def main() -> int:
    parser = argparse.ArgumentParser(description="integer keys sorted by buckets")
    parser.add_argument("--keys", type=int, default=1 << 17)
    parser.add_argument("--repetitions", type=int, default=10)
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    everything = make_keys(options.keys)
    first = rank * options.keys // size
    keys = everything[first : (rank + 1) * options.keys // size].copy()
    mine = keys[:0]
    for repetition in range(options.repetitions):
        change(keys, first, repetition, options.repetitions)
        mine = sort(comm, keys)

    # Count the keys on lower ranks and find their largest key: some ranges are empty.
    below = np.zeros(1, dtype=np.int64)
    largest = np.full(1, -1, dtype=np.int64)
    comm.Exscan(np.array([len(mine)]), below)
    comm.Exscan(np.array([mine[-1] if len(mine) else -1]), largest, op=MPI.MAX)
    ordered = bool(np.all(np.diff(mine) >= 0) and (rank == 0 or not np.any(mine < largest[0])))
    answer = np.array([checksum(mine, int(below[0])), len(mine), not ordered], dtype=np.uint64)
    comm.Allreduce(MPI.IN_PLACE, answer)
    for repetition in range(options.repetitions):
        change(everything, 0, repetition, options.repetitions)
    expected = checksum(np.sort(everything), 0)
    failed = bool(answer[2]) or answer[1] != options.keys or answer[0] != expected

    if rank == 0:
        print(f"result: {answer[1]} keys, checksum {answer[0]:016x}")
        if answer[2]:
            print(f"check failed: keys out of order on {answer[2]} processes")
        elif failed:
            print(f"check failed: {options.keys} keys with checksum {expected:016x} went in")
        else:
            print("check ok")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
