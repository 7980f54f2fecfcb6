"""DataFrames of a trace with one row per process, call or instance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from mpiprof.account.columns import of_instances
from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import Rows, make_empty_rows
from mpiprof.errors import TraceError
from mpiprof.trace.batch import Batch
from mpiprof.trace.match import is_nonblocking
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.rank_arrays import EMPTY, Block, concatenate, get_column
from mpiprof.trace.sites import describe_sites, label_site
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import CALL, CHOICES, COMPLETION, START, Array, Bool, Int

BLOCK_RECORDS = 1 << 16  # records per read
PIECE_ROWS = 1 << 18  # rows per piece
NO_TIMES = np.zeros(0, np.int64)


def make_processes(trace: Trace) -> pd.DataFrame:
    """Return one row per rank: rank, host, node, pid, started_ns, ended_ns, end_reason.

    Times are on the joint clock, NA if unknown. end_reason is None for a rank that neither
    finalised nor aborted.
    """
    processes, ends = trace.tables.processes, trace.tables.ends
    rows = []
    for rank in range(trace.ranks):
        process, end, clock = processes.get(rank, {}), ends.get(rank), trace.clock_of(rank)
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
    return pd.DataFrame(rows).astype(types)


def communicator_names(trace: Trace) -> list[str]:
    """Return a name for each communicator: the program's name for it, else how it was created."""
    names = []
    for c in trace.tables.communicators:
        origin = c.origin if c.origin in ("world", "self") else f"{c.origin} {c.identity[:8]}"
        names.append(trace.tables.names.get(c.index, origin))
    return names


def label_sites(trace: Trace) -> list[str]:
    """Return a label for each site of the tables; the last entry is for an unknown site."""
    sites = trace.tables.sites
    described = describe_sites(sites, [[i] for i in range(len(sites))])
    return [label_site(d[0]) for d in described] + ["?"]


def make_events(trace: Trace) -> pd.DataFrame:
    """Return one row per call, by rank and in order.

    rank, thread, operation, site (text), communicator (identity), sequence, start (n-th start of a
    persistent operation, 0 for calls), enter_ns, exit_ns (NA while open; NA for a start because
    MPI_Start is not timed), completion_enter_ns and completion_exit_ns (the completing Wait or
    Test, NA without one), bytes (sent), received, root (NA without one), algorithm, flags,
    outside_ns (time in point-to-point and completion calls since the rank's previous record),
    choice (state of the selector that chose the algorithm: observe, probe, chosen; empty without
    one).
    """
    return pd.concat(list(make_event_pieces(trace)), ignore_index=True)


def make_event_pieces(trace: Trace) -> Iterator[pd.DataFrame]:
    """Yield the rows of `events` in order, in bounded pieces; at least one, maybe empty."""
    columns = _EventColumns(trace)
    buffered = [_RankCalls(0, EMPTY, EMPTY.enter_ns, EMPTY.exit_ns)]  # a piece must not be empty
    for rank in range(trace.ranks):
        for part in _read_rank_parts(trace, rank):
            buffered.append(part)
            if sum(len(p.block) for p in buffered) >= PIECE_ROWS:
                yield columns.make_frame(buffered)
                buffered = []
    if buffered:
        yield columns.make_frame(buffered)


@dataclass(frozen=True)
class _RankCalls:
    """Calls and starts of one rank, with enter and exit of each completion (0 without one)."""

    rank: int
    block: Block
    completion_enter: Int
    completion_exit: Int


class _EventColumns:
    """Columns that follow from shapes, prepared for all events."""

    def __init__(self, trace: Trace) -> None:
        shapes, labels = trace.tables.shapes, label_sites(trace)
        communicators = trace.tables.communicators
        texts = {
            "operation": [s.operation for s in shapes],
            "site": [labels[s.site] for s in shapes],
            "communicator": [communicators[s.communicator].identity for s in shapes],
            "algorithm": [s.algorithm for s in shapes],
            "flags": [" ".join(s.flags) for s in shapes],
        }
        self.categories = {name: pd.Categorical(values) for name, values in texts.items()}
        self.sent = [s.sent for s in shapes]
        self.received = [s.received for s in shapes]
        self.root = [s.root for s in shapes]

    def make_frame(self, parts: list[_RankCalls]) -> pd.DataFrame:
        """Return some parts as rows."""
        block = concatenate([p.block for p in parts])
        shape = block.shape
        enter = np.concatenate([p.completion_enter for p in parts])
        exit_ = np.concatenate([p.completion_exit for p in parts])

        def text(name: str) -> Any:
            return self.categories[name].take(shape)

        table: dict[str, Any] = {
            "rank": np.repeat([p.rank for p in parts], [len(p.block) for p in parts]),
            "thread": get_column(block, "thread"),
            "operation": text("operation"),
            "site": text("site"),
            "communicator": text("communicator"),
            "sequence": block.sequence.astype(np.int64),
            "start": get_column(block, "start"),
            "enter_ns": block.enter_ns,
            "exit_ns": nullable_column(block.exit_ns, block.exit_ns == 0),
            "completion_enter_ns": nullable_column(enter, enter == 0),
            "completion_exit_ns": nullable_column(exit_, exit_ == 0),
            "bytes": _byte_column(shape, self.sent, get_column(block, "sent")),
            "received": _byte_column(shape, self.received, get_column(block, "received")),
            "root": _byte_column(shape, self.root, np.full(len(block), -1, np.int64)),
            "algorithm": text("algorithm"),
            "flags": text("flags"),
            "outside_ns": get_column(block, "outside"),
            "choice": _categorical(list(CHOICES), get_column(block, "choice")),
        }
        return pd.DataFrame(table)


