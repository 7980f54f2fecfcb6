"""Single runs of an unchanged program are not called different, and true changes are found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.run_pairs import MS, RANKS, Program, record, simulate

from mpiprof.causes.compare import SIGNIFICANCE_LEVEL, compare
from mpiprof.causes.compare_verdict import judge_difference, recommend_repetitions
from mpiprof.causes.habits.significance import stretch_means
from mpiprof.causes.run_variation import (
    MAX_REPETITIONS,
    RUN_VARIATION,
    RunSite,
    compare_run_means,
    compare_runs,
    count_repetitions,
    mean_variance,
    own_times,
    rank_spread,
)
from mpiprof.trace.types import Float

PAIRS = 200
BALANCED = (10.0,) * RANKS
SLOW = (10.0,) * (RANKS - 1) + (13.0,)
ALONE = (1.0,) * (RANKS - 1) + (9.0,)
SLOWER = (10.0,) * (RANKS - 1) + (13.0 * 1.15,)
METRICS = ("mean_elapsed_ns", "wait_ns", "worst_imbalance_ns")


def run_site(program: Program, seed: int) -> RunSite:
    """Return the allreduce of a run, without writing a trace."""
    arrivals, exits = simulate(program, seed)
    last = arrivals.max(1, keepdims=True)
    values = {
        "mean_elapsed_ns": (exits - arrivals).mean(1),
        "wait_ns": (last - arrivals).sum(1),
        "worst_imbalance_ns": np.ptp(arrivals, axis=1),
    }
    lateness = arrivals - arrivals.min(1, keepdims=True)
    own = float((arrivals[1:] - exits[:-1]).mean())
    stretches = {name: stretch_means(of[None, :], 32)[0] for name, of in values.items()}
    return RunSite(stretches, RANKS, [lateness.mean(0)], own)


def differ(first: RunSite, other: RunSite) -> bool:
    """Return the decision of the verdict for a program with one call site."""
    tests = [compare_runs(first, other, name) for name in METRICS]
    added = other.stretches[METRICS[0]].mean() - first.stretches[METRICS[0]].mean()
    smallest = min(test.p for test in tests)
    return bool(smallest < SIGNIFICANCE_LEVEL / len(METRICS) or abs(added) > tests[0].usual_ns)


def count_different(before: Program, after: Program, kind: str) -> int:
    """Return how many of PAIRS pairs differ, with a variation from 1 to 4 % between runs."""
    count = 0
    for pair in range(PAIRS):
        variation: dict[str, Any] = {kind: 0.01 + 0.03 * pair / (PAIRS - 1)}
        programs = (dataclasses.replace(program, **variation) for program in (before, after))
        runs = [run_site(program, 2 * pair + i) for i, program in enumerate(programs)]
        count += differ(*runs)
    return count


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["run_wide", "by_rank"])
@pytest.mark.parametrize("loads", [BALANCED, SLOW, ALONE], ids=["balanced", "slow", "alone"])
def test_unchanged_programs_are_not_called_different(kind: str, loads: tuple[float, ...]) -> None:
    """At most 5 % of 200 pairs with autocorrelated noise and heavy tails."""
    program = Program(loads)
    assert count_different(program, program, kind) <= 0.05 * PAIRS


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "least"), [("run_wide", 0.95), ("by_rank", 0.88)])
def test_a_true_change_is_found(kind: str, least: float) -> None:
    """The slow rank takes 15 % longer."""
    assert count_different(Program(SLOW), Program(SLOWER), kind) >= least * PAIRS


@pytest.mark.heavy
def test_slower_collectives_are_found() -> None:
    """A program of which the collectives take most of the time; they take 15 % longer."""
    before = Program((1.0,) * RANKS, cost=10.0)
    after = dataclasses.replace(before, cost=11.5)
    assert count_different(before, before, "run_wide") <= 0.05 * PAIRS
    assert count_different(before, after, "run_wide") >= 0.9 * PAIRS


@pytest.mark.heavy
def test_the_verdict_on_traces(tmp_path: Path) -> None:
    """Traces have the same verdict as the runs without a trace, and the planted change."""
    before, after = (Program(loads, by_rank=0.02) for loads in (SLOW, SLOWER))
    for pair in range(5):
        traces = [record(tmp_path / f"{pair}-{i}", before, 2 * pair + i) for i in range(2)]
        expected = differ(*(run_site(before, 2 * pair + i) for i in range(2)))
        outcome = judge_difference(compare(traces)).outcome
        assert (outcome != "same") == expected
    first = record(tmp_path / "before", before, 1)
    verdict = judge_difference(compare([first, record(tmp_path / "after", after, 2)]))
    added = 0.15 * 13 * MS * (RANKS - 1) * before.steps
    assert verdict.outcome == "slower"
    assert verdict.effect_ns == pytest.approx(added, rel=0.25)


def autocorrelated(random: np.random.Generator, correlation: float, count: int) -> Float:
    """Return a series of variance 1 with a correlation of neighbours."""
    values = random.normal(size=count)
    for i in range(1, count):
        values[i] = correlation * values[i - 1] + np.sqrt(1 - correlation**2) * values[i]
    return np.asarray(values)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_the_variance_of_a_mean_includes_persistence(correlation: float) -> None:
    """The mean of the estimates is the true variance of a run's mean, or somewhat larger."""
    random = np.random.default_rng(5)
    series = [autocorrelated(random, correlation, 640) for _ in range(100)]
    true = float(np.var([values.mean() for values in series]))
    found = [mean_variance(stretch_means(values[None, :], 32)[0])[0] for values in series]
    assert 0.8 * true < np.mean(found) < 3 * true


