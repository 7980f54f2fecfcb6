"""A summary of the job in a file, rewritten while it runs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.jobs import end, refusal, run_mpi, start
from support.mpis import Mpi
from support.programs import compiled


def words(mpi: Mpi, folder: Path, file: Path, *options: str) -> list[str]:
    """Return what records into a folder and a file."""
    named = ["-o", str(folder), "--summary-to", str(file)]
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", *named, *options, "--"]


def read(file: Path, *states: str) -> dict[str, Any]:
    """Wait until a file tells that the job is in one of some states; it is whole at any time."""
    deadline = time.monotonic() + 30
    while True:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if file.exists():
            text = file.read_text()
            assert text.endswith("}\n") and len(text) <= 1024
            found: dict[str, Any] = json.loads(text)
            if found["state"] in states:
                return found


@pytest.mark.parametrize("way", ["events", "ring:128K", "summary"])
def test_its_counts_are_those_of_the_run(way: str, openmpi: Mpi, tmp_path: Path) -> None:
    """2 ranks: 3 x 1000 allreduces, 100 broadcasts, a barrier, a split and MPI_Finalize."""
    program, file = compiled(openmpi, "ring.c"), tmp_path / "s.json"
    command = words(openmpi, tmp_path / "t", file, "--record", way)
    run_mpi(openmpi, 2, [*command, str(program), "1000"], check=True)
    found = read(file, "ended")
    assert found["ranks"] == 2 and found["program"] == "ring"
    assert found["calls"] == 2 * (3000 + 100 + 3)
    assert 0 < found["collectives_share"] <= 1
    assert found["worst"]["operation"] in ("allreduce", "barrier", "finalize", "comm_split")
    assert [path.name for path in tmp_path.iterdir() if "s.json" in path.name] == ["s.json"]


def test_metrics_of_a_job(openmpi: Mpi, tmp_path: Path) -> None:
    """2 ranks."""
    program, file = compiled(openmpi, "ring.c"), tmp_path / "s.prom"
    run_mpi(openmpi, 2, [*words(openmpi, tmp_path / "t", file), str(program), "1000"], check=True)
    deadline = time.monotonic() + 30
    while not (file.exists() and 'state="ended"} 1\n' in file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    series = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert len(series) < 100
    calls = [line for line in series if 'operation="allreduce"' in line and "instances" in line]
    assert [line.rpartition(" ")[2] for line in calls] == ["3000"]


def test_it_is_rewritten_while_the_job_runs(openmpi: Mpi, tmp_path: Path) -> None:
    """2 ranks that never end, killed."""
    program, file = compiled(openmpi, "ring.c"), tmp_path / "s.json"
    command = words(openmpi, tmp_path / "t", file, "--record", "ring:128K")
    job = start([*openmpi.mpiexec(2), *command, str(program), "20", "hang"])
    try:
        first = read(file, "running")
    finally:
        end(job)
    last = read(file, "killed", "aborted")
    assert last["calls"] > first["calls"] > 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--summary-to", ""], "an empty name"),
        (["--summary-to", "."], "is a folder"),
        (["--summary-to", "no/s.json"], "there is no folder no"),
        (["--summary-to", "s", "--record", "off"], "leave out --record off"),
        (["--summary-to", "s", "--sample", "2"], "leave out --sample"),
    ],
)
def test_what_cannot_be_is_told_before_anything_starts(
    options: list[str], why: str, openmpi: Mpi, tmp_path: Path
) -> None:
    assert why in refusal(openmpi, options, tmp_path)
