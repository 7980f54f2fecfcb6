"""Ranks that take turns on too few processors of their node, from the counters of intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

MIN_QUEUE_RATIO = 1.0  # time in the run queue over processor time


@dataclass(frozen=True)
class SharedProcessors:
    """Node on which ranks share processors.

    ranks and processors: their numbers. queue_ratio: time in the run queue over processor time,
    of all intervals between calls of these ranks.
    """

    ranks: int
    processors: int
    queue_ratio: float


def find_shared_processors(
    intervals: pd.DataFrame, nodes: Mapping[int, str]
) -> SharedProcessors | None:
    """Return the node whose ranks wait longest for shared processors, or None without one.

    intervals: rows of `trace.intervals`. nodes: node of each rank. A node counts if its ranks used
    fewer processors than there are ranks, and waited longer for a processor than they had one.
    """
    known = (intervals["processor_ns"] >= 0) & (intervals["queue_ns"] >= 0)
    known &= (intervals["first_processor"] >= 0) & (intervals["last_processor"] >= 0)
    rows = intervals[known]
    found = [_count_processors(of_node) for _, of_node in rows.groupby(rows["rank"].map(nodes.get))]
    shared = [
        one for one in found if one.processors < one.ranks and one.queue_ratio >= MIN_QUEUE_RATIO
    ]
    return max(shared, key=lambda one: one.queue_ratio, default=None)


def _count_processors(rows: pd.DataFrame) -> SharedProcessors:
    used = np.union1d(rows["first_processor"], rows["last_processor"])
    ratio = float(rows["queue_ns"].sum() / max(rows["processor_ns"].sum(), 1))
    return SharedProcessors(rows["rank"].nunique(), len(used), ratio)
