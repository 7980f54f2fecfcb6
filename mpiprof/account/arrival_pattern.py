"""Arrivals of the ranks at one call site, instance by instance, for pictures of bounded size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.variance_components import subtract_median_of_others
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int


@dataclass(frozen=True)
class ArrivalPattern:
    """Arrivals of some ranks in some instances of a call site, in ns.

    late_ns: runs of ranks x runs of consecutive instances: the latest arrival after the median of
    the instance's other ranks. NaN without arrivals. rest_ns: last minus first arrival of each
    instance without the late rank. NaN if that is unknown.
    """

    late_ns: Array
    rest_ns: Float


def read_arrival_pattern(
    trace: Trace,
    instances: pd.DataFrame,
    members: Int,
    row_starts: Int,
    columns: int,
    late_rank: int | None = None,
) -> ArrivalPattern:
    """Return the arrivals of `members` in the given instances of one call site.

    row_starts: index of the first member of each row; columns: the largest number of columns.
    Instance i is in column i * columns // len(instances).
    """
    count = len(instances)
    shape = len(row_starts), min(columns, count)
    late: Array = np.full(shape, np.nan, np.float32)
    spread: Float = np.full(count, np.nan)
    if not late.size:
        return ArrivalPattern(late, spread)
    callsite = int(instances["callsite"].iloc[0])
    first = instances["first_arrival_ns"].to_numpy(np.int64)
    communicators = set(instances["communicator"].astype(str))
    measure = InstanceMetrics(trace)
    for batch in trace.batches():
        is_listed = batch.communicator.identity in communicators
        # All signatures are visited, because call sites are numbered in order of appearance.
        for signature, index in measure.group_by_signature(batch):
            if signature.callsite != callsite or not is_listed:
                continue
            present = np.flatnonzero(signature.present)
            arrival = batch.arrival_ns[:, index][present]
            begin = arrival.min(0)
            number = np.minimum(np.searchsorted(first, begin), count - 1)
            good = first[number] == begin
            if good.any():
                ranks = batch.communicator.ranks[present]
                number = number[good]
                times: Float = arrival[:, good].astype(np.float64)
                _add_lateness(late, times, ranks, number, (members, row_starts, count))
                other_times = times[ranks != late_rank]
                if late_rank is not None and len(other_times):
                    spread[number] = np.ptp(other_times, axis=0)
    return ArrivalPattern(late, spread)


def _add_lateness(
    into: Array, arrival: Float, ranks: Int, number: Int, layout: tuple[Int, Int, int]
) -> None:
    """Add the lateness of ranks x instances to a picture with the given members, rows and count."""
    members, row_starts, count = layout
    at = np.minimum(np.searchsorted(members, ranks), len(members) - 1)
    chosen = np.flatnonzero(members[at] == ranks)
    if not len(chosen):
        return
    late = subtract_median_of_others(arrival)[chosen].astype(np.float32)
    column = number * into.shape[1] // count
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    late, column = np.maximum.reduceat(late, starts, axis=1), column[starts]
    row = np.searchsorted(row_starts, at[chosen], "right") - 1
    np.fmax.at(into, (row[:, None], column[None, :]), late)
