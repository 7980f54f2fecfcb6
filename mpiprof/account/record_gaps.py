"""Gaps in the records of ranks, in which calls may be missing or waits are unknown.

A sampled trace has one of K instances of each communicator. A gap lasts from the call before
missing instances to the call after them. A ring has lost its first calls, so it begins with a gap.
A call is a gap if it may have waited for a message whose posting call has no record: outside of
the windows in which every call on messages is recorded, in old traces, and without the records of a
rank.
The causes of a wait are known only if none of its ranks has a gap since they last met.

Time in messages of which only sums are recorded is neither work nor known waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mpiprof.account.message_callsite_sums import are_waits_known, recorded_messages
from mpiprof.account.message_waits import find_unknown_waits
from mpiprof.account.row_order import find_last_rows, join_columns
from mpiprof.facts.operations import OPERATIONS, WaitRule, base_operation
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Bool, Int

MAX_MESSAGE_SHARE = 0.01  # of all ranks' time, up to which messages delay no rank
MAX_EXIT_SPREAD = 0.1  # of ranks that leave an instance together, over the spread of arrivals
NEVER_NS = np.iinfo(np.int64).min  # before all times
# In the note of the recorder that it no longer logs messages (core/record/message.c).
SUMS_NOTE = "only sums of messages are recorded"
MIN_SHARE = 0.01  # minimum share of all ranks' time; less delays no rank


def has_no_gaps(trace: Trace) -> bool:
    """Return whether each call of all ranks has a record, of rings since all are complete."""
    has_messages = trace.complete_share is None or trace.complete_share >= 1.0
    return trace.sampling_interval == 1 and has_messages and not trace.ranks_without_records


@dataclass(frozen=True)
class RecordGaps:
    """Gaps of all ranks, by rank and time and without overlaps.

    lateness: rank, begin_ns, end_ns and site of work that a gap would hide. If all ranks meet in
    each missing instance, their arrivals at the next one differ by their work.
    """

    rank: Int
    begin_ns: Int
    end_ns: Int
    lateness: list[Int]

    def overlap(self, rank: Int, begin_ns: Int, end_ns: Int) -> Bool:
        """Return whether a gap of the rank overlaps each time."""
        return self.find_end(rank, end_ns) > begin_ns

    def find_end(self, rank: Int, time_ns: Int) -> Int:
        """Return the end of the rank's last gap that begins before each time, or NEVER_NS."""
        row = find_last_rows((self.rank, self.begin_ns), rank, time_ns)
        return np.append(self.end_ns, NEVER_NS)[row]

    def find_whole_steps(self, edges_ns: Int) -> Bool:
        """Return whether no rank has a gap from each time to the next."""
        if not len(self.rank) or len(self.lateness[0]):
            return np.ones(len(edges_ns) - 1, np.bool_)
        order = np.argsort(self.begin_ns, kind="stable")
        begins, ends = self.begin_ns[order], np.maximum.accumulate(self.end_ns[order])
        before = np.searchsorted(
            begins, edges_ns[1:], side="left"
        )  # gaps that begin before the end
        latest = np.where(before > 0, ends[np.maximum(before, 1) - 1], NEVER_NS)
        return np.asarray(latest <= edges_ns[:-1])


@dataclass(frozen=True)
class _RecordedInstances:
    """Recorded instances of a communicator in order: sequence numbers, and ranks x instances."""

    ranks: Int
    sequence: Int
    enter_ns: Int
    exit_ns: Int
    site: Int

    @property
    def follows_missing(self) -> Bool:
        """Return whether the instance before each one is missing."""
        return np.diff(self.sequence, prepend=-1) > 1


