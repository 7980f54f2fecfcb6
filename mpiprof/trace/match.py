"""Matches the calls of all members of a communicator with the same sequence number to instances.

Ranks are read side by side, block by block. Blocking calls of one communicator wait in a lane until
every member has passed their sequence number. Then the columns of the members are stacked into a
matrix. That is a copy if all members have the same numbers, as is usual, and else a merge.
Nonblocking and persistent operations complete in any order and are joined in a pool. The pool also
joins calls on communicators that share one row, because many equal communicators are made and
freed. The number that distinguishes these communicators is in the field of a persistent operation's
start.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from mpiprof.interface.analysis_library import call_library
from mpiprof.trace.batch import BEFORE_COLUMNS, Batch, Before
from mpiprof.trace.metadata import Communicator, Shape
from mpiprof.trace.nonblocking import NonblockingPool, Sequences, last_sequences
from mpiprof.trace.rank_arrays import Block, concatenate, get_column
from mpiprof.trace.rank_group import read_groups
from mpiprof.trace.stream import RankStream
from mpiprof.trace.types import CALL, COMPLETION, START, Array, Bool, Int, Problems

NEVER = np.iinfo(np.int64).max
BATCH_RECORDS = 1 << 21  # records per rank and pass (whole chunks); fits a cache
MAX_READ_RECORDS = 16368  # records per rank and pass, in whole chunks; they fit into a cache


def is_nonblocking(operation: str) -> bool:
    """Return whether the call only starts the operation, as MPI_Iallreduce does."""
    return operation.startswith("i") and not operation.startswith(("init", "inter"))


def _stack_calls(columns: Array, block: Block, communicator: Communicator) -> Batch:
    """Stack blocking calls, sorted by member and sequence number, into a batch."""
    members = len(communicator.ranks)
    count, rest = divmod(len(block), members)
    numbers = block.sequence[: count * members].reshape(members, count)
    all_columns = np.arange(members)
    same = (
        rest == 0
        and bool((columns[::count] == all_columns).all())
        and bool((columns[count - 1 :: count] == all_columns).all())
        and bool((numbers == numbers[0]).all())
    )
    sequence = numbers[0] if same else np.unique(block.sequence)
    size = (members, len(sequence))
    cells = None if same else (columns, np.searchsorted(sequence, block.sequence))

    def spread(values: Array, missing: int, dtype: type = np.int64) -> Array:
        if cells is None:
            return np.ascontiguousarray(values, dtype).reshape(size)
        matrix: Array = np.full(size, missing, dtype)
        matrix[cells] = values
        return matrix

    arrival_ns, exit_ns = spread(block.enter_ns, 0), spread(block.exit_ns, 0)
    sent, received = (
        None if of is None or not bool((of >= 0).any()) else spread(of, -1)
        for of in (block.sent, block.received)
    )
    choice = None
    if block.choice is not None and bool(block.choice.any()):
        choice = spread(block.choice, 0, np.uint8).max(0)
    before = None
    if block.before_exit is not None:
        columns_of = {name: get_column(block, of) for name, of in BEFORE_COLUMNS.items()}
        before = Before(**{name: spread(of, -1) for name, of in columns_of.items()})
    complete = bool(exit_ns.min(initial=1) != 0)
    elapsed_ns = exit_ns - arrival_ns
    if not complete:
        elapsed_ns[exit_ns == 0] = 0
    return Batch(
        communicator,
        sequence.astype(np.int64),
        np.zeros(len(sequence), np.int64),
        arrival_ns,
        arrival_ns,
        exit_ns,
        elapsed_ns,
        spread(block.shape, -1, np.int32),
        sent,
        received,
        complete,
        before,
        choice,
    )


def _find_runs(values: Array) -> Int:
    """Return the position of the first one of each run of equal values; there is at least one."""
    return np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])


class _BlockingLane:
    """Blocking calls of one communicator that wait until all members have passed them."""

    def __init__(self, communicator: Communicator, problems: Problems, passed: Sequences) -> None:
        self.communicator, self.problems, self.passed = communicator, problems, passed
        members = len(communicator.ranks)
        # NumPy sorts 16-bit integers by radix, wider ones by comparison.
        self.column_type = np.int16 if members < 1 << 15 else np.int32
        self.queue: list[tuple[Array, Block]] = []  # columns of the members, and their calls
        self.last = np.full(members, -1)
        self.first = np.full(members, NEVER)
        self.lost = np.zeros(members, np.int64)  # since the last take_ready

    def record_progress(self, columns: Array, block: Block) -> None:
        """Record the progress of members on this communicator; columns: of each call, in runs."""
        runs = _find_runs(columns)
        of = columns[runs]
        last = np.maximum.reduceat(block.sequence, runs)
        self.last[of] = np.maximum(self.last[of], last)
        if self.passed is not None:
            first = np.minimum.reduceat(block.sequence, runs)
            self.first[of] = np.minimum(self.first[of], first)

    def add(self, columns: Array, block: Block) -> None:
        """Add calls of members; columns: of each call, in runs."""
        self.queue.append((columns.astype(self.column_type), block))

    def _complete_from(self) -> int:
        """Return the first sequence number from which all members' rings are complete."""
        if self.passed is None:
            return 0
        after = last_sequences(self.communicator, self.passed) + 1
        return int(np.where(self.first < NEVER, self.first, after).max(initial=0))

    def take_ready(self, done: Bool) -> Batch | None:
        """Return all instances that every member has passed; `done`: members at their end."""
        horizon = int(np.where(done, NEVER, self.last).min())
        if horizon < 0 or not self.queue:
            return None
        columns, block = self._join_queue()
        sequence = block.sequence
        if int(sequence.max()) > horizon:
            ready = sequence <= horizon
            self.queue = [(columns[~ready], block.take(~ready))]
            columns, block = columns[ready], block.take(ready)
        complete_from = self._complete_from()
        if complete_from:
            lost = block.sequence < complete_from
            self.lost += np.bincount(columns[lost], minlength=len(self.lost))
            columns, block = columns[~lost], block.take(~lost)
        return _stack_calls(columns, block, self.communicator) if len(block) else None

    def _join_queue(self) -> tuple[Array, Block]:
        """Remove and return all waiting calls, sorted by member and sequence number."""
        columns = np.concatenate([of for of, _ in self.queue])
        block = concatenate([of for _, of in self.queue])
        self.queue = []
        if not bool((columns[1:] >= columns[:-1]).all()):
            order = np.argsort(columns, kind="stable")
            columns, block = columns[order], block.take(order)
        sequence = block.sequence
        rises = (sequence[1:] > sequence[:-1]) | (columns[1:] != columns[:-1])
        if bool(rises.all()):
            return columns, block
        self.problems.add("sequence numbers of a rank repeat or go backwards")
        keys = (columns.astype(np.int64) << 32) + sequence
        _, first = np.unique(keys, return_index=True)
        return columns[first], block.take(first)


