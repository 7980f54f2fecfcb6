"""The DataFrames of a trace that have one row a process, call or instance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.analysis.measure import CallsiteKey, Measure, Rows
from mpiprof.analysis.operations import STATES
from mpiprof.errors import TraceError
from mpiprof.trace.sites import describe_sites, site_label
from mpiprof.trace.stream import Block, column, join
from mpiprof.trace.tables import Communicator
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import CALL, COMPLETION, START, Array, Bool, Float, Int

BLOCK = 1 << 16


def processes(trace: Trace) -> pd.DataFrame:
    """One row a rank: rank, host, node, pid, started_ns, ended_ns, end_reason.

    Times on the joint clock, NA unknown; end_reason None: neither finalised nor aborted.
    """
    known, ends = trace.tables.processes, trace.tables.ends
    rows = []
    for rank in range(trace.ranks):
        process, end, clock = known.get(rank, {}), ends.get(rank), trace.clock_of(rank)
        started = process.get("started_ns")
        rows.append(
            {
                "rank": rank,
                "host": process.get("host"),
                "node": process.get("node"),
                "pid": process.get("pid"),
                "started_ns": None if started is None else started + clock.offset_at(started),
                "ended_ns": None if end is None else end["at_ns"] + clock.offset_at(end["at_ns"]),
                "end_reason": None if end is None else end["reason"],
            }
        )
    types = {"pid": "Int64", "started_ns": "Int64", "ended_ns": "Int64"}
    frame: pd.DataFrame = pd.DataFrame(rows).astype(types)
    return frame


def communicator_names(trace: Trace) -> list[str]:
    """Return a name for each communicator: the program's own, else how it was made."""
    found = []
    for c in trace.tables.communicators:
        name = trace.tables.names.get(c.index)
        if name is None:
            name = c.how if c.how in ("world", "self") else f"{c.how} {c.identity[:8]}"
        found.append(name)
    return found


def site_labels(trace: Trace) -> list[str]:
    """One line for each site of the tables; the last entry stands for an unknown one."""
    sites = trace.tables.sites
    described = describe_sites(sites, [[i] for i in range(len(sites))])
    return [site_label(d[0]) for d in described] + ["?"]


def events(trace: Trace) -> pd.DataFrame:
    """One row a call, by rank and then in order.

    rank, thread, operation, site (text), communicator (identity), sequence,
    start (n-th start of a persistent operation, 0 for calls), enter_ns, exit_ns (NA while open;
    of a start NA, MPI_Start is not timed), completion_enter_ns and completion_exit_ns (the Wait
    or Test that completed it, NA without), bytes (sent), received, root (NA without), algorithm,
    flags, outside_ns (in point-to-point and completion calls since the rank's record before).
    """
    parts = [_rank_events(trace, rank) for rank in range(trace.ranks)]
    ranks = np.repeat(np.arange(trace.ranks), [len(p) for p, _ in parts])
    done = [d for _, d in parts]
    block = join([p for p, _ in parts])
    shapes, shape = trace.tables.shapes, block.shape

    def of_shape(values: list[Any]) -> Any:
        return pd.Categorical(values).take(shape) if values else pd.Categorical([])

    labels = site_labels(trace)
    table: dict[str, Any] = {
        "rank": ranks,
        "thread": column(block, "thread"),
        "operation": of_shape([s.operation for s in shapes]),
        "site": of_shape([labels[s.site] for s in shapes]),
        "communicator": of_shape(
            [trace.tables.communicators[s.communicator].identity for s in shapes]
        ),
        "sequence": block.sequence.astype(np.int64),
        "start": column(block, "start"),
        "enter_ns": block.enter,
        "exit_ns": nullable(block.exit, block.exit == 0),
        "completion_enter_ns": _completion([d[0] for d in done]),
        "completion_exit_ns": _completion([d[1] for d in done]),
        "bytes": _bytes(shape, [s.sent for s in shapes], column(block, "sent")),
        "received": _bytes(shape, [s.received for s in shapes], column(block, "received")),
        "root": _bytes(shape, [s.root for s in shapes], np.full(len(block), -1, np.int64)),
        "algorithm": of_shape([s.algorithm for s in shapes]),
        "flags": of_shape([" ".join(s.flags) for s in shapes]),
        "outside_ns": column(block, "outside"),
    }
    frame: pd.DataFrame = pd.DataFrame(table)
    return frame