def find_record_gaps(trace: Trace) -> RecordGaps:
    """Return the gaps in the records of a trace; a whole trace has none."""
    parts: list[list[Int]] = [find_unknown_waits(trace)]
    lateness: list[list[Int]] = []
    if trace.sampling_interval > 1 or trace.wrapped_chunks:
        recorded = _read_instances(trace)
        shows_work = trace.sampling_interval > 1 and _do_arrivals_show_work(trace, recorded)
        for instances in recorded:
            if trace.sampling_interval > 1:
                parts += _find_gaps(trace, instances, shows_work)
            else:
                first = instances.enter_ns.min(1)
                parts.append([instances.ranks, np.full(len(first), trace.run_start_ns), first])
            if shows_work:
                lateness.append(_find_lateness(instances))
    return RecordGaps(*_merge(*join_columns(parts, 3)), join_columns(lateness, 4))


def _read_instances(trace: Trace) -> list[_RecordedInstances]:
    """Return the recorded instances of each communicator.

    Starts of persistent operations, and calls on communicators that share a row of the tables, are
    left out: their numbers have another meaning.
    """
    sites = np.array([shape.site for shape in trace.tables.shapes] + [-1], np.int64)
    parts: dict[int, list[_RecordedInstances]] = {}
    for batch in trace.batches():
        usable = batch.start == 0
        if not usable.all():
            batch = batch.take(np.flatnonzero(usable))
        if len(batch):
            of_communicator = parts.setdefault(batch.communicator.index, [])
            of_communicator.append(_take_instances(batch, sites))
    joined = []
    for pieces in parts.values():
        sequence = np.concatenate([piece.sequence for piece in pieces])
        order = np.argsort(sequence, kind="stable")
        columns = (
            np.concatenate([getattr(piece, name) for piece in pieces], axis=1)[:, order]
            for name in ("enter_ns", "exit_ns", "site")
        )
        joined.append(_RecordedInstances(pieces[0].ranks, sequence[order], *columns))
    return joined


def _take_instances(batch: Batch, sites: Int) -> _RecordedInstances:
    """Return the instances of a batch. An absent rank enters and leaves with the last one."""
    present = batch.shape >= 0
    enter = np.where(present, batch.arrival_ns, batch.arrival_ns.max(0))
    # A nonblocking operation ends at any later time.
    exit_ns = np.maximum(batch.exit_ns, enter) if batch.begin_ns is batch.arrival_ns else enter
    return _RecordedInstances(
        batch.communicator.ranks, batch.sequence, enter, exit_ns, sites[batch.shape]
    )


def _do_arrivals_show_work(trace: Trace, recorded: Sequence[_RecordedInstances]) -> bool:
    """Return whether the arrivals of ranks differ by their work, also after missing instances.

    That is so if all ranks meet in all collectives and leave them together, and exchange no
    messages.
    """
    table = trace.callsites[trace.callsites["operation"] != "finalize"]
    operations = [OPERATIONS.get(operation) for operation in table["operation"]]
    meet = all(
        operation is not None and operation.wait_rule is WaitRule.ALL_FOR_ALL
        for operation in operations
    )
    meet &= bool((table["size"] == trace.ranks).all()) and not bool(table["started"].any())
    messages = float(trace.point_to_point.sum())
    if not meet or messages >= MAX_MESSAGE_SHARE * max(trace.process_time_ns, 1):
        return False
    exits, arrivals = (
        sum(int(np.ptp(getattr(instances, name), axis=0).sum()) for instances in recorded)
        for name in ("exit_ns", "enter_ns")
    )
    return exits <= MAX_EXIT_SPREAD * arrivals


def _find_gaps(
    trace: Trace, instances: _RecordedInstances, shows_work: bool
) -> Iterator[list[Int]]:
    """Yield the gaps of the ranks of a communicator in a sampled trace: rank, begin and end.

    The gaps before its first instance and after its last one are estimated.
    """
    ranks, sequence = instances.ranks, instances.sequence
    ends = (
        np.broadcast_to(instances.enter_ns.min(0), instances.enter_ns.shape)
        if shows_work
        else instances.enter_ns
    )
    missing = np.flatnonzero(instances.follows_missing[1:]) + 1
    begin, end = instances.exit_ns[:, missing - 1].ravel(), ends[:, missing].ravel()
    yield [np.repeat(ranks, len(missing)), begin, end]
    count = max(int(sequence[-1] - sequence[0]), 1)
    spacing = int(instances.enter_ns[:, -1].max() - instances.enter_ns[:, 0].min()) // count
    if sequence[0] > 0:
        before = 2 * int(sequence[0]) * spacing if spacing else NEVER_NS // -2
        begin = np.maximum(ends[:, 0] - before, trace.run_start_ns)
        yield [ranks, np.minimum(begin, ends[:, 0]), ends[:, 0]]
    after = trace.sampling_interval * spacing
    yield [ranks, instances.exit_ns[:, -1], instances.exit_ns[:, -1] + after]


