"""Computes one row of metrics per instance from batches of matched instances.

Instances with equal shapes on all ranks share a signature. Values that depend on shapes only
(operation, call site, root, sizes, message time) are computed once per signature. The rest is
computed on whole matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from mpiprof.account import disagreement
from mpiprof.account.instance_rows import CallsiteKey, Rows, Signature, make_empty_rows
from mpiprof.account.message_volume import Volume, column_means, count_peers, message_time, volume
from mpiprof.account.shape_names import join_algorithms
from mpiprof.account.wait_states import Group, add_dependence, completion_skew, compute_waits
from mpiprof.facts.operations import WAIT_STATES, WaitRule, base_operation, wait_state
from mpiprof.trace.batch import Batch, take_columns
from mpiprof.trace.metadata import Call, Communicator, Shape
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Float, Int, Problems

MIX_STEP = np.uint64(0x9E3779B97F4A7C15)  # of hashes of the shapes in an instance


class InstanceMetrics:
    """Computes the metrics of batches of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.shapes: list[Shape] = trace.tables.shapes
        self.trace = trace
        self.problems: Problems = trace.problems  # extended by those of the instances
        self.machine = trace.machine
        self.callsites: dict[CallsiteKey, int] = {}  # numbers; grows during the pass
        self.algorithms: dict[str, int] = {}  # numbers; grows during the pass
        self.known: dict[tuple[int, int], Signature] = {}
        # Instances whose members make different calls, only the first for each set of shapes.
        self.wrong: list[disagreement.Disagreement] = []
        random = np.random.default_rng(20080601)
        seeds = random.integers(1, 1 << 63, len(self.shapes) + 1, dtype=np.uint64)
        self.mix = seeds | np.uint64(1)
        # If set to zeros before a batch: receives the wait of each rank in each instance (ns, ranks
        # x instances).
        self.blocked: Int | None = None

    def take_callsites(self, callsite_count: int) -> tuple[list[CallsiteKey], list[str]]:
        """Remove and return the algorithms, and the call sites after a number of first ones."""
        met = list(self.callsites)[callsite_count:], list(self.algorithms)
        for key in met[0]:
            del self.callsites[key]
        self.algorithms.clear()
        self.known.clear()  # it contains numbers of both
        return met

    def iterate_batches(self) -> Iterator[tuple[Batch, Rows]]:
        """Yield every batch of the trace with its metrics."""
        for batch in self.trace.batches():
            yield batch, self.compute_rows(batch)

    def compute_rows(self, batch: Batch) -> Rows:
        """Return the metrics of a batch's instances."""
        n = len(batch)
        rows = make_empty_rows(n)
        ranks = batch.communicator.ranks
        all_here = bool(batch.complete) or bool((batch.shape >= 0).all())
        if all_here:
            self._set_arrivals(rows, batch.arrival_ns, ranks, slice(None))
        rows.elapsed = batch.elapsed_ns.sum(0).astype(np.float64)
        rows.last_exit = batch.exit_ns.max(0)
        first_exit = batch.exit_ns.min(0)
        rows.left = (rows.last_exit > 0) | (batch.begin_ns is not batch.arrival_ns)
        for signature, index in self.group_by_signature(batch):
            self._set_signature(rows, batch, signature, index, all_here)
            self._set_exits(rows, first_exit, batch, index)
        return rows

    def _set_arrivals(self, rows: Rows, arrival: Int, ranks: Int, index: slice | Int) -> None:
        first, last, first_row, last_row, average = compute_arrival_metrics(arrival)
        rows.first_arrival[index] = first
        rows.last_arrival[index] = last
        rows.first_rank[index] = ranks[first_row]
        rows.last_rank[index] = ranks[last_row]
        if len(ranks) > 1:  # a single arrival has no imbalance
            rows.average_imbalance[index] = average
            rows.worst_imbalance[index] = last - first

    def _set_signature(
        self, rows: Rows, batch: Batch, signature: Signature, index: slice | Int, all_here: bool
    ) -> None:
        rows.callsite[index] = signature.callsite
        rows.algorithm[index] = signature.algorithm
        everyone = signature.is_whole
        if not everyone:
            present = np.flatnonzero(signature.present)
            ranks = batch.communicator.ranks[present]
            self._set_arrivals(rows, batch.arrival_ns[present][:, index], ranks, index)
            rows.last_arrival[index] = -1  # absent ranks may arrive later than all others
            rows.last_rank[index] = -1
            rows.average_imbalance[index] = np.nan
            rows.worst_imbalance[index] = np.nan
        elif not all_here:
            self._set_arrivals(rows, batch.arrival_ns[:, index], batch.communicator.ranks, index)
        closed: Bool | np.bool_ = np.True_
        if not batch.complete:
            closed = (take_columns(batch.exit_ns, index) != 0).all(0)
            rows.last_exit[index] = np.where(closed, rows.last_exit[index], -1)
        rows.arrived[index] = everyone
        complete = rows.complete[index] = np.full(len(rows.callsite[index]), everyone) & closed
        self._set_volumes(rows, batch, signature, index)
        size = len(batch.communicator.ranks)
        average, worst = rows.average_imbalance[index], rows.worst_imbalance[index]
        factors = imbalance_factors(average, worst, rows.message_time[index])
        rows.average_factor[index], rows.worst_factor[index] = factors
        rows.mean_elapsed[index] = np.where(complete, rows.elapsed[index] / size, np.nan)
        if everyone:
            self._set_waits(rows, batch, signature, index, complete)

    def _set_exits(self, rows: Rows, first_exit: Int, batch: Batch, index: slice | Int) -> None:
        complete = rows.complete[index]
        if batch.communicator.has_one_member or not complete.any():
            return
        apart = np.where(complete, rows.last_exit[index] - first_exit[index], np.nan)
        rows.exit_imbalance[index] = apart
        rows.exit_factor[index] = imbalance_factors(apart, apart, rows.message_time[index])[1]

    def _set_waits(
        self, rows: Rows, batch: Batch, signature: Signature, index: slice | Int, complete: Bool
    ) -> None:
        rows.wait[index] = rows.skew[index] = np.where(complete, 0.0, np.nan)
        if signature.state is None or len(signature.present) == 1:
            return
        arrival, finish = (take_columns(m, index) for m in (batch.arrival_ns, batch.exit_ns))
        is_blocking = batch.begin_ns is batch.arrival_ns
        begin = arrival if is_blocking else take_columns(batch.begin_ns, index)
        waited = compute_waits(arrival, begin, finish, signature.group)
        if self.blocked is not None:
            self.blocked[:, index] = waited
        total = np.where(complete, waited.sum(0), np.nan)
        rows.waits.setdefault(signature.state, np.zeros(len(batch)))[index] = total
        rows.wait[index] = total
        if signature.group.rule is WaitRule.ALL_FOR_ALL:
            rows.skew[index] = np.where(complete, completion_skew(begin, finish), np.nan)

    def _set_volumes(
        self, rows: Rows, batch: Batch, signature: Signature, index: slice | Int
    ) -> None:
        data_volume = signature.volume
        rows.message_time[index] = signature.message_time
        if batch.sent is not None or batch.received is not None:
            cells = np.s_[:, index]
            sent = _bytes_of_calls(batch.sent, cells, signature.sent[:, None])
            received = _bytes_of_calls(batch.received, cells, signature.received[:, None])
            sent, received = np.broadcast_arrays(sent, received)
            base, group = signature.base, signature.group
            data_volume = _find_volume(base, group, sent, received, signature.peers)
            rows.message_time[index] = self._message_time(batch.communicator, data_volume.message)
        rows.message_bytes[index] = data_volume.message
        rows.bytes[index] = column_means(data_volume.bytes)
        rows.bytes_min[index] = np.fmin.reduce(data_volume.bytes, axis=0)
        rows.bytes_max[index] = np.fmax.reduce(data_volume.bytes, axis=0)

    def group_by_signature(self, batch: Batch) -> Iterator[tuple[Signature, slice | Int]]:
        """Yield each signature of a batch with the indices of its instances (a slice for all)."""
        mixed = _mix_rows(self.mix, batch.shape)
        started = batch.start > 0
        if started.any():
            mixed ^= started.astype(np.uint64) << np.uint64(40)
        if (mixed == mixed[0]).all():
            yield self._find_signature(batch, int(mixed[0]), 0), slice(None)
            return
        groups = self._group_mixed(batch.shape[0], mixed)
        for index in sorted(groups, key=lambda instances: int(instances[0])):  # call site order
            yield self._find_signature(batch, int(mixed[index[0]]), int(index[0])), index

    def _group_mixed(self, shape: Array, mixed: Array) -> list[Int]:
        """Return groups of equal instances; mostly, the shape on the first rank determines them."""
        mix_of_shape = np.zeros(len(self.mix), np.uint64)
        mix_of_shape[shape] = mixed
        group: Array = shape
        if not (mix_of_shape[shape] == mixed).all():
            group = np.unique(mixed, return_inverse=True)[1]
        if len(self.mix) < 1 << 15 and group.max(initial=0) < 1 << 15:
            group = group.astype(np.int16)  # radix sort in NumPy
        order = np.argsort(group, kind="stable")
        group = group[order]
        return np.split(order, np.flatnonzero(group[1:] != group[:-1]) + 1)

    def _find_signature(self, batch: Batch, hash_: int, at: int) -> Signature:
        key = (batch.communicator.index, hash_)
        signature = self.known.get(key)
        if signature is None:
            if len(self.known) > 100_000:
                self.known.clear()
            started = bool(batch.start[at] > 0)
            signature = self._make_signature(batch.communicator, batch.shape[:, at], started)
            self.known[key] = signature
            self._check_agreement(batch, at)
        return signature

    def _check_agreement(self, batch: Batch, at: int) -> None:
        """Add an instance to `wrong` if its members make different calls."""
        row = batch.shape[:, at].tolist()
        if len(set(row)) == 1 and row[0] >= 0 and self.shapes[row[0]].root < 0:
            return  # the case of nearly all instances
        key = (batch.communicator.index, int(batch.sequence[at]), int(batch.start[at]))
        calls = {}
        for i, rank in enumerate(batch.communicator.ranks.tolist()):
            if row[i] < 0:
                continue
            shape, cell = self.shapes[row[i]], (i, at)
            sent = int(_bytes_of_calls(batch.sent, cell, shape.sent))
            received = int(_bytes_of_calls(batch.received, cell, shape.received))
            times = int(batch.arrival_ns[cell]), int(batch.exit_ns[cell])
            calls[rank] = Call(shape, key, *times, sent, received)
        new_disagreement = disagreement.find_in_instance(key, calls, batch.communicator)
        if new_disagreement is not None:
            self.wrong = disagreement.select_earliest([*self.wrong, new_disagreement])

    def _make_signature(self, communicator: Communicator, row: Array, started: bool) -> Signature:
        present = row >= 0
        shapes = [self.shapes[i] if i >= 0 else None for i in row.tolist()]
        present_shapes = [s for s in shapes if s is not None]
        names = [s.operation for s in present_shapes]
        operation = max(sorted(set(names)), key=names.count)
        comparable = len(set(names)) == 1
        if not comparable:
            called = ", ".join(sorted(set(names)))
            self.problems.add(f"ranks called different operations in the same instance: {called}")
        if communicator.is_local and communicator.size != 1:
            comparable = False
        if communicator.is_partial and _lacks_partners(communicator, present_shapes):
            comparable = False
        base = base_operation(operation)
        state = wait_state(base)
        rule = WAIT_STATES.get(state or "", WaitRule.UNSPECIFIED)
        group = self._make_group(communicator, shapes, rule)
        if operation.endswith("_init") and not started:
            state = None  # whether an init synchronises is undefined
        algorithm = _common_algorithm(present_shapes)
        sent = np.array([-1 if s is None else s.sent for s in shapes], np.int64)
        received = np.array([-1 if s is None else s.received for s in shapes], np.int64)
        is_whole = comparable and bool(present.all()) and not communicator.is_partial
        if state is not None and group.rule.rooted and is_whole:
            nodes = [self.trace.node_ids.get(rank, "?") for rank in communicator.ranks.tolist()]
            group = add_dependence(group, base, algorithm, (sent, received), nodes, self.machine)
        peers = count_peers(base, communicator, self.trace.tables.destinations)
        peers = np.where(present, peers, 0.0)
        data_volume = _find_volume(base, group, sent, received, peers)
        time = self._message_time(communicator, np.asarray(data_volume.message, np.float64))
        # For other operations, `start` distinguishes communicators that share a row of the tables.
        sites = frozenset(s.site for s in present_shapes)
        key = CallsiteKey(operation, sites, started and operation.endswith("_init"))
        return Signature(
            self.callsites.setdefault(key, len(self.callsites)),
            self.algorithms.setdefault(algorithm, len(self.algorithms)),
            base,
            state,
            group,
            present,
            comparable,
            sent,
            received,
            peers,
            data_volume,
            float(time),
        )

    def _make_group(
        self, communicator: Communicator, shapes: list[Shape | None], rule: WaitRule
    ) -> Group:
        root, idle = -1, []
        if rule.rooted:
            roots = [s.root for s in shapes if s is not None and s.root >= 0]
            root = communicator.find_column(max(set(roots), key=roots.count)) if roots else -1
            idle = [i for i, s in enumerate(shapes) if s is not None and s.root == -2]
        sources: tuple[list[int], ...] = ()
        if rule is WaitRule.RANK_FOR_SOURCES:
            of_rank = self.trace.tables.sources
            columns = (
                [communicator.find_column(s) for s in of_rank.get((communicator.index, rank), ())]
                for rank in communicator.ranks.tolist()
            )
            sources = tuple(
                [column for column in columns_of_rank if column >= 0] for columns_of_rank in columns
            )
        return Group(rule, communicator.sizes, root, sources, tuple(idle))

    def _message_time(self, communicator: Communicator, message: Float) -> Float:
        return message_time(self.machine, self.trace.node_ids, communicator, message)


