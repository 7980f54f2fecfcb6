"""Ranks that wait for a processor are a cause: those that share one, and those on busy nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cause_events import busy_node, shared_processor
from support.cause_judgement import read_report
from support.dataset_traces import run_verb
from support.random_work import MS, Noise
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.oversubscription import Oversubscription, choose_crowds, sum_queues
from mpiprof.causes.processor_sets import Overload, find_overload, list_crowds
from mpiprof.metrics import analysis_memory, run_windows
from mpiprof.testing.program import Program
from mpiprof.trace import Trace

RANKS = 8
FREE = {rank: frozenset((0, 1, 2, 3)) for rank in range(4)}
BOUND = {rank: frozenset((rank,)) for rank in range(4)}
PAIR = BOUND | {2: frozenset((1,))}


@pytest.mark.parametrize(
    ("allowed", "used", "waiting", "crowds"),
    [
        pytest.param(FREE, {}, range(4), [], id="enough"),
        pytest.param(BOUND, {}, range(4), [], id="own"),
        pytest.param(PAIR, {}, range(4), [((0, 1, 2, 3), {0, 1, 3})], id="all"),
        pytest.param(PAIR, {}, [1, 2], [((1, 2), {1})], id="bound"),
        pytest.param(PAIR, {2: frozenset((2,))}, [1, 2], [], id="moved"),
        pytest.param(PAIR, {}, [2, 3], [((2, 3), {0, 1, 3})], id="others"),
        pytest.param(PAIR | {0: frozenset()}, {}, [1, 2], [], id="unknown"),
        pytest.param(
            dict(enumerate(map(frozenset, ([0], [0], [1, 2], [1, 2], [1, 2], [3, 4, 5])))),
            {},
            [0, 1, 2, 3, 4],
            [((2, 3, 4), {1, 2}), ((0, 1), {0})],
            id="two",
        ),
    ],
)
def test_crowds_have_more_ranks_than_processors(
    allowed: dict[int, frozenset[int]],
    used: dict[int, frozenset[int]],
    waiting: list[int],
    crowds: list[Any],
) -> None:
    assert list(list_crowds(allowed, used, waiting)) == crowds


def read_lines(program: Program, folder: Path) -> str:
    return " ".join(read_report(mpiprof.open(program.write(folder))).sentences)


@pytest.mark.parametrize(
    ("processors", "advice"),
    [
        (8, "Bind these ranks to separate processors: their node has 8 for 8 ranks."),
        (4, "Start at most as many ranks on a node as it has processors: their node has 4 for 8"),
        (0, "Bind these ranks to separate processors, or start fewer ranks on their node."),
    ],
)
def test_the_advice_depends_on_the_processors_of_the_node(
    processors: int, advice: str, tmp_path: Path
) -> None:
    program = shared_processor(RANKS, 40, 3, sharing=(4, 5))
    program.synthetic.node_processors = processors
    lines = read_lines(program, tmp_path / "t")
    assert "ranks 4-5 share processor 4, and wait for it 50 % of the time" in lines
    assert advice in lines


def make_working_longer(ranks: int, queue_ms: float, factor: float) -> Program:
    """Return steps on a busy node in which rank 2 works longer by a factor."""
    program, noise = Program(ranks, intervals=True, counters=True), Noise(ranks)
    random = np.random.default_rng(1)
    for _ in range(60):
        work_ns = noise.work(10 * MS)
        work_ns[2] = work_ns[2] * factor
        program.work(work_ns)
        program.lose(queue_ns=random.exponential(queue_ms * work_ns / 10).astype(np.int64))
        program.collective("allreduce", "step.py:31:main")
    return program


def test_a_rank_with_more_work_is_named_beside_the_queues(tmp_path: Path) -> None:
    """Its work takes more time on the processor, so the queues do not explain it."""
    lines = read_lines(make_working_longer(RANKS, 3, 3.0), tmp_path / "t")
    assert "rank 2 works" in lines and "all ranks wait for a processor 2" in lines


def test_one_rank_of_many_that_waits_is_a_habit(tmp_path: Path) -> None:
    program, random = Program(RANKS, intervals=True, counters=True), np.random.default_rng(1)
    noise = Noise(RANKS)
    for _ in range(60):
        program.work(noise.work(10 * MS))
        queue_ns = random.exponential(10 * MS, RANKS) * (np.arange(RANKS) == 2)
        program.lose(queue_ns=queue_ns.astype(np.int64))
        program.collective("allreduce", "step.py:31:main")
    lines = read_lines(program, tmp_path / "t")
    assert "rank 2 works" in lines and "all ranks wait" not in lines


def read_crowds(trace: Trace) -> list[tuple[Oversubscription, float]]:
    facts = trace.derive("facts")
    return [
        (found.cause, found.saving.run_ns)
        for found in facts
        if isinstance(found.cause, Oversubscription)
    ]


def test_windows_do_not_change_crowds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = busy_node(4, 60, 10, queue_ms=10).write(tmp_path / "t")
    ((of_run, saved_ns),) = read_crowds(mpiprof.open(folder))
    assert of_run.is_first and of_run.queue_ratio == pytest.approx(1, abs=0.2)
    monkeypatch.setattr(analysis_memory, "memory_limit_bytes", lambda: 1)
    monkeypatch.setattr(run_windows, "count_windows", lambda _: 3)
    ((in_windows, windows_ns),) = read_crowds(mpiprof.open(folder))
    assert in_windows == of_run
    assert windows_ns == pytest.approx(saved_ns, rel=0.01)


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


@pytest.mark.parametrize(
    ("limited", "quota"), [(2, ", with"), (1, ", 1 of them with")], ids=["all", "one"]
)
def test_the_report_names_processors_and_what_exceeds_them(
    limited: int, quota: str, tmp_path: Path
) -> None:
    synthetic = Synthetic(2)
    arrivals = synthetic.started_ns + np.arange(20)[:, None] * MS + np.array([0, 100_000])
    synthetic.add_collective("barrier", arrivals, np.repeat(arrivals.max(1, keepdims=True), 2, 1))
    folder = synthetic.write(tmp_path / "t")
    limits = {"environment": {"OMP_NUM_THREADS": "4"}, "node_processors": 2}
    group = {"quota": {"processors": 3, "group": "/sys/fs/cgroup/a"}}
    for rank, path in enumerate(sorted(folder.glob("*.tables"))):
        first, _, rest = path.read_text().partition("\n")
        line = json.loads(first)
        line["process"] |= {"node": "n", **limits} | (group if rank < limited else {})
        path.write_text(f"{json.dumps(line)}\n{rest}")
    code, printed, error = run_verb("report", folder, "--all")
    flat = " ".join(printed.split())
    fact = f"2 ranks on processors 0-1, each on its own{quota} a quota of 3 processors"
    assert f"{fact}, OMP_NUM_THREADS=4" in flat, (code, error, printed)
    sentence = "2 ranks may run on 2 processors, but start up to 8 threads (OMP_NUM_THREADS=4)"
    assert sentence in flat
    data = json.loads(run_verb("report", folder, "--json")[1])["processors"]
    assert data[1]["processors"] == [1] and data[0]["quota"] == 3
    assert data[0]["environment"] == {"OMP_NUM_THREADS": "4"}


@pytest.mark.parametrize(
    ("share", "waiting"), [(0.0, [0, 1, 2, 3]), (0.4, [0, 1, 2, 3]), (0.9, [])]
)
def test_a_rank_that_its_quota_stops_waits_for_no_other_program(
    share: float, waiting: list[int], tmp_path: Path
) -> None:
    trace = mpiprof.open(busy_node(4, 40, 10, queue_ms=10).write(tmp_path))
    queues = sum_queues(trace)
    throttled = replace(queues, throttled_ns=share * queues.queue_ns)
    crowds = choose_crowds(trace, [throttled])
    assert [rank for crowd in crowds for rank in crowd.waiting_ranks] == waiting
