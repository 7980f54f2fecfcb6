"""Work by which the ranks of findings delay other ranks, as spans of time to mark in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.delay_costs import Delays
from mpiprof.causes.delay_matrix import group_medians
from mpiprof.causes.finding import Finding, HabitEvidence, names_late_ranks
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float

MAX_BLAMED = 1 << 18  # intervals of work in a window, the costliest ones, that are blamed
MIN_LATE_SHARE = 0.25  # of the usual delay of a finding, from which work is marked
COLUMNS = {**{"finding": "i8", "rank": "i8", "begin_ns": "i8", "end_ns": "i8"}, "cost_ns": "f8"}


def make_blamed_work(trace: Trace) -> pd.DataFrame:
    """Return the work that the findings of a run blame, as find_blamed_work does."""
    findings: list[Finding] = trace.derive("findings")
    if trace.record == "summary" or fits_in_memory(trace):
        return find_blamed_work(trace, findings)
    tables = trace.derive("in_windows")(partial(_blame_window, findings=findings))
    work: pd.DataFrame = pd.concat(tables).sort_values("begin_ns", kind="stable", ignore_index=True)
    return work


def _blame_window(window: TraceWindow, findings: Sequence[Finding]) -> pd.DataFrame:
    """Return the costliest work in a window that the findings of a run blame."""
    blamed = find_blamed_work(window, findings)
    return blamed if len(blamed) <= MAX_BLAMED else blamed.nlargest(MAX_BLAMED, "cost_ns")


def find_blamed_work(trace: Trace, findings: Sequence[Finding]) -> pd.DataFrame:
    """Return the excess work of the ranks that findings blame, by begin.

    finding (index into `findings`), rank, begin_ns and end_ns (the time beyond the usual length of
    the work, at its end), cost_ns (waiting of all ranks that the work causes). An interval counts
    once, for the first finding that blames it.
    """
    blaming = [(at, finding) for at, finding in enumerate(findings) if names_late_ranks(finding)]
    if trace.record == "summary" or not blaming:
        return pd.DataFrame({name: np.zeros(0, dtype) for name, dtype in COLUMNS.items()})
    delays: Delays = trace.derive("delays_found")
    intervals, cost_ns = delays.intervals, delays.costs.interval_ns
    number = np.full(len(intervals.rank), -1, np.int64)
    excess = np.zeros(len(intervals.rank))
    for at, finding in blaming:
        excess_of = _find_excess(delays, finding)
        late_ns = finding.habit.late_ns if isinstance(finding.evidence, HabitEvidence) else 0.0
        min_excess_ns = max(MIN_LATE_SHARE * late_ns, 1.0)
        is_blamed = (
            np.isin(intervals.rank, finding.ranks) & (cost_ns > 0) & (excess_of >= min_excess_ns)
        )
        is_blamed &= number < 0
        number[is_blamed], excess[is_blamed] = at, excess_of[is_blamed]
    chosen = np.flatnonzero(number >= 0)
    chosen = chosen[np.argsort(intervals.end_ns[chosen] - excess[chosen], kind="stable")]
    columns = {
        "finding": number[chosen],
        "rank": intervals.rank[chosen].astype(np.int64),
        "begin_ns": intervals.end_ns[chosen] - excess[chosen].astype(np.int64),
        "end_ns": intervals.end_ns[chosen].astype(np.int64),
        "cost_ns": cost_ns[chosen],
    }
    return pd.DataFrame(columns)


def _find_excess(delays: Delays, finding: Finding) -> Float:
    """Return the length of each interval beyond the median of the ranks that are not blamed.

    If a finding blames all ranks, each of them is compared with all.
    """
    intervals = delays.intervals
    length = (intervals.end_ns - intervals.begin_ns).astype(np.float64)
    is_other_rank = ~np.isin(intervals.rank, finding.ranks)
    usual = group_medians(
        intervals.key, length, is_other_rank if is_other_rank.any() else ~is_other_rank
    )
    return np.maximum(length - usual, 0.0)