def _find_lateness(instances: _RecordedInstances) -> list[Int]:
    """Return the work of each rank since the first arrival, where the instance before is missing.

    Columns: rank, begin, end and site.
    """
    columns = np.flatnonzero(instances.follows_missing)
    enter = instances.enter_ns[:, columns]
    first = np.broadcast_to(enter.min(0), enter.shape)
    row, column = np.nonzero(enter > first)
    cells = row, column
    return [instances.ranks[row], first[cells], enter[cells], instances.site[:, columns][cells]]


def _merge(rank: Int, begin_ns: Int, end_ns: Int) -> tuple[Int, Int, Int]:
    """Return gaps without overlaps, by rank and time."""
    order = np.lexsort((begin_ns, rank))
    rank, begin, end = rank[order], begin_ns[order], end_ns[order]
    if not len(rank):
        return rank, begin, end
    low = int(begin.min())
    stride = int(end.max()) - low + 1
    latest = np.maximum.accumulate(rank * stride + (end - low))
    is_first = np.ones(len(rank), np.bool_)
    is_first[1:] = rank[1:] * stride + (begin[1:] - low) > latest[:-1]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(rank)) - 1
    return rank[first], begin[first], latest[last] - rank[first] * stride + low


@dataclass(frozen=True)
class MessageTime:
    """Time in calls on messages before each collective of a rank, by rank and time.

    rank, end_ns (begin of the collective), spent_ns (in messages since the collective before).
    """

    rank: Int
    end_ns: Int
    spent_ns: Int

    def find(self, rank: Int, end_ns: Int) -> Int:
        """Return the time in messages before each collective that begins at end_ns."""
        row = find_last_rows((self.rank, self.end_ns), rank, end_ns, until=True)
        is_same = np.append(self.end_ns, -1)[row] == end_ns
        return np.where(is_same, np.append(self.spent_ns, 0)[row], 0)


def find_message_time(trace: Trace) -> MessageTime:
    """Return the time in messages without records, none if long calls are logged or negligible."""
    parts = [np.zeros((3, 0), np.int64)]
    min_ns = MIN_SHARE * max(trace.process_time_ns, 1)
    if not _are_waits_logged(trace) and _find_unknown_time(trace) >= min_ns:
        for batch in trace.batches(before=True):
            assert batch.before is not None
            row, column = np.nonzero((batch.before.outside > 0) & (batch.shape >= 0))
            times = batch.arrival_ns[row, column], batch.before.outside[row, column]
            parts.append(np.stack([batch.communicator.ranks[row], *times]))
    rank, end_ns, spent_ns = np.concatenate(parts, axis=1)
    order = np.lexsort((end_ns, rank))
    return MessageTime(rank[order], end_ns[order], spent_ns[order])


def _are_waits_logged(trace: Trace) -> bool:
    """Return whether all calls on messages that may wait have records, which fit in memory."""
    if not are_waits_known(trace) or any(SUMS_NOTE in note for note in trace.notes):
        return False
    return len(trace.message_calls) > 0 or recorded_messages(trace) in ("auto", "all")


def _find_unknown_time(trace: Trace) -> float:
    """Return the time in calls on messages, without Wait for nonblocking collectives."""
    table = trace.callsites
    is_blocking = ~table["started"] & (table["operation"].map(base_operation) == table["operation"])
    of_collectives = float(table.loc[~is_blocking, "total_elapsed_ns"].sum())
    return float(trace.point_to_point.sum()) - of_collectives
