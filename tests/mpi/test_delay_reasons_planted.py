"""Planted reasons of a delay are found on the real machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import delay_reasons as planted
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof

ATTEMPTS = 5  # other processes may hide the reason


def record_steps(mpi: Mpi, name: str, folder: Path) -> planted.Steps:
    """Record a program with a planted reason."""
    folder.mkdir()
    run = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder / "trace"), "--"]
    program = compiled(mpi, planted.SOURCE, "-O1", "-pthread")
    with planted.program_words(name, program, folder, str(mpi.python)) as words:
        run_mpi(mpi, 2, [*run, *words], check=True)
    return planted.read_steps(mpiprof.open(folder / "trace"))


@pytest.mark.everything  # on a busy machine, other processes may look like another reason
@pytest.mark.parametrize("name", planted.names())
def test_a_planted_reason_is_found_on_2_ranks(name: str, mpi: Mpi, tmp_path: Path) -> None:
    """On a busy machine, other processes delay both ranks more than the reason does."""
    judgements = []
    for attempt in range(ATTEMPTS):
        steps = record_steps(mpi, name, tmp_path / str(attempt))
        reasons = steps.explain()
        assert sum(reasons.shares_ns.values()) == pytest.approx(reasons.excess_ns)
        judgements.append(steps.judge(name))
        assert not judgements[-1].startswith("wrong"), reasons
        if judgements[-1] == "right":
            return
    assert "disturbed" in judgements
