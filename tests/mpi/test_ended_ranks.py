"""The verdict on jobs in which SIGTERM or SIGKILL ends one rank, and the launcher ends the rest."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from benchmarks.faults import SOURCE
from benchmarks.jobs import descendants
from support.compilation import compiled
from support.jobs import end, run_mpi, start
from support.mpis import Mpi
from support.wait_until import wait_until

import mpiprof
from mpiprof.errors import TraceError
from mpiprof.hang import rank_state
from mpiprof.hang.words import verdict_text

FAULTY_CALL = 2 + 2 * 8  # sequence number after two duplicates and the rounds of faults.c
RECORD = ["-m", "mpiprof", "run", "-q", "-o", "t"]


def verdict_of(folder: Path) -> tuple[str, tuple[int, ...], str]:
    """Return class, ranks and text of the verdict."""
    verdict, text = verdict_text.trace_verdict(mpiprof.open(folder / "t"))
    return verdict.kind, verdict.odd_ranks, text


def test_a_rank_that_ends_itself_by_sigterm(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks, of which the others wait in a barrier."""
    program = [str(compiled(mpi, SOURCE)), "term", "barrier", "1", "16", "0"]
    run_mpi(mpi, 3, [str(mpi.python), *RECORD, "--", *program], cwd=tmp_path)
    kind, odd, text = verdict_of(tmp_path)
    assert (kind, odd) == ("dead", (1,)), text
    assert text.startswith("Rank 1 died of SIGTERM before MPI_Finalize")


def pids_of_waiting_ranks(folder: Path, waiting: list[int]) -> list[int]:
    """Return the process of each rank once some ranks wait in the last barrier, [] before."""
    try:
        trace = mpiprof.open(folder / "t")
        _, pending = rank_state.find(trace)
    except TraceError:
        return []
    if not any(p.arrived == waiting and p.sequence >= FAULTY_CALL for p in pending):
        return []
    return [trace.tables.processes[rank]["pid"] for rank in range(trace.ranks)]


def send_signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def have_noted_signals(folder: Path, ranks: list[int]) -> bool:
    """Return whether the logs have the signals of some ranks."""
    return mpiprof.open(folder / "t").logs.signals.keys() >= set(ranks)


def test_sigterm_from_outside_to_one_rank_or_to_all(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks, of which rank 2 sleeps and the others wait for it in a barrier."""
    program = [str(compiled(mpi, SOURCE)), "sleep", "barrier", "2", "16", "0"]
    for name, ended in (("one", [2]), ("all", [0, 1, 2])):
        folder = tmp_path / name
        folder.mkdir()
        job = start([*mpi.mpiexec(3), str(mpi.python), *RECORD, "--", *program], cwd=folder)
        try:
            pids = wait_until(partial(pids_of_waiting_ranks, folder, [0, 1]), "ranks wait", job)
            launcher = [pid for pid in (job.pid, *descendants(job.pid)) if pid not in pids]
            if name == "all":  # else the launcher may kill a rank before it has seen its signal
                send_signal(launcher, signal.SIGSTOP)
            send_signal([pids[rank] for rank in ended], signal.SIGTERM)
            if name == "all":
                wait_until(partial(have_noted_signals, folder, ended), "signals are noted", job)
                send_signal(launcher, signal.SIGCONT)
            job.wait()
        finally:
            end(job)
        kind, odd, text = verdict_of(folder)
        if name == "one":
            assert odd == (2,) and text.startswith("Rank 2 died of SIGTERM before MPI_Finalize")
        else:  # the ranks had waited for a moment
            assert (kind, odd) in (("dead", ()), ("missing", (2,))), text


def is_observed(pid: int) -> bool:
    """Return whether a process waits for the end of this one, and for the files that it closes."""
    for folder in Path("/proc").glob("[0-9]*/fdinfo"):
        with suppress(OSError):  # ended since then
            lines = {line for file in folder.iterdir() for line in file.read_text().splitlines()}
            if f"Pid:\t{pid}" in lines and any(line.startswith("inotify wd:") for line in lines):
                return True
    return False


@pytest.mark.parametrize("rank", [0, 2])
def test_sigkill_of_a_rank_under_run_n(rank: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks, which `run -n` starts: the rank that sleeps is killed."""
    program = [str(compiled(mpi, SOURCE)), "sleep", "barrier", str(rank), "16", "0"]
    job = start([str(mpi.python), *RECORD, "-n", "3", "--", *program], cwd=tmp_path)
    try:
        waiting = [other for other in range(3) if other != rank]
        pids = wait_until(partial(pids_of_waiting_ranks, tmp_path, waiting), "ranks wait", job)
        if mpi.name == "mpich":  # Open MPI's launcher ends ranks by SIGTERM, which they record
            wait_until(partial(is_observed, pids[rank]), "the process is observed", job)
        os.kill(pids[rank], signal.SIGKILL)
        job.wait()
    finally:
        end(job)
    wait_until(lambda: verdict_of(tmp_path)[0] == "dead", "the first end is stored")
    _, odd, text = verdict_of(tmp_path)
    assert odd == (rank,), text