def nullable(values: Array, missing: Bool) -> Any:
    """Return an Int64 column with NA where `missing`."""
    return pd.arrays.IntegerArray(np.where(missing, 0, values).astype(np.int64), missing.copy())


def _completion(parts: list[Int]) -> Any:
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return nullable(joined, joined == 0)


def _bytes(shape: Array, of_shape: list[int], given: Int) -> Any:
    known = np.array([*of_shape, -1], np.int64)[shape]
    values = np.where(given >= 0, given, known)
    return nullable(values, values < 0)


def _rank_events(trace: Trace, rank: int) -> tuple[Block, tuple[Int, Int]]:
    """Return a rank's calls and starts, and enter and exit of what completed each (0 without)."""
    blocks = list(trace.stream(rank).blocks(BLOCK))
    if not blocks:
        none = np.zeros(0, np.int64)
        empty = Block(none, none, none, none)
        return empty, (none, none)
    block = join(blocks)
    kind = column(block, "kind")
    opener = block.take((kind == CALL) | (kind == START))
    closer = block.take(kind == COMPLETION)
    enter, exit_ = np.zeros(len(opener), np.int64), np.zeros(len(opener), np.int64)
    if len(closer):
        communicator = np.array([s.communicator for s in trace.tables.shapes], np.int64)
        keys = np.concatenate([_key(communicator, opener), _key(communicator, closer)])
        _, ids = np.unique(keys, axis=0, return_inverse=True)
        ids = ids.reshape(-1)
        where = np.full(int(ids.max()) + 1, -1, np.int64)
        closing = ids[len(opener) :]
        where[closing[::-1]] = np.arange(len(closer))[::-1]
        at = where[ids[: len(opener)]]
        found = at >= 0
        enter[found], exit_[found] = closer.enter[at[found]], closer.exit[at[found]]
    opener.exit = np.where(column(opener, "kind") == START, 0, opener.exit)
    return opener, (enter, exit_)


def _key(communicator: Int, block: Block) -> Int:
    return np.stack(
        [communicator[block.shape], block.sequence.astype(np.int64), column(block, "start")], 1
    )


def instances(trace: Trace) -> pd.DataFrame:
    """One row an instance, by its first arrival.

    communicator (identity), sequence, start (n-th start), operation, algorithm (with its
    parameters), callsite (as in `callsites`), sites (text), size, complete, bytes (mean over
    ranks), bytes_min, bytes_max, message_bytes; first_arrival_ns, last_arrival_ns, first_rank,
    last_rank; average_imbalance_ns, worst_imbalance_ns, message_time_ns, average_factor,
    worst_factor; mean_elapsed_ns; wait_ns (summed over ranks), wait_<state>_ns,
    completion_skew_ns, last_exit_ns. NA or NaN where a value is not defined: an instance with an
    absent or open member is not complete.
    """
    measure = Measure(trace)
    communicators: list[Communicator] = []
    numbers: list[Int] = []
    starts: list[Int] = []
    found: list[Rows] = []
    for batch, rows in measure.batches():
        communicators.append(batch.communicator)
        numbers.append(batch.sequence)
        starts.append(batch.start)
        found.append(rows)
    keys = list(measure.callsites)
    sizes = [len(n) for n in numbers]

    def of_rows(name: str) -> Array:
        parts = [getattr(rows, name) for rows in found]
        return np.concatenate(parts) if parts else np.zeros(0)

    def of_batch(values: list[Array]) -> Array:
        return np.concatenate(values) if values else np.zeros(0, np.int64)

    def repeated(values: list[Any]) -> Any:
        return np.repeat(np.array(values, object), sizes)

    callsite = of_rows("callsite").astype(np.int64)
    labels = _callsite_labels(trace, keys)
    table: dict[str, Any] = {
        "communicator": pd.Categorical(repeated([c.identity for c in communicators])),
        "sequence": of_batch(numbers),
        "start": of_batch(starts),
        "operation": _categories([k.operation for k in keys], callsite),
        "algorithm": _categories(list(measure.algorithms), of_rows("algorithm").astype(np.int64)),
        "callsite": callsite,
        "sites": _categories(labels, callsite),
        "size": np.repeat(np.array([c.size for c in communicators], np.int64), sizes),
        "complete": of_rows("complete").astype(np.bool_),
        **{n: of_rows(n) for n in ("bytes", "bytes_min", "bytes_max", "message_bytes")},
        "first_arrival_ns": of_rows("first_arrival").astype(np.int64),
        "last_arrival_ns": nullable(of_rows("last_arrival"), of_rows("last_rank") < 0),
        "first_rank": of_rows("first_rank").astype(np.int64),
        "last_rank": nullable(of_rows("last_rank"), of_rows("last_rank") < 0),
        "average_imbalance_ns": of_rows("average_imbalance"),
        "worst_imbalance_ns": of_rows("worst_imbalance"),
        "message_time_ns": of_rows("message_time"),
        "average_factor": of_rows("average_factor"),
        "worst_factor": of_rows("worst_factor"),
        "mean_elapsed_ns": of_rows("mean_elapsed"),
        "wait_ns": of_rows("wait"),
        **{
            f"wait_{s}_ns": of_batch([_state(rows, s) for rows in found]).astype(np.float64)
            for s in STATES
        },
        "completion_skew_ns": of_rows("skew"),
        "last_exit_ns": nullable(of_rows("last_exit"), ~of_rows("complete").astype(np.bool_)),
    }
    frame: pd.DataFrame = pd.DataFrame(table)
    ordered: pd.DataFrame = frame.sort_values("first_arrival_ns", kind="stable", ignore_index=True)
    return ordered


