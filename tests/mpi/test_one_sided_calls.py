"""Calls on windows are recorded with their window, target and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof

RANKS, INT, STEPS = 3, 4, 5  # STEPS as in one_sided_calls.c


def recorded(mpi: Mpi, folder: Path) -> Any:
    program = compiled(mpi, "one_sided_calls.c", "-g")
    run_mpi(mpi, RANKS, prepare_run(["-q", "-o", folder], [program]), check=True)
    return mpiprof.open(folder)


def test_operations_have_target_and_bytes_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = recorded(mpi, tmp_path / "t")
    assert trace.is_complete and not trace.problems
    communicators = trace.tables.communicators
    rows = trace.local_sums.to_dict("records")
    windows = {row["communicator"] for row in rows if row["operation"] == "put"}
    origins = [(communicators[i].origin, communicators[i].ranks.tolist()) for i in sorted(windows)]
    assert origins == [("win", [0, 1, 2]), ("win", [2, 1])]
    first = min(windows)
    for rank in range(RANKS):
        for target in range(RANKS):
            of_target = {
                row["operation"]: row
                for row in rows
                if (row["rank"], row["communicator"], row["peer"]) == (rank, first, target)
            }
            size = INT * (target + 1)
            moved = {name: (row["sent"], row["received"]) for name, row in of_target.items()}
            assert moved == {
                "accumulate": (size, 0),
                "get": (0, size),
                "put": (2 * size, 0),
                "win_lock": (0, 0),
                "win_unlock": (0, 0),
            }


def test_epochs_have_their_group_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = recorded(mpi, tmp_path / "t")
    communicators, calls = trace.tables.communicators, trace.message_calls
    groups = {"win_start": (1, 2), "win_post": (2, 1)}  # rank, the only member
    for operation, (rank, member) in groups.items():
        rows = calls[(calls["operation"] == operation) & (calls["epoch"] > 0)]
        assert rows["rank"].tolist() == [rank] * STEPS
        assert rows["epoch"].tolist() == list(range(1, STEPS + 1))
        of = [communicators[i] for i in rows["communicator"]]
        assert {(c.origin, *c.ranks.tolist()) for c in of} == {("group", member)}
        window = next(c for c in communicators if c.identity == of[0].parent)
        assert (window.origin, window.ranks.tolist()) == ("win", [2, 1])
    locks = calls[(calls["operation"] == "win_lock") & (calls["lock"] > 0)]  # others have failed
    assert locks["lock"].tolist() == [2, 1] * RANKS * RANKS
