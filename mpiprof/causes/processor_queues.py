"""Time in which ranks wait for a processor between their calls, from counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.segments import read_calls_without_waits
from mpiprof.causes.cause import Removal
from mpiprof.causes.place import Pair, add_up
from mpiprof.causes.processor_sets import Binding, find_bindings
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import END_NS, START_NS, Array, Bool, Float, Int

USUAL_QUANTILE = 0.1  # of the times of calls without waits


@dataclass(frozen=True)
class Queues:
    """Time between the calls of each rank in a run or a window of it, as far as it has counters.

    throttled_ns: time in which the quota of its control group stopped it, which may be in queues.
    used: processors on which each rank was seen. place_ns: time in queues by place and rank.
    bound: the same, of ranks whose affinity changed only of the time of their binding; None if
    there are none.
    """

    queue_ns: Float
    processor_ns: Float
    length_ns: Float
    throttled_ns: Float
    used: dict[int, frozenset[int]]
    place_ns: dict[Pair, Float]
    bound: Queues | None = None


def sum_queues(trace: Trace) -> Queues:
    """Return the time that the ranks wait for processors in a run or a window of it."""
    table, bindings = read_counted(trace), find_bindings(trace)
    queues = _sum_queues(table, trace.ranks)
    if not bindings:
        return queues
    rank, begin, end = (table[name].to_numpy(np.int64) for name in ("rank", "begin_ns", "end_ns"))
    is_in_binding = _find_in_bindings(bindings, rank, begin, end)
    return replace(queues, bound=_sum_queues(table[is_in_binding], trace.ranks))


def _find_in_bindings(bindings: Mapping[int, Binding], rank: Int, begin: Int, end: Int) -> Bool:
    """Return which times are in the binding of their rank; all times of a rank without any."""
    always = Binding(START_NS, START_NS, END_NS, frozenset())
    of_rank = [bindings.get(number, always) for number in range(int(rank.max(initial=-1)) + 1)]
    first_ns = np.array([binding.begin_ns for binding in of_rank], np.int64)
    last_ns = np.array([binding.end_ns for binding in of_rank], np.int64)
    is_inside: Bool = (begin >= first_ns[rank]) & (end <= last_ns[rank])
    return is_inside


def _sum_queues(table: pd.DataFrame, ranks: int) -> Queues:
    rank = table["rank"].to_numpy(np.int64)
    length_ns = (table["end_ns"] - table["begin_ns"] + table["gap_ns"].clip(lower=0)).to_numpy()
    queue_ns = table["queue_ns"].to_numpy(np.float64)

    def add(values: Array, rows: Any = slice(None)) -> Float:
        return np.bincount(rank[rows], values[rows], ranks).astype(np.float64)

    processors = [table[name].to_numpy(np.int64) for name in ("first_processor", "last_processor")]
    pairs = np.unique(np.stack([np.tile(rank, 2), np.concatenate(processors)]), axis=1).T.tolist()
    used = {
        number: frozenset(
            processor for user, processor in pairs if user == number and processor >= 0
        )
        for number in np.unique(rank).tolist()
    }
    by_place: Any = table.groupby(["before_site_id", "after_site_id"]).indices
    places = {
        (int(before), int(after)): add(queue_ns, rows) for (before, after), rows in by_place.items()
    }
    throttled_ns = table["throttled_ns"].clip(lower=0).to_numpy(np.float64)
    return Queues(
        add(queue_ns),
        add(table["processor_ns"].to_numpy()),
        add(length_ns),
        add(throttled_ns),
        used,
        places,
    )


def read_counted(trace: Trace) -> pd.DataFrame:
    """Return the intervals whose processor time and time in queues are known."""
    table = trace.intervals
    return table[(table["processor_ns"] >= 0) & (table["queue_ns"] >= 0)]


def join_queues(windows: Sequence[Queues]) -> Queues:
    """Return the queues of a run from those of its windows."""
    queue_ns, processor_ns, length_ns, throttled_ns = (
        np.sum([getattr(window, name) for window in windows], 0)
        for name in ("queue_ns", "processor_ns", "length_ns", "throttled_ns")
    )
    used: dict[int, frozenset[int]] = {}
    for window in windows:
        for rank, processors in window.used.items():
            used[rank] = used.get(rank, frozenset()) | processors
    places = add_up([window.place_ns for window in windows])
    of_bindings = [window.bound for window in windows if window.bound is not None]
    bound = join_queues(of_bindings) if of_bindings else None
    return Queues(queue_ns, processor_ns, length_ns, throttled_ns, used, places, bound)


def remove_from_queues(
    trace: Trace, ranks: Sequence[int], bindings: Mapping[int, Binding]
) -> Removal:
    """Return the time in queues between the calls of some ranks, in their bindings if any."""
    table = read_counted(trace)
    return remove_from_work(table, table["queue_ns"].to_numpy(np.float64), ranks, bindings)


def remove_from_work(
    table: pd.DataFrame, lost_ns: Float, ranks: Sequence[int], bindings: Mapping[int, Binding]
) -> Removal:
    """Return lost times between the calls of some ranks, in their bindings if any."""
    rank, begin, end = (table[name].to_numpy(np.int64) for name in ("rank", "begin_ns", "end_ns"))
    removed_ns = np.minimum(lost_ns, (end - begin).astype(np.float64))
    is_removed = np.isin(rank, ranks) & _find_in_bindings(bindings, rank, begin, end)
    return Removal(rank, end, removed_ns).take(is_removed)


def remove_from_calls(
    trace: Trace, ranks: Sequence[int], bindings: Mapping[int, Binding]
) -> Removal:
    """Return the time of calls of some ranks beyond the usual one, in their bindings if any."""
    rank, begin, end, site = read_calls_without_waits(trace)
    length_ns = (end - begin).astype(np.float64)
    excess_ns = np.zeros(len(rank))
    for number in np.unique(site).tolist():
        is_at_site = site == number
        usual_ns = np.quantile(length_ns[is_at_site], USUAL_QUANTILE)
        excess_ns[is_at_site] = np.maximum(length_ns[is_at_site] - usual_ns, 0.0)
    is_removed = np.isin(rank, ranks) & _find_in_bindings(bindings, rank, begin, end)
    return Removal(rank, end, excess_ns).take(is_removed & (excess_ns > 0))
