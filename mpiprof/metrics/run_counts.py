"""Counts of activities and intervals in a run, for the numbers of those in one window of it.

The n-th message of a channel follows the n-th activity of its sender at a call site, counted from
the start of the run (posting_times.py, short_receives.py). A pass over all windows counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

GROUP = ["rank", "is_call", "site"]  # of activities
SIDES = {"end": "after_site_id", "begin": "before_site_id"}  # of intervals beside calls


@dataclass(frozen=True)
class WindowCounts:
    """Counts in a window. activities: by GROUP. calls: of each side, by rank and site."""

    activities: pd.Series[int]
    calls: dict[str, pd.Series[int]]

    def take_none(self) -> WindowCounts:
        """Return counts of nothing."""
        return WindowCounts(self.activities[:0], {side: of[:0] for side, of in self.calls.items()})


@dataclass(frozen=True)
class RunCounts:
    """Counts before a window, and in the whole run."""

    before: WindowCounts
    total: WindowCounts

    def number_groups(self, groups: pd.DataFrame) -> pd.DataFrame:
        """Return the groups of activities of a window with `first` and `total` of the run."""
        keys = pd.MultiIndex.from_frame(groups[GROUP])
        before, total = (
            of.activities.reindex(keys, fill_value=0).to_numpy() for of in (self.before, self.total)
        )
        return groups.assign(first=groups["low"] - before, total=total)

    def find_calls(self, side: str, rank: int, site: int) -> tuple[int, int]:
        """Return the number of intervals beside the calls of a rank at a site: before, in total."""
        before, total = (
            int(of.calls[side].get((rank, site), 0)) for of in (self.before, self.total)
        )
        return before, total


def find_run_counts(_: Any) -> None:
    """Return no counts: a trace of a whole run has all activities."""


def count_groups(groups: pd.DataFrame, intervals: pd.DataFrame) -> WindowCounts:
    """Return the counts of a window; groups: of activities. intervals: as Trace.intervals."""
    calls = {side: intervals.groupby(["rank", site]).size() for side, site in SIDES.items()}
    return WindowCounts(groups.set_index(GROUP)["total"], calls)


def add_counts(windows: Sequence[WindowCounts]) -> WindowCounts:
    """Return the sum of the counts of some windows."""
    calls = {side: _add([of.calls[side] for of in windows]) for side in SIDES}
    return WindowCounts(_add([of.activities for of in windows]), calls)


def _add(counts: Sequence[pd.Series[int]]) -> pd.Series[int]:
    joined = pd.concat(counts)
    return joined.groupby(level=list(range(joined.index.nlevels))).sum()
