"""The summary of the job in a file, rewritten while the job runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.compilation import compiled
from support.jobs import end, refusal, run_mpi, start
from support.mpis import Mpi
from support.wait_until import wait_until

INSTANCES = {"allreduce": 3000, "bcast": 100, "barrier": 1, "comm_split": 1, "finalize": 1}


def words(mpi: Mpi, folder: Path, file: Path, *options: str) -> list[str]:
    """Return the command line that records into a folder and a file."""
    named = ["-o", str(folder), "--summary-to", str(file)]
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", *named, *options, "--"]


def read(file: Path, *states: str) -> dict[str, Any]:
    """Wait until a file reports one of the given states; the file is complete at any time."""

    def found() -> dict[str, Any] | None:
        if not file.exists():
            return None
        text = file.read_text()
        assert text.endswith("}\n") and len(text) <= 1024
        reported: dict[str, Any] = json.loads(text)
        return reported if reported["state"] in states else None

    return wait_until(found, f"{file.name} has a state of {states}") or {}


@pytest.mark.parametrize("way", ["events", "ring:128K", "summary"])
def test_its_counts_are_those_of_the_run(way: str, openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: 3 x 1000 allreduces, 100 broadcasts, a barrier, a split and MPI_Finalize."""
    program, file = compiled(openmpi, "ring_counts.c"), tmp_path / "s.json"
    command = words(openmpi, tmp_path / "t", file, "--record", way)
    run_mpi(openmpi, 2, [*command, str(program), "1000"], check=True)
    found = read(file, "ended")
    assert found["ranks"] == 2 and found["program"] == "ring_counts"
    assert found["calls"] == 2 * (3000 + 100 + 3)
    assert 0 < found["collectives_share"] <= 1
    worst = found["worst"]  # which one is costliest depends on the machine
    assert worst["instances"] == INSTANCES[worst["operation"]]
    assert [path.name for path in tmp_path.iterdir() if "s.json" in path.name] == ["s.json"]


def test_metrics_of_a_job(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: fewer than 100 series, with the right counts."""
    program, file = compiled(openmpi, "ring_counts.c"), tmp_path / "s.prom"
    run_mpi(openmpi, 2, [*words(openmpi, tmp_path / "t", file), str(program), "1000"], check=True)
    ended = 'state="ended"} 1\n'
    wait_until(lambda: file.exists() and ended in file.read_text(), "the metrics say the end")
    series = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert len(series) < 100
    calls = [line for line in series if 'operation="allreduce"' in line and "instances" in line]
    assert [line.rpartition(" ")[2] for line in calls] == ["3000"]


STEPS = """
import os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
go_on, done = sys.argv[1], f"{sys.argv[2]}-{world.rank}"
for _ in range(3000): world.Barrier()
while not os.path.exists(go_on): time.sleep(0.01)
for _ in range(500): world.Barrier()
open(done, "w").close()
while True: time.sleep(1)
"""


def test_it_is_rewritten_while_the_job_runs(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks that make 3000 calls, wait for the file's reader, make 500, and are killed."""
    program, file = tmp_path / "steps.py", tmp_path / "s.json"
    program.write_text(STEPS)
    go_on, done = tmp_path / "go-on", tmp_path / "done"
    command = words(openmpi, tmp_path / "t", file, "--record", "ring:128K")
    job = start([*openmpi.mpiexec(2), *command, str(program), str(go_on), str(done)])
    try:
        wait_until(lambda: read(file, "running")["calls"] == 2 * 3000, "all calls are told", job)
        go_on.touch()
        all_done = [tmp_path / f"done-{rank}" for rank in (0, 1)]
        wait_until(lambda: all(path.exists() for path in all_done), "all calls are made", job)
    finally:
        end(job)
    assert read(file, "killed", "aborted")["calls"] == 2 * 3500


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--summary-to", ""], "an empty name"),
        (["--summary-to", "."], "is a folder"),
        (["--summary-to", "no/s.json"], "no such folder no"),
        (["--summary-to", "s", "--record", "off"], "leave out --record off"),
        (["--summary-to", "s", "--sample", "2"], "leave out --sample"),
    ],
)
def test_impossible_options_are_refused_before_the_start(
    options: list[str], why: str, openmpi: Mpi, tmp_path: Path
) -> None:
    assert why in refusal(openmpi, options, tmp_path)
