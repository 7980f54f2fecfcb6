"""Delays in real programs: the first finding names who works longer, where, and the cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import LONG_WITH_MPICH, Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.causes.finding import Finding
from mpiprof.reports.words.finding_sentences import finding_text
from mpiprof.trace import Trace

MS = 1_000_000
ATTEMPTS = 5
STEPS = 30


def record_halo(mpi: Mpi, ranks: int, slow: int, folder: Path) -> Trace:
    """Record a halo exchange with one slow rank."""
    program = compiled(mpi, "messages_halo.c")
    words = prepare_run(["-q", "-o", folder], [program, str(STEPS), str(slow)])
    run_mpi(mpi, ranks, words, check=True)
    return mpiprof.open(folder)


@LONG_WITH_MPICH
@pytest.mark.parametrize("ranks", [2, 8])
def test_the_slow_rank_of_a_halo_exchange(ranks: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 and 8 ranks: others wait in MPI_Waitall, directly or through their neighbours.

    On a busy machine, the queues for processors come first and may hide the slow rank. No recording
    names another rank.
    """
    slow = ranks // 2
    for attempt in range(ATTEMPTS):
        trace = record_halo(mpi, ranks, slow, tmp_path / str(attempt))
        findings = trace.findings()
        single = {item.ranks[0] for item in findings if len(item.ranks) == 1}
        assert single <= {slow}
        if findings[0].cause == "rank" and single == {slow}:
            check_slow_rank(trace, findings[0], slow, ranks)
            return
        assert findings[0].cause == "oversubscription" or findings[0].ranks == (slow,)


def check_slow_rank(trace: Trace, finding: Finding, slow: int, ranks: int) -> None:
    """Check the delay, the cost, the place and the sentence of a finding about the slow rank."""
    assert finding.habit is not None
    assert finding.habit.late_ns > 0.5 * 8 * MS
    # All other ranks wait for the slow one in each step, less if they are late themselves.
    assert finding.cost_ns > 0.1 * STEPS * 8 * MS * (ranks - 1)
    work = finding.habit.work[0]
    before, after = work.before, work.after
    source = (Path(__file__).parents[1] / "programs/messages_halo.c").read_text().splitlines()
    assert "MPI_" in source[before["line"] - 1]
    assert "MPI_" in source[after["line"] - 1]
    text = finding_text(trace, finding)
    assert f"ank {slow} works " in text
    assert "give" not in text.lower()
