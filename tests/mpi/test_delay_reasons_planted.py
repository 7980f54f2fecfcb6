"""Planted reasons of a delay are found on the real machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import delay_reasons as planted
from support.compilation import compiled
from support.jobs import run_mpi, run_verb
from support.mpis import LONG_WITH_MPICH, Mpi

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


def read_report(trace: Path) -> str:
    """Return the whole report without line breaks.

    On a busy machine the report has more findings, and without --all it then leaves out the facts
    of the trace.
    """
    return " ".join(run_verb("report", "--all", trace)[1].split())


def list_cases() -> list[object]:
    """Return the reasons. With a quota, the ranks have priority over other processes."""
    marks = {"quota": pytest.mark.slow}  # the others only without other processes
    names = planted.names()
    return [pytest.param(name, marks=marks.get(name, pytest.mark.everything)) for name in names]


@LONG_WITH_MPICH
@pytest.mark.parametrize("name", list_cases())
def test_a_planted_reason_is_found_on_2_ranks(name: str, mpi: Mpi, tmp_path: Path) -> None:
    """On a busy machine, other processes delay both ranks more than the reason does."""
    judgements = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        steps = record_steps(mpi, name, folder)
        reasons = steps.explain()
        assert sum(reasons.shares_ns.values()) == pytest.approx(reasons.excess_ns)
        judgements.append(steps.judge(name))
        assert not judgements[-1].startswith("wrong"), reasons
        if judgements[-1] == "right":
            if name == "quota":
                check_quota(read_report(folder / "trace"))
            return
    assert "disturbed" in judgements


def check_quota(report: str) -> None:
    """The report names the quota as the only cause, and as a limit."""
    assert "Rank 1 has a quota of 0.5 processors, which stopped it for" in report, report
    assert "works" not in report.partition("Call sites by total waiting time")[0], report
    assert "Raise or remove the quota of the control group of rank 1." in report
    assert "1 of them with a quota of 0.5 processors" in report
    assert "1 rank has a quota of 0.5 processors: raise the quota." in report
