"""Ranks that share processors are found from the counters of their intervals, and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.dataset_traces import run_verb
from support.planted_programs import MS, Noise
from support.synthetic import Synthetic

import mpiprof
from mpiprof.diagnosis.shared_processors import (
    Overload,
    SharedProcessors,
    find_overload,
    find_shared_processors,
)
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.metrics import analysis_memory, run_windows
from mpiprof.reports import conclusion
from mpiprof.testing.program import Program

RANKS = 8
FIND = "mpiprof.diagnosis.window_delays.find_shared_processors"
NODES = {rank: f"n{rank // 4}" for rank in range(RANKS)}
FREE = dict.fromkeys(range(RANKS), (0, 1, 2, 3))
PAIR = FREE | dict.fromkeys(range(4, RANKS), (0, 1))  # ranks 4 to 7 may run on 2 processors


def intervals(processors: list[int], queue_ms: float, sleep_ms: float = 0) -> pd.DataFrame:
    """Return two intervals of each rank, with 10 ms on a processor each."""
    rows = pd.DataFrame({"rank": np.repeat(np.arange(RANKS), 2)})
    rows["first_processor"] = rows["last_processor"] = np.repeat(processors, 2)
    rows["processor_ns"] = 10 * MS
    rows["queue_ns"] = round(queue_ms * MS)
    rows["begin_ns"], rows["gap_ns"] = 0, -1
    rows["end_ns"] = rows["processor_ns"] + rows["queue_ns"] + round(sleep_ms * MS)
    return rows


def test_the_node_with_shared_processors_is_found() -> None:
    """Ranks 4 to 7 share processors 0 and 1 of n1; processors of n0 have the same numbers."""
    rows = intervals([0, 1, 2, 3, 0, 1, 0, 1], 30)
    assert find_shared_processors(rows, NODES, PAIR) == SharedProcessors(4, 2, 3.0, 0.75)


def test_processors_that_the_intervals_do_not_show_count() -> None:
    """All intervals of n1 ended on processor 0, but its ranks may also run on processor 1."""
    rows = intervals([0, 1, 2, 3, 0, 0, 0, 0], 30)
    assert find_shared_processors(rows, NODES, PAIR) == SharedProcessors(4, 2, 3.0, 0.75)
    assert find_shared_processors(rows, NODES, FREE) is None


def test_ranks_bound_to_one_processor_share_it() -> None:
    """Ranks 4 to 6 are bound to processor 0, rank 7 may run on all."""
    bound = FREE | dict.fromkeys((4, 5, 6), (0,))
    rows = intervals([0, 1, 2, 3, 0, 0, 0, 1], 30)
    assert find_shared_processors(rows, NODES, bound) == SharedProcessors(3, 1, 3.0, 0.75)


@pytest.mark.parametrize(
    ("affinity", "queue_ms", "sleep_ms"),
    [
        pytest.param(FREE, 30, 0, id="own"),
        pytest.param(PAIR, 5, 0, id="short"),
        pytest.param(PAIR, 30, 1000, id="sleeping"),
        pytest.param(PAIR | {5: ()}, 30, 0, id="unknown"),
        pytest.param({rank: PAIR[rank] for rank in range(6)}, 30, 0, id="missing"),
        pytest.param({}, 30, 0, id="none"),
    ],
)
def test_processors_of_one_rank_each_are_not_shared(
    affinity: dict[int, tuple[int, ...]], queue_ms: float, sleep_ms: float
) -> None:
    """Nor are processors on which nobody waits long. Without affinity nothing is stated."""
    rows = intervals([0, 1, 0, 1] * 2, queue_ms, sleep_ms)
    assert find_shared_processors(rows, NODES, affinity) is None


def test_ranks_that_moved_after_init_may_run_elsewhere() -> None:
    """The affinity at MPI_Init was processors 0 and 1; later intervals end on 2 and 3."""
    rows = intervals([0, 1, 2, 3] * 2, 30)
    assert find_shared_processors(rows, NODES, PAIR) is None


def test_the_report_says_that_ranks_share_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, noise = Program(RANKS, intervals=True), Noise(RANKS)
    for _ in range(50):
        program.collective("allreduce", "few.py:4:step", noise.work(spread=0.5))
    folder = program.write(tmp_path / "t")

    def lines(found: SharedProcessors | None) -> str:
        monkeypatch.setattr(FIND, lambda *_: found)
        trace = mpiprof.open(folder)
        return " ".join(conclusion.verdict_lines(trace, make_verdict(trace, trace.findings())))

    assert "processor" not in lines(None)
    shared = lines(SharedProcessors(8, 2, 35.2, 0.6))
    assert "8 ranks share 2 processors, and wait for one 35 times as long as they run." in shared
    assert "Start at most as many ranks on a node as it has processors" in shared
    assert "wait for one 120 times as long" in lines(SharedProcessors(8, 2, 123.4, 0.6))
    assert "8 ranks share 1 processor, and" in lines(SharedProcessors(8, 1, 4.0, 0.6))


@pytest.mark.parametrize("in_windows", [False, True])
def test_a_report_on_another_cause_states_that_ranks_share_processors(
    in_windows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intervals are searched once, in a run that does not fit in memory once per window."""
    program, noise = Program(RANKS, intervals=True), Noise(RANKS)
    for _ in range(60):
        own = noise.work(spread=0.1)
        own[3] += 4 * MS
        program.collective("allreduce", "few.py:4:step", own)
    searched = []

    def find(rows: pd.DataFrame, *_: object) -> SharedProcessors:
        searched.append(len(rows))
        return SharedProcessors(8, 2, 3.0 + len(searched), 0.6)

    monkeypatch.setattr(FIND, find)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    if in_windows:
        monkeypatch.setattr(analysis_memory, "memory_limit_bytes", lambda: 1)
        monkeypatch.setattr(run_windows, "count_windows", lambda _: 3)
    lines = conclusion.verdict_lines(trace, make_verdict(trace, trace.findings()))
    assert lines[1].startswith("Nearly all of it: rank 3 works 4.0")
    longest = 3 + len(searched)
    assert f"8 ranks share 2 processors, and wait for one {longest} times as long" in lines[-1]
    assert len(searched) == (3 if in_windows else 1)


