"""Tests and intervals of the analyses: equal to scipy.stats, which a report does not import."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mpiprof.account.variance_components import SIGNIFICANT, jackknife_estimate, nodes_differ
from mpiprof.causes.habits.significance import p_above_zero
from mpiprof.causes.habits.unsteady_delay import _find_chance_of_hits
from mpiprof.causes.run_variation import compare_run_means
from mpiprof.collectives.papers.harness.study import estimate_mean
from mpiprof.collectives.tune.result import interval_half_width


@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.5, 3.0])
def test_a_mean_above_zero_is_a_t_test(shift: float) -> None:
    """With at most five values the stretches are the values themselves."""
    values = np.random.default_rng(1).normal(shift, 1, (3, 5))
    expected = stats.ttest_1samp(values, 0, axis=1, alternative="greater").pvalue
    assert p_above_zero(values) == pytest.approx(expected, rel=1e-9)


def test_equal_values_and_single_values_have_a_p_value() -> None:
    values = np.array([[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0], [1.0, np.nan, np.nan]])
    assert p_above_zero(values).tolist() == [0, 1, 1]


def test_two_means_are_compared_by_welch() -> None:
    random = np.random.default_rng(2)
    a, b = random.normal(0, 1, 12), random.normal(1, 4, 20)
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert compare_run_means(a, b).p == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("apart", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_nodes_differ_as_in_an_analysis_of_variance(apart: float) -> None:
    """Values between -1 and 1 on each node are not drawn in."""
    groups = [np.linspace(-1, 1, 6), np.linspace(-1, 1, 6) + apart, np.linspace(-1, 1, 6)]
    expected = stats.f_oneway(*groups).pvalue < SIGNIFICANT
    assert nodes_differ(np.concatenate(groups), np.repeat(range(3), 6), -1.0) == expected


@pytest.mark.parametrize("hits", [0, 1, 5, 12])
def test_hits_of_a_moving_delay_are_binomial(hits: int) -> None:
    """Three of four ranks are last equally often, so that a hit by chance has p = 1/3."""
    last = np.arange(12) % 3
    due = np.where(np.arange(12) < hits, last, 3)
    expected = stats.binom.sf(hits - 1, 12, 1 / 3)
    assert _find_chance_of_hits(last == due, last, 4, 1) == pytest.approx(expected, rel=1e-9)


def test_intervals_of_a_mean() -> None:
    """The values 1 to 5: standard error sqrt(0.5), and t = 2.776 with four degrees of freedom."""
    values = np.arange(1.0, 6.0)
    low, high = stats.t.interval(0.95, 4, 3, stats.sem(values))
    mean = estimate_mean(values)
    assert (mean, mean.width / 2) == pytest.approx((3.0, 2.776445 * 0.5**0.5), rel=1e-6)
    (found,) = jackknife_estimate(values[:, None], lambda sums: sums / 5)
    # Without one value the means are 0.2 times 10 to 14.
    assert (found.value, found.high) == pytest.approx((3, 3 + 2.776445 * 0.32**0.5), rel=1e-6)
    assert estimate_mean(np.ones(1)) == 1.0 and estimate_mean(np.ones(1)).width == 0.0
    assert interval_half_width(values, np.ones(5), 1) == pytest.approx((high - low) / 2, rel=1e-9)
