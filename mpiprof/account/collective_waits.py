"""Waits in collectives by the rank waited for, and the calls and meetings of all ranks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mpiprof.account.batch_map import BatchPass
from mpiprof.account.instance_metrics import InstanceMetrics, take_complete
from mpiprof.account.instance_rows import Signature
from mpiprof.account.row_order import join_columns, number_codes, put_in_order
from mpiprof.account.wait_states import (
    ProgressWaits,
    awaited_rows,
    compute_arrival_waits,
    find_progress_waits,
)
from mpiprof.facts.operations import WaitRule
from mpiprof.trace.batch import Batch
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Bool, Int

MIN_INSIDE_NS = 200_000  # as long as the intervals between calls that the recorder logs


@dataclass(frozen=True)
class CollectiveWaits:
    """Waits in collectives; times in ns, ranks are world ranks.

    Per group of ranks that wait for the same rank in an instance: awaited, until_ns (its arrival),
    callsite (number), communicator (index), is_meeting (the group waits until all members of the
    communicator have arrived), is_counted (False for waits for progress in blocking operations,
    which are no wait state).
    Per member: group, rank, begin_ns, end_ns.
    Calls of all ranks, by rank and time: call_rank, enter_ns, exit_ns, site_id, completes. A
    nonblocking operation is two calls, of which the second completes it; both have the site of the
    first.
    inside: rank, begin_ns, end_ns and site_id of times in blocking calls that are no wait, and by
    MIN_INSIDE_NS longer than on the quickest rank of the instance.
    unknown: rank and enter_ns of calls whose waits are unknown: not all ranks' calls are recorded.
    meetings: times at which all members of a communicator (by index) had arrived, of operations
    that synchronise; rows are the times, call sites and sequence numbers. overlaps: times at which
    all members were in one instance of another operation, such as a broadcast.
    """

    awaited: Int
    until_ns: Int
    callsite: Int
    communicator: Int
    is_meeting: Bool
    is_counted: Bool
    group: Int
    rank: Int
    begin_ns: Int
    end_ns: Int
    call_rank: Int
    enter_ns: Int
    exit_ns: Int
    site_id: Int
    completes: Bool
    meetings: dict[int, Int]
    overlaps: dict[int, Int]
    inside: list[Int]
    unknown: list[Int]


def find_collective_waits(trace: Trace) -> CollectiveWaits:
    """Return the waits in all complete instances of the trace."""
    sites = np.array([shape.site for shape in trace.tables.shapes] + [-1], np.int64)
    least_ns = max(trace.clock_error_ns, 1_000)
    collector = _Collector()
    known = trace.aggregate[1]
    for part in BatchPass(trace, _collect_batch, sites, least_ns, known=known):
        collector.add(part.value, part.callsites)
    return collector.join(trace.ranks)


def _collect_batch(metrics: InstanceMetrics, batch: Batch, sites: Int, least_ns: int) -> _Collector:
    """Return the waits, calls and meetings of a batch.

    sites: of each shape. least_ns: shorter waits are ignored.
    """
    collector = _Collector()
    collector.add_calls(batch, sites)
    is_known = np.zeros(batch.exit_ns.shape[1], np.bool_)
    for signature, index in metrics.group_by_signature(batch):
        if signature.state is None or not signature.is_whole or len(batch.arrival_ns) < 2:
            is_known[index] = signature.is_whole
            continue
        is_known[index] = (batch.exit_ns[:, index] != 0).all(0)
        arrival, begin, finish = take_complete(batch, signature, index)
        if not arrival.shape[1]:
            continue
        sequence = batch.sequence[index]
        if len(sequence) != arrival.shape[1]:  # some instances are incomplete
            sequence = sequence[(batch.exit_ns[:, index] != 0).all(0)]
        of = signature, batch.communicator
        instances = _Instances(*of, arrival, begin, finish, sequence)
        collector.add_waits(instances, least_ns)
        is_blocking = batch.begin_ns is batch.arrival_ns
        progress = instances.find_progress_waits(least_ns, is_blocking=is_blocking)
        collector.add_progress_waits(instances, progress, is_counted=not is_blocking)
        if is_blocking:
            collector.add_inside(instances, sites[batch.shape[:, index][:, 0]], progress)
        collector.add_meetings(instances)
    collector.add_unknown(batch, is_known)
    return collector


@dataclass(frozen=True)
class _Instances:
    """Complete instances of a call site on a communicator, with their sequence numbers.

    arrival, begin, finish: times in ns, ranks x instances.
    """

    signature: Signature
    communicator: Communicator
    arrival: Int
    begin: Int
    finish: Int
    sequence: Int

    @property
    def is_meeting(self) -> bool:
        """True if all ranks wait for all ranks."""
        return self.signature.group.rule is WaitRule.ALL_FOR_ALL

    def compute_waits(self) -> Int:
        """Return the wait of each rank for arrivals in each instance."""
        return compute_arrival_waits(self.arrival, self.begin, self.finish, self.signature.group)

    def find_progress_waits(self, least_ns: int, *, is_blocking: bool) -> ProgressWaits:
        """Return the waits for progress; shorter waits are ignored."""
        times, group = (self.arrival, self.begin, self.finish), self.signature.group
        return find_progress_waits(*times, group, least_ns, is_blocking=is_blocking)


class _Collector:
    """Waits, calls and meetings, as lists of columns."""

    def __init__(self) -> None:
        self.groups: list[list[Array]] = []  # in the order of CollectiveWaits
        self.members: list[list[Array]] = []  # group, rank, begin, end
        self.calls: list[list[Array]] = []  # rank, enter, exit, site, completes
        self.meetings: dict[int, list[list[Array]]] = {}  # time, call site, sequence number
        self.overlaps: dict[int, list[Int]] = {}
        self.inside: list[list[Array]] = []
        self.unknown: list[list[Array]] = []  # rank, enter
        self.group_count = 0

    def add(self, other: _Collector, callsites: Int) -> None:
        """Add another collector's content; callsites: joint numbers of its call sites."""
        for awaited, until, callsite, *rest in other.groups:
            self.groups.append([awaited, until, callsites[callsite], *rest])
        for group, *rest in other.members:
            self.members.append([group + self.group_count, *rest])
        self.group_count += other.group_count
        self.calls += other.calls
        for index, meetings in other.meetings.items():
            of = self.meetings.setdefault(index, [])
            of += [[time_ns, callsites[callsite], number] for time_ns, callsite, number in meetings]
        for index, overlaps in other.overlaps.items():
            self.overlaps.setdefault(index, []).extend(overlaps)
        self.inside += other.inside
        self.unknown += other.unknown

    def join(self, ranks: int) -> CollectiveWaits:
        """Return everything collected; ranks: of the trace."""
        meetings = {}
        for index, parts in self.meetings.items():
            columns = np.stack(join_columns(parts, 3))
            meetings[index] = columns.take(np.argsort(columns[0], kind="stable"), axis=1)
        calls = put_in_order(join_columns(self.calls, 5), ranks)
        values = [*join_columns(self.groups, 6), *join_columns(self.members, 4), *calls]
        names = [field.name for field in fields(CollectiveWaits)][: len(values)]
        named: dict[str, Any] = dict(zip(names, values, strict=True))
        return CollectiveWaits(
            **named,
            meetings=meetings,
            overlaps={index: np.sort(np.concatenate(of)) for index, of in self.overlaps.items()},
            inside=join_columns(self.inside, 4),
            unknown=list(put_in_order(join_columns(self.unknown, 2), ranks)),
        )

    def add_calls(self, batch: Batch, sites: Int) -> None:
        """Add the calls of a batch."""
        present = batch.shape >= 0
        all_ranks = np.broadcast_to(batch.communicator.ranks[:, None], present.shape)
        columns = (all_ranks, batch.arrival_ns, batch.begin_ns, batch.exit_ns, batch.shape)
        if present.all():
            rank, arrival, begin, exit_, shape = (of.ravel() for of in columns)
        else:
            rank, arrival, begin, exit_, shape = (of[present] for of in columns)
        rank, site = rank.astype(np.int32), sites.astype(np.int32)[shape]
        first = np.zeros(len(rank), np.bool_)
        if batch.begin_ns is batch.arrival_ns:
            self.calls.append([rank, arrival, np.maximum(exit_, arrival), site, first])
            return
        self.calls.append([rank, arrival, arrival, site, first])
        done = exit_ > 0
        self.calls.append([rank[done], begin[done], exit_[done], site[done], ~first[done]])

    def add_unknown(self, batch: Batch, is_known: Bool) -> None:
        """Add the calls of the instances whose waits are not known."""
        row, column = np.nonzero((batch.shape >= 0) & ~is_known)
        if len(row):
            enter = batch.begin_ns[row, column]
            self.unknown.append([batch.communicator.ranks[row].astype(np.int32), enter])

    def add_waits(self, of: _Instances, least_ns: int) -> None:
        """Add the waits of instances; shorter waits are ignored."""
        wait = of.compute_waits()
        row, column = np.nonzero(wait > least_ns)
        awaited = awaited_rows(of.arrival, of.signature.group)[row, column]
        begins = of.begin[row, column]
        cells = row, column, awaited, begins, begins + wait[row, column]
        self._add_groups(of, cells, of.arrival, is_counted=True, is_meeting=of.is_meeting)

    def add_inside(self, of: _Instances, sites: Int, progress: ProgressWaits) -> None:
        """Add the times inside the calls of instances; sites: of each rank's call."""
        left = of.begin + of.compute_waits()
        left[progress.row, progress.column] = progress.until_ns
        inside = of.finish - left
        cells = np.nonzero(inside - inside.min(0) >= MIN_INSIDE_NS)
        row = cells[0]
        ranks = of.communicator.ranks[row]
        self.inside.append([ranks, left[cells], of.finish[cells], sites[row]])

    def add_progress_waits(
        self, instances: _Instances, waits: ProgressWaits, *, is_counted: bool
    ) -> None:
        """Add the waits of instances for progress."""
        cells = waits.row, waits.column, waits.awaited, waits.begin_ns, waits.until_ns
        begin_ns = instances.begin
        self._add_groups(instances, cells, begin_ns, is_counted=is_counted, is_meeting=False)

    def add_meetings(self, of: _Instances) -> None:
        """Add the times at which all ranks had arrived, or were in the operation."""
        index = of.communicator.index
        if of.is_meeting:
            last = of.arrival.max(0)
            callsites = np.full(len(last), of.signature.callsite, np.int64)
            self.meetings.setdefault(index, []).append([last, callsites, of.sequence])
        else:
            last = of.begin.max(0)
            self.overlaps.setdefault(index, []).append(last[last <= of.finish.min(0)])

    def _add_groups(
        self,
        of: _Instances,
        cells: tuple[Int, Int, Int, Int, Int],
        until_ns: Int,
        *,
        is_counted: bool,
        is_meeting: bool,
    ) -> None:
        """Add waits by group: the ranks of an instance that wait for the same rank.

        cells: row, instance, awaited row, begin and end of each wait. until_ns: time at which each
        rank is no longer awaited, ranks x instances.
        """
        row, column, awaited, begins, ends = cells
        ranks = of.communicator.ranks
        numbers = of.signature.callsite, of.communicator.index
        code, group = number_codes(column * len(ranks) + awaited, until_ns.size)
        instance, awaited_row = code // len(ranks), code % len(ranks)
        self.groups.append(
            [
                ranks[awaited_row],
                until_ns[awaited_row, instance],
                *(np.full(len(code), number, np.int64) for number in numbers),
                *(np.full(len(code), flag, np.bool_) for flag in (is_meeting, is_counted)),
            ]
        )
        self.members.append([group + self.group_count, ranks[row], begins, ends])
        self.group_count += len(code)
