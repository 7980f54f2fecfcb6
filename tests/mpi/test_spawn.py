"""Spawned processes: absent from the parent's trace; with mpiprof they have their own trace."""

from __future__ import annotations

import json
from pathlib import Path

from support.compilation import compiled
from support.jobs import run_mpi, run_verb
from support.mpis import Mpi

TOLD = "mpiprof: rank 0: the processes that MPI_Comm_spawn starts are not recorded; to record them"


def wrapped(mpi: Mpi, folder: Path, *options: str) -> list[str]:
    return [str(mpi.python), "-m", "mpiprof", "run", *options, "-o", str(folder), "--"]


def answers(stdout: str) -> list[str]:
    """Return the output of the children, without UCX complaints about a removed segment."""
    return [line for line in stdout.splitlines() if " UCX  ERROR " not in line]


def test_unrecorded_children_are_reported_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    own = str(compiled(mpi, "spawn_command.c"))
    bare = run_mpi(mpi, 2, [own, own], check=True, cwd=tmp_path)
    done = run_mpi(mpi, 2, [*wrapped(mpi, tmp_path / "parent"), own, own], cwd=tmp_path)
    assert done.returncode == 0
    assert answers(done.stdout) == answers(bare.stdout) == ["child got 4711"] * 2
    assert done.stderr.count(TOLD) == 1
    shown = " ".join(run_verb("report", tmp_path / "parent")[1].split())
    assert "the processes that MPI_Comm_spawn started are not in this trace" in shown
    assert "it was stopped" not in shown and "its ranks had arrived" not in shown


def test_spawned_through_mpiprof_they_have_a_trace_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    own, parent, child = (
        str(compiled(mpi, "spawn_command.c")),
        tmp_path / "parent",
        tmp_path / "child",
    )
    words = [*wrapped(mpi, parent), own, *wrapped(mpi, child, "-q"), own]
    done = run_mpi(mpi, 2, words, check=True, cwd=tmp_path)
    assert answers(done.stdout) == ["child got 4711"] * 2 and TOLD not in done.stderr
    # Another job in the same folder is related to neither.
    lone = [*wrapped(mpi, tmp_path / "lone", "-q"), own, own]
    run_mpi(mpi, 1, lone, check=True, cwd=tmp_path)
    shown = {}
    for folder in (parent, child, tmp_path / "lone"):
        shown[folder] = json.loads(run_verb("report", "--json", folder)[1])
    assert shown[parent]["spawned"] == [f"it spawned the processes of {child}"]
    assert shown[child]["spawned"] == [f"its processes were spawned by those of {parent}"]
    assert shown[tmp_path / "lone"]["spawned"] == []
    assert "spawned_ns" not in json.loads((parent / "meta.json").read_text())
    operations = {row["operation"] for row in shown[child]["callsites"]}
    assert operations >= {"barrier", "bcast", "finalize"}
