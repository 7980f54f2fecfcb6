"""Random epochs on windows and random polls: right results and known sums, with 1 and 2 threads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof

RANKS, ROUNDS = 3, 60
RECEIVED = ("get", "rget")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(i, marks=pytest.mark.everything) for i in range(2, 40))]
)
def test_functions_have_calls_and_bytes(seed: int, threads: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks; the program prints the calls and bytes of each function on each rank."""
    program = compiled(mpi, "one_sided_random.c", "-pthread")
    options = ["-q", "--messages", "all", "-o", tmp_path / "trace"]
    words = prepare_run(options, [program, str(seed), str(ROUNDS), str(threads)])
    ended = run_mpi(mpi, RANKS, words, check=True, cwd=tmp_path)
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete and not trace.problems
    found: Counter[str] = Counter()
    for row in trace.local_sums.to_dict("records"):
        moved = "received" if row["operation"] in RECEIVED else "sent"
        found[f"{row['rank']} {row['operation']} calls"] += row["calls"]
        found[f"{row['rank']} {row['operation']} bytes"] += row[moved]
    for line in ended.stdout.splitlines():
        of_rank, calls, size = line.rsplit(maxsplit=2)
        assert (of_rank, found[f"{of_rank} calls"]) == (of_rank, int(calls))
        assert (of_rank, found[f"{of_rank} bytes"]) == (of_rank, int(size))
    for rank in range(RANKS):
        for ledger in trace.ledgers(rank):
            segments = ledger.segments
            assert int((segments["end_ns"] - segments["begin_ns"]).sum()) == ledger.life_ns
