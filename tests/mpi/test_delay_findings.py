"""Delays in real programs: the first finding names who works longer, where, and the cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi

import mpiprof
from mpiprof.diagnosis import delay_reasons
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
    # On a busy machine another rank may be late as well.
    assert (first.cause, first.ranks[0]) == ("rank", slow)
    assert first.evidence["late_ns"] > 0.75 * 8 * MS
    # All other ranks wait for the slow one in each step, less if they are late themselves.
    assert first.cost_ns > 0.3 * STEPS * 8 * MS * (ranks - 1)
    work = first.evidence["work"][0]
    before, after = work["before"], work["after"]
    source = (Path(__file__).parents[1] / "programs/messages_halo.c").read_text().splitlines()
    assert "MPI_Allreduce" in source[before["line"] - 1]
    assert "MPI_Wait" in source[after["line"] - 1] or "MPI_I" in source[after["line"] - 1]
    reasons = (delay_reasons.BLOCKED, delay_reasons.PREEMPTED, None)
    assert first.evidence["reason"]["reason"] in reasons
    text = finding_text(trace, first)
    assert f"ank {slow} works " in text
    assert "give" not in text.lower()
