"""Per-call-site statistics that the recorder computed itself: sums instead of events.

The leader of a communicator (rank 0 of the group with the lowest world rank) maintains one group of
records for each call site, operation and communicator of its calls. The size of a group is fixed.

    statistics   shape; enter_ns: sum of the mean elapsed times; exit_ns: observed instances
    extensions   sums of average and worst imbalance, of wait, of scores; number of instances with
                 an imbalance below one message's time; the largest imbalance; the rank that was
                 last most often, and how often

The records are updated in place. In a running job, the values of one instance may be half added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mpiprof.trace.types import EXTENSION, STATISTICS, STATISTICS_CODES, Array

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace


@dataclass(frozen=True)
class Statistics:
    """Statistics of one call site on one communicator; sums over its observed instances, ns."""

    shape: int  # index into Tables.shapes, of the leader's call
    instances: int
    elapsed_ns: int
    average_imbalance_ns: int
    worst_imbalance_ns: int
    wait_ns: int  # summed over the ranks too
    score_ns: int  # mean exit minus the earliest exit that the operation allows
    balanced: int  # instances with an imbalance below T
    worst_most_ns: int
    latest_rank: int  # world rank, -1 if unknown
    latest_count: int


def read_statistics(trace: Trace) -> Iterator[Statistics]:
    """Yield all statistics of a trace, from summaries and from events recorded under `auto`."""
    for rank in range(trace.ranks):
        ids = trace.tables.shape_map(rank)
        for chunk, *others in trace.thread_chunks(rank):
            if others or not chunk.log.is_intact(chunk.index):
                continue  # a thread with sums has one window only
            records = chunk.read()
            for at in np.flatnonzero(records["kind"] == STATISTICS).tolist():
                shape = int(records["shape"][at])
                group = records[at : at + 1 + len(STATISTICS_CODES)]
                statistics = None
                if shape < len(ids) and ids[shape] >= 0:
                    statistics = _decode_statistics(trace, int(ids[shape]), group)
                if statistics is None:
                    trace.problems.add(f"rank {rank}: damaged statistics are ignored")
                elif statistics.instances:
                    yield statistics


def _decode_statistics(trace: Trace, shape: int, group: Array) -> Statistics | None:
    extensions = group[1:]
    if tuple(extensions["sequence"]) != STATISTICS_CODES or (extensions["kind"] != EXTENSION).any():
        return None
    instances, elapsed = int(group["exit_ns"][0]), int(group["enter_ns"][0])
    average, worst, wait, score, balanced, most, latest = map(int, extensions["exit_ns"])
    if min(instances, elapsed, average, worst, wait, most, latest) < 0:
        return None
    if not (0 <= balanced <= instances and latest <= instances):
        return None
    communicator = trace.tables.communicators[trace.tables.shapes[shape].communicator]
    # The recorder's order of members: the group with the lowest rank first.
    groups = sorted(communicator.groups, key=lambda ranks: int(ranks.min(initial=1 << 62)))
    members = np.concatenate(groups)
    member = int(extensions["enter_ns"][-1])
    rank = int(members[member]) if latest and 0 <= member < len(members) else -1
    return Statistics(
        shape, instances, elapsed, average, worst, wait, score, balanced, most, rank, latest
    )
