"""Start-up time that `run` adds to a program."""

from __future__ import annotations

import time
from pathlib import Path

from support.jobs import run
from support.mpis import Mpi

STARTS = 15


def test_run_adds_less_than_a_tenth_of_a_second(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank without MPI: compare the shortest of STARTS alternating starts."""
    (tmp_path / "empty.py").write_text("")
    recorded = [str(mpich.python), "-m", "mpiprof", "run", "empty.py"]
    times: dict[str, list[float]] = {"bare": [], "recorded": []}
    for _ in range(STARTS):
        for name, words in (("bare", [str(mpich.python), "empty.py"]), ("recorded", recorded)):
            began = time.perf_counter()
            run(words, cwd=tmp_path, check=True)
            times[name].append(time.perf_counter() - began)
    added = min(times["recorded"]) - min(times["bare"])
    print(f"{added:.3f} s more than bare")
    assert added < 0.1
