"""Change of the run time between two groups of runs, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.diagnosis.run_variation import compare_run_times
from mpiprof.trace import Trace


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


def list_unended(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces of runs that did not end, whose run time is unknown."""
    return [trace for trace in traces if not trace.is_finalised]


def measure_run_times(before: Sequence[Trace], after: Sequence[Trace]) -> RunTimeChange | None:
    """Return the change of the run time; None if a run did not end."""
    if list_unended([*before, *after]):
        return None
    first, other = (np.array([t.run_ns for t in side], np.float64) for side in (before, after))
    comparison = compare_run_times(first, other)
    means = float(first.mean()), float(other.mean())
    return RunTimeChange(*means, comparison.interval_ns, max(len(before), len(after)) == 1)
