"""Delays of a run that does not fit in memory, from one window of it after the other.

The windows are independent (metrics/run_windows.py), so sums over them are those of the run, and
the workers of a data set can analyse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from mpiprof.account.delay_costs import DELAY_SUMS, make_delay_table
from mpiprof.diagnosis.blamed_work import find_blamed_work
from mpiprof.diagnosis.chosen_waits import choose_window_waits
from mpiprof.diagnosis.delay_summary import WindowSummary, summarise_waits
from mpiprof.diagnosis.finding import Finding
from mpiprof.diagnosis.window_map import Derived, map_windows
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.instance_rows import CallsiteKey
from mpiprof.metrics.message_callsite_sums import find_located_waits, sum_located_waits
from mpiprof.trace.time_window import TraceWindow
from mpiprof.trace.trace import Trace

MAX_BLAMED = 1 << 18  # intervals of work in a window, the costliest ones, that are blamed


@dataclass(frozen=True)
class WindowDelays:
    """Delays of a window. table: as Trace.delays. waits: as sum_located_waits."""

    table: pd.DataFrame
    waits: pd.DataFrame
    summary: WindowSummary


def find_window_delays(trace: Trace, derived: Derived) -> list[WindowDelays]:
    """Return the delays of each window of a run; derived: functions of the tables of a trace."""
    return map_windows(trace, derived, partial(_analyse_window, numbers=trace.aggregate[1]))


def _analyse_window(window: TraceWindow, numbers: dict[CallsiteKey, int]) -> WindowDelays:
    """Return the delays of a window; numbers: of the call sites in the run."""
    waits = sum_located_waits(find_located_waits(window))
    summary = summarise_waits(choose_window_waits(window, numbers))
    return WindowDelays(window.delays, waits, summary)


def make_run_delay_table(trace: Trace) -> pd.DataFrame:
    """Return the table of delays of a run as delay_costs.make_delay_table does."""
    if fits_in_memory(trace):
        return make_delay_table(trace)
    tables = [of.table for of in trace.derive("window_delays")]
    joined = pd.concat(tables).groupby(["rank", "before_id", "after_id"], as_index=False)
    table: pd.DataFrame = joined[list(DELAY_SUMS)].sum()
    return table.sort_values("cost_ns", ascending=False, kind="stable", ignore_index=True)


def make_run_blamed_work(trace: Trace) -> pd.DataFrame:
    """Return the work that the findings of a run blame, as blamed_work.find_blamed_work does."""
    findings: list[Finding] = trace.derive("findings")
    if trace.record == "summary" or fits_in_memory(trace):
        return find_blamed_work(trace, findings)
    tables = trace.derive("in_windows")(partial(_blame_work, findings=findings))
    work: pd.DataFrame = pd.concat(tables).sort_values("begin_ns", kind="stable", ignore_index=True)
    return work


def join_window_waits(trace: Trace) -> pd.DataFrame:
    """Return the sums of the waits for messages in each window, one table after the other."""
    windows: list[WindowDelays] = trace.derive("window_delays")
    return pd.concat([of.waits for of in windows], ignore_index=True)


def _blame_work(window: TraceWindow, findings: Sequence[Finding]) -> pd.DataFrame:
    """Return the costliest work in a window that the findings of a run blame."""
    blamed = find_blamed_work(window, findings)
    return blamed if len(blamed) <= MAX_BLAMED else blamed.nlargest(MAX_BLAMED, "cost_ns")
