"""Tuning by the simulator: scores, problems and works from traces, and known best algorithms."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from support import advice_traces, tune_traces
from support.synthetic import MACHINE, Synthetic
from support.tune_traces import ALPHA, BETA, HOP, LATE_NS, MILLION, RANKS
from support.uniform_machine import make_uniform

import mpiprof
from mpiprof.account import problem_size
from mpiprof.collectives.machine import machine_of_table
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.tune import (
    candidates,
    plan,
    plan_entries,
    predict,
    result,
    result_rows,
    tasks,
)
from mpiprof.collectives.tune.result import Result, Trial, judge
from mpiprof.collectives.tune.tasks import TuningTask
from mpiprof.errors import TraceError

# ---- scores


@pytest.mark.parametrize(
    ("operation", "sizes", "sent", "received", "known", "wanted"),
    [
        ("alltoall", (4, 0), [80] * 4, [80] * 4, 20, Problem(4, 20)),
        ("allgather", (4, 0), [80] * 4, [320] * 4, 80, Problem(4, 80)),
        ("allgather", (2, 2), [80, 80, 30, 30], [60, 60, 160, 160], 110, None),
        ("allgatherv", (3, 0), [5, 0, 7], [12] * 3, 12, Problem(3, counts=(5, 0, 7))),
        ("allgatherv", (1, 2), [5, 0, 7], [7, 5, 5], -1, None),
        ("bcast", (3, 0), [0, 9, 0], [9, 0, 9], 9, Problem(3, 9)),
        ("allreduce", (3, 0), [12] * 3, [12] * 3, 12, Problem(3, 12, unit=4)),
        ("reduce", (3, 0), [16] * 3, [16, 0, 0], 16, Problem(3, 16, unit=8)),
        ("gather", (3, 0), [6] * 3, [18, 0, 0], 6, Problem(3, 6)),
        ("scatter", (3, 0), [18, 0, 0], [6] * 3, 6, Problem(3, 6)),
        ("gatherv", (3, 0), [6, 1, 2], [9, 0, 0], -1, Problem(3, counts=(6, 1, 2))),
        ("scatterv", (3, 0), [9, 0, 0], [6, 1, 2], -1, Problem(3, counts=(6, 1, 2))),
        ("barrier", (3, 0), [0] * 3, [0] * 3, -1, Problem(3)),
        ("reduce_scatter_block", (3, 0), [24] * 3, [8] * 3, 8, Problem(3, 8, unit=8)),
        (
            "reduce_scatter",
            (3, 0),
            [48] * 3,
            [8, 16, 24],
            48,
            Problem(3, unit=8, counts=(8, 16, 24)),
        ),
    ],
)
def test_problems_from_bytes(
    operation: str,
    sizes: tuple[int, int],
    sent: list[int],
    received: list[int],
    known: int,
    wanted: Problem | None,
) -> None:
    to, of = np.array(sent), np.array(received)
    found = problem_size.known_bytes(operation, sizes, to[:, None], of[:, None])
    assert found.tolist() == [known]
    made = problem_size.make_problem(operation, sizes, 0, to, of)
    if wanted is not None:
        assert made == wanted
    elif operation == "allgather":
        assert (made.bytes, made.remote_bytes) == (80, 30)
    else:
        assert (made.counts, made.remote_counts) == ((5,), (0, 7))


def test_messages_of_an_alltoallv_add_up() -> None:
    sent, received = np.array([100, 300]), np.array([200, 200])
    rows_ = np.array(problem_size.make_problem("alltoallv", (2, 0), 0, sent, received).rows)
    assert rows_.sum(1).tolist() == [100, 300] and rows_.sum(0).tolist() == [200, 200]


def test_size_classes_contain_their_sizes_and_are_adjacent() -> None:
    sizes = np.array([-1, 0, 1, 64, 65, 128, 129, 1 << 20, (1 << 20) + 1])
    spans = [problem_size.class_span(c) for c in problem_size.size_classes(sizes).tolist()]
    assert spans[:5] == [None, (0, 0), (1, 1), (64, 64), (65, 128)]
    assert spans[5:7] == [(65, 128), (129, 256)]
    assert spans[7:] == [((1 << 19) + 1, 1 << 20), ((1 << 20) + 1, 1 << 21)]


# ---- traces


def works_of(folder: Path) -> list[TuningTask]:
    """Return the works of a trace."""
    return tasks.list_works(mpiprof.open(folder), 16)


def test_works_of_a_trace(tmp_path: Path) -> None:
    found = works_of(tune_traces.one_sender(tmp_path / "t"))
    assert [w.operation for w in found] == ["allgatherv", "allreduce"]
    first = found[0]
    assert first.sites == ("app.py:12",) and first.label == "app.py:12 step"
    assert (first.size, first.remote_size, first.instances) == (RANKS, 0, 20)
    assert first.bytes == ((1 << 19) + 1, 1 << 20) and first.algorithm == "native"
    assert first.patterns[0].problem.counts == (MILLION, *[0] * (RANKS - 1))
    assert first.patterns[0].arrivals.tolist() == [0, 0, 0, LATE_NS, 0, 0, 0, 0]
    assert sum(p.weight for p in first.patterns) == pytest.approx(1)
    assert found[1].bytes == (8, 8)


@pytest.mark.heavy
def test_sizes_of_one_call_site_are_separate_tasks(tmp_path: Path) -> None:
    synthetic = Synthetic(RANKS)
    came = tune_traces.arrivals(300)
    for n in (8, 16, 4096, 4000):
        synthetic.add_collective("allreduce", came, came + 10**7, sent=n, received=n)
        came = came + 400 * tune_traces.GAP_NS
    found = works_of(synthetic.write(tmp_path / "t"))
    assert sorted((w.bytes, w.instances) for w in found if w.bytes) == [
        ((8, 8), 300),
        ((16, 16), 300),
        ((2049, 4096), 600),
    ]
    assert all(len(w.patterns) == 16 for w in found)
    times = [p.weight for w in found for p in w.patterns]
    assert times == pytest.approx([1 / 16] * 48)


def test_what_is_not_switched_is_left_out(tmp_path: Path) -> None:
    synthetic = Synthetic(4)
    came = np.arange(1, 4)[:, None] * 10**6 + np.zeros(4, np.int64)
    synthetic.add_collective("scan", came, came + 1000)
    done = (came + 10**5, came + 2 * 10**5)
    synthetic.add_collective("iallreduce", came + 10**7, came + 10**7 + 100, completions=done)
    open_ = came + 5 * 10**7
    synthetic.add_collective("allreduce", open_, np.where(np.arange(4) == 2, 0, open_ + 50))
    assert works_of(synthetic.write(tmp_path / "t")) == []


def test_two_groups_and_files_of_one_name(tmp_path: Path) -> None:
    synthetic = Synthetic(6)
    synthetic.add_communicator("both", [0, 1], [2, 3, 4, 5], how="intercomm")
    came = np.arange(1, 9)[:, None] * 10**6 + np.zeros(6, np.int64)
    sent = {r: 100 if r < 2 else 10 for r in range(6)}
    site = {r: "/a/step.py:3:f" if r < 2 else "/b/step.py:3:g" for r in range(6)}
    synthetic.add_collective(
        "allgather", came, came + 10**5, "both", sent=sent, received=0, site=site
    )
    (found,) = works_of(synthetic.write(tmp_path / "t"))
    assert (found.size, found.remote_size, found.members) == (2, 4, 6)
    assert found.sites == ("/a/step.py:3", "/b/step.py:3") and found.bytes == (65, 128)
    names = {c.name for c in candidates.list_candidates(found, make_uniform(1e4, 1))}
    assert "kang" in names and "ring" not in names


def test_a_trace_of_sums_has_no_patterns(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["record"] = "summary"
    with pytest.raises(TraceError, match="recorded as summary"):
        works_of(synthetic.write(tmp_path / "t"))


# ---- candidates


def test_the_last_joining_rank_is_most_often_last() -> None:
    def late(*last: int) -> set[str]:
        given = Problem(4, 64, unit=8)
        arrivals = [np.arange(4) == rank for rank in last]
        patterns = tuple(tasks.Pattern(given, a * 1e6, a * 1e6, 1.0) for a in arrivals)
        made = TuningTask(
            *(0, "allreduce", (), "", 4, 0, (0, 1, 2, 3), (0, 1, 2, 3), None, "native", 4, 1.0),
            patterns,
        )
        names = {c.name for c in candidates.list_candidates(made, make_uniform(1e4, 1))}
        return {name for name in names if name.startswith("late_last")}

    assert late(2, 2, 1, 2) == {"late_last:late=2"}
    assert late(2, 2, 1, 1) == set()


def test_candidates_are_the_applicable_algorithms() -> None:
    def of(operation: str, size: int, given: Problem, nodes: tuple[int, ...] = ()) -> set[str]:
        pattern = tasks.Pattern(given, np.zeros(size), np.zeros(size), 1.0)
        places = nodes or tuple(range(size))
        ranks = tuple(range(size))
        made = TuningTask(
            0, operation, (), "", size, 0, ranks, places, None, "native", 1, 1.0, (pattern,)
        )
        return {c.name for c in candidates.list_candidates(made, make_uniform(1e4, 1))}

    assert "pair" in of("alltoall", 8, Problem(8, 64))
    assert not any(name.startswith("late_last") for name in of("reduce", 8, Problem(8, 64)))
    assert "pair" not in of("alltoall", 6, Problem(6, 64))
    sizes = of("bcast", 8, Problem(8, 1 << 20))
    best = int((MILLION * 1e4 / 6) ** 0.5)  # formula (2) of a pipeline: sqrt(m alpha / beta (p-2))
    blocks = sorted(int(n.split("=")[1]) for n in sizes if n.startswith("chain"))
    assert len(blocks) == 3 and blocks[1] == best // 1024 * 1024
    ring = of("allgatherv", 4, Problem(4, counts=(9, 0, 9, 9)), (0, 0, 1, 1))
    assert {n.split("order=")[1] for n in ring if "order" in n} == {"spread", "nodes", "both"}
    assert not any("order" in n for n in of("allgatherv", 4, Problem(4, counts=(9, 9, 9, 9))))


# ---- by model


def test_the_planted_best_is_found_with_its_gain(tmp_path: Path) -> None:
    trace = mpiprof.open(tune_traces.one_sender(tmp_path / "t"))
    machine = machine_of_table(trace.meta["machine"], "meta.json")
    predicted = predict.predict(tasks.list_works(trace, 16), machine, 60, lambda: None)
    total = float(trace.callsites["total_elapsed_ns"].sum())
    first, second = (judge(r, total) for r in predicted)
    assert first.base_ns == pytest.approx(35 / 8 * HOP - LATE_NS, rel=1e-4)
    assert first.result.doubt == pytest.approx(1, rel=1e-4)  # the trace ran the model's ring
    # A chain of n blocks, delayed by rank 3. From its arrival on, ranks 0 to 7 have sent or
    # received all blocks after n - 2, n - 1, n, n + 1, n + 2, n + 3, n + 4 and n + 4 rounds.
    block = int(first.best.split("=")[1])
    chain = (-(-MILLION // block) + 11 / 8) * (ALPHA + block * BETA)
    assert first.best_ns == pytest.approx(chain, rel=0.03) and first.worth == result.YES
    assert first.gain_ns == pytest.approx(first.base_ns - first.best_ns)
    assert first.low_ns == pytest.approx(first.gain_ns, rel=0.01)
    assert second.worth == result.NO and abs(second.gain_ns) < 1
    assert second.reason in ("the current algorithm is the fastest", "it takes too little time")


def outcome(base: list[float], *tried: list[float], doubt: float = 1.0) -> result.TuningVerdict:
    """Judge some scores of a work of 100 instances on 4 ranks that is the only work."""
    made = TuningTask(
        0, "bcast", (), "", 4, 0, (0, 1, 2, 3), (0,) * 4, None, "native", 100, 1.0, ()
    )
    trials = tuple(Trial(f"t{i}", np.array(t)) for i, t in enumerate(tried))
    found = np.array(base)
    return judge(Result(made, result.REPLAY, found, np.ones(len(base)), trials, doubt), 1.0)


def test_verdicts() -> None:
    nan = float("nan")
    clear = outcome([10, 11, 10, 11], [5, 6, 5, 6], [20, 20, 20, 20])
    assert (clear.worth, clear.best) == ("yes", "t0") and clear.gain_ns == pytest.approx(5)
    assert clear.total_saving(clear.gain_ns) == pytest.approx(5 * 100 * 4)
    assert outcome([10, 11, 10, 11], [9.9, 10.9, 9.9, 10.9]).worth == "no"
    assert outcome([10, 30, 10, 30], [9, 11, 30, 5]).worth == "doubtful"
    assert outcome([10.0], [5.0]).worth == "doubtful"  # one instance proves nothing
    assert outcome([10, 11, 10, 11], [5, 6, 5, 6], doubt=2.5).worth == "doubtful"
    assert outcome([10, 10, 10, 10], [1, 1.1, 1, 1.1], doubt=5).worth == "doubtful"
    # A candidate that was dropped after one lap is not the best, however lucky it was.
    assert outcome([10, 11, 10, 11], [1, nan, nan, nan], [5, 6, 5, 6]).best == "t1"


def test_a_slow_model_is_not_trusted(tmp_path: Path) -> None:
    trace = mpiprof.open(tune_traces.one_sender(tmp_path / "t"))
    fast = make_uniform(ALPHA / 100, BETA / 100)
    predicted = predict.predict(tasks.list_works(trace, 16), fast, 60, lambda: None)
    verdicts = [judge(r, 1.0) for r in predicted]
    assert verdicts[0].worth == result.DOUBTFUL
    assert verdicts[0].reason == predict.UNKNOWN
    assert result_rows.make_plan_entries(verdicts, {}) == []


def shares(kind: str, traces: int) -> tuple[float, float]:
    """Return the advised share of call sites without a gain, and of call sites with one."""
    machine = machine_of_table(MACHINE, "the synthetic machine")
    count = printed = better = both = 0
    for sites in (1, 2, 4):
        for number in range(traces):
            random = np.random.default_rng((1, sites, number))
            with tempfile.TemporaryDirectory() as scratch:
                if kind == "unrelated":
                    folder = advice_traces.unrelated(Path(scratch) / "t", random, sites)
                else:
                    folder = advice_traces.related(Path(scratch) / "t", random, sites, machine)
                found = advice_traces.advised(folder, machine)
            count += sites
            printed, better, both = (
                a + b for a, b in zip((printed, better, both), found, strict=True)
            )
    return printed / count, both / max(better, 1)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "traces", [6, pytest.param(100, marks=pytest.mark.everything)], ids=["few", "many"]
)
def test_times_that_have_nothing_to_do_with_the_model(traces: int) -> None:
    """By the doubt of the nearest candidate, 11 of 100 call sites were advised, one in nine."""
    assert shares("unrelated", traces)[0] <= 0.03


@pytest.mark.heavy
@pytest.mark.parametrize(
    "traces", [6, pytest.param(100, marks=pytest.mark.everything)], ids=["few", "many"]
)
def test_gains_of_an_accurate_model_are_advised(traces: int) -> None:
    """The library ran a modelled algorithm, within 5 %, but which one is unknown."""
    assert shares("as modelled", traces)[1] >= 0.6


def test_the_doubt_of_comparisons() -> None:
    """Student's t on the number of comparisons, less one if the library chose the algorithm."""

    def call(
        size: int, time: float, recorded: str | None, **times: float
    ) -> predict.ErrorComparison:
        return predict.ErrorComparison((size,), recorded, time, times, dict.fromkeys(times, 1.0))

    e = math.exp
    assert predict.compute_doubt([call(1, 100, None, ring=100)]) == math.inf
    one = predict.compute_doubt([call(1, 100 * e(0.1), "ring", ring=100)])
    assert one == pytest.approx(e(6.3138 * 0.1), rel=1e-4)  # t(0.95, 1)
    both = [call(1, 100 * e(0.1), None, ring=100), call(2, 300, None, ring=300 * e(0.1))]
    assert predict.compute_doubt(both) == pytest.approx(e(6.3138 * 0.02**0.5), rel=1e-4)
    again = [*both, call(2, 300, None, ring=300 * e(0.1))]  # the same size adds no information
    assert predict.compute_doubt(again) == pytest.approx(predict.compute_doubt(both))
    # One algorithm must explain all counts, not a different one for each.
    parted = [call(1, 100, None, a=100, b=400), call(2, 100, None, a=400, b=100)]
    assert predict.compute_doubt(parted) > 1000


