"""The studies of loops: values computed from their times, and runs on ranks."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from benchmarks import overhead
from support.jobs import run, run_mpi, run_verb
from support.mpis import Mpi
from support.synthetic import MACHINE as MACHINE_TABLE
from support.uniform_machine import make_uniform

from mpiprof.collectives.papers.harness import loop, study
from mpiprof.collectives.papers.harness.case import Case, Options
from mpiprof.collectives.papers.harness.conditions import TIMER
from mpiprof.collectives.papers.harness.figures import Lines, Series
from mpiprof.collectives.papers.harness.loop import Behaviour, Loop, LoopTimes, Phase
from mpiprof.collectives.papers.harness.processors import find_most_used
from mpiprof.collectives.papers.harness.runner import fit_time_limit
from mpiprof.collectives.papers.harness.study import Setup
from mpiprof.collectives.papers.studies import adaptive, arrival, auto_robustness
from mpiprof.collectives.schedule import Problem
from mpiprof.commands import bench
from mpiprof.facts.operations import AUTO

MACHINE = make_uniform(60e3, 83.9)
SETUP = Setup(16, Options(), MACHINE, "openmpi")
MS = 1_000_000


def case(choice: str, operation: str = "alltoall", problem: Problem | None = None) -> Case:
    return Case({}, operation, choice, problem or Problem(2, 64 << 10))


# ---- times


@pytest.mark.parametrize(
    ("operation", "problem", "expected"),
    [
        # All ranks wait for the last one.
        ("alltoall", Problem(3, 8), (60 - 50 + 55 - 50 + 65 - 50) / 3),
        # A rank waits for the root, unless it is later itself.
        ("bcast", Problem(3, 8), (60 - 10 + 55 - 50 + 65 - 20) / 3),
        ("allgatherv", Problem(3, counts=(8, 0, 0)), (60 - 50 + 55 - 50 + 65 - 50) / 3),
    ],
)
def test_a_score_excludes_time_that_no_algorithm_can_shorten(
    operation: str, problem: Problem, expected: float
) -> None:
    arrivals, exits = np.array([[10, 50, 20]]), np.array([[60, 55, 65]])
    one = case("native", operation, problem)
    found = loop.score_ns(one, arrivals, exits)
    assert found == pytest.approx([expected])
    assert loop.total_ns(one, arrivals, exits) == [15]
    assert loop.elapsed_ns(one, arrivals, exits) == pytest.approx([(50 + 5 + 45) / 3])


def test_lateness_changes_with_the_phase() -> None:
    one = Loop({}, (case(AUTO),), 10, phases=(Phase(0, (0, 7)), Phase(5, (3, 0))))
    assert [one.late_ns(lap, 1) for lap in (0, 4, 5, 9)] == [7, 7, 0, 0]
    assert Loop({}, (case(AUTO),), 10).late_ns(3, 1) == 0


def test_a_pattern_is_the_same_for_all_and_below_max_if() -> None:
    late = loop.lateness_pattern(10, 1000, 16)
    assert late == loop.lateness_pattern(10, 1000, 16)
    assert max(late) <= 9000 and len(set(late)) > 4 and all(ns % 1000 == 0 for ns in late)
    assert loop.lateness_pattern(1, 1000, 4) == (0, 0, 0, 0)


def test_imbalance_of_exits_computation_and_arrivals() -> None:
    one = Loop({"computation ms": 50, "bytes": 64 << 10}, (case("native"),), 2, 50 * MS)
    begins = np.array([[[0, 0], [0, 10]]])
    arrivals = np.array([[[100, 120], [100, 140]]])
    exits = np.array([[[200, 205], [200, 215]]])
    row = arrival.row_of([LoopTimes(one, begins, arrivals, exits)], message_ns=10)
    assert row["instances"] == 2
    assert row["exit ω/T"] == pytest.approx(1.0)  # 0.5 and 1.5
    assert row["computation ω/T"] == pytest.approx(2.5)  # 20 and 30
    assert row["arrival ω/T"] == pytest.approx(3.0)  # 20 and 40
    assert row["arrival ±"] == pytest.approx(12.706, abs=0.001)  # t of 1 degree, half of the spread
    assert row["in the call ms"] == pytest.approx((100 + 85 + 100 + 75) / 4 / 1e6)


def test_few_computations_are_joined_to_the_paper_s_number() -> None:
    """2 ranks: 8 instances have 16 computations, and the last 3 instances fill no group."""
    times = np.arange(38).reshape(19, 2)
    assert arrival.join_computations(times).tolist() == [15, 15]
    assert arrival.join_computations(times[:7]).tolist() == []
    assert arrival.join_computations(np.arange(64).reshape(2, 32)).tolist() == [31, 31]


def test_the_interval_of_a_ratio_contains_it() -> None:
    above, below = np.array([20.0, 22, 21]), np.array([10.0, 11, 10])
    ratio = study.ratio_interval(above, below)
    value, low, high = ratio, ratio.low, ratio.high
    assert value == pytest.approx(2.1) and low <= 2.1 <= high
    assert study.ratio_interval(above, below, np.mean) == pytest.approx(21 / (31 / 3))
    assert study.ratio_interval(above[:1], below) == 2.0


def test_what_drifts_is_less_certain_than_it_seems() -> None:
    drifting = np.repeat([10.0, 12.0, 11.0, 13.0], 25)
    steady = np.full(100, 10.0)
    alone = study.ratio_interval(drifting, steady, np.mean)
    value = study.ratio_interval(drifting, steady, np.mean, 25)
    low, high, least, most = alone.low, alone.high, value.low, value.high
    assert value == pytest.approx(1.15)
    assert least < low < value < high < most
    assert most - least > 3 * (high - low)  # as from four values, not a hundred


# ---- the selector's behaviour


def test_probing_instances_are_counted_by_phase() -> None:
    choices = ("observe", "probe", "probe", "chosen", "chosen", "probe", "chosen", "chosen")
    ran = ("native", "ring", "pair", "ring", "ring", "pair", "pair", "pair")
    both = Behaviour(ran, choices, phases=(0, 5), windows=(0, 2))
    assert both.probes_by_phase() == [2, 1]
    assert both.chosen_instances(8) == slice(6, 8) and both.chosen_algorithm(8) == "pair"
    assert Behaviour(ran, choices).probes_by_phase() == [3]
    unknown = Behaviour(ran)
    assert unknown.probes_by_phase() == [] and unknown.chosen_instances(10) == slice(4, 10)


def test_what_the_selector_noted_is_read_past_a_cut_line() -> None:
    lines = [
        json.dumps({"kind": "key", "key": "a", "operation": "bcast"}),
        json.dumps({"kind": "key", "key": "b", "operation": "barrier"}),
        json.dumps({"kind": "phase", "key": "a", "phase": 2, "instance": 160, "window": 8}),
        json.dumps({"kind": "phase", "key": "b", "phase": 1, "instance": 3}),
        json.dumps({"kind": "phase", "key": "a", "phase": 1, "instance": 0, "why": "start"}),
        '{"kind": "phase", "key": "a", "ins',
    ]
    assert loop.find_phases(lines, "bcast") == ((0, 160), (0, 8))


def test_the_final_choice_is_that_of_the_longest_key() -> None:
    notes: list[dict[str, object]]
    notes = [{"kind": "key", "key": k, "operation": "barrier"} for k in "ab"]
    notes += [
        {"kind": "end", "key": "a", "instances": 3, "algorithm": "linear"},
        {"kind": "end", "key": "b", "instances": 900, "algorithm": "native"},
        {"kind": "end", "key": "c", "instances": 9000, "algorithm": "ring"},
    ]
    text = "\n".join(map(json.dumps, notes))
    assert overhead.holds(text, "barrier") == "native"
    assert overhead.holds(text, "allreduce") == overhead.holds("", "barrier") == "?"


def test_the_selector_s_records_are_found_by_time_rank_and_operation() -> None:
    begins = np.array([[[10, 10], [26, 26]], [[18, 18], [36, 36]]])  # alternating after one lap
    both = Loop({}, (case(AUTO), case("native")), 2, alternating=1)
    one = LoopTimes(both, begins, begins, begins + 6)
    events = pd.DataFrame(
        {
            "rank": [0, 0, 0, 0, 1, 0, 0],
            "operation": ["alltoall", "alltoall", "barrier", *["alltoall"] * 4],
            "enter_ns": [5, 30, 27, 15, 16, 20, 38],
            "algorithm": ["native", "ring", "native", "pair", "pair", "native", "native"],
            "choice": ["", "chosen", "", "probe", "probe", "", ""],
        }
    )
    found = loop.loop_behaviour(events, one)
    assert found.algorithms == ("pair", "ring") and found.choices == ("probe", "chosen")
    assert loop.loop_behaviour(events.drop(columns="choice"), one).choices == ()


def test_cases_run_in_sequence_or_alternately() -> None:
    one = Loop({}, (case(AUTO), case("native")), 5)
    assert list(one.running_order()) == [(0, range(5)), (1, range(5))]
    rows = (range(2), range(2, 4), range(4, 5))
    assert list(replace(one, alternating=2).running_order()) == [
        (i, row) for row in rows for i in (0, 1)
    ]


# ---- duration


@pytest.mark.heavy
@pytest.mark.parametrize("module", [arrival, auto_robustness, adaptive], ids=lambda m: m.TITLE)
def test_a_study_takes_less_than_twenty_minutes(module: ModuleType) -> None:
    setup = fit_time_limit(module, SETUP)
    assert setup.laps >= module.MIN_LAPS
    assert loop.estimate_seconds(module.make_loops(setup), MACHINE, 16) < 20 * 60
    full = fit_time_limit(module, replace(SETUP, options=Options(laps=7)))
    assert full.laps == 7


def test_the_full_grid_is_the_paper_s() -> None:
    full = auto_robustness.make_settings(
        replace(SETUP, options=Options(full=True, only=("alltoall",)))
    )
    shapes = {(s.computation_ms, s.most) for s in full}
    assert shapes == {(50, 1), (100, 1), (200, 1), (400, 1), (200, 10), (200, 50), (200, 100)}
    assert {s.bytes for s in full} >= {1, 64 << 10, 256 << 10} and len(full) == 49


def test_both_factors_of_each_instance_are_drawn() -> None:
    """Figure 5: the first experiment after 200 ms of computation, with a message time of 8 ms."""
    machine = make_uniform(8 * MS, 0)
    setup = replace(SETUP, machine=machine)
    results = []
    for ms, late in ((50, 8), (200, 16), (200, 80)):
        arrivals = np.array([[[0, late * MS], [late * MS, 0], [0, 0]]])
        one = Loop({"computation ms": ms, "bytes": 64 << 10}, (case("native"),), 3, agreed=False)
        results.append(LoopTimes(one, arrivals - ms * MS, arrivals, arrivals + 9 * MS))
    (lines,) = [
        one for one in arrival.make_report(results, [], setup).figures if "Figure 5" in one.title
    ]
    assert isinstance(lines, Lines)
    assert lines.series == [
        Series("worst case ω/T", [1, 2, 3], [2, 2, 0]),
        Series("average case δ/T", [1, 2, 3], [1, 1, 0]),
    ]


def test_the_imbalance_of_a_timer_is_not_that_of_computation() -> None:
    arrivals = np.array([[[0, 5 * MS], [7 * MS, 0]]])
    one = Loop({"computation ms": 50, "bytes": 64 << 10}, (case("native"),), 2, agreed=False)
    times = [LoopTimes(one, arrivals - 50 * MS, arrivals, arrivals + 9 * MS)]
    report = arrival.make_report(times, [], replace(SETUP, computation=TIMER))
    assert np.isnan(report.rows[0]["computation ω/T"]) and report.rows[0]["arrival ω/T"] > 0
    assert "a timer replaces it" in report.notes[1]
    lines = report.figures[0]
    assert isinstance(lines, Lines) and [s.name for s in lines.series] == ["exit", "arrival"]


@pytest.mark.parametrize(
    ("ranks", "use"),
    [
        ([("a", [0]), ("a", [1])], "2 ranks have 2 processors"),  # as Open MPI binds two ranks
        ([("a", [0, 1])] * 16, "16 ranks share 2 processors"),
        ([("a", [3]), ("a", [3])], "2 ranks share 1 processor"),
        ([("a", [0, 1]), ("b", [0]), ("b", [0])], "2 ranks share 1 processor"),
    ],
)
def test_processors_are_those_that_any_rank_may_use(
    ranks: list[tuple[str, list[int]]], use: str
) -> None:
    found = find_most_used(ranks)
    assert str(found) == use and found.is_shared == ("share" in use)


# ---- the command


def test_arrivals_on_two_ranks(mpich: Mpi, tmp_path: Path) -> None:
    """With given message times, because a busy machine's times would be refused."""
    (tmp_path / "machine.json").write_text(json.dumps(MACHINE_TABLE))
    words = ["--quick", "--repetitions", "2", "--sizes", "1K", "-o", str(tmp_path / "r")]
    words += ["--machine", str(tmp_path / "machine.json")]
    argv = [str(mpich.python), "-m", "mpiprof", "bench", "arrival", "-n", "2", *words]
    done = run(argv, check=True)
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert "This will take about" in done.stdout and "written" in done.stdout
    expected = [(str(ms), "2") for ms in (50, 200, 400)]
    assert [(r["computation ms"], r["instances"]) for r in rows] == expected
    shared = len(os.sched_getaffinity(0)) < 2
    assert ("2 ranks have 2 processors" in done.stdout) != shared == (TIMER in done.stdout)
    kinds = ("exit", "arrival") if shared else arrival.KINDS
    assert shared or all(0 < float(r["processor share"]) <= 1.01 for r in rows)
    assert all(float(r[f"{kind} ω/T"]) > 0 for r in rows for kind in kinds)
    with (tmp_path / "r-instances.csv").open() as file:
        assert [row["instance"] for row in csv.DictReader(file)] == ["1", "2"]
    assert "<svg" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_auto_on_two_ranks(mpich: Mpi, tmp_path: Path) -> None:
    words = ["--quick", "--repetitions", "4", "--sizes", "1K", "--only", "bcast"]
    argv = [str(mpich.python), "-m", "mpiprof", "bench", "robust", "-n", "2", *words]
    done = run([*argv, "-o", str(tmp_path / "r")], check=True)
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = [("bcast", factor) for factor in ("1", "10", "100")]
    assert [(r["operation"], r["MAX_IF"]) for r in rows] == expected
    assert "native:pipelined_tree" in done.stdout  # selectable if one thread at a time calls MPI
    assert {r["algorithm"] for r in rows} == {"native"}  # too few calls to probe
    assert all(float(r["auto ms"]) > 0 and float(r["best ms"]) > 0 for r in rows)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["robust", "-n", "2", "--only", "scan"], "alltoall, bcast, allgatherv, allreduce"),
        (["arrival", "-n", "2", "--only", "bcast"], "--only requires one of the studies robust"),
        (["arrival", "-n", "2", "--full"], "--full requires the study robust"),
        (["robust", "-n", "2", "--full", "--quick"], "contradict"),
        (["adaptive", "--simulate", "16"], "cannot be simulated"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], says: str) -> None:
    code, _, error = run_verb("bench", *words)
    assert code == 2 and says in error and error.count("\n") == 1


def test_programs_are_not_started_within_a_job(mpich: Mpi) -> None:
    assert bench.PROGRAMS == "apps"
    done = run_mpi(mpich, 2, [mpich.python, "-m", "mpiprof", "bench", "apps"])
    assert done.returncode and "bench apps -n 8" in done.stderr
