"""Every form of a call, switched: C's three ABIs, Fortran's bindings, Python, spawned processes.

The programs of call_programs.py check their results, MPI_IN_PLACE included, and exit with 1 on a
wrong one. All tests run on 2 ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support import raw_trace
from support.call_programs import c_program, fortran_program, python_program
from support.collective_calls import cases
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi

from mpi.test_execute import used
from mpi.test_execute_errors import ORDERLY, switched

WISHED = {tuple(word.partition(":")[0].split("=")) for word in ORDERLY.split(",")}


def check(mpi: Mpi, folder: Path, argv: Sequence[str | Path]) -> None:
    """Run a program with every call, and check that each selected algorithm ran."""
    run_mpi(mpi, 2, switched(folder, ORDERLY, *argv), check=True, cwd=folder)
    found = {(operation, name) for operation, inter, name in used(folder / "trace") if not inter}
    assert {wish for wish in WISHED if wish[1] != "kang"} <= found


def check_native(mpi: Mpi, source: Path, compiler: Sequence[str | Path]) -> None:
    """Compile a program and run it."""
    run([*compiler, "-O0", "-o", source.with_suffix(""), source], cwd=source.parent, check=True)
    check(mpi, source.parent, [source.with_suffix("")])


def test_c(mpi: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "calls.c"
    source.write_text(c_program(cases("4c" if mpi.name == "mpich" else "4")))
    check_native(mpi, source, [mpi.mpicc])


def test_c_with_the_standard_abi(mpich: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "calls.c"
    source.write_text(c_program(cases("4c")))
    check_native(mpich, source, [mpich.bin / "mpicc_abi"])


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
def test_fortran(binding: str, system_mpi: Mpi, tmp_path: Path) -> None:
    level = "3" if system_mpi.name == "openmpi" else "4c" if binding == "mpi_f08" else "4"
    source = tmp_path / "calls.f90"
    source.write_text(fortran_program(cases(level), binding))
    loose = [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    check_native(system_mpi, source, [system_mpi.mpifort, "-ffree-line-length-none", *loose])


def test_python(mpi: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "calls.py"
    source.write_text(python_program(cases("4")))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    run_mpi(mpi, 2, [*words, "--switch", ORDERLY, str(source)], check=True)


def test_spawned_members_stay_native_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "spawn_itself.c")
    words = switched(tmp_path, ORDERLY, program, "spawn")
    run_mpi(mpi, 1, words, check=True, cwd=tmp_path)
    trace = raw_trace.read(tmp_path / "trace")
    assert [c for c in trace.communicators(0) if c["how"] == "spawn"]
    assert {name for _, _, name in used(tmp_path / "trace")} == {"native"}
