"""Phases and periods of a call site: lasting changes of its imbalance or of its last rank."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.callsite_sums import most_frequent
from mpiprof.causes.habits.series import (
    Period,
    find_best_cut,
    find_class_means,
    find_period,
    find_running_mean,
    find_running_median,
    segment_columns,
)
from mpiprof.causes.habits.significance import persistence_ratio
from mpiprof.causes.sampling import take_sample
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

BINS = 2048  # bounds the segmentation, which takes quadratic time at worst
MIN_LENGTH = 4  # instances; a shorter stretch is an outlier
MIN_RATIO = 1.25  # of neighbouring phases' imbalances, if the last ranks are equal
MIN_SHARE = 0.3  # minimum change of a rank's share of being last between neighbouring phases
MIN_SIGNAL_NOISE = 0.05  # minimum noise of the logarithm; changes below 5 % are irrelevant
MIN_SHARE_NOISE = 0.35  # noise of the indicator that a rank is last, after the running median
MAX_RANKS = 4  # number of most frequent last ranks for which this share is tracked


COLUMNS = (
    *("phase", "first_instance", "last_instance", "begin_ns", "end_ns", "instances"),
    *("average_imbalance_ns", "worst_imbalance_ns", "worst_factor", "wait_ns", "total_wait_ns"),
    *("latest_rank", "latest_share", "algorithm"),
    *("period", "period_offset", "period_worst_imbalance_ns"),
)


def find_phases(trace: Trace, callsite: int) -> pd.DataFrame:
    """Return one row per phase, in order.

    phase, first_instance and last_instance (numbers within the call site, by first arrival),
    begin_ns, end_ns (first arrivals of these), instances; average_imbalance_ns, worst_imbalance_ns,
    worst_factor, wait_ns (means), total_wait_ns, latest_rank (NA if unknown), latest_share,
    algorithm; period (0, or n if every n-th instance differs), period_offset (number % period of
    these instances), period_worst_imbalance_ns (their mean). For a call site with more than
    MAX_INSTANCES instances (account/instance_series.py) the figures are from the thinned series.
    """
    series = take_sample(trace, callsite).series
    spread = series["worst_imbalance_ns"].to_numpy(np.float64)
    known_rows = np.flatnonzero(~np.isnan(spread))
    number = series["number"].to_numpy(np.int64)
    # Differences below the clock error or below one microsecond are not significant.
    signal = np.log(np.maximum(spread[known_rows], max(trace.clock_error_ns, 1_000)))
    last = np.where(
        spread[known_rows] > trace.clock_error_ns,
        series["last_rank"].to_numpy(np.int64)[known_rows],
        -1,
    )
    period, edges = find_edges(signal, number[known_rows], last)
    bounds = [0, *known_rows[edges].tolist(), len(series)]
    skipped = (np.ptp(number) + 1) / len(series) if len(series) else 1.0
    rows = [
        _make_row(series.iloc[a:b], i, period, trace.clock_error_ns, skipped)
        for i, (a, b) in enumerate(itertools.pairwise(bounds))
        if a < b
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"latest_rank": "Int64"})


def _make_row(
    part: pd.DataFrame, phase: int, period: Period | None, min_imbalance_ns: int, skipped: float
) -> dict[str, object]:
    number = part["number"].to_numpy(np.int64)
    late = part["last_rank"][
        (part["worst_imbalance_ns"] > min_imbalance_ns) & (part["last_rank"] >= 0)
    ]
    counts: dict[Any, int] = late.value_counts().to_dict()
    latest, times_latest = most_frequent(counts)
    complete = int(part["worst_imbalance_ns"].notna().sum())
    means = part[["average_imbalance_ns", "worst_imbalance_ns", "worst_factor", "wait_ns"]].mean()
    special = number % period.length == period.offset if period else np.zeros(len(part), np.bool_)
    return {
        "phase": phase,
        "first_instance": int(number[0]),
        "last_instance": int(number[-1]),
        "begin_ns": int(part["first_arrival_ns"].iloc[0]),
        "end_ns": int(part["first_arrival_ns"].iloc[-1]),
        "instances": int(number[-1] - number[0] + 1),
        **{str(name): float(value) for name, value in means.items()},
        "total_wait_ns": float(part["wait_ns"].sum()) * skipped,
        "latest_rank": latest,
        "latest_share": times_latest / complete if times_latest and complete else np.nan,
        "algorithm": "+".join(
            sorted({n for a in part["algorithm"].unique() for n in a.split("+")})
        ),
        "period": period.length if period else 0,
        "period_offset": period.offset if period else 0,
        "period_worst_imbalance_ns": float(part["worst_imbalance_ns"][special].mean()),
    }


def find_edges(signal: Float, number: Int, last: Int) -> tuple[Period | None, Int]:
    """Return the period of a signal, and the change points without its periodic component."""
    period = find_period(signal, number)
    if period is not None:
        class_of = number % period.length
        trend = find_running_mean(signal, 2 * period.length + 1)
        means = find_class_means(signal - trend, class_of, period.length)
        signal = np.asarray(signal - (means - np.median(means))[class_of])
    return period, find_change_points(signal, last)


def find_change_points(signal: Float, last: Int) -> Int:
    """Return the indices at which a new phase begins.

    signal: logarithm of the imbalance. last: last rank, -1 if unknown. Running medians remove
    single outliers. The constants above define the minimum difference of neighbouring phases.
    Persistent fluctuations, as of wandering ranks, count as noise (`persistence_ratio` in
    causes/habits/significance.py).
    """
    count = len(signal)
    if count < 2 * MIN_LENGTH:
        return np.zeros(0, np.int64)
    columns = np.stack([signal, *_last_rank_indicators(last)], 1)
    smooth = find_running_median(columns, 5, "edge")
    lasting = np.array([persistence_ratio(column) for column in np.ascontiguousarray(columns.T)])
    scale = _estimate_noise(columns) * np.sqrt(lasting)
    width = -(-count // BINS)
    starts = np.arange(0, count, width)
    binned = np.add.reduceat(smooth / scale, starts) / np.diff([*starts, count])[:, None]
    binned *= np.sqrt(width)
    penalty = 3.0 * (columns.shape[1] + 1) * np.log(len(binned))
    shortest = max(-(-MIN_LENGTH // width), 2)
    if len(binned) < 2 * shortest:
        return np.zeros(0, np.int64)
    edges = starts[segment_columns(binned, penalty, shortest)].tolist()
    exact = [_refine_edge(columns / scale, edge, width) for edge in edges]
    return np.array(_merge_phases(columns, exact, lasting), np.int64)


def _last_rank_indicators(last: Int) -> list[Float]:
    """Return an indicator column for each of the ranks that are last most often."""
    ranks, counts = np.unique(last[last >= 0], return_counts=True)
    often = ranks[np.argsort(-counts, kind="stable")][:MAX_RANKS]
    return [
        (last == rank).astype(np.float64)
        for rank in often
        if MIN_SHARE / 2 < (last == rank).mean() < 1
    ]


def _estimate_noise(columns: Float) -> Float:
    """Return the noise of each column from one instance to the next, with a lower limit.

    The noise of the indicator columns is a constant, because their own changes differ from phase to
    phase, down to none.
    """
    steps = np.abs(np.diff(columns[:, 0]))
    signal = float(np.median(steps)) / (0.6745 * np.sqrt(2))  # the median ignores outliers
    return np.array([max(signal, MIN_SIGNAL_NOISE), *[MIN_SHARE_NOISE] * (columns.shape[1] - 1)])


def _refine_edge(columns: Float, edge: int, width: int) -> int:
    """Return the row near an edge where a step fits best."""
    reach = max(MIN_LENGTH, 2 * width)
    low, high = max(edge - reach, 0), min(edge + reach, len(columns))
    return low + find_best_cut(columns[low:high])


def _merge_phases(columns: Float, edges: list[int], lasting: Float) -> list[int]:
    """Remove edges between phases that hardly differ, the smallest difference first."""
    sure = np.sqrt(2 * np.log(len(columns))) + 2  # deviations that chance never reaches
    bounds = [0, *sorted(set(edges)), len(columns)]
    stretches = _RunningSums(columns)

    def at(edge: int) -> float:
        begin, middle, end = bounds[edge : edge + 3]
        return _difference(stretches, begin, middle, end, sure, lasting)

    apart = [at(edge) for edge in range(len(bounds) - 2)]
    while apart:
        nearest = int(np.argmin(apart))
        if apart[nearest] >= 1:
            break
        del bounds[nearest + 1], apart[nearest]
        for edge in range(
            max(nearest - 1, 0), min(nearest + 1, len(apart))
        ):  # others are unchanged
            apart[edge] = at(edge)
    return bounds[1:-1]


class _RunningSums:
    """Means of columns, and variance of the first column, over any stretch, by running sums."""

    def __init__(self, columns: Float) -> None:
        self.signal, self.centre = columns[:, 0], columns.mean(0)
        centred = columns - self.centre
        centred = np.hstack([centred, centred[:, :1] ** 2])
        self.sums = np.vstack([np.zeros(centred.shape[1]), np.cumsum(centred, axis=0)])

    def mean_and_variance(self, begin: int, end: int) -> tuple[Float, float]:
        """Return the mean of each column, and the variance of the first column."""
        means = (self.sums[end] - self.sums[begin]) / (end - begin)
        return self.centre + means[:-1], max(float(means[-1] - means[0] ** 2), 0.0)


def _difference(
    stretches: _RunningSums, begin: int, middle: int, end: int, sure: float, lasting: Float
) -> float:
    """Return the difference of two stretches; from 1 on they are separate phases.

    In at least one column the difference must be both relevant and significant.
    """
    before, after = middle - begin, end - middle
    if min(before, after) < MIN_LENGTH:
        return 0.0
    (a, a_variance), (b, b_variance) = (
        stretches.mean_and_variance(begin, middle),
        stretches.mean_and_variance(middle, end),
    )
    inverse_lengths = 1 / before + 1 / after
    spread = a_variance / before + b_variance / after
    share = (a[1:] * before + b[1:] * after) / (before + after)
    variances = lasting * [
        max(spread, MIN_SIGNAL_NOISE**2 * inverse_lengths),
        *(share * (1 - share) * inverse_lengths),
    ]
    chance = np.abs(b - a) / (sure * np.sqrt(np.maximum(variances, 1e-9)))
    shares = np.minimum(np.abs(b[1:] - a[1:]) / MIN_SHARE, chance[1:]).max(initial=0.0)
    if chance[0] <= shares:  # saves computing the medians
        return float(shares)
    signal = stretches.signal
    ratio = abs(float(np.median(signal[middle:end]) - np.median(signal[begin:middle])))
    return float(max(min(ratio / np.log(MIN_RATIO), chance[0]), shares))
