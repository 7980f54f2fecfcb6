"""Variation between runs of an unchanged program, estimated from a single run of each side.

A single run shows how certain its own means are, but not how far another run would be. Two parts
are added up:

- Noise: the variance of the run's mean. Disturbances last, so the variance of means falls more
  slowly with their length than for independent values. Its decrease between short and long
  stretches is extrapolated to the whole run (variance-time method: Leland et al. 1994).
- Variation between runs, in all times of a run together or in the own time of each rank; the larger
  effect counts. Repeated runs differ by some percent (Hoefler and Belli 2015; Kalibera and Jones
  2013 recommend to repeat runs for this reason), which a single run cannot show. RUN_VARIATION is
  assumed. The own times of the ranks of one run differ at least by their variation between runs.
  So if their spread is smaller, it is used for the ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.causes.habits.significance import MAD_SCALE, neighbour_correlation, stretch_means
from mpiprof.trace.types import Bool, Float

STRETCHES = 32
LONG_STRETCHES = 8
# Assumed relative standard deviation between runs. For programs that vary by 1 to 4 %, it keeps
# false differences below 5 % and finds nine of ten changes of 15 %.
RUN_VARIATION = 0.022
MIN_RANKS = 4  # fewer ranks have no robust spread
MAD_EFFICIENCY = 0.37  # of the median absolute deviation, relative to the standard deviation
# Share of unchanged pairs beyond the usual difference. The other half of the errors (5 % in all)
# is for tests of single call sites.
UNUSUAL = 0.025
POWER = 0.9
CONFIDENCE = 0.95
MAX_REPETITIONS = 100
MANY = 1e6  # degrees of freedom of a normal distribution


@dataclass(frozen=True)
class RunSite:
    """A call site in one run.

    stretches: means of consecutive stretches, by metric. ranks: size of its communicator.
    arrivals_ns: mean arrival of each rank, for each communicator. own_ns: mean own time of a rank
    before the call.
    """

    stretches: Mapping[str, Float]
    ranks: int
    arrivals_ns: Sequence[Float]
    own_ns: float

    def own_times(self) -> list[Float]:
        """Return the own time of each rank before the call, for each communicator, in ns.

        Assumes that the ranks of a communicator begin together.
        """
        return [
            np.maximum(self.own_ns + arrivals_ns - arrivals_ns.mean(), 0.0)
            for arrivals_ns in self.arrivals_ns
        ]


@dataclass(frozen=True)
class Comparison:
    """Result of a test: p-value of a difference, and the difference that is usual, in ns.

    An unchanged program exceeds the usual difference with the probability UNUSUAL. interval_ns is
    half the width of the interval around the difference, at the level CONFIDENCE.
    """

    p: float
    usual_ns: float
    interval_ns: float


UNTESTED = Comparison(math.nan, math.nan, math.nan)


def compare_runs(first: RunSite, other_run: RunSite, metric: str) -> Comparison:
    """Return whether a metric differs by more than two runs of one program usually do."""
    runs = first, other_run
    means = [float(run.stretches[metric].mean()) for run in runs]
    noise = [mean_variance(run.stretches[metric]) for run in runs]
    # One variation either concerns all ranks together or each rank by itself, so only the larger
    # effect counts.
    common_variance = RUN_VARIATION**2 * (means[0] ** 2 + means[1] ** 2)
    parts = [*noise, (max(_rank_variance(runs, metric), common_variance), math.inf)]
    return _student_comparison(means[1] - means[0], parts)


def compare_run_means(first: Float, other_runs: Float) -> Comparison:
    """Compare means of runs by Welch's test, or by Student's test if one side has a single run."""
    if min(len(first), len(other_runs)) == 1:
        # A single run shows no variation, so that of the other side is used.
        several = max(first, other_runs, key=len)
        parts = [(float(several.var(ddof=1)) * (1 + 1 / len(several)), len(several) - 1.0)]
    else:
        parts = [(float(x.var(ddof=1)) / len(x), len(x) - 1.0) for x in (first, other_runs)]
    return _student_comparison(float(other_runs.mean() - first.mean()), parts)


def compare_run_times(
    first: Float, other_runs: Float, noise: Sequence[tuple[float, float]] = ()
) -> Comparison:
    """Compare run times of two groups of runs; between single runs RUN_VARIATION is assumed.

    noise: variances of the difference of two single runs from within them, with their degrees of
    freedom.
    """
    if max(len(first), len(other_runs)) > 1:
        return compare_run_means(first, other_runs)
    variance = RUN_VARIATION**2 * float(first[0] ** 2 + other_runs[0] ** 2)
    return _student_comparison(float(other_runs[0] - first[0]), [(variance, math.inf), *noise])


def mean_interval(values: Float) -> float:
    """Return half the width of the interval of a mean at the level CONFIDENCE; NaN for 1 value."""
    from scipy import special

    count = len(values)
    if count < 2:
        return math.nan
    error = float(values.std(ddof=1)) / math.sqrt(count)
    return float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error


def _student_comparison(difference: float, parts: Sequence[tuple[float, float]]) -> Comparison:
    """Return the test of a difference; parts: variances and their degrees of freedom."""
    from scipy import special

    variance = sum(part for part, _ in parts)
    if variance == 0:  # the test statistic is undefined here
        return Comparison(float(difference == 0), 0.0, 0.0)
    inverse = sum(part**2 / freedom for part, freedom in parts if part > 0)
    freedom = variance**2 / inverse if inverse > 0 else MANY  # Welch and Satterthwaite
    error = math.sqrt(variance)
    p = 2 * float(special.stdtr(freedom, -abs(difference) / error))
    half_width = float(special.stdtrit(min(freedom, MANY), (1 + CONFIDENCE) / 2)) * error
    return Comparison(p, usual_quantile(freedom) * error, half_width)


def usual_quantile(freedom: float) -> float:
    """Return the usual difference of two runs as a multiple of its standard error."""
    from scipy import special

    return float(special.stdtrit(min(freedom, MANY), 1 - UNUSUAL / 2))


def mean_variance(stretches: Float) -> tuple[float, float]:
    """Return the variance of the mean of a run, and its degrees of freedom.

    stretches: means of consecutive stretches of equal length.
    """
    count = len(stretches)
    short = float(stretches.var(ddof=1))
    independent = short / count
    if count < 2 * LONG_STRETCHES:
        return independent, count - 1.0
    correlation = float(neighbour_correlation(stretches[None, :])[0])
    short_error = independent * (1 + correlation) / (1 - correlation)
    long = float(stretch_means(stretches[None, :], LONG_STRETCHES)[0].var(ddof=1))
    decrease = 1.0
    if min(short, long) > 0:
        decrease = math.log(short / long) / math.log(count / LONG_STRETCHES)
    # Between independent values (1) and a level that never averages out (0).
    extrapolated = long / LONG_STRETCHES ** min(max(decrease, 0.0), 1.0)
    if extrapolated > short_error:
        return extrapolated, LONG_STRETCHES - 1.0
    return short_error, count - 1.0


def change_variance(before: Float, after: Float) -> tuple[float, float]:
    """Return the variance of the change between two runs from within them, and its freedom.

    before, after: lengths of equally many stretches. A change adds equal time to all stretches, or
    time in proportion to their lengths.
    """
    ratio = after.sum() / max(before.sum(), 1.0)
    variance, freedom = min(
        mean_variance(after - expected) for expected in (before, ratio * before)
    )
    return len(before) ** 2 * variance, freedom


def find_significant(p: Float, level: float) -> Bool:
    """Return which tests are significant at a level for all of them together (Holm).

    p: p-values in any shape, NaN without a test.
    """
    order = np.argsort(p, axis=None)
    tests = int((~np.isnan(p)).sum())
    limits = level / (tests - np.arange(tests))
    passed = np.flatnonzero(p.reshape(-1)[order[:tests]] > limits)
    significant = np.zeros(p.size, np.bool_)
    significant[order[: int(passed[0]) if len(passed) else tests]] = True
    return significant.reshape(p.shape)


def _rank_variance(runs: Sequence[RunSite], metric: str) -> float:
    """Return the variance of the difference of two runs that comes from their ranks, in ns^2."""
    if min(run.ranks for run in runs) < 2:
        return 0.0
    variation = find_rank_variation([run.own_times() for run in runs], runs[0].ranks)
    variance = 0.0
    for run in runs:
        work_ns = run.own_times()
        deviation = variation * max(
            (float(rank_work_ns.max()) for rank_work_ns in work_ns), default=run.own_ns
        )
        latest = _extreme_share(work_ns, deviation)
        if metric == "worst_imbalance_ns":
            first = _extreme_share([-rank_work_ns for rank_work_ns in work_ns], deviation)
            variance += deviation**2 * (latest + first)
        else:
            share = deviation**2 * (latest + 1 / run.ranks)
            variance += share * run.ranks**2 if metric == "wait_ns" else share
    return variance


def find_rank_variation(runs: Sequence[Sequence[Float]], ranks: int) -> float:
    """Return the relative standard deviation of a rank's own time between runs.

    runs: own times of the ranks of each run, for each communicator. ranks: of a communicator.
    """
    spreads = [spread for work_ns in runs if not math.isnan(spread := rank_spread(work_ns))]
    if not spreads:
        return RUN_VARIATION
    # The spread of few ranks is uncertain.
    freedom = max(len(spreads) * MAD_EFFICIENCY * (ranks - 1), 1.0)
    uncertain = usual_quantile(freedom) / usual_quantile(math.inf)
    return min(uncertain * math.sqrt(float(np.mean(np.square(spreads)))), RUN_VARIATION)


def _extreme_share(values: Sequence[Float], deviation: float) -> float:
    """Return the variance of the largest value, relative to the variance of a single value.

    The largest of several equal values varies less than a single value. The formula is within 7 %
    of the exact variances for 1 to 64 values.
    """
    near = [int((rank_values >= rank_values.max() - deviation).sum()) for rank_values in values]
    return 1 / (1 + 0.8 * math.log(float(np.mean(near)))) if near else 1.0


def mean_arrivals(totals: pd.DataFrame, scale: float) -> list[Float]:
    """Return the mean arrivals of the ranks at a call site, for each communicator, in ns.

    totals: rows of `Trace.rank_totals` of this call site. scale: instances per recorded instance.
    """
    return [
        (members["lateness_ns"] / members["instances"] / scale).to_numpy(np.float64)
        for _, members in totals[totals["instances"] > 0].groupby("communicator", sort=False)
    ]


def rank_spread(work_ns: Sequence[Float]) -> float:
    """Return the robust standard deviation of the ranks' own times, relative to their median.

    work_ns: for each communicator. NaN if none has MIN_RANKS.
    """
    deviations = [
        # The correction is for small samples (Croux and Rousseeuw 1992).
        np.abs(rank_work_ns / np.median(rank_work_ns) - 1)
        * len(rank_work_ns)
        / (len(rank_work_ns) - 0.8)
        for rank_work_ns in work_ns
        if len(rank_work_ns) >= MIN_RANKS and np.median(rank_work_ns) > 0
    ]
    return MAD_SCALE * float(np.median(np.concatenate(deviations))) if deviations else math.nan


def own_times(
    own_ns: float, series: Mapping[int, pd.DataFrame], calls: Mapping[int, float]
) -> dict[int, float]:
    """Return the mean own time of a rank before each call site, in ns.

    own_ns: own time of a rank in the run. It is divided among the call sites in proportion to the
    gaps before their instances. calls: calls of a rank at each call site.
    """
    numbers = np.repeat(list(series), [len(instances) for instances in series.values()])
    first = np.concatenate(
        [instances["first_arrival_ns"].to_numpy(np.float64) for instances in series.values()]
    )
    elapsed = np.concatenate(
        [instances["mean_elapsed_ns"].to_numpy(np.float64) for instances in series.values()]
    )
    order = np.argsort(first, kind="stable")
    first, ended = first[order], (first + np.nan_to_num(elapsed))[order]
    gaps = np.concatenate([[0.0], np.maximum(first[1:] - ended[:-1], 0.0)])[: len(first)]
    total_gap_ns = float(gaps.sum()) or 1.0
    return {
        number: own_ns
        * float(gaps[numbers[order] == number].sum())
        / total_gap_ns
        / max(calls[number], 1)
        for number in series
    }


def count_repetitions(deviation: float, change: float) -> int:
    """Return the runs of each side that detect a change with the probability POWER.

    deviation: standard deviation between runs, in the unit of `change`. The test is Student's at
    the level 1 - CONFIDENCE. Returns MAX_REPETITIONS + 1 if more are necessary.
    """
    from scipy import special

    for runs in range(2, MAX_REPETITIONS + 1):
        freedom = 2.0 * runs - 2
        quantiles = special.stdtrit(freedom, np.array([(1 + CONFIDENCE) / 2, POWER]))
        if float(quantiles.sum()) * deviation * math.sqrt(2 / runs) <= change:
            return runs
    return MAX_REPETITIONS + 1