def _mix_rows(mix: Array, shape: Array) -> Array:
    """Return a hash of each column of shapes: sum of mix[shape] * MIX_STEP ** (rows after it)."""
    mixed: Array = mix[shape[0]]
    if (shape[1:] == shape[0]).all():  # the case of nearly all batches
        return mixed * np.uint64(_sum_powers(len(shape)))
    for row in shape[1:]:
        mixed *= MIX_STEP
        mixed += mix[row]
    return mixed


@cache
def _sum_powers(count: int) -> int:
    """Return the sum of the first powers of MIX_STEP, modulo 2 ** 64."""
    total = 0
    for _ in range(count):
        total = (total * int(MIX_STEP) + 1) & ((1 << 64) - 1)
    return total


def compute_arrival_metrics(arrival_ns: Int) -> tuple[Int, Int, Array, Array, Float]:
    """Return metrics of a ranks x instances matrix of arrivals without gaps (Faraj et al., 3).

    First and last arrival (ns), the rows of the first and last rank (the lowest row of equal ones)
    and the average-case imbalance (ns), one value per instance. The worst-case imbalance is last
    minus first arrival.

    The loop over rows is several times as fast as NumPy's argmin along the ranks in this memory
    layout.
    """
    first, last = arrival_ns[0].copy(), arrival_ns[0].copy()
    first_row = np.zeros(len(first), np.int32)
    last_row = np.zeros(len(first), np.int32)
    for row in range(1, len(arrival_ns)):
        values = arrival_ns[row]
        np.copyto(first_row, row, where=values < first)
        np.minimum(first, values, out=first)
        np.copyto(last_row, row, where=values > last)
        np.maximum(last, values, out=last)
    after = (arrival_ns - first).astype(np.float64)
    after -= after.mean(0)
    np.abs(after, out=after)
    return first, last, first_row, last_row, after.mean(0)


