"""Loop over a collective on MPI_COMM_SELF, in batches, for benchmarks/overhead.py.

`overhead_loop.py barrier|allreduce BATCHES CALLS` has the same output as overhead.c.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns


def main() -> None:
    """Run the batches and print the nanoseconds of a call and of the clock."""
    from mpi4py import MPI

    operation, batches, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    comm = MPI.COMM_SELF
    sent, received = [bytearray(8), 1, MPI.DOUBLE], [bytearray(8), 1, MPI.DOUBLE]
    arguments = (sent, received) if operation == "allreduce" else ()
    call = comm.Allreduce if operation == "allreduce" else comm.Barrier
    took = []
    for _ in range(batches + 1):
        before = perf_counter_ns()
        for _ in range(calls):
            call(*arguments)
        took.append((perf_counter_ns() - before) / calls)
    del took[0]
    worst = 0
    for _ in range(calls):
        before = perf_counter_ns()
        call(*arguments)
        worst = max(worst, perf_counter_ns() - before)
    sys.stdout.write(f"{min(took):.1f} {sum(took) / len(took):.1f} {worst} nan\n")


if __name__ == "__main__":
    main()
