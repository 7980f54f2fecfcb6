"""Ranks that take turns on too few processors of their node, from affinity and counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

MIN_QUEUE_RATIO = 1.0  # time in the run queue over processor time
MIN_QUEUE_SHARE = 0.2  # of the intervals; ranks that mostly sleep lose little in the run queue


@dataclass(frozen=True)
class SharedProcessors:
    """Ranks of a node that share processors.

    ranks: their number. processors: number of processors on which they may run. queue_ratio: time
    in the run queue over processor time, of all intervals between calls of these ranks.
    queue_share: the same over their length.
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
    intervals: pd.DataFrame, nodes: Mapping[int, str], affinity: Mapping[int, Sequence[int]]
) -> SharedProcessors | None:
    """Return the ranks of a node that wait longest for shared processors, or None without any.

    intervals: rows of `trace.intervals`. nodes: node of each rank. affinity: the processors on
    which each rank was allowed to run when it called MPI_Init, which the kernel limits to those of
    its control group. A node counts if the affinity of all its ranks is known. Ranks share
    processors if there are more ranks than processors on which they may run. They count if they
    waited longer for a processor than they had one, and lost a notable share of their time by it.
    """
    rows = intervals[(intervals["processor_ns"] >= 0) & (intervals["queue_ns"] >= 0)]
    allowed: dict[str, dict[int, frozenset[int]]] = {}
    for rank, node in nodes.items():
        allowed.setdefault(node, {})[rank] = frozenset(affinity.get(rank, ()))
    crowds = [
        _measure_queue(rows[rows["rank"].isin(ranks)], ranks, processors)
        for by_rank in allowed.values()
        if all(by_rank.values())
        for ranks, processors in _list_crowds(by_rank)
    ]
    costly = (crowd for crowd in crowds if crowd.is_costly)
    return max(costly, key=lambda crowd: crowd.queue_ratio, default=None)


def _list_crowds(
    allowed: Mapping[int, frozenset[int]],
) -> Iterator[tuple[list[int], frozenset[int]]]:
    """Yield the ranks of a node that may run only on some set of fewer processors, and the set."""
    for processors in {*allowed.values(), frozenset().union(*allowed.values())}:
        ranks = [rank for rank, affinity in allowed.items() if affinity <= processors]
        if len(processors) < len(ranks):
            yield ranks, processors


def _measure_queue(
    rows: pd.DataFrame, ranks: Sequence[int], processors: frozenset[int]
) -> SharedProcessors:
    """Return the wait for processors. A rank may have got other processors after MPI_Init."""
    used = set(np.union1d(rows["first_processor"], rows["last_processor"]).tolist())
    queue_ns = float(rows["queue_ns"].sum())
    ratio = queue_ns / max(float(rows["processor_ns"].sum()), 1.0)
    # The counters include the time from gap_ns before each interval.
    length_ns = rows["end_ns"] - rows["begin_ns"] + rows["gap_ns"].clip(lower=0)
    share = queue_ns / max(float(length_ns.sum()), 1.0)
    count = len(processors | {processor for processor in used if processor >= 0})
    return SharedProcessors(len(ranks), count, ratio, share)