def nullable_column(values: Array, missing: Bool) -> Any:
    """Return an Int64 column with NA where `missing`."""
    return pd.arrays.IntegerArray(np.where(missing, 0, values).astype(np.int64), missing.copy())


def _byte_column(shape: Array, of_shape: list[int], call_bytes: Int) -> Any:
    shape_bytes = np.array([*of_shape, -1], np.int64)[shape]
    values = np.where(call_bytes >= 0, call_bytes, shape_bytes)
    return nullable_column(values, values < 0)


def _read_rank_parts(trace: Trace, rank: int) -> Iterator[_RankCalls]:
    """Yield a rank's calls and starts by block, or all at once if completions may be far apart."""
    blocks = trace.open_stream(rank).iterate_blocks(BLOCK_RECORDS)
    ids = trace.tables.shape_map(rank)
    names = {trace.tables.shapes[i].operation for i in ids[ids >= 0].tolist()}
    if any(is_nonblocking(name) or name.endswith("_init") for name in names):
        every = list(blocks)
        blocks = iter([concatenate(every)] if every else [])
    for block in blocks:
        kind = get_column(block, "kind")
        opener = block.take((kind == CALL) | (kind == START))
        opener.exit_ns = np.where(get_column(opener, "kind") == START, 0, opener.exit_ns)
        completions = _match_completions(trace, opener, block.take(kind == COMPLETION))
        yield _RankCalls(rank, opener, *completions)


def _match_completions(trace: Trace, opener: Block, closer: Block) -> tuple[Int, Int]:
    """Return enter and exit of the completion of each call or start, 0 without one."""
    enter, exit_ = np.zeros((2, len(opener)), np.int64)
    if len(closer):
        both = concatenate([opener, closer])
        communicator = np.array([s.communicator for s in trace.tables.shapes], np.int64)
        keys = communicator[both.shape], both.sequence.astype(np.int64), get_column(both, "start")
        _, ids = np.unique(np.stack(keys), axis=1, return_inverse=True)
        ids = ids.reshape(-1)  # two-dimensional in NumPy 2.0.0
        first = np.full(int(ids.max()) + 1, -1, np.int64)
        closing = ids[len(opener) :]
        first[closing[::-1]] = np.arange(len(closer))[::-1]
        at = first[ids[: len(opener)]]
        completed = at >= 0
        enter[completed] = closer.enter_ns[at[completed]]
        exit_[completed] = closer.exit_ns[at[completed]]
    return enter, exit_


def make_instances(trace: Trace) -> pd.DataFrame:
    """Return one row per instance, in order of first arrival.

    communicator (identity), sequence, start (n-th start), operation, algorithm (with its
    parameters), callsite (as in `callsites`), sites (text), size, complete, first_arrival_ns,
    last_arrival_ns, first_rank, last_rank, last_exit_ns, the columns of account/columns.py with a
    value for each instance, and choice (as in `events`). Undefined values are
    NA or NaN. An instance with an absent or open member is not complete; members of whom the trace
    has no records (`Trace.ranks_without_records`) count as if they took no part. Calls on
    communicators of one rank are no instances; `events` contains them.
    """
    pieces = list(make_instance_pieces(trace))
    frame: pd.DataFrame = pd.concat(
        [piece.drop(columns=list(INSTANCE_TEXTS)) for piece in pieces], ignore_index=True
    )
    for name, where in INSTANCE_TEXTS.items():
        text: Any = union_categoricals([piece[name] for piece in pieces])
        frame.insert(where, name, text)
    return frame.sort_values("first_arrival_ns", kind="stable", ignore_index=True)


def make_instance_pieces(trace: Trace) -> Iterator[pd.DataFrame]:
    """Yield the rows of `instances` in matching order, in pieces; at least one, maybe empty."""
    # Batches are joined: a program may create thousands of communicators with one batch each.
    measure = InstanceMetrics(trace)
    labels = label_sites(trace)
    buffered: list[_Matched] = []
    buffered_rows, is_empty = 0, True
    for batch, rows in measure.iterate_batches():
        if batch.communicator.has_one_member:
            continue
        buffered.append((batch, rows))
        buffered_rows += len(batch)
        if buffered_rows >= PIECE_ROWS:
            yield _instance_frame(measure, labels, buffered)
            buffered, buffered_rows, is_empty = [], 0, False
    if buffered or is_empty:
        yield _instance_frame(measure, labels, buffered or [_empty_instance()])


