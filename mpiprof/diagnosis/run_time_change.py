"""Change of the run time between two groups of runs, with its interval.

The interval of single runs contains the noise within them. Both runs are divided into equally many
stretches of steps, and the variance of their differences is that of the change. A course that both
runs share, such as phases of the program, cancels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.compare import MIN_STRETCHES
from mpiprof.diagnosis.run_variation import STRETCHES, change_variance, compare_run_times
from mpiprof.trace import Trace
from mpiprof.trace.types import Float


@dataclass(frozen=True)
class RunTimeChange:
    """Mean run times of two groups of runs, and half the width of the 95 % interval of the change.

    is_assumed: both groups have a single run, so the variation between runs is assumed.
    """

    before_ns: float
    after_ns: float
    interval_ns: float
    is_assumed: bool

    @property
    def change_ns(self) -> float:
        """Time added, negative if saved."""
        return self.after_ns - self.before_ns

    @property
    def is_certain(self) -> bool:
        """Return whether the run times differ by more than chance (95 %)."""
        return abs(self.change_ns) > self.interval_ns

    @property
    def is_vague(self) -> bool:
        """Return whether the interval is wider than the run time itself."""
        return self.interval_ns >= self.before_ns


def list_unended(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces of runs that did not end, whose run time is unknown."""
    return [trace for trace in traces if not trace.is_finalised]


def measure_run_times(before: Sequence[Trace], after: Sequence[Trace]) -> RunTimeChange | None:
    """Return the change of the run time; None if a run did not end."""
    if list_unended([*before, *after]):
        return None
    first, other = (np.array([t.run_ns for t in side], np.float64) for side in (before, after))
    is_assumed = max(len(before), len(after)) == 1
    noise = list(_find_noise(before[0], after[0])) if is_assumed else []
    comparison = compare_run_times(first, other, noise)
    means = float(first.mean()), float(other.mean())
    return RunTimeChange(*means, comparison.interval_ns, is_assumed)


def _find_noise(first: Trace, other: Trace) -> Iterator[tuple[float, float]]:
    """Yield variances of the difference of two run times, with their degrees of freedom.

    The time in MPI_Finalize itself is not that of the program, so its difference is noise.
    """
    if "summary" in (first.record, other.record):
        return
    yield (_finalize_time(other) - _finalize_time(first)) ** 2, np.inf
    busiest = [_find_busiest(trace) for trace in (first, other)]
    count = min(STRETCHES, *(len(series) - 1 for series in busiest))
    if count >= MIN_STRETCHES:
        before, after = (_stretch_lengths(series, count) for series in busiest)
        yield change_variance(before, after)


def _finalize_time(trace: Trace) -> float:
    """Return the mean time of a rank in MPI_Finalize without waiting, in ns."""
    rows = trace.callsites[trace.callsites["operation"] == "finalize"]
    busy: float = (rows["total_elapsed_ns"] - rows["total_wait_ns"]).sum()
    return max(busy, 0.0) / trace.ranks


def _find_busiest(trace: Trace) -> pd.DataFrame:
    """Return the series of the call site with most instances, empty if there is none."""
    if not len(trace.callsites):
        return pd.DataFrame()
    every: dict[int, pd.DataFrame] = trace.series(tuple(range(len(trace.callsites))))
    return max(every.values(), key=len)


def _stretch_lengths(series: Any, count: int) -> Float:
    """Return the lengths in ns of stretches with equal numbers of instances."""
    number = series["number"].to_numpy(np.float64)
    edges = np.linspace(number[0], number[-1], count + 1)
    return np.diff(np.interp(edges, number, series["first_arrival_ns"].to_numpy(np.float64)))
