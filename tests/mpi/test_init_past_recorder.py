"""Programs that initialise MPI without the recorder: nothing is recorded, and a message says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_failing_mpi, run_mpi
from support.mpis import Mpi

LIBRARY_FILES = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}


@pytest.mark.parametrize("flags", [[], ["-DOWN_FINALIZE"]], ids=["init", "finalize"])
def test_one_line_reports_that_there_is_no_trace(
    flags: list[str], mpi: Mpi, tmp_path: Path
) -> None:
    """On 2 ranks: one line reports that there is no trace; the exit code is the program's."""
    program = compiled(mpi, "init_past_recorder.c", *flags)
    bare = run_failing_mpi(mpi, 2, [program])
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace"), "--"]
    ended = run_failing_mpi(mpi, 2, [*words, program])
    assert ended.returncode == bare.returncode == 3
    assert not (tmp_path / "trace" / "meta.json").exists()
    assert ended.stderr.count("the program has its own MPI_Init") == 1


def test_a_program_that_loads_the_library_has_no_profiler(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: one line reports that there is no trace, and does not blame a profiler."""
    program = compiled(mpi, "init_dlopen.c", "-ldl", compiler="cc")
    library = mpi.bin.parent / "lib" / LIBRARY_FILES[mpi.name]
    words = [str(mpi.python), "-m", "mpiprof", "run", "--mpi", mpi.name, "-o", "trace", "--"]
    ended = run_mpi(mpi, 2, [*words, program, library], cwd=tmp_path, check=True)
    assert ended.stdout.count("running") == 2  # the launcher may mix the lines of two ranks
    assert not (tmp_path / "trace" / "meta.json").exists()
    assert ended.stderr.count("the program loads the MPI library itself") == 1
    assert "profiler" not in ended.stderr and "its own MPI_Init" not in ended.stderr


def test_calibrate_has_no_program_that_bypasses_the_recorder(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: `calibrate` ends with one line, the number of ranks that it requires."""
    words = [str(mpi.python), "-m", "mpiprof", "calibrate", "-o", str(tmp_path / "machine.json")]
    ended = run_failing_mpi(mpi, 1, words)
    assert ended.returncode == 2
    assert "calibrate requires at least two ranks" in ended.stderr
    assert "MPI_Init" not in ended.stderr
