"""Waiting time of each call site in two groups of runs, as means of a run with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.compare import totals_by_run
from mpiprof.diagnosis.compare_verdict import judge_difference
from mpiprof.diagnosis.run_variation import mean_interval
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

# Totals over all ranks and instances, and the mean whose interval the comparison has.
WAITING = ("total_wait_ns", "wait_ns")
TIME = ("total_elapsed_ns", "mean_elapsed_ns")
ABSENT, UNKNOWN = (
    np.zeros(1),
    np.zeros(0),
)  # times of a call site that a run lacks, or does not know


@dataclass(frozen=True)
class SiteChange:
    """Time of a call site in a run, mean of the ranks and runs, before and after; in ns.

    before_half_ns, after_half_ns: half the width of the 95 % interval of the mean over runs, NaN
    for a single run. interval_ns: the same of the change. outcome: "changed" (by more than chance,
    as in the verdict), "chance", "untested", or "before" or "after" for a call site of one side.
    """

    row: Mapping[str, Any]
    before_ns: float
    before_half_ns: float
    after_ns: float
    after_half_ns: float
    interval_ns: float
    outcome: str

    @property
    def change_ns(self) -> float:
        """Time added, negative if saved."""
        return self.after_ns - self.before_ns


def measure_site_changes(
    table: pd.DataFrame,
    before: Sequence[Trace],
    after: Sequence[Trace],
    columns: tuple[str, str] = WAITING,
) -> list[SiteChange]:
    """Return the call sites of `compare.compare` for one other group, largest change first.

    columns: WAITING or TIME. Times are shares of a rank: totals over the ranks, divided by them.
    """
    total, mean = columns
    values = [
        (_rank_shares(totals_by_run(runs, total), runs), column)
        for runs, column in ((before, "callsite"), (after, "other_callsite"))
    ]
    changed = {id_of(c.row) for c in judge_difference(table).changed}
    changes = []
    rows: list[Any] = table.to_dict("records")
    for row in rows:
        # A total without a known mean, such as the waiting of a summary, is unknown.
        first, other = (
            of.get(int(row[column]), ABSENT) if row[column] < 0 or row[name] >= 0 else UNKNOWN
            for (of, column), name in zip(values, (mean, f"other_{mean}"), strict=True)
        )
        scale = _instances(row, total, mean) / max(before[0].ranks, 1)
        is_tested = not math.isnan(row[f"{mean}_p"])
        outcome = "chance" if is_tested else "untested"
        if row["callsite"] < 0 or row["other_callsite"] < 0:
            outcome = "after" if row["callsite"] < 0 else "before"
        elif id_of(row) in changed:
            outcome = "changed"
        changes.append(
            SiteChange(
                row,
                _mean(first), mean_interval(first),
                _mean(other), mean_interval(other),
                float(row[f"{mean}_interval"]) * scale,
                outcome,
            )
        )  # fmt: skip
    return sorted(changes, key=lambda change: -abs(np.nan_to_num(change.change_ns)))


def id_of(row: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of a call site in both traces."""
    return int(row["callsite"]), int(row["other_callsite"])


def _rank_shares(totals: Mapping[int, Float], runs: Sequence[Trace]) -> dict[int, Float]:
    # The totals of a call site lack the runs in which it is absent.
    ranks = float(np.mean([run.ranks for run in runs]))
    return {callsite: values / max(ranks, 1.0) for callsite, values in totals.items()}


def _instances(row: Mapping[str, Any], total: str, mean: str) -> float:
    """Return the factor between the mean of an instance or call, and the total of a run."""
    return float(row[total]) / float(row[mean]) if row[mean] > 0 else math.nan


def _mean(values: Float) -> float:
    """Return the mean over runs, NaN if the values of all runs are unknown, as in a summary."""
    return float(values.mean()) if len(values) else math.nan
