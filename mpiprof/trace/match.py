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

from mpiprof.trace.batch import BEFORE_COLUMNS, Batch, Before
from mpiprof.trace.metadata import Communicator, Shape
from mpiprof.trace.nonblocking import NonblockingPool, Sequences, last_sequences
from mpiprof.trace.rank_arrays import Block, concatenate, get_column
from mpiprof.trace.stream import RankStream
from mpiprof.trace.types import CALL, COMPLETION, START, Bool, Int, Problems

NEVER = np.iinfo(np.int64).max
BATCH_RECORDS = 1 << 21  # records per rank and pass (whole chunks); fits a cache
MAX_READ_RECORDS = 16368  # records per rank and pass, in whole chunks; they fit into a cache


def is_nonblocking(operation: str) -> bool:
    """Return whether the call only starts the operation, as MPI_Iallreduce does."""
    return operation.startswith("i") and not operation.startswith(("init", "inter"))


def _stack_blocks(blocks: list[Block], communicator: Communicator) -> Batch:
    """Stack blocks of blocking calls, one per member and sorted by sequence, into a batch."""
    sequences = [block.sequence for block in blocks]
    first = sequences[0]
    same = all(s is first or np.array_equal(s, first) for s in sequences)
    sequence = first if same else np.unique(np.concatenate(sequences))
    size = (len(blocks), len(sequence))
    arrival_ns, exit_ns = np.zeros(size, np.int64), np.zeros(size, np.int64)
    shape = np.full(size, -1, np.int32)
    sent, received = (
        np.full(size, -1) if any(getattr(b, name) is not None for b in blocks) else None
        for name in ("sent", "received")
    )
    has_choice = any(b.choice is not None for b in blocks)
    choice = np.zeros(size[1], np.uint8) if has_choice else None
    has_before = any(b.before_exit is not None for b in blocks)
    before = {name: np.full(size, -1) for name in BEFORE_COLUMNS if has_before}
    for row, block in enumerate(blocks):
        at: slice | Int = slice(None) if same else np.searchsorted(sequence, block.sequence)
        arrival_ns[row, at] = block.enter_ns
        exit_ns[row, at] = block.exit_ns
        shape[row, at] = block.shape
        for matrix, values in ((sent, block.sent), (received, block.received)):
            if matrix is not None and values is not None:
                matrix[row, at] = values
        for name, matrix in before.items():
            matrix[row, at] = get_column(block, BEFORE_COLUMNS[name])
        if choice is not None:
            choice[at] = np.maximum(choice[at], get_column(block, "choice"))
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
        shape,
        sent,
        received,
        complete,
        Before(**before) if has_before else None,
        choice,
    )


class _BlockingLane:
    """Blocking calls of one communicator that wait until all members have passed them."""

    def __init__(self, communicator: Communicator, problems: Problems, passed: Sequences) -> None:
        self.communicator, self.problems, self.passed = communicator, problems, passed
        members = len(communicator.ranks)
        self.queues: list[list[Block]] = [[] for _ in range(members)]
        self.last = np.full(members, -1)
        self.first = np.full(members, NEVER)
        self.lost = np.zeros(members, np.int64)  # since the last take_ready

    def record_progress(self, column: int, block: Block) -> None:
        """Record the progress of a member on this communicator."""
        self.last[column] = max(int(self.last[column]), int(block.sequence.max()))
        if self.passed is not None:
            self.first[column] = min(int(self.first[column]), int(block.sequence.min()))

    def _complete_from(self) -> int:
        """Return the first sequence number from which all members' rings are complete."""
        if self.passed is None:
            return 0
        after = last_sequences(self.communicator, self.passed) + 1
        return int(np.where(self.first < NEVER, self.first, after).max(initial=0))

    def take_ready(self, done: Bool) -> Batch | None:
        """Return all instances that every member has passed; `done`: members at their end."""
        horizon = int(np.where(done, NEVER, self.last).min())
        complete_from = self._complete_from() if horizon >= 0 else 0
        blocks: list[Block] = []
        for i, queue in enumerate(self.queues):
            if not queue:
                blocks.append(EMPTY)
                continue
            block = self._sort_block(concatenate(queue))
            count = int(np.searchsorted(block.sequence, horizon, "right"))
            lost = int(np.searchsorted(block.sequence[:count], complete_from))
            self.lost[i] += lost
            blocks.append(block.take(slice(lost, count)))
            self.queues[i] = [block.take(slice(count, None))] if count < len(block) else []
        if not any(map(len, blocks)):
            return None
        return _stack_blocks(blocks, self.communicator)

    def _sort_block(self, block: Block) -> Block:
        sequence = block.sequence
        if bool((sequence[1:] > sequence[:-1]).all()):
            return block
        self.problems.add("sequence numbers of a rank repeat or go backwards")
        _, first = np.unique(sequence, return_index=True)
        return block.take(first)


