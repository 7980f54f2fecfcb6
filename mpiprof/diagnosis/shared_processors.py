"""Ranks that take turns on too few processors of their node, from affinity and counters.

The affinity, the quota of the control group and the variables for numbers of threads show before
the run whether the ranks can have a processor each. The counters show whether they waited for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

MIN_QUEUE_RATIO = 1.0  # time in the run queue over processor time
MAX_THREADS = 1 << 16  # a larger number in a variable is no number of threads
MIN_QUEUE_SHARE = 0.2  # of the intervals; ranks that mostly sleep lose little in the run queue


@dataclass(frozen=True)
class Overload:
    """Ranks of a node whose threads exceed the processors that they may use.

    ranks: their number. threads: of all these ranks, at least one each. processors: number on which
    they may run, or which the quota of their control group allows. setting: "OMP_NUM_THREADS=4", ""
    if ranks alone exceed the processors. is_quota: whether the quota is the limit.
    """

    node: str
    ranks: int
    threads: int
    processors: float
    setting: str
    is_quota: bool


def find_overload(processes: Mapping[int, Mapping[str, Any]]) -> Overload | None:
    """Return the ranks with the most threads for their processors, or None if all have enough.

    processes: of each rank, as in `trace.tables.processes`. Ranks of unknown affinity are not
    judged, and neither are ranks with a quota beside ranks with another control group.
    """
    by_node: dict[str, dict[int, Mapping[str, Any]]] = {}
    for rank, process in processes.items():
        by_node.setdefault(process["node"], {})[rank] = process
    found: list[Overload] = []
    for ranks in by_node.values():
        settings = {rank: read_thread_setting(process) for rank, process in ranks.items()}
        host = next(iter(ranks.values()))["host"]
        limits = [
            (len(processors), members, False)
            for members, processors in _list_processor_sets(
                {rank: frozenset(process["processors"]) for rank, process in ranks.items()}
            )
        ]
        groups: dict[str, list[int]] = {}
        for rank, process in ranks.items():
            if process["quota"]:
                groups.setdefault(process["quota_group"], []).append(rank)
        limits += [(ranks[members[0]]["quota"], members, True) for members in groups.values()]
        for processors, members, is_quota in limits:
            threads = sum(settings[rank][0] for rank in members)
            text = max((settings[rank] for rank in members), default=(1, ""))[1]
            setting = text if len(members) <= processors else ""
            if setting == "":
                threads = len(members)
            if threads > processors:
                found.append(Overload(host, len(members), threads, processors, setting, is_quota))
    return max(found, key=lambda of: of.threads / of.processors, default=None)


def read_thread_setting(process: Mapping[str, Any]) -> tuple[int, str]:
    """Return the largest number of threads that a variable sets, and the variable; (1, "") if none.

    OMP_NUM_THREADS may list a number for each level of nested regions: the first one counts.
    """
    settings = [(1, "")]
    for name, value in process["environment"].items():
        number = value.split(",")[0].strip()
        if name.endswith("_NUM_THREADS") and number.isdigit() and 1 < int(number) <= MAX_THREADS:
            settings.append((int(number), f"{name}={number}"))
    return max(settings, key=lambda setting: setting[0])


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
    for ranks, processors in _list_processor_sets(allowed):
        if len(processors) < len(ranks):
            yield ranks, processors


def _list_processor_sets(
    allowed: Mapping[int, frozenset[int]],
) -> Iterator[tuple[list[int], frozenset[int]]]:
    """Yield the ranks of a node that may run only on some set of processors, and the set.

    Yields nothing if the processors of a rank are unknown.
    """
    if not all(allowed.values()):
        return
    for processors in {*allowed.values(), frozenset().union(*allowed.values())}:
        yield [rank for rank, affinity in allowed.items() if affinity <= processors], processors


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
