"""Reductions with operations that neither MPI_Op_create returned nor the table lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.switch_runs import switched

SWITCHES = ["allreduce=ring,reduce=ring", "random:1", "auto"]


@pytest.mark.parametrize("switch", SWITCHES, ids=["forced", "random", "auto"])
def test_an_extension_of_the_library(switch: str, mpich: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: MPIX_EQUAL runs natively, and the program's own operation is switched."""
    program = compiled(mpich, "reductions_unknown_operation.c")
    bare = run_mpi(mpich, 3, [program], check=True).stdout
    words = [str(mpich.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t")]
    words += ["--switch", switch, "--", str(program)]
    done = run_mpi(mpich, 3, words, check=True, cwd=tmp_path)
    assert done.stdout == bare and bare.endswith("ok\n")


def test_user_defined_operations_are_still_switched(mpich: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: an operation from MPI_Op_create runs on the selected algorithm."""
    program = compiled(mpich, "reductions_unknown_operation.c")
    trace, _ = switched(mpich, 3, tmp_path, "allreduce=ring", "--", program)
    instances = trace.instances[trace.instances["operation"] == "allreduce"]
    assert (instances["algorithm"] == "ring").sum() == 5
    assert len(instances) == 10