INSTANCE_TEXTS = {"communicator": 0, "operation": 3, "algorithm": 4, "sites": 6}  # and columns
_Matched = tuple[Batch, Rows]


def _empty_instance() -> _Matched:
    none, nothing = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    nobody = Communicator(
        -1, "", (), none, 0, is_local=False, is_inter=False, origin="", parent=None
    )
    matrices = (nothing, nothing, nothing, nothing, nothing)
    batch = Batch(nobody, none, none, *matrices, sent=None, received=None, complete=True)
    return batch, make_empty_rows(0)


def _instance_frame(
    measure: InstanceMetrics, labels: list[str], matched: list[_Matched]
) -> pd.DataFrame:
    keys = list(measure.callsites)
    sites = [" | ".join(labels[i] for i in sorted(k.sites)) for k in keys]
    batches, parts = [batch for batch, _ in matched], [rows for _, rows in matched]
    communicators = [batch.communicator for batch in batches]
    lengths = [len(batch) for batch in batches]
    choices = [np.zeros(len(b), np.uint8) if b.choice is None else b.choice for b in batches]

    def of(name: str) -> Array:
        return np.concatenate([getattr(rows, name) for rows in parts])

    callsite, complete, last_rank = of("callsite"), of("complete"), of("last_rank")
    identities = list(dict.fromkeys(c.identity for c in communicators))
    numbers = {identity: i for i, identity in enumerate(identities)}
    communicator = np.repeat([numbers[c.identity] for c in communicators], lengths)
    table: dict[str, Any] = {
        "communicator": _categorical(identities, communicator),
        "sequence": np.concatenate([batch.sequence for batch in batches]),
        "start": np.concatenate([batch.start for batch in batches]),
        "operation": _categorical([k.operation for k in keys], callsite),
        "algorithm": _categorical(list(measure.algorithms), of("algorithm")),
        "callsite": callsite,
        "sites": _categorical(sites, callsite),
        "size": np.repeat([c.size for c in communicators], lengths).astype(np.int64),
        "complete": complete,
        "first_arrival_ns": of("first_arrival"),
        "last_arrival_ns": nullable_column(of("last_arrival"), last_rank < 0),
        "first_rank": of("first_rank"),
        "last_rank": nullable_column(last_rank, last_rank < 0),
        "last_exit_ns": nullable_column(of("last_exit"), ~complete),
        **{
            name: np.concatenate([instance(rows) for rows in parts])
            for name, instance in of_instances().items()
        },
        "choice": _categorical(list(CHOICES), np.concatenate(choices)),
    }
    return pd.DataFrame(table)


def _categorical(labels: list[str], index: Array) -> Any:
    return pd.Categorical(labels).take(index) if labels else pd.Categorical([])


def make_matrix(trace: Trace, callsite: int) -> tuple[Int, Int]:
    """Return arrivals and exits of one call site: int64 ns, instances (by first arrival) x ranks.

    The columns are the ranks of its communicator, or of all its communicators in world rank order
    (`matrix_ranks`). An absent rank has arrival -1. An open or absent call has exit 0.
    """
    parts = list(_iterate_callsite(trace, callsite))
    ranks = np.unique(np.concatenate([NO_TIMES, *(members for members, *_ in parts)]))
    first = np.concatenate([NO_TIMES, *(first_arrival for *_, first_arrival in parts)])
    arrivals = np.full((len(first), len(ranks)), -1, np.int64)
    exits = np.zeros((len(first), len(ranks)), np.int64)
    row = 0
    for members, arrival, finish, first_arrival in parts:
        rows, columns = slice(row, row + len(first_arrival)), np.searchsorted(ranks, members)
        arrivals[rows, columns], exits[rows, columns] = arrival.T, finish.T
        row += len(first_arrival)
    order = np.argsort(first, kind="stable")
    return arrivals[order], exits[order]


def matrix_ranks(trace: Trace, callsite: int) -> Int:
    """Return the world ranks of the columns of `matrix`, ascending."""
    parts = _iterate_callsite(trace, callsite)
    return np.unique(np.concatenate([NO_TIMES, *(ranks for ranks, *_ in parts)]))


def _iterate_callsite(trace: Trace, callsite: int) -> Iterator[tuple[Int, Int, Int, Int]]:
    """Yield ranks, arrivals (-1 if absent), exits and first arrivals of a call site per batch."""
    measure = InstanceMetrics(trace)
    for batch, rows in measure.iterate_batches():
        index = np.flatnonzero(rows.callsite == callsite)
        if len(index) and not batch.communicator.has_one_member:
            arrival_ns = np.where(batch.shape[:, index] >= 0, batch.arrival_ns[:, index], -1)
            exit_ns, first_ns = batch.exit_ns[:, index], rows.first_arrival[index]
            yield batch.communicator.ranks, arrival_ns, exit_ns, first_ns
    count = len(measure.callsites)
    if not 0 <= callsite < count:
        raise TraceError(f"{trace.path}: no call site {callsite}; the trace has {count}")