def test_budget_leaves_out_the_rest(tmp_path: Path) -> None:
    trace = mpiprof.open(tune_traces.one_sender(tmp_path / "t"))
    predicted = predict.predict(tasks.list_works(trace, 16), make_uniform(1e4, 1), -1, lambda: None)
    assert [r.trials for r in predicted] == [(), ()]
    assert judge(predicted[0], 1.0).reason == "not examined within the --budget"


# ---- entries


def test_entries_fit_together(tmp_path: Path) -> None:
    measured = plan_entries.make_provenance(
        "model", "MPICH 5.0.2", ["n1", "n0", "n1"], "2026-11-21"
    )

    def one(first: int, last: int, sites: list[str], choice: str) -> plan_entries.Entry:
        return plan_entries.make_entry(
            "bcast", 8, (first, last), sites, choice, f"{first}", measured
        )

    found = plan_entries.drop_overlaps(
        [
            one(65, 128, ["a.py:1"], "chain:block_size=64"),
            one(129, 256, ["a.py:1"], "chain:block_size=64"),  # continues where the first ends
            one(100, 200, ["a.py:1", "a.py:2"], "binomial"),  # a.py:1 is assigned there already
            one(257, 512, ["a.py:1"], "native:binomial"),
            one(257, 300, [], "binomial"),
        ]
    )
    assert [(e["bytes"]["from"], e["bytes"]["to"]) for e in found] == [
        (65, 256),
        (100, 200),
        (257, 512),
        (257, 300),
    ]
    assert found[1]["call_sites"] == ["a.py:2"] and "call_sites" not in found[3]
    assert found[0]["parameters"] == {"block_size": 64} and found[0]["why"] == "65; 129"
    assert found[2]["algorithm"] == "native:binomial" and "parameters" not in found[2]
    path = tmp_path / "plan.json"
    plan_entries.write(path, found)
    read = plan.read(str(path))
    assert [r.algorithm for r in read.rules] == ["chain", "binomial", "native:binomial", "binomial"]
    assert read.rules[0].measured.hosts == ("n0", "n1")
    assert json.loads(path.read_text()) == found
