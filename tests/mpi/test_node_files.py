"""Above a number of ranks, those of a node share one log: nothing is lost or mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import ROOT
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof


def test_one_log_for_the_three_ranks_of_a_node(mpi: Mpi, tmp_path: Path) -> None:
    """3 ranks write into one file; the trace is that of three files."""
    folder = tmp_path / "trace"
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder)]
    words.append(str(ROOT / "samples" / "nbody.py"))
    run_mpi(mpi, 3, words, env={"MPIPROF_NODE_FILES_ABOVE": "2"}, check=True)
    logs = sorted(path.name for path in folder.glob("*.log"))
    assert len(logs) == 1
    assert logs[0].startswith("node-")
    trace = mpiprof.open(folder)
    assert trace.complete
    assert trace.ranks == 3
    counts: Any = trace.instances.groupby("operation")["complete"].agg(["count", "all"])
    assert counts.loc["allgather"].tolist() == [40, True]
    assert counts.loc["gather"].tolist() == [4, True]
    events: Any = trace.events
    assert events.groupby("rank").size().tolist() == [45, 45, 45]  # with MPI_Finalize
