"""Where each rank of a job is: its open call or its last one, and whom each open call waits for.

Reads logs from their end, as only the last records tell it. A rank has arrived in an instance when
it has entered that sequence number, or a later one, on the same communicator: MPI makes every
member call them in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mpiprof.trace.block import Block, column
from mpiprof.trace.described import Shape
from mpiprof.trace.layout import INSIDE
from mpiprof.trace.stream import CALL, COMPLETION, START, ThreadStream
from mpiprof.trace.types import Problems

if TYPE_CHECKING:
    from mpiprof.trace import Trace
    from mpiprof.trace.log import Chunk

NEWEST_CHUNKS = 3  # some 6000 records a thread: enough for what is started and not completed
# The newest calls of a rank whose arguments are looked at; fewer each in a large job.
RECENT, RECENT_OF_ALL = 256, 1 << 17

Key = tuple[int, int, int]  # communicator, sequence, n-th start of a persistent operation (or 0)


@dataclass(frozen=True)
class Call:
    """One call of one rank; exit_ns 0 while it is open; sent and received in bytes, -1 unknown."""

    shape: Shape
    key: Key
    enter_ns: int
    exit_ns: int
    sent: int
    received: int

    @property
    def operation(self) -> str:
        """The operation without MPI_."""
        return self.shape.operation

    @property
    def site(self) -> int:
        """Index into Tables.sites, -1 unknown."""
        return self.shape.site


@dataclass
class Position:
    """One rank: its open calls, its last closed one, and the operations it has not completed.

    recent: its newest calls, oldest first, open ones among them. between: the kind of call without
    a record that all its threads are in (trace.layout.INSIDE), or "".
    free: how many of its threads are in no open call, of those that have made any and have not
    ended. blind: its log does not hold what it has called since: records could not be written, or
    calls are summed up. unlogged: the log holds no calls at all. tasks: the numbers in the system
    of its threads that are in MPI. newest: by communicator when a thread last called on it, and
    that thread's open call, else its last one.
    """

    rank: int
    finished: bool
    recent: deque[Call] = field(default_factory=lambda: deque(maxlen=RECENT))
    between: str = ""
    open: list[Call] = field(default_factory=list)
    last: Call | None = None
    started: dict[Key, Call] = field(default_factory=dict)
    free: int = 0
    blind: bool = False
    unlogged: bool = False
    tasks: list[int] = field(default_factory=list)
    newest: dict[int, tuple[int, Call]] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state as in the JSON: finished, inside (a collective), outside or unknown."""
        if self.finished:
            return "finished"
        if self.open or self.between == "collective":
            return "inside"
        return "unknown" if self.blind or self.unlogged else "outside"

    @property
    def current(self) -> Call | None:
        """The open call, else the last closed one."""
        return max(self.open, key=lambda call: call.enter_ns) if self.open else self.last

    def seen(self, communicator: int | None = None) -> Call | None:
        """Return where it was last seen by those who wait for it on a communicator.

        Of several threads that is the one which has called there: what others do is another matter.
        """
        if communicator is None or communicator not in self.newest:
            return self.current
        _, last = self.newest[communicator]
        return last


@dataclass(frozen=True)
class Pending:
    """An instance that some rank is in: who has arrived and who has not, in world ranks.

    A correct program has one operation here; more are what ranks call that should call the same.
    """

    operations: list[str]
    key: Key
    arrived: list[int]
    missing: list[int]
    sites: list[int]
    since_ns: int

    @property
    def communicator(self) -> int:
        """Index into Tables.communicators."""
        return self.key[0]

    @property
    def sequence(self) -> int:
        """Its number on the communicator."""
        return self.key[1]


