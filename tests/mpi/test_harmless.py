"""Programs that a recorder might harm: each ends the same recorded and bare."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof

SWITCHED = ((), ("--switch", "random:1"))


@pytest.mark.parametrize("options", SWITCHED)
def test_a_program_that_frees_communicators_by_itself(
    options: tuple[str, ...], mpi: Mpi, tmp_path: Path
) -> None:
    """On 4 ranks: PMPI frees communicators unseen, so the program runs unrecorded, with a note."""
    program = str(compiled(mpi, "communicators_pmpi_wrappers.c"))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "t"), *options]
    done = run_mpi(mpi, 4, [*words, "--", program])
    assert (done.returncode, done.stdout) == (0, "0 wrong, 6 freed\n")
    assert "its own MPI_Comm_free" in done.stderr and "unrecorded" in done.stderr


@pytest.mark.parametrize("options", SWITCHED)
@pytest.mark.parametrize("callback", ["copy", "query"])
def test_a_callback_that_leaves_is_forgotten(
    callback: str, options: tuple[str, ...], openmpi: Mpi, tmp_path: Path
) -> None:
    """On 2 ranks: the recorder drops the state of a callback that longjmp has left.

    Open MPI only: MPICH does not support such a callback.
    """
    program = str(compiled(openmpi, "callbacks_longjmp.c"))
    words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t")]
    done = run_mpi(openmpi, 2, [*words, *options, "--", program, callback])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum 4") == 1


def test_errno_stays_the_program_s(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the first call from a call site does not change errno."""
    program = str(compiled(mpi, "callbacks_longjmp.c"))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t")]
    bare = run_mpi(mpi, 2, [program, "none"], check=True)
    done = run_mpi(mpi, 2, [*words, "--", program, "none"], check=True)
    assert done.stdout == bare.stdout


def test_a_program_with_address_sanitizer_starts(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the sanitizer's runtime must be loaded first, and otherwise ends the program."""
    program = str(compiled(mpi, "init_address_sanitizer.c", "-fsanitize=address"))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t")]
    done = run_mpi(mpi, 2, [*words, "--", program], env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (done.returncode, done.stdout) == (0, "sum 1\n"), done.stderr
    assert mpiprof.open(tmp_path / "t").is_complete