def test_a_lasting_change_does_not_average_out() -> None:
    """In another run, the step may be at another time: the mean differs by the step."""
    values = np.repeat([1.0, 2.0], 16) + np.tile([-0.01, 0.01], 16)
    variance, _ = mean_variance(values)
    assert variance == pytest.approx(values.var(), rel=0.3)


def test_ranks_that_differ_statically_are_bounded_by_their_own_time() -> None:
    """Loads that differ by 30 % say nothing on the variation between runs."""
    stretches = {name: np.full(32, 1e6) for name in METRICS}
    loads = np.array([0, 1, -1, 2, -2, 1.5, -1.5, 6])
    steady, uneven = (RunSite(stretches, 8, [of * loads], 1e7) for of in (1e3, 3e6))
    assert compare_runs(steady, steady, METRICS[0]).usual_ns < 0.12 * 1e6
    latest = 1e7 + 3e6 * (loads.max() - loads.mean())
    variation = RUN_VARIATION * np.hypot(1e6, latest * (9 / 8) ** 0.5)
    usual = compare_runs(uneven, uneven, METRICS[0]).usual_ns
    assert usual == pytest.approx(2.24 * 2**0.5 * variation, rel=0.01)


def test_the_spread_of_the_ranks_ignores_a_late_rank() -> None:
    own = np.array([100.0, 101, 99, 102, 98, 100, 100, 5000])
    assert 0.005 < rank_spread([own]) < 0.03
    assert rank_spread([own, 10 * own]) == pytest.approx(rank_spread([own]))
    assert np.isnan(rank_spread([own[:3]]))


def test_own_time_is_divided_by_the_gaps() -> None:
    """Steps of 10 ms: 6 ms before the first call of 1 ms, 2 ms before the second of 1 ms."""
    steps = 10 * MS * np.arange(50)
    series = {
        number: pd.DataFrame({"first_arrival_ns": steps + at * MS, "mean_elapsed_ns": 1.0 * MS})
        for number, at in ((0, 6), (1, 9))
    }
    own = own_times(400.0 * MS, series, {0: 50.0, 1: 50.0})
    assert own[0] == pytest.approx(6 * MS, rel=0.03) and own[1] == pytest.approx(2 * MS, rel=0.03)


def test_one_run_is_compared_with_several() -> None:
    """Student's test with the variance of the side that has one."""
    several, one = np.array([10.0, 11.0, 12.0, 11.0]), np.array([13.5])
    score = 2.5 / (several.std(ddof=1) * (1 + 1 / 4) ** 0.5)
    expected = 2 * stats.t.sf(score, 3)
    assert compare_run_means(several, one).p == pytest.approx(expected)
    assert compare_run_means(one, several).p == pytest.approx(expected)


@pytest.mark.parametrize(("deviation", "change"), [(0.03, 0.05), (0.01, 0.05), (0.05, 0.15)])
def test_the_recommended_repetitions_have_the_power(deviation: float, change: float) -> None:
    """Exact power of Student's test by the noncentral distribution."""
    runs = count_repetitions(deviation, change)

    def power(runs: int) -> float:
        shift = change / deviation * (runs / 2) ** 0.5
        limit = stats.t.ppf(0.975, 2 * runs - 2)
        return float(stats.nct.sf(limit, 2 * runs - 2, shift))

    assert power(runs) >= 0.89
    assert runs == 2 or power(runs - 1) < 0.91
    assert count_repetitions(1.0, 0.01) > MAX_REPETITIONS


def test_the_recommendation_is_for_the_measured_variation(tmp_path: Path) -> None:
    """Steady runs leave the assumed variation; runs that differ more need more repetitions."""
    steady = [record(tmp_path / f"s{i}", Program(SLOW, noise=0.001), i) for i in range(2)]
    change, runs = recommend_repetitions(judge_difference(compare(steady)), 1, 1) or (0, 0)
    assert change == 0.05 and 5 <= runs <= 7
    varied = Program(SLOW, run_wide=0.08, noise=0.001)
    groups = [
        [record(tmp_path / f"v{i}{j}", varied, 9 * i + j) for j in range(3)] for i in range(2)
    ]
    verdict = judge_difference(compare(*groups))
    assert (recommend_repetitions(verdict, 3, 3) or (0, 0))[1] > 10