class Tail:
    """The records of one rank, from the newest backwards, as far as somebody needs them."""

    def __init__(self, trace: Trace, rank: int) -> None:
        self.trace, self.rank = trace, rank
        self.threads = trace.stream(rank).threads
        self.unread = [len(thread.chunks) for thread in self.threads]
        self.reached: dict[int, int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.numbered: set[Key] = set()  # calls on communicators that are told apart by number

    def older(self, chunks: int) -> list[tuple[int, Block]]:
        """Read so many more chunks of each thread, by its number; empty when there are no more."""
        blocks = []
        for index, thread in enumerate(self.threads):
            stop = self.unread[index]
            start = max(0, stop - chunks)
            self.unread[index] = start
            block = _read(thread, thread.chunks[start:stop])
            if block is not None:
                blocks.append((thread.chunks[-1].thread, block))
                self._note(block)
        return blocks

    def _note(self, block: Block) -> None:
        shapes = self.trace.tables.shapes
        used, inverse = np.unique(block.shape, return_inverse=True)
        communicators = np.array([shapes[i].communicator for i in used])[inverse]
        for communicator in np.unique(communicators).tolist():
            most = int(block.sequence[communicators == communicator].max())
            self.reached[communicator] = max(most, self.reached.get(communicator, -1))
        starts = column(block, "start")
        for i in np.flatnonzero((column(block, "kind") == CALL) & (starts > 0)).tolist():
            self.numbered.add((int(communicators[i]), int(block.sequence[i]), int(starts[i])))
        started = np.flatnonzero(column(block, "kind") == START)
        for i in started.tolist():
            key = (int(communicators[i]), int(block.sequence[i]))
            self.starts[key] = max(int(column(block, "start")[i]), self.starts.get(key, 0))

    def has_entered(self, key: Key) -> bool:
        """Return whether the rank has called this instance, or has passed it."""
        communicator, sequence, start = key
        while True:
            if key in self.numbered:
                return True
            if start and self.starts.get((communicator, sequence), 0) >= start:
                return True
            if not start and communicator in self.reached:
                return self.reached[communicator] >= sequence
            if not any(self.unread):
                return self._may_have_passed(key)
            self.older(16)

    def _may_have_passed(self, key: Key) -> bool:
        """Return whether the rank has called what its ring no longer holds.

        Of a start of a persistent operation, and of communicators told apart by number, nothing is
        known then: the rank is not accused.
        """
        communicator, sequence, start = key
        if not self.trace.turned.get(self.rank):
            return False
        if start:
            return (communicator, sequence) not in self.starts
        return self.trace.passed.get((self.rank, communicator), -1) >= sequence


def _read(thread: ThreadStream, chunks: list[Chunk]) -> Block | None:
    if not chunks:
        return None
    stream = ThreadStream(thread.source, chunks, Problems())
    return stream.read(sum(chunk.log.layout.records for chunk in chunks))


def find(trace: Trace) -> tuple[list[Position], list[Pending]]:
    """Return where every rank is, and every instance that somebody waits in, oldest first.

    An operation that was only started counts as pending while a member has not started it, or one
    is in a Wait.
    """
    tails = {rank: Tail(trace, rank) for rank in range(trace.ranks)}
    positions = [_position(trace, rank, tail) for rank, tail in tails.items()]
    blind = trace.unwritten | trace.tables.limits.keys()
    for position in positions:
        position.unlogged = trace.record == "summary"
        position.blind = position.rank in blind
    waiting: dict[Key, list[tuple[int, Call]]] = {}
    blocking: set[Key] = set()
    for position in positions:
        for call in position.open:
            waiting.setdefault(call.key, []).append((position.rank, call))
            blocking.add(call.key)
        for call in position.started.values():
            waiting.setdefault(call.key, []).append((position.rank, call))
        if position.between == "completion":
            blocking |= position.started.keys()
    pending = []
    for key, calls in waiting.items():
        members = trace.tables.communicators[key[0]].ranks.tolist()
        arrived = [rank for rank in members if rank in tails and tails[rank].has_entered(key)]
        missing = [rank for rank in members if rank not in arrived]
        if key in blocking or missing:
            pending.append(
                Pending(
                    list(dict.fromkeys(call.operation for _, call in calls)),
                    key,
                    arrived,
                    missing,
                    sorted({call.site for _, call in calls if call.site >= 0}),
                    min(call.enter_ns for _, call in calls),
                )
            )
    return positions, sorted(pending, key=lambda one: one.since_ns)


def _position(trace: Trace, rank: int, tail: Tail) -> Position:
    position = Position(rank, trace.tables.ends.get(rank, {}).get("reason") == "finalize")
    position.recent = deque(maxlen=max(16, min(RECENT, RECENT_OF_ALL // trace.ranks)))
    inside = _inside(trace, rank)
    if inside and min(inside) >= 0:
        position.between = INSIDE[inside[0]]
    for thread, block in tail.older(NEWEST_CHUNKS):
        _follow(trace, block, position, thread)
    if position.finished:  # its end is written before it waits for the others in MPI_Finalize
        position.open = [call for call in position.open if call.operation == "finalize"]
        position.finished = not position.open
        position.started = {}
    return position


def _inside(trace: Trace, rank: int) -> list[int]:
    """Return which kind of call without a record each thread is in; totals are nobody's window."""
    windows = [chunks[-1] for chunks in trace.threads_of(rank) if chunks]
    return [
        trace.logs.inside[rank, window.thread]
        for window in windows
        if (rank, window.thread) in trace.logs.inside and not window.is_summed()
    ]


def _follow(trace: Trace, block: Block, position: Position, thread: int) -> None:
    """Take over what one thread's newest records say."""
    kinds, starts = column(block, "kind"), column(block, "start")
    sent, received = column(block, "sent"), column(block, "received")
    shapes = trace.tables.shapes

    def call_at(i: int) -> Call:
        shape = shapes[int(block.shape[i])]
        key = (shape.communicator, int(block.sequence[i]), int(starts[i]))
        moved = (int(sent[i]), int(received[i]))
        if moved == (-1, -1):
            moved = (shape.sent, shape.received)
        return Call(shape, key, int(block.enter[i]), int(block.exit[i]), *moved)

    calls = np.isin(kinds, (CALL, START, COMPLETION))
    still = np.flatnonzero(calls & (block.exit == 0)).tolist()
    position.open += [call_at(i) for i in still]
    task = trace.logs.tasks.get((position.rank, thread), -1)
    position.free += bool(calls.any() and not still and task)
    if task > 0 and (still or trace.logs.inside.get((position.rank, thread), -1) >= 0):
        position.tasks.append(task)
    newest_calls = np.flatnonzero(kinds == CALL)[-(position.recent.maxlen or 0) :]
    position.recent.extend(call_at(i) for i in newest_calls.tolist())
    closed = np.flatnonzero(calls & (block.exit != 0))
    if len(closed):
        newest = call_at(int(closed[np.argmax(block.exit[closed])]))
        if position.last is None or newest.exit_ns > position.last.exit_ns:
            position.last = newest
    if calls.any():
        _note_seen(position, call_at(still[-1]) if still else newest, block.take(calls), shapes)
    starting = np.array(["nonblocking" in shape.flags for shape in shapes] or [False])
    begun = (kinds == START) | ((kinds == CALL) & starting[block.shape])
    for i in np.flatnonzero(begun | (kinds == COMPLETION)).tolist():
        call = call_at(i)
        if kinds[i] == COMPLETION:
            position.started.pop(call.key, None)
        elif block.exit[i]:
            position.started[call.key] = call


def _note_seen(position: Position, call: Call, calls: Block, shapes: Sequence[Shape]) -> None:
    """Note where a thread is for each communicator that none has called on later."""
    used, inverse = np.unique(calls.shape, return_inverse=True)
    communicators = np.array([shapes[i].communicator for i in used])[inverse]
    for communicator in np.unique(communicators).tolist():
        when = int(calls.enter[communicators == communicator].max())
        if when > position.newest.get(communicator, (-1, call))[0]:
            position.newest[communicator] = (when, call)
