"""Ranks that take turns on too few processors of their node, from the counters of intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

MIN_QUEUE_RATIO = 1.0  # time in the run queue over processor time
MIN_QUEUE_SHARE = 0.2  # of the intervals; ranks that mostly sleep lose little in the run queue


@dataclass(frozen=True)
class SharedProcessors:
    """Node on which ranks share processors.

    ranks and processors: their numbers. queue_ratio: time in the run queue over processor time,
    of all intervals between calls of these ranks. queue_share: the same over their length.
    """

    ranks: int
    processors: int
    queue_ratio: float
    queue_share: float

    @property
    def is_costly(self) -> bool:
        """Return whether ranks share processors and lose much time by it."""
        return (
            self.processors < self.ranks
            and self.queue_ratio >= MIN_QUEUE_RATIO
            and self.queue_share >= MIN_QUEUE_SHARE
        )


def find_shared_processors(
    intervals: pd.DataFrame, nodes: Mapping[int, str]
) -> SharedProcessors | None:
    """Return the node whose ranks wait longest for shared processors, or None without one.

    intervals: rows of `trace.intervals`. nodes: node of each rank. A node counts if its ranks used
    fewer processors than there are ranks, waited longer for a processor than they had one, and
    lost a notable share of their time by it.
    """
    known = (intervals["processor_ns"] >= 0) & (intervals["queue_ns"] >= 0)
    known &= (intervals["first_processor"] >= 0) & (intervals["last_processor"] >= 0)
    rows = intervals[known]
    found = [_count_processors(of_node) for _, of_node in rows.groupby(rows["rank"].map(nodes.get))]
    costly = (one for one in found if one.is_costly)
    return max(costly, key=lambda one: one.queue_ratio, default=None)


def _count_processors(rows: pd.DataFrame) -> SharedProcessors:
    used = np.union1d(rows["first_processor"], rows["last_processor"])
    queue_ns = float(rows["queue_ns"].sum())
    ratio = queue_ns / max(float(rows["processor_ns"].sum()), 1.0)
    # The counters include the time from gap_ns before each interval.
    length_ns = rows["end_ns"] - rows["begin_ns"] + rows["gap_ns"].clip(lower=0)
    share = queue_ns / max(float(length_ns.sum()), 1.0)
    return SharedProcessors(rows["rank"].nunique(), len(used), ratio, share)