class Matcher:
    """Matches the records of all ranks into batches of instances; a single-use iterable.

    passed: the last sequence number of each (rank, communicator), if rings have only the last
    calls. Instances that are missing from some member's ring are then dropped.
    until_ns: time after which no rank is read further, as soon as all calls up to then are matched.
    """

    def __init__(
        self,
        streams: Mapping[int, RankStream],
        communicators: list[Communicator],
        shapes: list[Shape],
        problems: Problems,
        batch: int = BATCH_RECORDS,
        passed: Sequences = None,
        until_ns: int | None = None,
    ) -> None:
        self.streams, self.communicators = streams, communicators
        self.problems, self.passed, self.until_ns = problems, passed, until_ns
        self.of_shape = np.array([s.communicator for s in shapes] + [0], np.int32)
        self.slow = np.array([is_nonblocking(s.operation) for s in shapes] + [False], np.bool_)
        self.any_slow = bool(self.slow.any())
        self.lanes: dict[int, _BlockingLane] = {}
        self.pools: dict[int, NonblockingPool] = {}
        self.count = min(max(batch // max(len(streams), 1), 128), MAX_READ_RECORDS)
        members = [of.ranks.max(initial=-1) for of in communicators]
        self.waiting = np.zeros(int(max([*streams, *members], default=-1)) + 1, np.int64)

    def __iter__(self) -> Iterator[Batch]:
        alive = dict(self.streams)
        beyond: set[int] = set()  # ranks that were read up to `until_ns`
        while alive:
            wanted = [rank for rank in alive if rank not in beyond]
            if beyond and not wanted:
                yield from self._take_all_ready(alive)
                if not self._has_open_calls():
                    return
                wanted = list(alive)
            # A rank that is ahead pauses until its waiting records have been matched.
            behind = [r for r in wanted if self.waiting[r] < 2 * self.count] or wanted
            touched: set[int] = set()
            ended: list[int] = []
            for group in read_groups(alive, behind, self.count):
                ended += group.ended
                if group.block is None:
                    continue
                if self.until_ns is not None:
                    lasts = group.block.enter_ns[np.cumsum(group.counts) - 1]
                    beyond |= {*group.ranks[lasts > self.until_ns].tolist()}
                touched |= self._distribute(np.repeat(group.ranks, group.counts), group.block)
            for rank in ended:
                del alive[rank]
            if ended:
                touched |= {
                    index
                    for index, lane in self.lanes.items()
                    if any(lane.communicator.find_column(rank) >= 0 for rank in ended)
                }
            for index in sorted(touched):
                yield from self._take_ready(index, alive, final=False)
        for index in sorted(self.lanes):
            yield from self._take_ready(index, alive, final=True)

    def _take_all_ready(self, alive: Mapping[int, object]) -> Iterator[Batch]:
        """Yield the pending operations that no more records can belong to."""
        for index, pool in sorted(self.pools.items()):
            done = [rank not in alive for rank in self.lanes[index].communicator.ranks.tolist()]
            batch = pool.take_ready(self.lanes[index].last, np.array(done, np.bool_))
            if batch is not None:
                yield batch

    def _has_open_calls(self) -> bool:
        """Return whether an operation that began up to `until_ns` is pending."""
        assert self.until_ns is not None
        return any(pool.has_call_before(self.until_ns) for pool in self.pools.values())

    def _distribute(self, ranks: Int, block: Block) -> set[int]:
        """Distribute calls of some ranks to their communicators, and return their indices."""
        if block.before_exit is None:
            block.outside = None  # batches have this column only with the previous record
        of = self.of_shape[block.shape]
        if int(of.min()) < int(of.max()):
            count = len(self.communicators)
            order, first = np.empty(len(of), np.int64), np.empty(count + 1, np.int64)
            call_library("order_by_group", len(of), count, of, first, order)
            ranks, block, of = ranks[order], block.take(order), of[order]
        edges = [*_find_runs(of).tolist(), len(of)]
        touched: set[int] = set()
        for start, stop in itertools.pairwise(edges):
            part = slice(start, stop)
            touched |= self._add_records(ranks[part], int(of[start]), block.take(part))
        return touched

    def _add_records(self, ranks: Int, index: int, block: Block) -> set[int]:
        communicator = self.communicators[index]
        if index not in self.lanes:
            self.lanes[index] = _BlockingLane(communicator, self.problems, self.passed)
            self.pools[index] = NonblockingPool(communicator, self.problems, self.passed)
        lane, pool = self.lanes[index], self.pools[index]
        runs = _find_runs(ranks)
        members = communicator.find_columns(ranks[runs])
        columns = np.repeat(members, np.diff(runs, append=len(ranks)))
        if int(columns.min()) < 0:
            is_member = columns >= 0
            for rank in np.unique(ranks[~is_member]).tolist():
                problem = "calls on a communicator without this rank are ignored"
                self.problems.add(f"rank {rank}: {problem}")
            if not is_member.any():
                return set()
            ranks, columns, block = ranks[is_member], columns[is_member], block.take(is_member)
        kind = block.kind
        if kind is not None and bool((kind == CALL).all()):
            kind = block.kind = None
        if kind is not None or self.any_slow or block.start is not None:
            kinds = get_column(block, "kind")
            calls = kinds == CALL
            slow = (kinds == START) | (kinds == COMPLETION) | (calls & self.slow[block.shape])
            mixed = calls & ~slow & (get_column(block, "start") > 0)
            if mixed.any():
                self._put_blocking(columns[mixed], pool, block.take(mixed))
                calls &= ~mixed
            if calls.any():
                lane.record_progress(columns[calls], block.take(calls))
            if slow.any():
                pool.add(columns[slow], block.take(slow))
            fast = calls & ~slow
            ranks, columns, block = ranks[fast], columns[fast], block.take(fast)
            block.kind = None
        else:
            lane.record_progress(columns, block)
        if len(block):
            lane.add(columns, block)
            self.waiting += np.bincount(ranks, minlength=len(self.waiting))
        return {index}

    @staticmethod
    def _put_blocking(columns: Array, pool: NonblockingPool, block: Block) -> None:
        """Add blocking calls to the pool, each as an opener and a completion."""
        opened = replace(block, exit_ns=np.where(block.exit_ns == 0, 0, block.enter_ns))
        closed = block.exit_ns != 0
        completed = block.take(closed)
        completed.kind = np.full(len(completed), COMPLETION, np.uint8)
        completed.share = None
        pool.add(columns, opened)
        if len(completed):
            pool.add(columns[closed], completed)

    def _take_ready(self, index: int, alive: Mapping[int, object], final: bool) -> Iterator[Batch]:
        lane, pool = self.lanes[index], self.pools[index]
        members = lane.communicator.ranks.tolist()
        done = np.array([final or r not in alive for r in members], np.bool_)
        batch = lane.take_ready(done)
        removed, lane.lost = lane.lost, np.zeros_like(lane.lost)
        if batch is not None:
            removed += (batch.shape >= 0).sum(1)
        self.waiting[lane.communicator.ranks] -= removed
        if batch is not None:
            yield batch
        if final or pool.may_have_ready():
            batch = pool.take_ready(lane.last, done)
            if batch is not None:
                yield batch
