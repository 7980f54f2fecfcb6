"""History of a program: its runs in order of time, and the changes between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.causes.cause_changes import NO_CHANGES, LedgerChanges
from mpiprof.causes.change_points import ALPHA, ChangePoint, find_change_points
from mpiprof.errors import UsageError
from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.reports.run_summary import RunSummary


@dataclass(frozen=True)
class Metric:
    """A value of runs in which changes are searched."""

    name: str
    title: str
    unit: str = "share"

    def read(self, run: RunSummary) -> float:
        """Return the value of a run."""
        return float(getattr(run, self.name))

    def format(self, value: float) -> str:
        """Return a value with its unit."""
        return format_time(value * 1e9) if self.unit == "s" else format_share(value)


METRICS = (Metric("lost", "lost time"), Metric("run_s", "run time", "s"))


@dataclass(frozen=True)
class MetricChange:
    """A change of a metric before a run."""

    metric: Metric
    point: ChangePoint
    before: int  # number of runs up to the change before, or the first run
    after: int


@dataclass(frozen=True)
class History:
    """Comparable runs in order of time; `others`: (program, ranks) of the runs left out.

    ledgers: changes of work, of time in calls, and of causes with the newest change.
    """

    runs: list[RunSummary]
    changes: list[MetricChange]
    others: dict[tuple[str, int], int]
    ledgers: LedgerChanges = NO_CHANGES

    @property
    def title(self) -> str:
        """The program, its number of ranks, and the dates."""
        last = self.runs[-1]
        dates = list(dict.fromkeys(run.started[:10] for run in (self.runs[0], last)))
        count = f"{format_count(len(self.runs))} run{'s' * (len(self.runs) != 1)}"
        parts = [last.program, f"{format_count(last.ranks)} ranks", count, " to ".join(dates)]
        return " · ".join(part for part in parts if part)

    @property
    def medians(self) -> list[tuple[Metric, float]]:
        """The median of each metric over the runs in which it is known."""
        medians = []
        for metric in METRICS:
            values = [value for value in map(metric.read, self.runs) if not math.isnan(value)]
            if values:
                medians.append((metric, float(np.median(values))))
        return medians


def group_runs(
    runs: Sequence[RunSummary], program: str = "", ranks: int = 0
) -> tuple[list[RunSummary], dict[tuple[str, int], int]]:
    """Return the runs of a program and a number of ranks, and the counts of all other groups.

    Without a program or ranks, those of most runs are chosen. Raises UsageError if no run matches.
    """
    matching = [run for run in runs if program in ("", run.program)]
    if not matching:
        suggestion = suggest_names(program, dict.fromkeys(run.program for run in runs))
        raise UsageError(f"--program {program}: no such program; {suggestion}")
    matching = [run for run in matching if ranks in (0, run.ranks)]
    if not matching:
        raise UsageError(f"--ranks {ranks}: no such run; leave out --ranks")
    chosen = Counter((run.program, run.ranks) for run in reversed(matching)).most_common(1)[0][0]
    others = Counter((run.program, run.ranks) for run in runs)
    del others[chosen]
    return [run for run in matching if (run.program, run.ranks) == chosen], dict(others)


def make_history(
    runs: Sequence[RunSummary], others: dict[tuple[str, int], int] | None = None
) -> History:
    """Return the history of comparable runs, with the changes of all metrics in order."""
    changes = []
    for metric in METRICS:
        values = [metric.read(run) for run in runs]
        # All metrics together have the error rate ALPHA.
        points = find_change_points(values, ALPHA / len(METRICS))
        bounds = [0, *(point.index for point in points), len(runs)]
        changes += [
            MetricChange(metric, point, point.index - bounds[i], bounds[i + 2] - point.index)
            for i, point in enumerate(points)
        ]
    changes.sort(key=lambda change: (change.point.index, METRICS.index(change.metric)))
    return History(list(runs), changes, others or {})
