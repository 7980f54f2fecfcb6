"""Ranks that have not arrived, on synthetic traces and on a program that hangs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.export_trace import export
from support.jobs import end, start
from support.mpis import Mpi
from support.synthetic import Synthetic
from support.wait_until import wait_until

from mpiprof.__main__ import main
from mpiprof.hang import processes
from mpiprof.trace.writer import make_head_chunk

HANG = """
import time
from mpi4py import MPI
world = MPI.COMM_WORLD
for _ in range(5):
    world.Barrier()
if world.rank == 1:
    time.sleep(3600)
world.Barrier()
"""


def state(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the output of `status --json`."""
    assert main(["status", str(folder), "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(data) == ["verdict", "ranks", "pending", "callsites"]
    assert list(data["verdict"]) == ["class", "odd_ranks", "sites", "text", "also"]
    for row in data["ranks"]:
        assert list(row) == ["rank", "state", "operation", "site", "since_ns"]
    for row in data["pending"]:
        expected = ["operation", "communicator", "sequence", "arrived", "missing", "sites"]
        assert list(row) == expected
    return data


def write(synthetic: Synthetic, folder: Path, **options: Any) -> Path:
    """Write a trace; ranks without calls get a log without records."""
    for rank in range(synthetic.ranks):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    return synthetic.write(folder, **options)


def text_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of `status`."""
    assert main(["status", str(folder)]) == 0
    return capsys.readouterr().out


def test_one_rank_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(4)
    synthetic.add_collective("bcast", [[100] * 4], [[200] * 4], root=0, site="app.py:5:main")
    synthetic.add_collective("allreduce", [[300, 310, -1, 320]], [[0] * 4], site="app.py:9:step")
    folder = write(synthetic, tmp_path / "t", finished=False)
    data = state(folder, capsys)
    assert [row["state"] for row in data["ranks"]] == ["inside", "inside", "outside", "inside"]
    assert data["ranks"][1]["since_ns"] == 310 - synthetic.started_ns
    assert data["ranks"][2]["operation"] == "bcast"
    assert data["ranks"][2]["since_ns"] == 200 - synthetic.started_ns
    (pending,) = data["pending"]
    assert pending["operation"] == "allreduce" and pending["sequence"] == 1
    assert pending["arrived"] == [0, 1, 3] and pending["missing"] == [2]
    assert pending["sites"] == [{"file": "app.py", "line": 9, "function": "step"}]
    text = text_of(folder, capsys)
    assert "NOT ARRIVED: 2" in text
    assert "rank 2 last left bcast at app.py:5 main" in text
    assert "next: " in text.splitlines()[-1]


def test_who_has_passed_has_arrived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(3)
    # The root leaves its broadcast and is already in the next barrier.
    synthetic.add_collective("bcast", [[100, 110, -1]], [[105, 0, 0]], root=0)
    synthetic.add_collective("barrier", [[120, -1, -1]], [[0, 0, 0]])
    data = state(write(synthetic, tmp_path / "t", finished=False), capsys)
    found = {row["operation"]: (row["arrived"], row["missing"]) for row in data["pending"]}
    assert found == {"bcast": ([0, 1], [2]), "barrier": ([0], [1, 2])}


def test_started_and_never_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(3)
    flags = ["nonblocking"]
    synthetic.add_collective(
        "ibarrier", [[1, 1, 1]], [[2, 2, 2]], flags=flags, completions=([[3] * 3], [[9] * 3])
    )
    synthetic.add_collective("ibarrier", [[20, 21, -1]], [[22, 23, 0]], flags=flags)
    data = state(write(synthetic, tmp_path / "t", finished=False), capsys)
    (pending,) = data["pending"]
    assert (pending["sequence"], pending["missing"]) == (1, [2])


def test_other_communicators_do_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic = Synthetic(4)
    synthetic.add_communicator("odd", [1, 3])
    synthetic.add_collective("barrier", [[10, -1]], [[0, 0]], communicator="odd")
    synthetic.add_collective("barrier", np.full((3, 4), 5), np.full((3, 4), 6))
    data = state(write(synthetic, tmp_path / "t", finished=False), capsys)
    (pending,) = data["pending"]
    assert pending["arrived"] == [1] and pending["missing"] == [3]


def test_long_logs_are_read_back_as_far_as_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic = Synthetic(2)
    synthetic.add_communicator("pair", [0, 1])
    synthetic.add_collective("barrier", [[1, 1]], [[2, 2]], communicator="pair")
    times = 10 + 10 * np.arange(20_000)[:, None] + np.zeros((1, 2), np.int64)
    synthetic.add_collective("barrier", times, times + 5)
    synthetic.add_collective("barrier", [[10**6, -1]], [[0, 0]], communicator="pair")
    data = state(write(synthetic, tmp_path / "t", finished=False), capsys)
    (pending,) = data["pending"]
    assert pending["arrived"] == [0] and pending["missing"] == [1]


def test_mismatch_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(2)
    synthetic.add(0, synthetic.add_shape(0, "bcast", "world", root=0), 0, 10, 0)
    synthetic.add(1, synthetic.add_shape(1, "barrier", "world"), 0, 10, 0)
    text = text_of(write(synthetic, tmp_path / "t", finished=False), capsys)
    assert "DIFFERENT OPERATIONS: Ranks call different operations" in text.splitlines()[2]
    assert "the operation is running" not in text


def test_finished_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[1, 1]], [[2, 2]])
    folder = write(synthetic, tmp_path / "t")
    data = state(folder, capsys)
    assert {row["state"] for row in data["ranks"]} == {"finished"} and data["pending"] == []
    text = text_of(folder, capsys)
    assert "ended" in text and "No collective is pending" in text


def test_ranks_without_any_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = Synthetic(3)
    synthetic.add_collective("barrier", [[1, -1, -1]], [[0, 0, 0]])
    folder = write(synthetic, tmp_path / "t", finished=False)
    for name in ("rank-000002.log", "rank-000002.tables"):
        (folder / name).unlink()
    data = state(folder, capsys)
    assert data["ranks"][2] == {
        "rank": 2, "state": "outside", "operation": None, "site": None, "since_ns": None
    }  # fmt: skip
    assert data["pending"][0]["missing"] == [1, 2]
    assert "rank 1 has called no collective yet" in text_of(folder, capsys)


@pytest.mark.parametrize("head", [b"", b"\0" * 4096, None], ids=["made", "reserved", "described"])
def test_a_job_that_is_starting(
    head: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic = Synthetic(2)
    folder = write(synthetic, tmp_path / "t", finished=False)
    (folder / "meta.json").unlink()
    for log in folder.glob("*.log"):
        log.write_bytes(make_head_chunk() if head is None else head)
        log.with_suffix(".tables").write_bytes(b"")
    assert main(["status", str(folder)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(folder) in line and "is starting" in line


def test_hung_program(mpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hang.py").write_text(HANG)
    words = [*mpi.mpiexec(3), str(mpi.python), "-m", "mpiprof", "run", "-o", "t", "hang.py"]
    job = start(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "t"
    try:

        def hung() -> list[dict[str, Any]]:
            if len(list(folder.glob("*.tables"))) < 3 or main(["status", str(folder)]) != 0:
                return []
            capsys.readouterr()
            rows: list[dict[str, Any]] = state(folder, capsys)["pending"]
            arrived = [(row["arrived"], row["sites"][0]["line"]) for row in rows]
            return rows if arrived == [([0, 2], 9)] else []

        (pending,) = wait_until(hung, "ranks 0 and 2 have arrived at line 9", job)
        assert pending["missing"] == [1] and pending["operation"] == "barrier"
        text = text_of(folder, capsys)
        assert "running" in text and "ago" in text
    finally:
        end(job)


def test_who_is_in_finalize_has_not_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic = Synthetic(3)
    synthetic.add_collective("barrier", [[100] * 3], [[200] * 3], site="app.py:5:main")
    for rank, operation in ((0, "barrier"), (1, "barrier"), (2, "finalize")):
        synthetic.add(rank, synthetic.add_shape(rank, operation, "world"), 1, 300, 0)
    for rank in range(3):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    text = text_of(synthetic.write(tmp_path / "t", finished=[2]), capsys)
    assert "of these rank 2 has called MPI_Finalize instead" in text
    assert "all had arrived" not in text and "all ranks have arrived" not in text


def test_a_summary_has_no_positions_of_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic = Synthetic(3)
    synthetic.meta["record"] = "summary"
    folder = write(synthetic, tmp_path / "t", finished=[2])
    assert [row["state"] for row in state(folder, capsys)["ranks"]] == 2 * ["unknown"] + [
        "finished"
    ]
    text = text_of(folder, capsys)
    assert "outside" not in text and "No collective is pending" not in text
    assert "Pending collectives are unknown, because calls are not logged." in text
    monkeypatch.setattr(processes, "find_alive", lambda _: dict.fromkeys(range(3), False))
    assert re.search("^  0-1 +ended +not logged", text_of(folder, capsys), re.M)
    ended = write(synthetic, tmp_path / "ended")
    assert "No collective is pending." in text_of(ended, capsys)


def test_an_archive_of_a_job_that_did_not_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive has no processes that could still write, on any machine."""
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[2000, 2000]], [[2100, 2100]])
    synthetic.add(0, synthetic.add_shape(0, "barrier", "world"), 1, 3000, 0)
    folder = synthetic.write(tmp_path / "t", finished=False)
    assert main(["status", str(folder)]) == 0
    assert "runs on other machines" in capsys.readouterr().out
    assert export(folder, "--to", "otf2", "-o", tmp_path / "archive").returncode == 0
    assert main(["status", str(tmp_path / "archive")]) == 0
    reported = capsys.readouterr().out
    assert (
        "runs on other machines" not in reported
        and "the ranks at the end of the archive" in reported
    )
    assert "NOT ARRIVED: 1" in reported
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    assert main(["pack", str(folder)]) == 0
    capsys.readouterr()
    assert main(["status", str(folder)]) == 0
    assert "The trace was packed" in capsys.readouterr().out
