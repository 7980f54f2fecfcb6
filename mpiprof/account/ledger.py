"""Ledger: the time of every thread from the end of MPI_Init to the begin of MPI_Finalize.

A ledger is a sequence of segments without gaps and without overlaps. In a segment the thread is
outside MPI, in one call, or in a loop of calls in vain (a poll):

    MPI_Init                                                              MPI_Finalize
        |  outside  |  recv  |  outside  |  allreduce  |  win_lock  |  outside  |
        +-----------+--------+-----------+-------------+------------+-----------+
    begin_ns     end_ns = begin_ns of the next segment

The sum of the segments is the life of the thread exactly. The sums of a run are by call, and of
work by the sites of the calls before and after it:

        sites:  (NOWHERE, recv)  (recv, allreduce)  (allreduce, win_lock)  (win_lock, finalize)

Only the time is summed that the records cover: with rings since all are complete, and with a limit
until the first log ends.

The times at a place in equal stretches of the run show how the time varies. The segments of a
thread at the place are divided into STRETCHES groups of about equal numbers:

    work between a and b   |  1.0  1.1  |  1.0  0.9  |  1.3  1.0  |   ms
    stretch                       0            1            2

Stretches of two runs correspond, so a course that both share is no difference between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.message_callsite_sums import find_located_waits, recorded_messages
from mpiprof.account.record_gaps import has_no_gaps
from mpiprof.account.row_order import number_codes
from mpiprof.account.work_intervals import NOWHERE
from mpiprof.facts.operations import MESSAGE_OPERATIONS
from mpiprof.trace.messages import read_intact
from mpiprof.trace.rank_arrays import get_column
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import COMPLETION, LOCAL_CALL, MESSAGE_CALL, POLL, Array, Float, Int

OUTSIDE = -1  # shape of a segment outside MPI
COLUMNS = (
    *(("begin_ns", np.int64), ("end_ns", np.int64)),
    *(("shape", np.int32), ("completes", np.bool_), ("polls", np.int64)),
)
SEGMENT = np.dtype([*COLUMNS], align=True)
IS_CALL = np.zeros(256, np.bool_)  # by kind of a record of messages, windows, files etc.
IS_CALL[[MESSAGE_CALL, LOCAL_CALL, POLL]] = True
READ_RECORDS = 1 << 16
RECORDED_SHARE = 0.99  # of the time in message calls, in records of single calls
CALLS, WORK, LIVES = "calls", "work", "lives"
SUM_KEYS = {CALLS: ["rank", "shape"], WORK: ["rank", "before", "after"]}
STRETCHES = 32
WAIT = "wait"
STRETCH_KEYS = {WORK: ["before", "after"], CALLS: ["site"], WAIT: ["site"]}
TIMES = [f"stretch_{number}_ns" for number in range(STRETCHES)]


@dataclass(frozen=True)
class ThreadLedger:
    """The segments of one thread: rows of SEGMENT in order of time, on the joint clock.

    shape: index into Tables.shapes, which has operation, communicator, call site and peer of the
    call; OUTSIDE for a segment outside MPI. completes: true in a Wait or Test that completes a
    collective, of which it has the shape. polls: number of calls in vain if the thread polls, with
    the pauses between them, until one of the calls finds something; else 0.
    """

    rank: int
    thread: int
    segments: Array

    @property
    def life_ns(self) -> int:
        """Return the time from the begin of the first to the end of the last segment."""
        if not len(self.segments):
            return 0
        return int(self.segments["end_ns"][-1] - self.segments["begin_ns"][0])


def read_ledgers(trace: Trace, rank: int) -> list[ThreadLedger]:
    """Return the ledger of each thread of a rank, by thread number and time.

    The first thread begins at the end of MPI_Init, the others at their first call. A thread ends
    at its end, at the begin of MPI_Finalize, or at the last time that is known of the rank. A new
    thread may have the number of a thread that has ended, and has a ledger of its own.
    """
    begin_ns, end_ns = trace.spans.get(rank, (0, 0))
    ends_run = np.array([shape.operation == "finalize" for shape in trace.tables.shapes])
    calls_by_thread: dict[int, list[Array]] = {}
    finalize_ns: list[int] = []
    for thread, calls in (*_read_collectives(trace, rank), *_read_message_calls(trace, rank)):
        calls_by_thread.setdefault(thread, []).append(calls)
        finalize_ns += calls["begin_ns"][ends_run[calls["shape"]]].tolist()
        # The records of a killed rank are known beyond its span.
        end_ns = max(
            end_ns, int(calls["begin_ns"].max(initial=0)), int(calls["end_ns"].max(initial=0))
        )
    end_ns = min([end_ns, *finalize_ns])
    ledgers = []
    for thread, pieces in sorted(calls_by_thread.items()):
        first_ns = begin_ns if thread == min(calls_by_thread) else None
        calls = np.concatenate(pieces)
        for of_life, last_ns in _split_lives(calls, _list_ends(trace, rank, thread), end_ns):
            if first_ns is None:
                first_ns = int(of_life["begin_ns"].min(initial=last_ns))
            ledgers.append(ThreadLedger(rank, thread, _fill_gaps(of_life, first_ns, last_ns)))
            first_ns = None
    return ledgers


def _list_ends(trace: Trace, rank: int, thread: int) -> Int:
    """Return when the threads with a number ended, in order, on the joint clock."""
    ends_ns = np.array(sorted(trace.tables.thread_ends.get((rank, thread), [])), np.int64)
    return trace.clock_of(rank).to_global(ends_ns)


def _split_lives(calls: Array, ends_ns: Int, end_ns: int) -> Iterator[tuple[Array, int]]:
    """Yield the calls of each thread of those that had a number in turn, and its end."""
    if not len(ends_ns):
        yield calls, end_ns
        return
    life = np.searchsorted(ends_ns, calls["begin_ns"], "right")
    for number in range(len(ends_ns) + 1):
        last_ns = end_ns if number == len(ends_ns) else min(int(ends_ns[number]), end_ns)
        of_life = calls[life == number]
        if len(of_life):
            yield of_life, last_ns


def _read_collectives(trace: Trace, rank: int) -> Iterator[tuple[int, Array]]:
    """Yield thread number and calls of each block of records of collectives."""
    for stream in trace.open_stream(rank).threads:
        first = stream.chunks[0]
        while not first.is_summed() and (block := stream.read(READ_RECORDS)) is not None:
            completes = get_column(block, "kind") == COMPLETION
            times = block.enter_ns, block.exit_ns
            yield first.thread, _make_calls(*times, block.shape, completes, np.zeros(len(block)))


def _read_message_calls(trace: Trace, rank: int) -> Iterator[tuple[int, Array]]:
    """Yield thread number and calls of the records of messages, windows, files etc."""
    shape_map = np.append(trace.tables.shape_map(rank), OUTSIDE)
    clock = trace.clock_of(rank)
    for chunks in trace.message_chunks(rank):
        if chunks[0].is_summed():
            continue
        for records in read_intact(trace, chunks):
            calls = records[IS_CALL[records["kind"]]]
            times = [calls[name].astype(np.int64) for name in ("enter_ns", "exit_ns")]
            enter_ns, exit_ns = (np.where(ns > 0, clock.to_global(ns), 0) for ns in times)
            shapes = shape_map.take(calls["shape"].astype(np.int64), mode="clip")
            polls = np.where(calls["kind"] == POLL, calls["sequence"].astype(np.int64), 0)
            completes = np.zeros(len(shapes), np.bool_)
            all_calls = _make_calls(enter_ns, exit_ns, shapes, completes, polls)
            yield chunks[0].thread, all_calls[shapes >= 0]


def _make_calls(*columns: Array) -> Array:
    calls = np.empty(len(columns[0]), SEGMENT)
    for (name, _), values in zip(COLUMNS, columns, strict=True):
        calls[name] = values
    return calls


def _fill_gaps(calls: Array, begin_ns: int, end_ns: int) -> Array:
    """Return the segments of a thread from its calls, whose times it limits to this life.

    A Wait that completes several collectives has a record for each. A call that a callback makes
    within another call belongs to the outer one.
    """
    ends_ns = np.where(calls["end_ns"] == 0, end_ns, calls["end_ns"]).clip(begin_ns, end_ns)
    begins_ns = calls["begin_ns"].clip(begin_ns, end_ns)
    order = np.lexsort((-ends_ns, begins_ns))  # of calls that begin together, the longest first
    order = order[(ends_ns > begins_ns)[order]]
    begins_ns, ends_ns = begins_ns[order], ends_ns[order]
    reached_ns = np.maximum.accumulate(np.append(begin_ns, ends_ns))[:-1]
    outer = np.flatnonzero(ends_ns > reached_ns)
    segments = np.zeros(2 * len(outer) + 1, SEGMENT)
    segments["shape"] = OUTSIDE
    segments[1::2] = calls[order[outer]]
    segments["begin_ns"][1::2] = np.maximum(begins_ns, reached_ns)[outer]
    segments["end_ns"][1::2] = ends_ns[outer]
    segments["begin_ns"][::2] = np.append(begin_ns, ends_ns[outer])
    segments["end_ns"][::2] = np.append(begins_ns[outer], end_ns)
    return segments[segments["end_ns"] > segments["begin_ns"]]


def make_ledger_sums(trace: Trace) -> dict[str, pd.DataFrame] | None:
    """Return the sums of the ledgers by rank, or None if single calls have no records.

    calls: rank, shape, count, total_ns. work: rank, before and after (sites), count, total_ns.
    lives: rank, thread, life_ns. The traces without sums are those that sample calls, that sum
    up messages, that lost ranks, and that do not fit in memory.
    """
    if trace.record == "summary" or not (has_no_gaps(trace) and fits_in_memory(trace)):
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
    columns = {CALLS: [*SUM_KEYS[CALLS], "count", "total_ns"]}
    columns |= {WORK: [*SUM_KEYS[WORK], "count", "total_ns"], LIVES: ["rank", "thread", "life_ns"]}
    sums = {
        name: pd.DataFrame(np.concatenate(rows or [np.zeros((0, len(columns[name])), np.int64)]))
        for name, rows in tables.items()
    }
    for name, table in sums.items():
        table.columns = pd.Index(columns[name])
    if sums[LIVES]["rank"].duplicated().any():  # several threads
        for name, keys in SUM_KEYS.items():
            sums[name] = sums[name].groupby(keys, as_index=False).sum()
    return sums if _has_each_message_call(trace, sums[CALLS]) else None


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


def make_ledger_stretches(trace: Trace) -> dict[str, pd.DataFrame]:
    """Return the time of all ranks by place and stretch, in ns; empty without ledger sums.

    work: before and after (sites), segments (of the thread with most), TIMES. calls: the same by
    site. wait: the same of waits for messages and on windows.
    """
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in STRETCH_KEYS}
    sites = list_sites(trace)
    ranks = range(trace.ranks) if trace.derive("ledger_sums") is not None else ()
    for rank in ranks:
        for ledger in read_ledgers(trace, rank):
            is_work = ledger.segments["shape"] == OUTSIDE
            work, calls = ledger.segments[is_work], ledger.segments[~is_work]
            around = [key[is_work] for key in find_sites_around(ledger.segments, sites)]
            tables[WORK].append(_sum_stretches(_find_lengths(work), around, STRETCH_KEYS[WORK]))
            of_calls = [sites[calls["shape"]]]
            tables[CALLS].append(
                _sum_stretches(_find_lengths(calls), of_calls, STRETCH_KEYS[CALLS])
            )
    if ranks:
        waits = find_located_waits(trace).sort_values("until_ns", kind="stable")
        for _, of_rank in waits.groupby("rank"):
            waits_ns, keys = of_rank["wait_ns"].to_numpy(np.int64), [of_rank["site_id"].to_numpy()]
            tables[WAIT].append(_sum_stretches(waits_ns, keys, STRETCH_KEYS[WAIT]))
    return {name: _join_tables(parts, STRETCH_KEYS[name]) for name, parts in tables.items()}


def combine_stretches(times: Float, count: int) -> Float:
    """Return the sums of neighbouring stretches, so that `count` remain, a power of two."""
    return np.asarray(times.reshape(count, -1).sum(1), np.float64)


def _find_lengths(segments: Array) -> Int:
    return np.asarray(segments["end_ns"] - segments["begin_ns"], np.int64)


def _sum_stretches(length_ns: Int, keys: list[Int], names: list[str]) -> pd.DataFrame:
    """Return the number of segments by key, and the sums of their lengths in each stretch."""
    columns = {name: key.astype(np.int64) for name, key in zip(names, keys, strict=True)}
    frame = pd.DataFrame(columns)
    groups = frame.groupby(names, sort=False)
    group, position = groups.ngroup().to_numpy(), groups.cumcount().to_numpy()
    distinct = frame.drop_duplicates().reset_index(drop=True)
    count = np.bincount(group, minlength=len(distinct))
    stretch = position * STRETCHES // count[group]
    cells = np.bincount(group * STRETCHES + stretch, length_ns, len(distinct) * STRETCHES)
    times = pd.DataFrame(cells.reshape(-1, STRETCHES), columns=TIMES)
    return pd.concat([distinct.assign(segments=count), times], axis=1)


def _join_tables(parts: list[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    """Return the sums over threads, and the largest number of segments of a thread."""
    if not parts:
        return pd.DataFrame(columns=[*keys, "segments", *TIMES])
    how = {"segments": "max", **dict.fromkeys(TIMES, "sum")}
    return pd.concat(parts).groupby(keys, as_index=False).agg(how)
