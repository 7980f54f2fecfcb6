"""Time to compute the schedule of a long ring."""

from __future__ import annotations

import time

import numpy as np

from mpiprof.collectives.schedule import Problem, Schedule, find


def test_a_ring_of_65536_processes_in_5_s() -> None:
    """Time the schedule of one rank; tests/schedules checks its rounds."""
    counts = np.zeros(65536, np.int64)
    counts[7] = 1 << 30
    problem = Problem(65536, counts=tuple(counts.tolist()), block_size=32768, order="both")
    begin = time.process_time()
    with Schedule(find("allgatherv", "pipelined_ring"), problem, 5000) as schedule:
        schedule.read_steps(0, schedule.rounds)
    took = time.process_time() - begin
    print(f"{took:.2f} s of processor time")
    assert took < 5
