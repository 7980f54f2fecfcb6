"""Predicted against measured times: the study of the simulator, and the model that `tune` uses."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import advice_traces, tune_traces
from support.synthetic import MACHINE
from support.uniform_machine import make_uniform

import mpiprof
from mpiprof.collectives.machine import Machine, machine_of_table
from mpiprof.collectives.papers.harness import simulated_cases
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.intervals import IntervalEstimate
from mpiprof.collectives.papers.harness.study import Setup
from mpiprof.collectives.papers.studies import model_accuracy
from mpiprof.collectives.papers.studies.model_accuracy import PARTS, ModelComparison
from mpiprof.collectives.round_simulator import applies_to
from mpiprof.collectives.tune import predict, tasks
from mpiprof.errors import MpiprofError, UsageError

PLAIN = make_uniform(tune_traces.ALPHA, tune_traces.BETA)
EAGER = replace(PLAIN, eager_limit=1 << 20, window=1 << 16, copy=0.1)


def test_errors_ranks_and_regret() -> None:
    comparison = ModelComparison(np.array([1.0, 2.0, 4.0]), np.array([1.1, 1.0, 4.0]))
    assert comparison.errors == pytest.approx([0.1, 0.5, 0])
    assert comparison.correlation == pytest.approx(0.5)  # ranks 1 2 3 and 2 1 3
    assert comparison.order == (3, 2)  # the pair of the first two is not in its order
    assert float(comparison.regret) == 2  # the second is predicted to be the fastest
    assert comparison.probed == (2, True)
    assert ModelComparison(np.array([1.0, 2.0]), np.array([2.5, 1.0])).probed == (1, False)
    alike = ModelComparison(np.array([1.0, 1.04]), np.array([2.0, 1.0]))
    assert alike.order == (0, 0)
    assert np.isnan(ModelComparison(np.ones(2), np.ones(2)).correlation)
    assert np.isnan(comparison.agreement)
    halves = np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0])
    assert replace(comparison, halves=halves).agreement == pytest.approx(0.5)


def test_measured_times_have_the_digits_of_their_intervals() -> None:
    """Times 1.003 and 2.034 with widths 0.02 and 0.04, and the mean of the regrets 1, 2 and 4."""
    measured, widths = np.array([1.003, 2.034]), np.array([0.02, 0.04])
    regret = ModelComparison(measured, np.array([2.0, 1.0]), widths).regret
    assert str(regret) == "2.03" and regret.width == pytest.approx(0.057, rel=0.02)
    mean = model_accuracy.average_regret([IntervalEstimate(x, width=0) for x in (1.0, 2.0, 4.0)])
    assert float(mean) == pytest.approx(2) and mean.low < 1 < 4 < mean.high and str(mean) == "2"


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_problems_that_algorithms_solve(part: str) -> None:
    setup = Setup(8, Options(only=(part,), quick=True), EAGER)
    cases = model_accuracy.make_cases(setup)
    names = {case.choice for case in cases}
    assert names and "native" not in names
    assert {case.labels["MAX_IF"] for case in cases} == set(model_accuracy.MOST)
    for case in cases:
        found = simulated_cases.find_algorithm(case)
        assert applies_to(found, case.problem) or found.restrictions


@pytest.mark.heavy
def test_times_of_the_transport_are_predicted_by_it_alone() -> None:
    setup = Setup(8, Options(only=("bcast",), quick=True), EAGER, laps=2)
    cases = [c for c in model_accuracy.make_cases(setup) if ":" not in c.choice]
    results = simulated_cases.simulate_cases(cases, setup, lambda: None)
    report = model_accuracy.make_report(results, setup)
    assert [row["algorithm"] for row in report.rows] == [case.choice for case in cases]
    assert all(row["transport / measured"] == 1 for row in report.rows)
    assert any(abs(row["plain / measured"] - 1) > 0.1 for row in report.rows)
    of_bcast, of_all = report.notes
    groups = len(model_accuracy.MOST)
    assert f"the fastest in {groups} of {groups} groups" in of_all.splitlines()[1]
    assert of_bcast.startswith("bcast, plain: median error ")
    assert (
        "transport: median error 0.0 % (asked at most 0.1: yes), median rank correlation" in of_all
    )
    assert "at least 0.9 in 3 of 3; " in of_all
    assert "clear pairs in their order; mean regret 1.0, worst 1.0" in of_all


def test_processes_that_share_the_cases_have_equal_results(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup(8, Options(only=("bcast",), quick=True), EAGER, laps=2)
    cases = [c for c in model_accuracy.make_cases(setup) if ":" not in c.choice]
    alone = simulated_cases.simulate_cases(cases, setup, lambda: None)
    monkeypatch.setattr(simulated_cases, "MIN_DIVIDED_S", 0.0)
    monkeypatch.setattr(simulated_cases, "count_usable_processors", lambda: 2)
    steps: list[None] = []
    shared = simulated_cases.simulate_cases(cases, setup, lambda: steps.append(None))
    assert len(steps) == len(cases)
    assert [r.case.choice for r in shared] == [r.case.choice for r in alone]
    assert all((a.score == b.score).all() for a, b in zip(alone, shared, strict=True))


def kill_itself(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_of_a_simulation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_cases, "MIN_DIVIDED_S", 0.0)
    monkeypatch.setattr(simulated_cases, "_simulate_if_applicable", kill_itself)
    setup = Setup(8, Options(only=("bcast",), quick=True), EAGER)
    cases = model_accuracy.make_cases(setup)
    monkeypatch.setattr(simulated_cases, "count_usable_processors", lambda: 2)
    with pytest.raises(MpiprofError, match="was killed: free memory, or simulate fewer"):
        simulated_cases.simulate_cases(cases, setup, lambda: None)


def test_the_smallest_message_is_a_block_of_a_pipeline() -> None:
    """The best block of 8 x 4 KB in a chain of 8 has sqrt(alpha n / (6 beta)) bytes."""
    setup = Setup(8, Options((4 << 10,), only=("bcast",)), Machine(alpha=1000.0, beta=10.0))
    expected = (1000.0 * (32 << 10) / (6 * 10.0)) ** 0.5
    assert model_accuracy.find_smallest_message(setup) == pytest.approx(expected, rel=0.1)
    blocks = replace(setup, options=replace(setup.options, only=("alltoall",)))
    assert model_accuracy.find_smallest_message(blocks) == 4 << 10


def test_predictions_require_usable_message_times() -> None:
    setup = Setup(8, Options(), EAGER, fault="other processes used the cores")
    with pytest.raises(MpiprofError, match="not usable: other processes used the cores: repeat"):
        model_accuracy.make_cases(setup)
    with pytest.raises(MpiprofError, match="no transport, which predictions require: measure it"):
        model_accuracy.make_cases(Setup(8, Options(), PLAIN))


# ---- machine tables


def test_a_table_has_the_transport_that_calibrate_measured() -> None:
    measured: dict[str, Any] = {"eager_limit": 65536, "window": 65536, "copy_ns_per_byte": 0.25}
    measured["buffered"] = True
    machine = machine_of_table(MACHINE | {"transport": measured}, "machine.json")
    assert (machine.eager_limit, machine.window, machine.copy) == (65536, 65536, 0.25)
    assert machine.buffered and machine.contention == 0  # within a node
    assert machine.without_transport() == machine_of_table(MACHINE, "machine.json")
    with pytest.raises(UsageError, match="damaged transport"):
        machine_of_table(MACHINE | {"transport": {"eager_limit": "?"}}, "machine.json")


def test_a_rate_limited_link_sends_at_its_pace() -> None:
    """A port that sends 6000 bytes at once after an idle time, and then 100 bytes in 33 us."""
    link = {"alpha_ns": 20e3, "beta_ns_per_byte": 8.0, "pace_ns_per_byte": 330.0}
    table: dict[str, Any] = {"between": link | {"buffer_bytes": 6000}}
    machine = machine_of_table(table, "machine.json")
    assert (machine.alpha, machine.beta, machine.burst) == (20e3, 330.0, 0.0)
    transport = {"eager_limit": 65536, "window": 65536, "copy_ns_per_byte": 0.25, "buffered": True}
    flows = machine_of_table(table | {"transport": transport}, "machine.json")
    assert (flows.beta, flows.burst, flows.burst_beta) == (330.0, 6000.0, 8.0)
    assert flows.contention > 0
    assert flows.without_transport() == machine
    for wrong in ({"buffer_bytes": "?"}, {"pace_ns_per_byte": "?"}):
        with pytest.raises(UsageError):
            machine_of_table({"between": link | wrong, "transport": transport}, "machine.json")
    damaged = {"between": ["?"], "within": link, "transport": transport}
    assert machine_of_table(damaged, "machine.json").burst == 0.0


# ---- tune


def find_doubts(folder: Path, machine: Machine) -> list[float]:
    """Return the model's error factor of each work of a trace."""
    works = tasks.list_works(mpiprof.open(folder), 3)
    return [r.doubt for r in predict.predict(works, machine, 60, lambda: None)]


@pytest.mark.heavy
def test_tune_uses_the_transport_only_if_it_predicts_better(tmp_path: Path) -> None:
    plain = tune_traces.one_sender(tmp_path / "plain")
    assert find_doubts(plain, EAGER) == find_doubts(plain, PLAIN)
    slow_copy = replace(EAGER, copy=20.0)
    other = advice_traces.related(tmp_path / "other", np.random.default_rng(2), 3, slow_copy)
    assert max(find_doubts(other, slow_copy)) < min(find_doubts(other, PLAIN))
