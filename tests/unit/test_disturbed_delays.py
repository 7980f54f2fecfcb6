"""Planted delays beside the accidents of a busy machine: rare, large, and of any rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.planted_programs import MS, Noise

import mpiprof
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.outliers import tail_p_value
from mpiprof.diagnosis.significance import p_above, p_of_course, p_of_levels
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion
from mpiprof.testing.neighbours import make_ring
from mpiprof.testing.program import Program
from mpiprof.trace.types import Float, Int

pytestmark = pytest.mark.heavy
STEPS = 60
BOTH = pytest.mark.parametrize("messages", [True, False])


def accidents(random: np.random.Generator, ranks: int) -> Int:
    """Return 5 ms of a third of the ranks in every sixth step, and otherwise nothing."""
    struck = (random.random() < 1 / 6) & (random.random(ranks) < 1 / 3)
    return (5 * MS * struck).astype(np.int64)


def first_finding(late_ms: Float, messages: bool, folder: Path) -> tuple[Finding, str]:
    """Return the first finding and its sentences, for delays (steps x ranks) and accidents."""
    steps, ranks = late_ms.shape
    program, noise, random = Program(ranks, intervals=True), Noise(ranks), np.random.default_rng(7)
    for step in range(steps):
        work = noise.work() + accidents(random, ranks) + (late_ms[step] * MS).astype(np.int64)
        if messages:
            program.halo(make_ring(ranks), work)
        program.collective("allreduce", "app.c:9:step", work * (not messages))
    trace = mpiprof.open(program.write(folder))
    findings = trace.findings()
    return findings[0], conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]


@BOTH
def test_a_single_delay_is_named(messages: bool, tmp_path: Path) -> None:
    late = np.zeros((STEPS, 8))
    late[21, 4] = 250
    finding, text = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks, finding.first_instance) == ("outlier", (4,), 21)
    assert "rank 4 works 25" in text and "in step 21" in text


@BOTH
def test_the_end_of_a_delay_is_named(messages: bool, tmp_path: Path) -> None:
    late = np.zeros((STEPS, 8))
    late[:24, 3] = 6
    finding, text = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("rank", (3,))
    assert "in steps 0 to 23" in text


@BOTH
def test_growth_is_named(messages: bool, tmp_path: Path) -> None:
    late = np.zeros((STEPS, 8))
    late[30:, 6] = 0.4 * np.arange(STEPS - 30)
    finding, _ = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, finding.ranks) == ("rank", (6,))
    assert finding.first_instance == pytest.approx(30, abs=5)


@BOTH
def test_four_turns_are_one_delay_that_moves(messages: bool, tmp_path: Path) -> None:
    """Four turns are too few to show an order, but each of them is sure."""
    late = np.zeros((80, 4))
    late[np.arange(80), np.array([2, 0, 3, 1])[np.arange(80) // 20]] = 6
    finding, text = first_finding(late, messages, tmp_path / "t")
    assert (finding.cause, sorted(finding.ranks)) == ("moving", [0, 1, 2, 3])
    assert "each rank in turn works 6.0" in text
    assert "ms longer than the other ranks, 20 steps each" in text


@pytest.mark.parametrize("strays", [0, 1, 3])
def test_the_root_that_works_alone_is_named(strays: int, tmp_path: Path) -> None:
    """Between reduce and bcast the other ranks work too shortly for a record, except by chance."""
    program, noise = Program(8, intervals=True), Noise(8)
    for step in range(STEPS):
        program.collective("reduce", "app.c:4:step", noise.work())
        stray = MS // 2 * (np.arange(8) == 6) * (step % 20 == 7) * (step < 20 * strays)
        program.collective("bcast", "app.c:6:step", 5 * MS * (np.arange(8) == 0) + stray)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    findings = trace.findings()
    assert findings[0].ranks == (0,)
    assert findings[0].cost_ns == pytest.approx(7 * STEPS * 5 * MS, rel=0.1)
    text = conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]
    assert "rank 0 works alone for 5.00 ms between reduce at app.c:4 step and bcast" in text


def test_remains_of_a_periodic_delay_are_no_finding(tmp_path: Path) -> None:
    """The ranks' delays in the steps of rank 0's file differ, and accidents are in these steps."""
    program, noise, random = Program(4, intervals=True), Noise(4), np.random.default_rng(5)
    for step in range(STEPS):
        program.collective("allreduce", "app.c:4:step", noise.work())
        late = (25 + 10 * random.random()) * MS * (np.arange(4) == 0) * (step % 10 == 9)
        others = random.exponential(0.5, 4) * MS * (step % 10 == 9)
        program.collective("barrier", "app.c:6:step", (late + others).astype(np.int64))
    trace = mpiprof.open(program.write(tmp_path / "t"))
    delays = [one for one in trace.findings() if one.cause in ("rank", "periodic")]
    assert [(one.ranks, one.period) for one in delays] == [((0,), 10)]
    assert delays[0].saved_ns <= delays[0].cost_ns


def test_the_place_of_unexplained_waiting_has_most_of_it(tmp_path: Path) -> None:
    """Nearly all waiting is for messages, so the collective is not named."""
    program, noise = Program(8, intervals=True), Noise(8)
    for _ in range(STEPS):
        program.halo(make_ring(8), noise.work(spread=0.5))
        program.halo(make_ring(8), noise.work(spread=0.5))
        program.collective("allreduce", "app.c:9:step")
    trace = mpiprof.open(program.write(tmp_path / "t"))
    findings = trace.findings()
    assert [finding.cause for finding in findings] == ["noise"]
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    of_messages = trace.message_waits["wait_ns"].sum() / findings[0].cost_ns
    assert ("allreduce" in lines[1]) == (of_messages < 0.5)


# Tests


@pytest.mark.parametrize("exponent", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("count", [48, 400])
def test_the_largest_value_of_a_power_law_is_no_outlier(exponent: float, count: int) -> None:
    random = np.random.default_rng(1)
    p = np.array([tail_p_value(1 + random.pareto(exponent, count)) for _ in range(2000)])
    assert (p <= 0.02).mean() <= 0.025
    assert (p <= 0.2).mean() <= 0.25


def test_a_value_far_beyond_a_bounded_tail_is_an_outlier() -> None:
    """Many values of about 1, a few up to 12, and one of 1750."""
    random = np.random.default_rng(2)
    others = np.concatenate([random.uniform(0.5, 2, 56), random.uniform(10, 12.5, 4)])
    assert tail_p_value(np.append(others, 1750)) < 0.01


def test_accidents_do_not_hide_a_level_or_a_trend() -> None:
    random = np.random.default_rng(3)
    struck = 40.0 * (random.random((50, STEPS)) < 0.1)
    series = random.normal(0, 1, (50, STEPS)) + struck
    level = series + 20 * (np.arange(STEPS) < 24)
    assert sum(p_of_levels(row, [24])[0] < 1e-3 for row in level) >= 47
    course = np.maximum(np.arange(STEPS) - 30.0, 0.0)
    trend = series + 2 * course
    assert sum(p_of_course(row, course) < 1e-3 for row in trend) >= 47
    assert sum(p_of_levels(row - row.mean(), [24]).min() < 1e-3 for row in series) == 0
    assert sum(p_of_course(row, course) < 1e-3 for row in series) == 0


def test_few_occurrences_on_many_ranks_are_significant() -> None:
    """Six delays of one of 64 ranks, one of them twice as long, far beyond all other ranks."""
    values = np.array([[22.6, 25.8, 24.4, 27.0, 24.1, 52.3]])
    assert p_above(values, p_apart=1e-6, tests=64)[0] < 0.002
    assert p_above(values, p_apart=1.0, tests=64)[0] > 0.002


@pytest.mark.parametrize("count", [5, 6, 10, 20])
def test_chance_is_rarely_above_zero_for_ranks_apart(count: int) -> None:
    for draw in ("normal", "laplace", "standard_cauchy"):
        values = getattr(np.random.default_rng(4), draw)(size=(4000, count))
        assert (p_above(values, p_apart=0.0) <= 0.01).mean() <= 0.015
