"""Tests of habits: which values show a delay, a level, a trend or an order, and which do not."""

from __future__ import annotations

import numpy as np
import pytest
from support import planted_loops as planted
from support.planted_loops import MS

from mpiprof.causes.habits.rank_set import MAX_P
from mpiprof.causes.habits.significance import (
    p_above,
    p_above_zero,
    p_of_course,
    p_of_levels,
    persistence_ratio,
)
from mpiprof.causes.habits.steady_delay import varies
from mpiprof.causes.habits.unsteady_delay import FINE_SPEEDS, find_motion, find_ways
from mpiprof.trace.types import Float

STEPS = 60
SURE = 0.0005  # for two ranks, which are tested both


def correlated(kept: float, count: int, length: int) -> Float:
    """Return rows of values that keep a share of their predecessor."""
    return planted.correlate(np.random.default_rng(5), length, count, kept).T


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


@pytest.mark.heavy
def test_a_constant_delay_under_heavy_tails_is_significant() -> None:
    """60 delays of twice the noise's unit, with the difference of two Pareto variables as noise."""
    random = np.random.default_rng(4)
    noise = random.pareto(1.5, (100, 60)) - random.pareto(1.5, (100, 60))
    assert (p_above(noise + 2) < SURE).mean() > 0.9
    assert (p_above(noise) < SURE).mean() < 0.02


@pytest.mark.heavy
def test_a_delay_far_beyond_slow_fluctuations_is_significant() -> None:
    """The fluctuations keep 90 % from step to step, and are a tenth of the delay."""
    assert (p_above(correlated(0.9, 100, 200) + 10) < SURE).mean() > 0.9


@pytest.mark.heavy
@pytest.mark.parametrize(("kept", "most"), [(0.5, 0.01), (0.8, 0.01), (0.9, 0.02), (0.99, 0.05)])
@pytest.mark.parametrize("length", [30, 60, 200])
def test_slow_fluctuations_alone_are_rarely_significant(
    kept: float, most: float, length: int
) -> None:
    assert (p_above(correlated(kept, 100, length)) < SURE).mean() <= most


@pytest.mark.heavy
def test_the_highest_stretch_of_slow_fluctuations_is_not_significant() -> None:
    """The best of all divisions in three is taken, as a search for phases does."""
    accused = 0
    for values in correlated(0.99, 40, 48):
        cuts = [(a, b) for a in range(8, 33, 4) for b in range(a + 8, 41, 4)]
        a, b = max(cuts, key=lambda cut: values[cut[0] : cut[1]].mean())
        accused += p_of_levels(values, [a, b])[1] < SURE
    assert accused <= 1


@pytest.mark.heavy
def test_a_level_of_a_step_is_significant() -> None:
    noise = np.random.default_rng(6).normal(0, 1, (50, 48))
    found = sum(p_of_levels(row + 8 * (np.arange(48) >= 36), [36])[1] < SURE for row in noise)
    assert found >= 48


def test_two_ranks_that_take_turns_irregularly_have_no_order() -> None:
    """The next of two ranks is always the other one, so only the time of the change may be due."""
    lengths = [13, 5, 9, 30, 4, 21, 7, 11]
    last = np.repeat([3, 7] * 4, lengths)
    columns = np.arange(len(last))
    work_ns = np.random.default_rng(3).normal(MS, MS / 50, (8, len(last)))
    work_ns[last, columns] += MS
    assert all(way.p > MAX_P for way in find_ways(work_ns, columns, np.ones(len(last)), 1.0))


@pytest.mark.parametrize("kind", ["normal", "pareto", "correlated 0.9", "correlated 0.99", "node"])
def test_a_delay_that_moves_is_not_found_in_noise(kind: str) -> None:
    for seed in range(30):
        ranks = (4, 8, 16)[seed % 3]
        noise = planted.make_noise(kind, (150, 1, ranks), seed, nodes=ranks // 4)
        work_ns = noise[:, 0].T * MS
        ways = find_ways(work_ns, np.arange(150), np.ptp(work_ns, axis=0), 1.0)
        assert all(way.p > MAX_P for way in ways)


@pytest.mark.parametrize("seed", range(8))
def test_the_speed_of_a_front_is_that_of_the_largest_sum(seed: int) -> None:
    """Compare with one sum over all instances for each speed."""
    random = np.random.default_rng(seed)
    rows, count = int(random.integers(4, 20)), int(random.integers(24, 200))
    number = (
        np.sort(random.choice(2 * count, count, replace=False)) if seed % 2 else np.arange(count)
    )
    late = random.standard_exponential((rows, count))
    since = number - number[0]
    fine = FINE_SPEEDS * (int(since[-1]) + 1) // 2
    speeds = np.arange(-fine, fine + 1) / (2 * fine) * rows
    turn = 2j * np.pi / rows
    harmonic = np.exp(turn * np.arange(rows)) @ late
    sums = np.exp(-turn * speeds[:, None] * since) @ harmonic
    best = int(np.argmax(np.abs(sums)))
    expected = np.angle(sums[best]) * rows / (2 * np.pi) + speeds[best] * since
    speed, centre = find_motion(late, number)
    assert speed == pytest.approx(float(speeds[best]), abs=1e-9)
    distance = np.mod(centre - expected + rows / 2, rows) - rows / 2
    assert np.abs(distance).max() < 1e-6


def test_ranks_without_work_in_the_columns_are_not_compared() -> None:
    random = np.random.default_rng(1)
    work_ns = 1e6 + 1e4 * random.standard_normal((6, 40))
    work_ns[1] += 1e6 * random.exponential(1.0, 40)
    work_ns[4] = np.nan
    assert varies(work_ns, np.array([1]))
    assert not varies(work_ns, np.array([2]))
    assert not varies(work_ns[[1]], np.array([0]))


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
def test_p_values_of_a_mean_are_calibrated(kept: float) -> None:
    p = p_above_zero(correlated(kept, 2000, 400))
    assert (p < 0.01).mean() < 0.02
    assert (p < 0.1).mean() < 0.12
    shifted = np.random.default_rng(5).normal(0.7, 1, (200, 100))
    assert (p_above_zero(shifted) < 0.01).mean() > 0.9


def test_the_persistence_ratio_separates_slow_fluctuations_from_a_step() -> None:
    random = np.random.default_rng(7)
    assert persistence_ratio(random.normal(0, 1, 4000)) < 1.6
    assert persistence_ratio(correlated(0.9, 1, 4000)[0]) > 20
    step = random.normal(0, 1, 400)
    step[150:] += 4
    assert persistence_ratio(step) < 6


@pytest.mark.parametrize("count", [3, 4000])
def test_levels_that_the_values_do_not_show_are_not_significant(count: int) -> None:
    """Means of stretches of a long series have no value for a level of one value."""
    values = np.random.default_rng(1).normal(size=count)
    edges = [count // 2, count // 2 + 1, count // 2 + 2]
    edges = edges if count > 3 else [1, 2]
    assert p_of_levels(values, edges).tolist() == [1.0] * (len(edges) + 1)
