"""The sanitizers (address, undefined behaviour) report no fault of the core."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import PROGRAMS, wrong_arguments
from support.compilation import compiled, core_built
from support.jobs import run, run_mpi
from support.mpis import Mpi

import mpiprof

# The sanitizers need a separate build of the core.
pytestmark = pytest.mark.slow

# Leaks of an MPI library do not count, and the core's memory lives as long as the process by
# design.
QUIET = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=0:exitcode=99:"
    "verify_asan_link_order=0:handle_segv=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


@pytest.fixture(scope="module")
def sanitized() -> Path:
    """Build the libraries with the sanitizers."""
    return core_built("sanitized", "-DMPIPROF_SANITIZE=ON")


def preloaded(library: Path) -> str:
    """Return the value of LD_PRELOAD: the sanitizer's libraries must be first."""
    names = []
    for name in ("libasan.so", "libubsan.so"):
        words = ["gcc", f"-print-file-name={name}"]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        names.append(str(Path(printed).resolve()))
    return ":".join([*names, str(library)])


def environment(mpi: Mpi, build: Path, trace: Path) -> list[str]:
    """Return the words that set the environment of a launcher, for one process."""
    library = build / f"libmpiprof-{mpi.name}-{'4c' if mpi.name == 'mpich' else '4'}.so"
    values = QUIET | {
        "LD_PRELOAD": preloaded(library),
        "MPIPROF_LIBRARY": str(library),
        "MPIPROF_TRACE": str(trace),
        "MPIPROF_QUIET": "1",
    }
    return ["env", *(f"{name}={value}" for name, value in values.items())]


def check(text: str) -> None:
    """Fail if either sanitizer has reported a fault."""
    for sign in ("AddressSanitizer", "runtime error", "ERROR: "):
        assert sign not in text, text[-3000:]


def test_every_collective_on_3_ranks(mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    source, program, trace = tmp_path / "all.c", tmp_path / "all", tmp_path / "trace"
    cases = list(wrong_arguments.cases(mpi.name == "mpich"))
    if mpi.name == "openmpi":  # accepts displacements that are invalid for its own memcpy
        cases = [case for case in cases if " = " not in case.name]
    source.write_text(wrong_arguments.source(cases))
    run([mpi.mpicc, "-w", "-O0", "-o", program, source], check=True)
    ended = run_mpi(mpi, 3, [*environment(mpi, sanitized, trace), program], cwd=tmp_path)
    check(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(trace).is_complete
    assert len(mpiprof.open(trace).events) > 700


@pytest.mark.parametrize("arguments_", [["8", "300"], ["8", "5", "100"]], ids=["many", "waves"])
def test_threads_on_2_ranks(
    arguments_: list[str], mpi: Mpi, sanitized: Path, tmp_path: Path
) -> None:
    program, trace = compiled(mpi, "threads_collectives.c", "-pthread"), tmp_path / "trace"
    words = [*environment(mpi, sanitized, trace), str(program), *arguments_]
    ended = run_mpi(mpi, 2, words)
    check(ended.stderr)
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
    words = [*environment(mpi, sanitized, trace), str(mpi.python), str(program)]
    ended = run_mpi(mpi, 1, words)
    check(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(trace).dropped_records > 0


def test_python_frames_beside_threads_on_1_rank(mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    """Code is created and freed, collected, traced and inspected beside the calls."""
    program = PROGRAMS / "callsite_python.py"
    library = (
        mpi.bin.parent / "lib" / {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}[mpi.name]
    )
    words = [*environment(mpi, sanitized, tmp_path / "trace"), "PYTHONMALLOC=malloc"]
    ended = run_mpi(mpi, 1, [*words, str(mpi.python), str(program), str(library), "all"])
    check(ended.stderr)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert mpiprof.open(tmp_path / "trace").is_complete
