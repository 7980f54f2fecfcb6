"""The sanitizers (address, undefined behaviour) report no fault of the core."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS, wrong_arguments
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.sanitizers import ADDRESS, assert_no_report

import mpiprof

# The sanitizers need a separate build of the core.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sanitized(mpi: Mpi) -> Path:
    """Build the library with the sanitizers of memory and undefined behaviour."""
    return ADDRESS.build(mpi)


def test_every_collective_on_3_ranks(mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    source, program, trace = tmp_path / "all.c", tmp_path / "all", tmp_path / "trace"
    cases = list(wrong_arguments.cases(mpi.name == "mpich"))
    if mpi.name == "openmpi":  # accepts displacements that are invalid for its own memcpy
        cases = [case for case in cases if " = " not in case.name]
    source.write_text(wrong_arguments.source(cases))
    run([mpi.mpicc, "-w", "-O0", "-o", program, source], check=True)
    ended = run_mpi(mpi, 3, [*ADDRESS.environment(sanitized, trace), program], cwd=tmp_path)
    assert_no_report(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(trace).is_complete
    assert len(mpiprof.open(trace).events) > 700


@pytest.mark.parametrize("arguments_", [["8", "300"], ["8", "5", "100"]], ids=["many", "waves"])
def test_threads_on_2_ranks(
    arguments_: list[str], mpi: Mpi, sanitized: Path, tmp_path: Path
) -> None:
    program, trace = compiled(mpi, "threads_collectives.c", "-pthread"), tmp_path / "trace"
    words = [*ADDRESS.environment(sanitized, trace), str(program), *arguments_]
    ended = run_mpi(mpi, 2, words)
    assert_no_report(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(trace).is_complete


def test_python_and_full_files_on_1_rank(mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    program, trace = tmp_path / "program.py", tmp_path / "trace"
    program.write_text(
        "import resource\nfrom mpi4py import MPI\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))\n"
        "for i in range(300): MPI.COMM_SELF.Dup().Free(); MPI.COMM_SELF.Ibarrier().Wait()\n"
        "for i in range(9000): MPI.COMM_SELF.Barrier()\n"
    )
    words = [*ADDRESS.environment(sanitized, trace), str(mpi.python), str(program)]
    ended = run_mpi(mpi, 1, words)
    assert_no_report(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(trace).dropped_records > 0


def test_python_frames_beside_threads_on_1_rank(mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    """Code is created and freed, collected, traced and inspected beside the calls."""
    program = PROGRAMS / "callsite_python.py"
    library = (
        mpi.bin.parent / "lib" / {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}[mpi.name]
    )
    words = [*ADDRESS.environment(sanitized, tmp_path / "trace"), "PYTHONMALLOC=malloc"]
    ended = run_mpi(mpi, 1, [*words, str(mpi.python), str(program), str(library), "all"])
    assert_no_report(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(tmp_path / "trace").is_complete