def process(
    processors: tuple[int, ...], quota: float = 0, group: str = "", **environment: str
) -> dict[str, Any]:
    """Return a process as in `trace.tables.processes`."""
    fixed = {"node": "n", "host": "h", "node_processors": 8, "threads": 1}
    limits = {"processors": processors, "quota": quota, "quota_group": group}
    return {**fixed, **limits, "environment": environment}


@pytest.mark.parametrize(
    ("of_rank", "expected"),
    [
        pytest.param([process((0, 1, 2, 3))] * 4, None, id="enough"),
        pytest.param([process((0, 1))] * 3, Overload("h", 3, 3, 2, "", False), id="ranks"),
        pytest.param(
            [process((rank,), OMP_NUM_THREADS="1") for rank in range(4)], None, id="bound"
        ),
        pytest.param(
            [process((0, 1, 2, 3), OMP_NUM_THREADS="4,2")] * 2,
            Overload("h", 2, 8, 4, "OMP_NUM_THREADS=4", False),
            id="threads",
        ),
        pytest.param(
            [process((0, 1, 2, 3), OMP_NUM_THREADS="many", MKL_NUM_THREADS="2")] * 2, None, id="fit"
        ),
        pytest.param(
            [process((0, 1, 2, 3), 1.5, "/a")] * 2, Overload("h", 2, 2, 1.5, "", True), id="quota"
        ),
        pytest.param(
            [process((0, 1), 1.0, "/a"), process((0, 1), 1.0, "/b")], None, id="own quota"
        ),
        pytest.param([process(()), process((0,))], None, id="unknown"),
    ],
)
def test_ranks_and_threads_that_exceed_their_processors(
    of_rank: list[dict[str, Any]], expected: Overload | None
) -> None:
    assert find_overload(dict(enumerate(of_rank))) == expected


def test_the_report_names_processors_and_what_exceeds_them(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    arrivals = synthetic.started_ns + np.arange(20)[:, None] * MS + np.array([0, 100_000])
    synthetic.add_collective("barrier", arrivals, np.repeat(arrivals.max(1, keepdims=True), 2, 1))
    folder = synthetic.write(tmp_path / "t")
    limits = {"environment": {"OMP_NUM_THREADS": "4"}, "node_processors": 2}
    limits["quota"] = {"processors": 3, "group": "/sys/fs/cgroup/a"}
    for path in folder.glob("*.tables"):
        first, _, rest = path.read_text().partition("\n")
        line = json.loads(first)
        line["process"] |= {"node": "n", **limits}
        path.write_text(f"{json.dumps(line)}\n{rest}")
    code, printed, error = run_verb("report", folder, "--all")
    flat = " ".join(printed.split())
    fact = "2 ranks on processors 0-1, each on its own, with a quota of 3 processors"
    assert f"{fact}, OMP_NUM_THREADS=4" in flat, (code, error, printed)
    sentence = "2 ranks may run on 2 processors, but start up to 8 threads (OMP_NUM_THREADS=4)"
    assert sentence in flat
    data = json.loads(run_verb("report", folder, "--json")[1])["processors"]
    assert data[1]["processors"] == [1] and data[1]["quota"] == 3
    assert data[0]["environment"] == {"OMP_NUM_THREADS": "4"}
