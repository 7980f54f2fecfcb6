"""Delays in real programs: the first finding names who works longer, where, and the cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi

import mpiprof
from mpiprof.reports.sentences import finding_text

MS = 1_000_000
STEPS = 30


@SLOW_WITH_MPICH
@pytest.mark.parametrize("ranks", [2, 8])
def test_the_slow_rank_of_a_halo_exchange(ranks: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 and 8 ranks: others wait in MPI_Waitall, directly or through their neighbours."""
    slow = ranks // 2
    program = compiled(mpi, "messages_halo.c")
    recorder = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace"), "--"]
    run_mpi(mpi, ranks, [*recorder, str(program), str(STEPS), str(slow)], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (slow,))
    assert first.evidence["late_ns"] == pytest.approx(8 * MS, rel=0.25)
    # All other ranks wait for the slow one in each step, beside accidents of a busy machine.
    assert first.cost_ns == pytest.approx(STEPS * 8 * MS * (ranks - 1), rel=0.3)
    work = first.evidence["work"][0]
    before, after = work["before"], work["after"]
    source = (Path(__file__).parents[1] / "programs/messages_halo.c").read_text().splitlines()
    assert "MPI_Allreduce" in source[before["line"] - 1]
    assert "MPI_Wait" in source[after["line"] - 1] or "MPI_I" in source[after["line"] - 1]
    assert finding_text(trace, first).startswith(f"Rank {slow} works ")
    assert "give" not in finding_text(trace, first).lower()