def imbalance_factors(average: Float, worst: Float, time: Float) -> tuple[Float, Float]:
    """Return both imbalances over message time T; NaN if either is unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        usable = np.where(time > 0, time, np.nan)
        return average / usable, worst / usable


def take_complete(batch: Batch, signature: Signature, index: slice | Int) -> list[Int]:
    """Return arrivals, begins, exits (ranks x instances) of complete instances of a signature.

    The first two are one array if the operation is blocking.
    """
    if not signature.is_whole:
        index = np.zeros(0, np.int64)
    arrival, finish = (take_columns(m, index) for m in (batch.arrival_ns, batch.exit_ns))
    closed: Bool = (finish != 0).all(0)
    if not closed.all():
        arrival, finish = (np.compress(closed, m, axis=1) for m in (arrival, finish))
    if batch.begin_ns is batch.arrival_ns:
        return [arrival, arrival, finish]
    return [arrival, np.compress(closed, take_columns(batch.begin_ns, index), axis=1), finish]


def _lacks_partners(communicator: Communicator, shapes: list[Shape]) -> bool:
    """Return whether no waiting can be known, because the root or all partners have no records."""
    roots = {shape.root for shape in shapes if shape.root >= 0}
    rows = [communicator.find_column(root) for root in roots]
    return len(communicator.ranks) < 2 or min(map(len, communicator.groups)) == 0 or -1 in rows


def _bytes_of_calls(call_bytes: Int | None, cells: Any, shape_bytes: Any) -> Any:
    """Return the bytes of some calls: recorded with the call, or else the bytes of its shape."""
    if call_bytes is None:
        return shape_bytes
    values = call_bytes[cells]
    return np.where(values >= 0, values, shape_bytes)


def _find_volume(base: str, group: Group, sent: Array, received: Array, peers: Float) -> Volume:
    root = group.root
    if group.inter and group.rule.rooted:
        # The root and ranks with MPI_PROC_NULL contribute no share.
        aside = [*group.idle, *([root] if root >= 0 else [])]
        if group.rule is WaitRule.ROOT_FOR_ALL:
            sent = sent.copy()
            sent[aside] = -1
        elif base != "bcast":
            received = received.copy()
            received[aside] = -1
            root = -1
    return volume(base, sent, received, root, peers)


def _common_algorithm(shapes: list[Shape]) -> str:
    """Return the algorithm that ran, ignoring calls that have not ended, where it is unknown."""
    ended = [s for s in shapes if s.sent >= 0 or s.received >= 0 or s.algorithm != "native"]
    return join_algorithms({s.algorithm for s in ended or shapes})
