"""Segments of work, and calls, that are far longer than usual at their place, and groups of them.

Work is also compared by its sleep: its length varies with the queues if ranks share processors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiprof.account.row_order import find_medians, number_values
from mpiprof.account.segments import Work, number_segments, read_calls_without_waits
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.habits.significance import MAD_SCALE
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

STANDS_OUT = 5.0  # savings of an event over those of the next one, and time over its deviation
MAX_OPEN_GROUPS = 8  # latest groups that another simultaneous segment may join

SEGMENT = np.dtype(
    [
        *(("rank", np.int64), ("begin_ns", np.int64), ("end_ns", np.int64), ("excess_ns", "f8")),
        *(("usual_ns", "f8"), ("before", np.int64), ("after", np.int64)),
    ]
)


def find_long_work(work: Work, least_ns: float) -> Array:
    """Return the segments of work that exceed the median of their place by some time.

    The time must exceed STANDS_OUT standard deviations of the place as well.
    """
    length = work.length_ns.astype(np.float64)
    usual = find_medians(work.place, length, len(work.places))[work.place]
    deviation = find_medians(work.place, np.abs(length - usual), len(work.places))[work.place]
    by_noise = STANDS_OUT * MAD_SCALE * deviation
    index = np.flatnonzero(length - usual >= np.maximum(least_ns, by_noise))
    pairs = np.array(work.places or [(0, 0)], np.int64)[work.place[index]]
    columns = work.rank[index], work.begin_ns[index], work.end_ns[index]
    return _make_segments(*columns, length[index], usual[index], pairs[:, 0], pairs[:, 1])


def find_long_sleep(trace: Trace, work: Work, least_ns: float) -> Array:
    """Return the segments of work whose sleep exceeds the usual sleep of their place by some time.

    The time must exceed STANDS_OUT standard deviations of the place as well. Source: the counters
    of the segments, as in _find_off_time. The usual time of a segment is its length without this
    sleep.
    """
    table: Any = trace.intervals
    table = table[(table["processor_ns"] >= 0) & (table["queue_ns"] >= 0)]
    length = (table["end_ns"] - table["begin_ns"]).to_numpy(np.float64)
    busy = table["processor_ns"] + table["queue_ns"] + table["other_threads_ns"].clip(lower=0)
    asleep = np.maximum(length - busy.to_numpy(np.float64), 0.0)
    if not (asleep >= least_ns).any():
        return np.zeros(0, SEGMENT)
    place = table.groupby(["before_site_id", "after_site_id"], sort=False).ngroup().to_numpy()
    places = int(place.max()) + 1
    usual = find_medians(place, asleep, places)[place]
    deviation = find_medians(place, np.abs(asleep - usual), places)[place]
    excess = asleep - usual
    chosen = excess >= np.maximum(least_ns, STANDS_OUT * MAD_SCALE * deviation)
    rank, end = (table[name].to_numpy(np.int64)[chosen] for name in ("rank", "end_ns"))
    _, row, at = np.intersect1d(
        number_segments(work.rank, work.end_ns), number_segments(rank, end), return_indices=True
    )
    pairs = np.array(work.places or [(0, 0)], np.int64)[work.place[row]]
    columns = work.rank[row], work.begin_ns[row], work.end_ns[row], length[chosen][at]
    usual_length = (length - excess)[chosen][at]
    return _make_segments(*columns, usual_length, pairs[:, 0], pairs[:, 1])


def find_long_calls(trace: Trace, least_ns: float) -> Array:
    """Return the calls that exceed the median of their call site by some time, without waits."""
    rank, begin, exit_, site = read_calls_without_waits(trace)
    length = (exit_ - begin).astype(np.float64)
    sites, number = number_values(site)
    usual = find_medians(number, length, len(sites))[number]
    index = np.flatnonzero(length - usual >= least_ns)
    columns = rank[index], begin[index], exit_[index], length[index], usual[index]
    return _make_segments(*columns, site[index], np.full(len(index), INSIDE))


def group_simultaneous(segments: Array) -> list[Array]:
    """Return groups of segments that overlap each other in time for most of the longer one."""
    order = np.argsort(segments["begin_ns"], kind="stable")
    groups: list[list[int]] = []
    shared: list[tuple[int, int]] = []
    for index in order.tolist():
        begin, end = int(segments["begin_ns"][index]), int(segments["end_ns"][index])
        for number in range(len(groups) - 1, max(len(groups) - MAX_OPEN_GROUPS, 0) - 1, -1):
            first, last = shared[number]
            if 2 * (min(end, last) - begin) >= max(end - begin, last - first):
                groups[number].append(index)
                shared[number] = begin, min(end, last)
                break
        else:
            groups.append([index])
            shared.append((begin, end))
    return [segments[np.array(group)] for group in groups]


def number_rows(segments: Array) -> Int:
    """Return the numbers of segments, as number_segments."""
    return number_segments(segments["rank"], segments["end_ns"])


def _make_segments(
    rank: Int, begin: Int, end: Int, length: Float, usual: Float, before: Int, after: Int
) -> Array:
    segments = np.empty(len(rank), SEGMENT)
    values = rank, begin, end, length - usual, usual, before, after
    for name, column in zip(SEGMENT.names or (), values, strict=True):
        segments[name] = column
    return segments
