"""The micro-benchmark of Faraj, Patarasuk and Yuan (2008), Figure 4: perfectly balanced work.

After a barrier, each repetition does the same computation on every process, XTIME times the loop
a[k] = b[k+1] - a[k-1] * 2, and then an all-to-all. Its arrivals are imbalanced nevertheless, and
the profile shows by how much. `--late RANK:MS` makes one process sleep before every all-to-all;
the profile must then report this rank. Checks: the computed numbers, and every message.

    mpiexec -n 4 python microbenchmark.py --xtime 100
    mpiexec -n 4 python -m mpiprof run microbenchmark.py --late 2:5
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from mpi4py import MPI

LENGTH = 1000


def compute(xtime: int, a: list[float], b: list[float]) -> None:
    """Run lines 4 to 6 of the figure."""
    for _ in range(xtime):
        for k in range(1, LENGTH):
            a[k] = b[k + 1] - a[k - 1] * 2


def rank_and_delay(text: str) -> tuple[int, float]:
    """Parse RANK:MS into (rank, seconds)."""
    rank, _, milliseconds = text.partition(":")
    return int(rank), float(milliseconds) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description="balanced computation, then an all-to-all")
    parser.add_argument("--xtime", type=int, default=20, help="about 0.05 ms each")
    parser.add_argument("--repetitions", type=int, default=50, help="1000 in the paper")
    parser.add_argument("--bytes", type=int, default=65536, help="a message, a multiple of 8")
    parser.add_argument("--late", type=rank_and_delay, default=(-1, 0.0), metavar="RANK:MS")
    options = parser.parse_args()

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    late_rank, delay = options.late
    if late_rank >= size:
        if rank == 0:
            print(f"microbenchmark.py: no rank {late_rank} in {size} processes", file=sys.stderr)
        return 2
    a, b = [0.0] * LENGTH, [3.0] * (LENGTH + 1)
    # Process j sends to process k the number j * size + k + repetition, in every element.
    width = max(options.bytes // 8, 1)
    outgoing = np.repeat(rank * size + np.arange(size), width).reshape(size, width)
    expected = np.repeat(np.arange(size) * size + rank, width).reshape(size, width)
    incoming = np.empty_like(outgoing)
    times = np.empty((options.repetitions, 3))  # begin of the computation, arrival, exit
    wrong = np.zeros(1, dtype=np.int64)

    comm.Barrier()
    for i in range(options.repetitions):
        times[i, 0] = MPI.Wtime()
        compute(options.xtime, a, b)
        if rank == late_rank:
            time.sleep(delay)
        times[i, 1] = MPI.Wtime()
        comm.Alltoall(outgoing, incoming)
        times[i, 2] = MPI.Wtime()
        wrong += np.count_nonzero(incoming != expected)
        outgoing += 1
        expected += 1

    if options.xtime:  # in closed form a[k] = 1 - (-2)^k, as b is 3
        answer = 1 - (-2.0) ** np.arange(LENGTH)
        wrong += np.count_nonzero(np.abs(np.array(a) - answer) > 1e-12 * np.abs(answer))
    total = np.array([incoming.sum()])
    comm.Allreduce(MPI.IN_PLACE, wrong)
    comm.Allreduce(MPI.IN_PLACE, total)
    durations = np.diff(times, axis=1) * 1000  # of computation and all-to-all, in ms
    everybody = np.empty((size, options.repetitions, 2)) if rank == 0 else None
    comm.Gather(durations, everybody)
    if everybody is not None:
        mean = everybody.mean(axis=(0, 1))
        spread = np.ptp(everybody[:, :, 0], axis=0).mean()
        print(f"measured: computation {mean[0]:.3f} ms, from fastest to slowest {spread:.3f} ms")
        print(f"measured: all-to-all {mean[1]:.3f} ms")
        print(f"result: {options.repetitions} times {width * 8} bytes, sum {total[0]}")
        print(f"check failed: {wrong[0]} numbers are wrong" if wrong[0] else "check ok")
    return int(wrong[0] > 0)


if __name__ == "__main__":
    sys.exit(main())
