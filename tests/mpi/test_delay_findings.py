"""Delays in real programs: the first finding names who works longer, where, and the cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi

import mpiprof
from mpiprof.reports.sentences import finding_text
from mpiprof.trace import Trace

MS = 1_000_000
ATTEMPTS = 5
STEPS = 30


def record_halo(mpi: Mpi, ranks: int, slow: int, folder: Path) -> Trace:
    """Record a halo exchange with one slow rank."""
    program = compiled(mpi, "messages_halo.c")
    recorder = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), "--"]
    run_mpi(mpi, ranks, [*recorder, str(program), str(STEPS), str(slow)], check=True)
    return mpiprof.open(folder)


@SLOW_WITH_MPICH
@pytest.mark.parametrize("ranks", [2, 8])
def test_the_slow_rank_of_a_halo_exchange(ranks: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 and 8 ranks: others wait in MPI_Waitall, directly or through their neighbours.

    On a busy machine, other ranks may be delayed as much in some of the recordings.
    """
    slow = ranks // 2
    for attempt in range(ATTEMPTS):
        trace = record_halo(mpi, ranks, slow, tmp_path / str(attempt))
        first = trace.findings()[0]
        if first.cause == "rank" and first.ranks[0] == slow:
            break
    else:
        cost = trace.delays.groupby("rank")["cost_ns"].sum()
        assert cost.idxmax() == slow
        return
    assert first.habit.late_ns > 0.5 * 8 * MS
    # All other ranks wait for the slow one in each step, less if they are late themselves.
    assert first.cost_ns > 0.1 * STEPS * 8 * MS * (ranks - 1)
    work = first.habit.work[0]
    before, after = work.before, work.after
    source = (Path(__file__).parents[1] / "programs/messages_halo.c").read_text().splitlines()
    assert "MPI_" in source[before["line"] - 1]
    assert "MPI_" in source[after["line"] - 1]
    text = finding_text(trace, first)
    assert f"ank {slow} works " in text
    assert "give" not in text.lower()
