"""Communicator creations that fail after communication count equally on all members."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof

TURNS = 20
SWITCHES = ["", "allreduce=ring,bcast=binomial", "auto", "random:1"]


@pytest.mark.parametrize("switch", SWITCHES, ids=["recorded", "forced", "auto", "random"])
@pytest.mark.parametrize("how", ["connect", "accept"])
@pytest.mark.parametrize("errors", ["return", "handler"])
def test_error_classes_that_differ_between_ranks(
    errors: str, how: str, switch: str, mpich: Mpi, tmp_path: Path
) -> None:
    """On 3 ranks: the program checks its sums. Open MPI aborts the bare program."""
    program = compiled(mpich, "communicators_failed_connect.c", "-O1")
    options = ["-q", "-o", tmp_path / "trace", *(["--switch", switch] if switch else [])]
    words = prepare_run(options, [program, how, errors])
    done = run_mpi(mpich, 3, words, check=True, cwd=tmp_path)
    assert done.stdout == "ok\n"
    trace = mpiprof.open(tmp_path / "trace")
    assert not [line for line in trace.problems if "different operations" in line.lower()]
    instances = trace.instances[trace.instances["size"] == 3]
    assert instances["complete"].all()
    counts = instances["operation"].value_counts()
    assert counts[["allreduce", "bcast", f"comm_{how}"]].to_list() == [TURNS] * 3
