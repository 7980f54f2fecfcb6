"""MPI_BOTTOM under switching: both MPI families and releases, C and Fortran's three bindings.

The programs check their results and exit with 1 on a wrong one. All tests run on 3 ranks.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi

from mpi.test_execute import used
from mpi.test_execute_errors import switched

FORCED = {
    "alltoall": "bruck",
    "alltoallv": "ring",
    "allreduce": "recursive_doubling",
    "allgather": "bruck",
    "allgatherv": "pipelined_ring",
    "bcast": "binomial",
    "gather": "binomial",
    "gatherv": "linear",
    "scatter": "binomial",
    "scatterv": "linear",
}
RULES = ",".join(f"{operation}={name}" for operation, name in FORCED.items())


def check(mpi: Mpi, folder: Path, program: Path, absent: set[str]) -> None:
    """Run a program bare, forced and random; the forced run must use each algorithm."""
    run_mpi(mpi, 3, [program], check=True, cwd=folder)
    run_mpi(mpi, 3, switched(folder, RULES, program), check=True, cwd=folder)
    found = {operation: name for operation, _, name in used(folder / "trace") if name != "native"}
    assert found == {key: name for key, name in FORCED.items() if key not in absent}
    (folder / "random").mkdir()
    run_mpi(mpi, 3, switched(folder / "random", "random:2", program), check=True, cwd=folder)


def test_c(mpi: Mpi, tmp_path: Path) -> None:
    mpich = mpi.name == "mpich"
    program = compiled(mpi, "execute_bottom.c", "-DLARGE" if mpich else "-DREDUCTIONS")
    check(mpi, tmp_path, program, {"allreduce"} if mpich else set())


def test_c_with_the_system_s_mpi(system_mpi: Mpi, tmp_path: Path) -> None:
    large = ["-DLARGE"] if system_mpi.name == "mpich" else []
    check(
        system_mpi,
        tmp_path,
        compiled(system_mpi, "execute_bottom.c", "-DREDUCTIONS", *large),
        set(),
    )


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
def test_fortran(system_mpi: Mpi, binding: str, tmp_path: Path) -> None:
    number = ["mpif.h", "mpi", "mpi_f08"].index(binding)
    words = [system_mpi.mpifort, "-ffree-line-length-none", f"-DBINDING={number}"]
    words += [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    program = tmp_path / "bottom"
    run([*words, "-o", program, PROGRAMS / "execute_bottom.F90"], cwd=tmp_path, check=True)
    absent = {"allreduce", "alltoallv", "gatherv", "scatterv"}
    check(system_mpi, tmp_path, program, absent)
