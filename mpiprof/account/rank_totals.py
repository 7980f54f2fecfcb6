"""Totals of each rank at each call site: one pass, memory per call site and rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.batch_map import BatchPass
from mpiprof.account.instance_metrics import InstanceMetrics, take_complete
from mpiprof.account.instance_rows import Signature
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.wait_states import awaited_rows, compute_arrival_waits, find_pending_waits
from mpiprof.errors import TraceError
from mpiprof.trace.batch import Batch
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.rank_arrays import get_column
from mpiprof.trace.rank_group import skip_to
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import CALL, COMPLETION, EXTENSION, OUTSIDE, Array, Float, Int

CHUNKS = 64  # chunks per read
NEAR = 1 << 12  # records per read when searching for one record
WIDE = np.iinfo(np.uint32).max  # the value is in the preceding extension record
TIME_SUMS = ("elapsed_ns", "total_wait_ns", "caused_ns", "lateness_ns")
COLUMNS = ("instances", "calls", *TIME_SUMS, "most_late_ns", "last")
MAX_COLUMN = "most_late_ns"  # maximum over instances; other columns are sums


def make_rank_totals(trace: Trace) -> pd.DataFrame:
    """Return one row per call site, communicator and member.

    callsite, operation, communicator (identity), rank; calls (finished ones), elapsed_ns (in
    these); over complete instances: instances, total_wait_ns (the rank's own wait), caused_ns (wait
    of all ranks for this rank), lateness_ns (after the first arrival), most_late_ns (maximum
    lateness), last (instances in which it was last by more than the clock error). Times are sums
    over instances.
    """
    totals: dict[tuple[int, int], dict[str, Array]] = {}
    over = BatchPass(trace, _sum_batch, trace.clock_error_ns)
    for part in over:
        communicator, sums = part.value
        for number, values in sums.items():
            key = (int(part.callsites[number]), communicator)
            if key not in totals:
                totals[key] = values
                continue
            for name, total in totals[key].items():
                join = np.maximum if name == MAX_COLUMN else np.add
                join(total, values[name], out=total)
    operations = [key.operation for key in over.callsites]
    communicators = trace.recorded_communicators
    parts = []
    for (callsite, communicator), values in totals.items():
        columns: dict[str, Any] = {
            "callsite": callsite,
            "operation": operations[callsite],
            "communicator": communicators[communicator].identity,
            "rank": communicators[communicator].ranks,
        }
        columns |= {name: values[name].astype(np.int64) for name in COLUMNS}
        parts.append(pd.DataFrame(columns))
    names = ["callsite", "operation", "communicator", "rank", *COLUMNS]
    table = pd.concat(parts) if parts else pd.DataFrame(columns=names)
    if trace.sampling_interval > 1:  # scaled like the sums of call sites
        scale = callsite_scales(trace)[table["callsite"].to_numpy(np.int64)]
        for name in TIME_SUMS:
            table[name] = (table[name].to_numpy(np.float64) * scale).astype(np.int64)
    return table.reset_index(drop=True)


def _sum_batch(
    measure: InstanceMetrics, batch: Batch, error_ns: int
) -> tuple[int, dict[int, dict[str, Array]]]:
    """Return a batch's communicator and the sums of its members, by call site."""
    totals: dict[int, dict[str, Array]] = {}
    for signature, index in measure.group_by_signature(batch):
        zeros = {name: np.zeros(len(batch.communicator.ranks)) for name in COLUMNS}
        sums = totals.setdefault(signature.callsite, zeros)
        _add(sums, batch, signature, index, error_ns)
    return batch.communicator.index, totals


def _add(
    sums: dict[str, Array], batch: Batch, signature: Signature, part: slice | Int, error_ns: int
) -> None:
    sums["elapsed_ns"] += batch.elapsed_ns[:, part].sum(1)
    sums["calls"] += (batch.exit_ns[:, part] != 0).sum(1)
    arrival, begin, finish = take_complete(batch, signature, part)
    if batch.communicator.has_one_member or not arrival.shape[1]:
        return
    sums["instances"] += arrival.shape[1]
    first = arrival.min(0)
    lateness = arrival - first
    sums["lateness_ns"] += lateness.sum(1)
    sums[MAX_COLUMN] = np.maximum(sums[MAX_COLUMN], lateness.max(1))
    last_row = arrival.argmax(0)
    late = lateness.max(0) > error_ns
    size = len(arrival)
    sums["last"] += np.bincount(last_row[late], minlength=size)
    if signature.state is None:
        return
    wait = compute_arrival_waits(arrival, begin, finish, signature.group)
    pending = find_pending_waits(arrival, begin, finish, signature.group)
    pending_ns = pending.until_ns - pending.begin_ns
    sums["total_wait_ns"] += wait.sum(1) + np.bincount(pending.row, pending_ns, size)
    sums["caused_ns"] += np.bincount(pending.awaited, pending_ns, size)
    if signature.group.rule.is_for_last and not signature.group.inter:
        sums["caused_ns"] += np.bincount(last_row, wait.sum(0), size)
    else:
        row = awaited_rows(arrival, signature.group)
        sums["caused_ns"] += np.bincount(row.ravel(), wait.ravel(), size)