EMPTY = Block(
    np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32)
)


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
        # NumPy sorts 16-bit integers by radix, wider ones by comparison.
        narrow = np.int16 if len(communicators) < 1 << 15 else np.int32
        self.of_shape = np.array([s.communicator for s in shapes] + [0], narrow)
        self.slow = np.array([is_nonblocking(s.operation) for s in shapes] + [False], np.bool_)
        self.any_slow = bool(self.slow.any())
        self.lanes: dict[int, _BlockingLane] = {}
        self.pools: dict[int, NonblockingPool] = {}
        self.count = min(max(batch // max(len(streams), 1), 128), MAX_READ_RECORDS)
        self.waiting: dict[int, int] = dict.fromkeys(streams, 0)

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
            ended: set[int] = set()
            for rank in behind:
                block = alive[rank].read(self.count)
                if block is None:
                    del alive[rank]
                    ended.add(rank)
                    continue
                if self.until_ns is not None and int(block.enter_ns[-1]) > self.until_ns:
                    beyond.add(rank)
                touched |= self._distribute(rank, block)
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

    def _distribute(self, rank: int, block: Block) -> set[int]:
        """Distribute a block to its communicators, and return their indices."""
        if block.before_exit is None:
            block.outside = None  # batches have this column only with the previous record
        of = self.of_shape[block.shape]
        low, high = int(of.min()), int(of.max())
        if low == high:
            return self._add_records(rank, low, block)
        order = np.argsort(of, kind="stable")
        block, of = block.take(order), of[order]
        edges = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(of)]
        touched: set[int] = set()
        for start, stop in itertools.pairwise(edges):
            touched |= self._add_records(rank, int(of[start]), block.take(slice(start, stop)))
        return touched

    def _add_records(self, rank: int, index: int, block: Block) -> set[int]:
        communicator = self.communicators[index]
        if index not in self.lanes:
            self.lanes[index] = _BlockingLane(communicator, self.problems, self.passed)
            self.pools[index] = NonblockingPool(communicator, self.problems, self.passed)
        lane, pool, column = self.lanes[index], self.pools[index], communicator.find_column(rank)
        if column < 0:
            self.problems.add(f"rank {rank}: calls on a communicator without this rank are ignored")
            return set()
        kind = block.kind
        if kind is not None and bool((kind == CALL).all()):
            kind = block.kind = None
        if kind is not None or self.any_slow or block.start is not None:
            kinds = get_column(block, "kind")
            calls = kinds == CALL
            slow = (kinds == START) | (kinds == COMPLETION) | (calls & self.slow[block.shape])
            mixed = calls & ~slow & (get_column(block, "start") > 0)
            if mixed.any():
                self._put_blocking(column, pool, block.take(mixed))
                calls &= ~mixed
            if calls.any():
                lane.record_progress(column, block.take(calls))
            if slow.any():
                pool.add(column, block.take(slow))
            block = block.take(calls & ~slow)
            block.kind = None
        else:
            lane.record_progress(column, block)
        if len(block):
            lane.queues[column].append(block)
            self.waiting[rank] += len(block)
        return {index}

    @staticmethod
    def _put_blocking(column: int, pool: NonblockingPool, block: Block) -> None:
        """Add blocking calls to the pool, each as an opener and a completion."""
        opened = replace(block, exit_ns=np.where(block.exit_ns == 0, 0, block.enter_ns))
        completed = block.take(block.exit_ns != 0)
        completed.kind = np.full(len(completed), COMPLETION, np.uint8)
        completed.share = None
        pool.add(column, opened)
        if len(completed):
            pool.add(column, completed)

    def _take_ready(self, index: int, alive: Mapping[int, object], final: bool) -> Iterator[Batch]:
        lane, pool = self.lanes[index], self.pools[index]
        members = lane.communicator.ranks.tolist()
        done = np.array([final or r not in alive for r in members], np.bool_)
        batch = lane.take_ready(done)
        removed, lane.lost = lane.lost, np.zeros_like(lane.lost)
        if batch is not None:
            removed += (batch.shape >= 0).sum(1)
        for rank, count in zip(members, removed.tolist(), strict=True):
            if rank in self.waiting:
                self.waiting[rank] -= count
        if batch is not None:
            yield batch
        if final or pool.may_have_ready():
            batch = pool.take_ready(lane.last, done)
            if batch is not None:
                yield batch
