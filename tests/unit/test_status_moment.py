"""The header, the table and the verdict of `status` describe one moment of a job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang import job_verdict, processes, rank_state, status
from mpiprof.hang.processes import JobProcesses

SECOND = 10**9


def open_job(folder: Path) -> mpiprof.Trace:
    """Return the trace of a job in which ranks 0 and 1 wait in a barrier for rank 2."""
    synthetic = Synthetic(3)
    synthetic.add_collective("barrier", np.full((3, 3), 100), np.full((3, 3), 200))
    synthetic.add_collective("barrier", [[9_000, 9_000, -1]], [[0, 0, 0]])
    for rank in range(3):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    return mpiprof.open(synthetic.write(folder, finished=False))


def test_a_job_that_ends_after_its_verdict_has_the_state_of_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = open_job(tmp_path / "t")
    positions, pending = rank_state.find(trace)
    alive = dict.fromkeys(range(3), True)
    job = JobProcesses(10_000 + 20 * SECOND, alive, busy=frozenset([2]))
    verdict = job_verdict.conclude(trace, positions, pending, job)
    monkeypatch.setattr(status, "find_alive", lambda _: dict.fromkeys(range(3), False))
    header = status.status_text(trace, positions, pending, verdict).splitlines()[0]
    assert verdict.kind == "stalled" and header.endswith(" · stalled"), header
    assert status.is_running(trace, positions, verdict)


def test_a_process_that_ends_while_it_is_sampled_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that used its processor until it was killed does not compute."""
    trace = open_job(tmp_path / "t")
    ticks = iter(range(0, 10**6, 10))
    checks = iter([True, False])
    monkeypatch.setattr(processes, "SAMPLE_INTERVAL_S", 0.0)
    monkeypatch.setattr(processes, "read_stat", lambda _: ("R", next(ticks)))
    monkeypatch.setattr(
        processes, "find_alive", lambda _: dict.fromkeys(range(3), next(checks, False))
    )
    sampled = processes.sample_processes(trace, [2])
    assert sampled.alive == dict.fromkeys(range(3), False)
    assert not sampled.busy | sampled.still | sampled.in_files


def test_a_rank_that_ends_normally_while_it_is_sampled_has_ended(tmp_path: Path) -> None:
    trace = open_job(tmp_path / "t")
    positions, pending = rank_state.find(trace)
    everyone = frozenset(range(3))
    job = JobProcesses(10_000 + 20 * SECOND, dict.fromkeys(range(3), False), ended=everyone)
    verdict = job_verdict.conclude(trace, positions, pending, job)
    header = status.status_text(trace, positions, pending, verdict).splitlines()[0]
    assert header.endswith(" · ended"), header
