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
from support.jobs import run_verb
from support.program import Program
from support.random_work import MS, Noise
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import analysis_memory, run_windows
from mpiprof.causes.oversubscription import Oversubscription, choose_crowds, find_crowded_nodes
from mpiprof.causes.processor_queues import sum_queues
from mpiprof.causes.processor_sets import Overload, find_overload, list_crowds
from mpiprof.causes.slow_messages import drop_crowded
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
    outer = [crowd for crowd in list_crowds(allowed, used, waiting) if not crowd.is_bound]
    assert [(crowd.ranks, crowd.processors) for crowd in outer] == crowds


NODE = {0: frozenset((0, 1)), 1: frozenset((0, 1))}
ON_FIRST = frozenset((0,))


@pytest.mark.parametrize(
    ("allowed", "bound"),
    [
        pytest.param(NODE | {2: ON_FIRST, 3: ON_FIRST}, [(2, 3)], id="pair"),
        pytest.param({rank: frozenset((rank // 2,)) for rank in range(4)}, [], id="all"),
        pytest.param(NODE | {2: ON_FIRST, 3: frozenset((1,))}, [], id="single"),
    ],
)
def test_bound_ranks_have_fewer_processors_than_the_other_ranks_of_a_crowd(
    allowed: dict[int, frozenset[int]], bound: list[tuple[int, ...]]
) -> None:
    outer, *inner = list_crowds(allowed, {}, range(4))
    assert outer.ranks == (0, 1, 2, 3) and not outer.is_bound
    assert [crowd.ranks for crowd in inner] == bound and all(crowd.is_bound for crowd in inner)


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


def test_short_waiting_of_ranks_that_mostly_sleep_is_not_stated_first(tmp_path: Path) -> None:
    """They may wait for longer than they run, but neither takes much of their time."""
    ((crowd, _),) = read_crowds(mpiprof.open(shared_processor(8, 60, 3, (4, 5)).write(tmp_path)))
    assert crowd.is_first and crowd.is_disturbing
    asleep = replace(crowd, is_bound=False, queue_share=0.08)
    assert asleep.is_disturbing and not asleep.is_first


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


def test_bound_ranks_that_wait_inside_their_calls_only(tmp_path: Path) -> None:
    program = shared_processor(RANKS, 40, 3, sharing=(4, 5), begin=10)
    trace = mpiprof.open(program.write(tmp_path))
    queues = sum_queues(trace)
    assert queues.bound is not None
    nothing = np.zeros(RANKS)
    bound = replace(queues.bound, queue_ns=nothing, place_ns={(0, 1): nothing})
    (cause,) = choose_crowds(trace, [replace(queues, queue_ns=nothing, bound=bound)])
    assert cause.is_bound and cause.is_first and not cause.is_disturbing
    assert cause.clause.startswith("ranks 4-5 are bound to processor 4 from 3")
    assert cause.clause.endswith(" ms on, and take turns")


@pytest.mark.parametrize(
    ("processors", "pairs"),
    [(4, []), (0, [((0, 1), (6, 7)), ((0, 1),), ((6, 7),)])],
    ids=["shared", "separate"],
)
def test_messages_between_ranks_that_share_processors_are_no_slow_link(
    processors: int, pairs: list[Any], tmp_path: Path
) -> None:
    program = shared_processor(RANKS, 10, 3, processors=processors)
    nodes = find_crowded_nodes(mpiprof.open(program.write(tmp_path)))
    assert sorted(nodes) == (list(range(RANKS)) if processors else [])
    candidates = [((0, 1), (6, 7)), ((0, 1),), ((6, 7),)]
    assert drop_crowded(candidates, nodes) == pairs
    assert drop_crowded([((1, 9),)], {1: "a", 9: "b"}) == [((1, 9),)]


@pytest.mark.parametrize(("ratio", "share"), [(0.5, 0.0), (1.0, 0.0), (2.0, 0.5), (10.0, 0.9)])
def test_the_share_of_other_programs_is_beyond_what_the_ranks_can_wait_for_each_other(
    ratio: float, share: float, tmp_path: Path
) -> None:
    """8 ranks on 4 processors wait at most as long as they run."""
    trace = mpiprof.open(shared_processor(RANKS, 10, 3, processors=RANKS // 2).write(tmp_path))
    queues = sum_queues(trace)
    (cause,) = choose_crowds(trace, [replace(queues, processor_ns=queues.queue_ns / ratio)])
    assert cause.others_share == pytest.approx(share, abs=1e-6)
    assert ("other programs or further threads run there" in cause.clause) == (share >= 0.5)
    assert cause.advice.startswith("Check for other programs") == (share >= 0.5)
    assert cause.saves_more == (share >= 0.5)


def test_queues_do_not_make_ranks_work_one_at_a_time(tmp_path: Path) -> None:
    """Where ranks wait longer for a processor than they run, their turns are no sure cause."""
    program, noise = Program(4, intervals=True, counters=True), Noise(4)
    for step in range(120):
        root = step % 4
        is_root = np.arange(4) == root
        program.work(noise.work(MS) * is_root)
        program.lose(queue_ns=noise.work(2 * MS) * is_root)
        program.collective("bcast", "step.py:31:main", root=root)
        program.collective("allreduce", "step.py:32:main")
    trace = mpiprof.open(program.write(tmp_path / "trace"))
    causes = [finding.cause for finding in trace.findings()]
    assert causes[0] == "oversubscription"
    assert "serial_turns" not in causes
