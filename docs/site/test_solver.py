"""A test that fails if the ranks of solver.py wait too long for each other."""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpiprof


def test_ranks_wait_for_less_than_a_fifth_of_the_run(
    record_mpi: Callable[..., mpiprof.Trace],
) -> None:
    """The waiting is in collectives and for messages."""
    trace = record_mpi(2, sys.executable, "solver.py")
    times = trace.run_times
    share = times.total_wait.value / times.whole_ns  # at most 0.5: one of two ranks waits
    assert share < 0.2, f"python -m mpiprof report {trace.path}"