def _state(rows: Rows, state: str) -> Float:
    values = rows.waits.get(state, np.zeros(len(rows.complete)))
    return np.where(rows.complete, values, np.nan)


def _categories(labels: list[str], index: Int) -> Any:
    return pd.Categorical(labels).take(index) if labels else pd.Categorical([])


def _callsite_labels(trace: Trace, keys: list[CallsiteKey]) -> list[str]:
    described = describe_sites(trace.tables.sites, [sorted(k.sites) for k in keys])
    return [" | ".join(map(site_label, sites)) for sites in described]


def matrix(trace: Trace, callsite: int) -> tuple[Int, Int]:
    """Arrivals and exits of one call site: int64 ns, instances (by first arrival) x ranks.

    The columns are the ranks of its communicator; where it has several, of all of them, in order
    of world rank (`matrix_ranks`). Absent: arrival -1. Open or absent: exit 0.
    """
    found = list(_of_callsite(trace, callsite))
    ranks = np.unique(np.concatenate([members for members, *_ in found]))
    arrivals, exits, first = [], [], []
    for members, arrival, finish, first_arrival in found:
        columns = np.searchsorted(ranks, members)
        a = np.full((len(first_arrival), len(ranks)), -1, np.int64)
        f = np.zeros((len(first_arrival), len(ranks)), np.int64)
        a[:, columns], f[:, columns] = arrival.T, finish.T
        arrivals.append(a)
        exits.append(f)
        first.append(first_arrival)
    order = np.argsort(np.concatenate(first), kind="stable")
    return np.concatenate(arrivals)[order], np.concatenate(exits)[order]


def matrix_ranks(trace: Trace, callsite: int) -> Int:
    """Return the world ranks of the columns of `matrix`, ascending."""
    return np.unique(np.concatenate([ranks for ranks, *_ in _of_callsite(trace, callsite)]))


def _of_callsite(trace: Trace, callsite: int) -> Iterator[tuple[Int, Int, Int, Int]]:
    """Yield per batch the ranks, arrivals (-1 absent), exits, first arrivals of a call site."""
    measure = Measure(trace)
    any_found = False
    for batch, rows in measure.batches():
        index = np.flatnonzero(rows.callsite == callsite)
        if len(index):
            any_found = True
            here = batch.shape[:, index] >= 0
            yield (
                batch.communicator.ranks,
                np.where(here, batch.arrival[:, index], -1),
                batch.finish[:, index],
                rows.first_arrival[index],
            )
    if not any_found:
        raise TraceError(
            f"{trace.path}: no call site {callsite}; there are {len(measure.callsites)}"
        )
