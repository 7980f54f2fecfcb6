"""Messages of a Fortran program have their peers, bytes and call sites. On 2 ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.jobs import run, run_mpi
from support.mpis import Mpi

import mpiprof
from mpi.test_messages import recorded, with_operation

SOURCE = PROGRAMS / "messages_fortran.F90"


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
def test_messages_of_fortran(system_mpi: Mpi, binding: str, tmp_path: Path) -> None:
    number = ["mpif.h", "mpi", "mpi_f08"].index(binding)
    words = [system_mpi.mpifort, "-g", "-ffree-line-length-none", f"-DBINDING={number}"]
    words += [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    program = tmp_path / "messages"
    run([*words, "-o", program, SOURCE], cwd=tmp_path, check=True)
    bare = run_mpi(system_mpi, 2, [program], check=True).stdout
    assert recorded(system_mpi, 2, [program], tmp_path / "trace", "all") == bare

    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete
    sums = trace.message_sums
    assert sums["site"].str.startswith("messages_fortran.F90:").all(), sums["site"].tolist()
    sends = sums[sums["operation"].isin(["send", "isend"])]
    assert sorted(sends[["rank", "peer", "sent"]].to_numpy().tolist()) == [
        [1, 0, 4],
        [1, 0, 8],
        [1, 0, 12],
        [1, 0, 16],
    ]
    messages = with_operation(trace)
    blocking = messages[messages["operation"] == "recv"]
    assert blocking[["source", "tag", "sure"]].to_numpy().tolist() == [[1, 3, True], [1, 4, True]]
    assert blocking["bytes"].tolist() == [12, 16]
    wildcards = messages[messages["operation"].isin(["wait", "waitall"]) & messages["received"]]
    columns = ["source", "tag", "bytes", "sure"]
    assert wildcards[columns].to_numpy().tolist() == [[1, i, 4 * i, True] for i in (5, 6, 7)]
    # Each Waitany completes one of the two receives, the second one first.
    waits = messages[messages["operation"] == "waitany"]
    assert waits[["tag", "complete"]].to_numpy().tolist() == [[1, False], [2, True], [1, True]]
