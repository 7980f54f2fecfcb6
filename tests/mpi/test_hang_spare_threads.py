"""Hangs of programs with several threads in MPI: reported if no thread computes, without blame."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_failing_mpi, run_verb
from support.mpis import LONG_WITH_MPICH, Mpi


def words(mpi: Mpi, folder: Path, *options: str) -> list[str]:
    """Return the command line that records into a folder."""
    how = ["--record", "ring", "--watch", "2s", *options]
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), *how, "--"]


@pytest.fixture
def program(mpi: Mpi) -> Path:
    """Compile a program of two threads with barriers that wait for each other."""
    return compiled(mpi, "hang_spare_threads.c", "-pthread")


def test_a_hang_of_threads_is_reported_without_blame(
    mpi: Mpi, program: Path, tmp_path: Path
) -> None:
    """On 3 ranks: a thread of rank 1 sleeps; a thread of rank 2 waits for its other one."""
    folder = tmp_path / "t"
    done = run_failing_mpi(mpi, 3, [*words(mpi, folder, "--on-hang", "abort"), program, "0"])
    assert done.returncode != 0
    (printed,) = [line for line in done.stderr.splitlines() if "no call has begun or ended" in line]
    assert (
        "UNDECIDED: Ranks 0-1 wait in barrier" in printed or "Ranks 0, 2 wait in barrier" in printed
    )
    assert (
        "ranks 1-2 have another thread" in printed and "None of these threads computes" in printed
    )
    verdict = json.loads(run_verb("status", "--json", folder)[1])["verdict"]
    assert (verdict["class"], verdict["odd_ranks"]) == ("undecided", [])


@LONG_WITH_MPICH
def test_a_thread_that_computes_beside_one_in_mpi_is_no_hang(
    mpi: Mpi, program: Path, tmp_path: Path
) -> None:
    """On 3 ranks: a thread of rank 1 computes for three times the limit, its other one polls."""
    done = run_failing_mpi(mpi, 3, [*words(mpi, tmp_path / "t"), program, "6"])
    assert done.returncode == 0, done.stderr
    assert "mpiprof" not in done.stderr