def unrecorded_time(trace: Trace) -> pd.DataFrame:
    """Return one row per rank: rank, and a column (ns) for each of OUTSIDE_CLASSES.

    point_to_point (blocking calls), completion (Wait, Test etc.), one_sided, files (calls of a
    single process). NaN if the log has no such sums, as in older versions.
    """
    table = pd.DataFrame(np.nan, index=range(trace.ranks), columns=list(OUTSIDE_CLASSES))
    for (rank, _), values in trace.logs.outside_ns.items():
        table.loc[rank] = np.nan_to_num(table.loc[rank].to_numpy()) + values
    return table.rename_axis("rank").reset_index()


def point_to_point_time(trace: Trace) -> Float:
    """Return ns in point-to-point and completion calls for each rank."""
    totals = np.zeros(trace.ranks)
    for rank in range(trace.ranks):
        for chunks in trace.thread_chunks(rank):
            for begin in range(0, len(chunks), CHUNKS):
                part = chunks[begin : begin + CHUNKS]
                log = part[0].log
                pieces = [(chunk.index, 0, log.layout.capacity) for chunk in part]
                totals[rank] += _sum_outside(log.read(pieces))
    return totals


def _sum_outside(records: Array) -> float:
    """Sum the time outside collectives; a value beyond 32 bits is in an extension record."""
    kind, outside, wide = records["kind"], records["outside_ns"], records["exit_ns"]
    plain = (kind >= CALL) & (kind <= COMPLETION) & (outside != WIDE)
    extended = (kind == EXTENSION) & (records["sequence"] == OUTSIDE) & (wide >= 0)
    return float(outside[plain].sum(dtype=np.float64) + wide[extended].sum(dtype=np.float64))


@dataclass(frozen=True)
class Instance:
    """One instance: world rank, arrival, exit (0 if open) and wait of each member, int64 ns."""

    ranks: Int
    arrival: Int
    finish: Int
    wait: Int


def read_instance(
    trace: Trace, communicator: str, sequence: int, start: int = 0, since_ns: int | None = None
) -> Instance:
    """Return one instance without absent ranks; raises TraceError if it does not exist.

    Reads the trace from since_ns (no later than its first arrival), or from the beginning.
    """
    measure = InstanceMetrics(trace)
    for batch in trace.batches(batch=1 << 18, since_ns=since_ns):
        if batch.communicator.identity != communicator:
            continue
        at = np.flatnonzero((batch.sequence == sequence) & (batch.start == start))
        if len(at):
            return _take_instance(measure, batch, int(at[0]))
    raise TraceError(f"{trace.path}: no instance {sequence} on the communicator {communicator:.40}")


def read_instance_at(trace: Trace, first_arrival_ns: int, spread_ns: int) -> Instance | None:
    """Return the instance of this first arrival and this worst-case imbalance, or None."""
    measure = InstanceMetrics(trace)
    for batch in trace.batches(batch=1 << 18, since_ns=first_arrival_ns):
        present = batch.shape >= 0
        first = np.where(present, batch.arrival_ns, np.iinfo(np.int64).max).min(0)
        spread = np.where(present, batch.arrival_ns, -1).max(0) - first
        at = np.flatnonzero((first == first_arrival_ns) & (spread == spread_ns))
        if len(at):
            return _take_instance(measure, batch, int(at[0]))
    return None


def _take_instance(measure: InstanceMetrics, batch: Batch, column: int) -> Instance:
    """Return one instance of a batch without absent ranks."""
    instance = batch.take(np.array([column]))
    measure.blocked = np.zeros(instance.arrival_ns.shape, np.int64)
    complete = measure.compute_rows(instance).complete
    present = instance.shape[:, 0] >= 0
    times = instance.arrival_ns, instance.exit_ns, measure.blocked * complete
    return Instance(instance.communicator.ranks[present], *(m[present, 0] for m in times))


def find_call(trace: Trace, rank: int, enter_ns: int) -> tuple[int, int] | None:
    """Return the thread of a call, and its point-to-point time (ns) before it; None if not found.

    enter_ns: on the joint clock; it identifies the call.
    """
    stream = trace.open_stream(rank)
    skip_to([stream], enter_ns)
    for thread in stream.threads:
        while (block := thread.read(NEAR)) is not None and int(block.enter_ns[0]) <= enter_ns:
            at = np.flatnonzero(block.enter_ns == enter_ns)[:1]
            if len(at):
                return thread.chunks[0].thread, int(get_column(block, "outside")[at[0]])
    return None
