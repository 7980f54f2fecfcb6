"""Operations that are pending while others start: nonblocking and persistent collectives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mpiprof.trace.batch import BEFORE_COLUMNS, Batch, Before
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.rank_arrays import Block, concatenate, distinct_pairs, get_column
from mpiprof.trace.types import COMPLETION, Array, Bool, Int, Problems

Sequences = Mapping[tuple[int, int], int] | None  # see Matcher


def last_sequences(communicator: Communicator, passed: Mapping[tuple[int, int], int]) -> Int:
    """Return the last sequence number of each member on the communicator, from its totals."""
    known = [passed.get((rank, communicator.index), -1) for rank in communicator.ranks.tolist()]
    return np.array(known, np.int64)


class NonblockingPool:
    """Nonblocking calls, starts of persistent operations, and their completions."""

    def __init__(self, communicator: Communicator, problems: Problems, passed: Sequences) -> None:
        self.communicator, self.problems, self.passed = communicator, problems, passed
        self.blocks: list[Block] = []
        self.ranks: list[Array] = []
        self.size = 0
        self.left = 0  # records that remained after the last call of `ready`

    def add(self, columns: Array, block: Block) -> None:
        """Add operations; columns: the member of each."""
        self.blocks.append(block)
        self.ranks.append(columns.astype(np.int32))
        self.size += len(block)

    def may_have_ready(self) -> bool:
        """Return whether enough operations are pending to look for complete ones."""
        return self.size > 2 * self.left + 4096 + 64 * len(self.communicator.ranks)

    def has_call_before(self, time_ns: int) -> bool:
        """Return whether a pending operation began up to a time."""
        return any(
            bool(((block.enter_ns <= time_ns) & (get_column(block, "kind") != COMPLETION)).any())
            for block in self.blocks
        )

    def take_ready(self, last: Int, done: Bool) -> Batch | None:
        """Return all complete instances, to which no more records can belong."""
        if not self.blocks:
            return None
        block, member = concatenate(self.blocks), np.concatenate(self.ranks)
        sequence, start, instance = distinct_pairs(block.sequence, get_column(block, "start"))
        size = (len(self.communicator.ranks), len(sequence))
        opener = get_column(block, "kind") != COMPLETION
        opened = self._index_matrix(instance, member, opener, size)
        closed = self._index_matrix(instance, member, ~opener, size)
        # A missing opener can still come unless its rank has ended or counted past it.
        hopeless = done[:, None] | ((last[:, None] >= sequence) & (start == 0))
        final = ((opened >= 0) | hopeless).all(0)
        final &= ((closed >= 0) | done[:, None] | ((opened < 0) & hopeless)).all(0)
        remaining = ~final[instance]
        self.blocks = [block.take(remaining)] if remaining.any() else []
        self.ranks = [member[remaining]] if remaining.any() else []
        self.size = self.left = int(remaining.sum())
        if self.passed is not None:
            come = np.maximum(last, last_sequences(self.communicator, self.passed))
            due = (start == 0) & (sequence > come[:, None])  # not yet reached
            final &= ((opened >= 0) | due).all(0)
        final &= (opened >= 0).any(0)  # a completion without a recorded call is no instance
        if not final.any():
            return None
        # A mask as an index would lay out the result instance by instance. Lanes lay it out rank by
        # rank, and sums of floats depend on the memory order.
        opened, closed = (np.compress(final, where, axis=1) for where in (opened, closed))
        return self._to_batch(block, opened, closed, sequence[final], start[final])

    def _index_matrix(
        self, instance: Array, member: Array, chosen: Bool, size: tuple[int, int]
    ) -> Int:
        """Return a matrix of record indices, -1 without a record; the earliest record counts."""
        where = np.full(size, -1, np.int64)
        index = np.flatnonzero(chosen)[::-1]
        where[member[index], instance[index]] = index
        if int((where >= 0).sum()) < len(index):
            self.problems.add("nonblocking operations appear twice; the first record is used")
        return where

    def _to_batch(self, block: Block, opened: Int, closed: Int, sequence: Int, start: Int) -> Batch:
        def pick(values: Array, where: Int, missing: int) -> Int:
            return np.where(where >= 0, values[where], missing).astype(np.int64)

        done = (closed >= 0) & (opened >= 0)
        share = pick(get_column(block, "share"), closed, 1)
        call_ns = np.maximum(pick(block.exit_ns, opened, 0) - pick(block.enter_ns, opened, 0), 0)
        closed_ns = pick(block.exit_ns, closed, 0)
        wait_ns = (closed_ns - pick(block.enter_ns, closed, 0)) // np.maximum(share, 1)
        exit_ns = np.where(done, closed_ns, 0)
        # The time of a Wait call is divided equally among the operations that it completed.
        begin_ns = np.where(done, exit_ns - wait_ns, 0)
        before = None
        if block.before_exit is not None:
            columns = {name: get_column(block, column) for name, column in BEFORE_COLUMNS.items()}
            before = Before(**{name: pick(values, opened, -1) for name, values in columns.items()})
        return Batch(
            self.communicator,
            sequence,
            start,
            pick(block.enter_ns, opened, 0),
            begin_ns,
            exit_ns,
            np.where(done, call_ns + wait_ns, 0),
            pick(block.shape, opened, -1).astype(np.int32),
            None if block.sent is None else pick(block.sent, opened, -1),
            None if block.received is None else pick(block.received, opened, -1),
            bool(done.all()),
            before,
            None if block.choice is None else pick(block.choice, opened, 0).max(0).astype(np.uint8),
        )
