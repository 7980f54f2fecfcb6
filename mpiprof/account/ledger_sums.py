"""Sums over the ledgers of all threads: time in each call, and work between each pair of calls.

A segment of work has the sites of the calls before and after it:

    MPI_Init                                                       MPI_Finalize
        |   work   |  recv  |  work  |  allreduce  |     work     |
        sites:  (NOWHERE, recv)  (recv, allreduce)  (allreduce, finalize)

Only the time is summed that the records cover: with rings since all are complete, and with a limit
until the first log ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from mpiprof.account.ledger import OUTSIDE, read_ledgers
from mpiprof.account.work_intervals import NOWHERE
from mpiprof.metrics.analysis_memory import fits_in_memory
from mpiprof.metrics.message_callsite_sums import recorded_messages
from mpiprof.metrics.time_order import number_codes
from mpiprof.operations import MESSAGE_OPERATIONS
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Int

RECORDED_SHARE = 0.99  # of the time in message calls, in records of single calls
CALLS, WORK, LIVES = "calls", "work", "lives"
KEYS = {CALLS: ["rank", "shape"], WORK: ["rank", "before", "after"]}


def make_ledger_sums(trace: Trace) -> dict[str, pd.DataFrame] | None:
    """Return the sums of the ledgers by rank, or None if single calls have no records.

    calls: rank, shape, count, total_ns. work: rank, before and after (sites), count, total_ns.
    lives: rank, thread, life_ns. The traces without sums are those that sample calls, that sum
    up messages, that lost ranks, and that do not fit in memory.
    """
    if not _may_have_each_call(trace):
        return None
    begin_ns = trace.calls_start_ns
    end_ns = begin_ns + trace.duration_ns
    sites = list_sites(trace)
    tables: dict[str, list[Array]] = {CALLS: [], WORK: [], LIVES: []}
    for rank in range(trace.ranks):
        for ledger in read_ledgers(trace, rank):
            segments = _clip(ledger.segments, begin_ns, end_ns)
            length_ns = segments["end_ns"] - segments["begin_ns"]
            tables[LIVES].append(np.array([[rank, ledger.thread, length_ns.sum()]]))
            for name, *keys, chosen in (
                (CALLS, segments["shape"], segments["shape"] != OUTSIDE),
                (WORK, *find_sites_around(segments, sites), segments["shape"] == OUTSIDE),
            ):
                rows = _sum_by_keys([key[chosen] for key in keys], length_ns[chosen])
                tables[name].append(np.insert(rows, 0, rank, axis=1))
    columns = {CALLS: [*KEYS[CALLS], "count", "total_ns"]}
    columns |= {WORK: [*KEYS[WORK], "count", "total_ns"], LIVES: ["rank", "thread", "life_ns"]}
    sums = {
        name: pd.DataFrame(np.concatenate(rows or [np.zeros((0, len(columns[name])), np.int64)]))
        for name, rows in tables.items()
    }
    for name, table in sums.items():
        table.columns = pd.Index(columns[name])
    if sums[LIVES]["rank"].duplicated().any():  # several threads
        for name, keys in KEYS.items():
            sums[name] = sums[name].groupby(keys, as_index=False).sum()
    return sums if _has_each_message_call(trace, sums[CALLS]) else None


def _may_have_each_call(trace: Trace) -> bool:
    """Return whether each collective has a record, and message calls may all have records."""
    is_whole = trace.record != "summary" and trace.sampling_interval == 1
    has_messages = trace.complete_share is None or trace.complete_share >= 1.0
    has_ranks = not trace.ranks_without_records
    return is_whole and has_messages and has_ranks and fits_in_memory(trace)


def _has_each_message_call(trace: Trace, calls: pd.DataFrame) -> bool:
    """Return whether single records contain the time in message calls that the recorder summed."""
    if trace.complete_share is not None:
        return True
    if recorded_messages(trace) == "off":
        return False
    shapes = trace.tables.shapes
    is_message = np.array([shape.operation in MESSAGE_OPERATIONS for shape in shapes], np.bool_)
    recorded_ns = calls.loc[is_message[calls["shape"]], "total_ns"].sum()
    return bool(recorded_ns >= RECORDED_SHARE * trace.message_sums["total_ns"].sum())


def _clip(segments: Array, begin_ns: int, end_ns: int) -> Array:
    """Return the segments in a stretch of the run."""
    if not len(segments):
        return segments
    if segments["begin_ns"][0] >= begin_ns and segments["end_ns"][-1] <= end_ns:
        return segments
    clipped = segments.copy()
    for name in ("begin_ns", "end_ns"):
        clipped[name] = clipped[name].clip(begin_ns, end_ns)
    return clipped[clipped["end_ns"] > clipped["begin_ns"]]


def list_sites(trace: Trace) -> Int:
    """Return the site of each shape, and then NOWHERE."""
    return np.array([*(shape.site for shape in trace.tables.shapes), NOWHERE], np.int64)


def find_sites_around(segments: Array, sites: Int) -> Iterator[Int]:
    """Yield the sites of the calls before and after each segment, NOWHERE without a call."""
    yield sites[np.append(OUTSIDE, segments["shape"][:-1])]
    yield sites[np.append(segments["shape"][1:], OUTSIDE)]


def _sum_by_keys(keys: list[Int], length_ns: Int) -> Int:
    """Return rows of the keys, the number of their segments, and the sum of the lengths."""
    if not len(length_ns):
        return np.zeros((0, len(keys) + 2), np.int64)
    sizes = [int(key.max()) + 2 for key in keys]
    code = np.zeros(len(length_ns), np.int64)
    for key, size in zip(keys, sizes, strict=True):
        code = code * size + key + 1
    used, code = number_codes(code, int(code.max()) + 1)
    count = np.bincount(code, minlength=len(used))
    total = np.bincount(code, length_ns, len(used)).round().astype(np.int64)
    columns = [count, total]
    for size in reversed(sizes):
        columns.insert(0, used % size - 1)
        used = used // size
    return np.stack(columns, axis=1)
