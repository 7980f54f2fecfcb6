"""MPI_Finalize while other ranks are gone: a job ends whenever the bare program ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import WITHOUT_UCX, run
from support.mpis import Mpi

# Sets the library's MPI_Finalize to wait for no rank.
ALONE = {"MPIR_CVAR_NO_COLLECTIVE_FINALIZE": "1", **WITHOUT_UCX}
MODES: dict[str, list[str]] = {
    "events": [],
    "summary": ["--record", "summary"],
    "forced": ["--switch", "allreduce=ring"],
    "random": ["--switch", "random:1"],
    "auto": ["--switch", "auto"],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("half", ["lower", pytest.param("upper", marks=pytest.mark.slow)])
def test_ranks_that_aborted_a_communicator(
    half: str, mode: str, mpich: Mpi, tmp_path: Path
) -> None:
    """On 4 ranks, two of which abort: each is on a separate node, so that clocks are compared."""
    program = compiled(mpich, "finalize_gone_ranks.c")
    launcher, *ranks = mpich.mpiexec(4)
    launch = [launcher, "-disable-auto-cleanup", *ranks]
    bare = run([*launch, program, half], env=ALONE)
    separate_node = ["sh", "-c", 'MPIPROF_NODE=node$PMI_RANK exec "$@"', "sh"]
    recorder = [str(mpich.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    recorder += MODES[mode]
    ended = run([*launch, *separate_node, *recorder, "--", program, half], env=ALONE)
    assert ended.returncode == bare.returncode == 12
