"""Rank state: the open or last call of each rank of a job, and the ranks missing in open calls.

Logs are read backwards, because only the last records matter. A rank has arrived in an instance if
it entered that sequence number, or a later one, on the same communicator. MPI requires all members
to make these calls in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mpiprof.hang.blocking_calls import MessageWait, find_local_calls, find_poll, find_waits
from mpiprof.trace import Trace
from mpiprof.trace.chunks import count_capacity
from mpiprof.trace.current_function import CurrentFunction
from mpiprof.trace.metadata import Call, Key, Shape
from mpiprof.trace.rank_arrays import Block, get_column
from mpiprof.trace.stream import ThreadStream
from mpiprof.trace.types import CALL, COMPLETION, START, Int, Problems

NEWEST_CHUNKS = 3  # about 6000 records per thread, enough for all uncompleted operations
# Number of each rank's newest calls whose arguments are compared; fewer in a large job.
RECENT_CALLS, MAX_RECENT_CALLS = 256, 1 << 17


@dataclass
class Position:
    """State of one rank: its open calls, last closed call, and uncompleted operations.

    open: collectives. waits: blocking message calls. local_calls: calls on windows, files,
    communicators etc. that are recorded by call site only. poll: a loop of calls in vain.
    """

    rank: int
    finished: bool
    # The newest calls including open ones, oldest first.
    recent: deque[Call] = field(default_factory=lambda: deque(maxlen=RECENT_CALLS))
    between: str = ""  # class of the unrecorded call that all its threads are in, or ""
    open: list[Call] = field(default_factory=list)
    waits: list[MessageWait] = field(default_factory=list)
    local_calls: list[MessageWait] = field(default_factory=list)
    poll: MessageWait | None = None
    last: Call | None = None
    started: dict[Key, Call] = field(default_factory=dict)
    free: int = 0  # threads in no open call, of those that made calls and have not ended
    # Threads in a collective or a blocking message call. `may_send`: another thread that has made
    # message calls has not ended.
    threads_in_calls: set[int] = field(default_factory=set)
    may_send: bool = False
    is_unknown: bool = False  # its log lacks later calls
    unlogged: bool = False  # its log contains no calls at all
    tasks: list[int] = field(default_factory=list)  # kernel thread ids of its threads in MPI
    # By communicator: time of the newest call, and the open or last call of its thread.
    newest: dict[int, tuple[int, Call | MessageWait]] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """State as in the JSON: finished, inside (a recorded call), outside or unknown."""
        if self.finished:
            return "finished"
        if self.open or self.waits or self.local_calls or self.between == "collective":
            return "inside"
        return "unknown" if self.is_unknown or self.unlogged else "outside"

    @property
    def is_in_recorded_call(self) -> bool:
        """Return whether the call that it is in is known, with its site."""
        return bool(self.open or self.waits or self.local_calls)

    @property
    def current(self) -> Call | MessageWait | None:
        """The open call, the loop of calls in vain, or the last closed call."""
        open_calls: list[Call | MessageWait] = [*self.open, *self.waits, *self.local_calls]
        if open_calls:
            return max(open_calls, key=lambda call: call.enter_ns)
        return self.poll or self.last

    def last_seen(self, communicator: int | None = None) -> Call | MessageWait | None:
        """Return the last known call, as relevant for ranks that wait on a communicator."""
        if communicator is None or communicator not in self.newest:
            return self.current
        # The rank may have several threads: only the one that called here matters.
        return self.newest[communicator][1]


@dataclass(frozen=True)
class Pending:
    """An instance that some rank is in, with arrived and missing members as world ranks."""

    operations: list[str]  # several only if the program is wrong
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
        """Sequence number on the communicator."""
        return self.key[1]


Positions = Sequence[Position]  # of all ranks, by rank
Instances = Sequence[Pending]


class LogTail:
    """Records of one rank, read from the newest backwards, as far as needed."""

    def __init__(self, trace: Trace, rank: int) -> None:
        self.trace, self.rank = trace, rank
        self.threads = trace.open_stream(rank).threads
        self.unread = [len(thread.chunks) for thread in self.threads]
        self.reached: dict[int, int] = {}
        self.starts: dict[tuple[int, int], int] = {}
        self.numbered: set[Key] = set()  # calls on communicators that share a row

    def read_older(self, chunks: int) -> list[tuple[int, Block]]:
        """Read more chunks of each thread. Returns (thread, block) pairs, or [] at the end."""
        blocks = []
        for index, thread in enumerate(self.threads):
            stop = self.unread[index]
            start = max(0, stop - chunks)
            self.unread[index] = start
            unread = thread.chunks[start:stop]
            if unread:
                records = count_capacity(unread)
                block = ThreadStream(thread.source, unread, Problems()).read(records)
                if block is not None:
                    blocks.append((unread[-1].thread, block))
                    self._note_block(block)
        return blocks

    def _note_block(self, block: Block) -> None:
        communicators = _communicators_of(block, self.trace.tables.shapes)
        for communicator in np.unique(communicators).tolist():
            most = int(block.sequence[communicators == communicator].max())
            self.reached[communicator] = max(most, self.reached.get(communicator, -1))
        kinds, starts = get_column(block, "kind"), get_column(block, "start")
        for i in np.flatnonzero((kinds == CALL) & (starts > 0)).tolist():
            self.numbered.add((int(communicators[i]), int(block.sequence[i]), int(starts[i])))
        for i in np.flatnonzero(kinds == START).tolist():
            key = (int(communicators[i]), int(block.sequence[i]))
            self.starts[key] = max(int(starts[i]), self.starts.get(key, 0))

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
            self.read_older(16)

    def _may_have_passed(self, key: Key) -> bool:
        """Return whether the rank may have made a call that its ring has overwritten."""
        communicator, sequence, start = key
        if not self.trace.wrapped_chunks.get(self.rank):
            return False
        # For starts of persistent operations, and for communicators that share a row, this is
        # unknown. Then the rank counts as arrived.
        if start:
            return (communicator, sequence) not in self.starts
        return self.trace.last_sequences.get((self.rank, communicator), -1) >= sequence


def find(trace: Trace) -> tuple[list[Position], list[Pending]]:
    """Return the state of every rank, and every pending instance, oldest first."""
    # Read before the collectives: a call that is still open afterwards overlaps them.
    waits = [find_waits(trace, rank) for rank in range(trace.ranks)]
    tails = {rank: LogTail(trace, rank) for rank in range(trace.ranks)}
    positions = [_find_position(trace, rank, tail, waits[rank]) for rank, tail in tails.items()]
    unknown_ranks = trace.unwritten_ranks | trace.tables.limits.keys()
    for position in positions:
        position.is_unknown = position.rank in unknown_ranks
    waiting: dict[Key, list[Call]] = {}
    blocking: set[Key] = set()
    for position in positions:
        for call in (*position.open, *position.started.values()):
            waiting.setdefault(call.key, []).append(call)
        blocking |= {call.key for call in position.open}
        if position.between == "completion":
            blocking |= position.started.keys()
    pending = []
    for key, calls in waiting.items():
        members = trace.tables.communicators[key[0]].ranks.tolist()
        arrived = [rank for rank in members if rank in tails and tails[rank].has_entered(key)]
        missing = [rank for rank in members if rank not in arrived]
        # An operation that was only started is pending if a member is missing or a rank is in a
        # Wait.
        if key in blocking or missing:
            pending.append(
                Pending(
                    list(dict.fromkeys(call.operation for call in calls)),
                    key,
                    arrived,
                    missing,
                    sorted({call.site for call in calls if call.site >= 0}),
                    min(call.enter_ns for call in calls),
                )
            )
    return positions, sorted(pending, key=lambda instance: instance.since_ns)


def _find_position(
    trace: Trace, rank: int, tail: LogTail, waits: Sequence[MessageWait]
) -> Position:
    position = Position(rank, trace.tables.ends.get(rank, {}).get("reason") == "finalize")
    position.unlogged = trace.record == "summary"
    position.recent = deque(maxlen=max(16, min(RECENT_CALLS, MAX_RECENT_CALLS // trace.ranks)))
    position.poll = find_poll(trace, rank)
    functions = _current_functions(trace, rank)
    if functions and (position.poll or not any(function.polled_ns for function in functions)):
        position.between = functions[0].call_class
    position.waits = list(waits)
    position.local_calls = find_local_calls(trace, rank)
    position.threads_in_calls = {wait.thread for wait in waits}
    for thread, block in tail.read_older(NEWEST_CHUNKS):
        _update_position(trace, block, position, thread)
    position.may_send = any(
        thread not in position.threads_in_calls and trace.logs.tasks.get((rank, thread), -1)
        for thread in _message_threads(trace, rank)
    )
    if position.finished:  # the end record precedes the wait for other ranks in MPI_Finalize
        position.open = [call for call in position.open if call.operation == "finalize"]
        position.finished = not position.open
        position.started, position.waits, position.local_calls = {}, [], []
        position.poll = None
    return position


def _message_threads(trace: Trace, rank: int) -> list[int]:
    """Return the threads that have made message calls; windows of totals belong to no thread."""
    threads = trace.message_chunks(rank)
    return [chunks[0].thread for chunks in threads if not chunks[0].is_summed()]


def _current_functions(trace: Trace, rank: int) -> list[CurrentFunction]:
    """Return the call that each thread is in, or [] if a thread is outside MPI.

    Windows of totals belong to no thread. A call with an open record does not count.
    """
    windows = [chunks[-1] for chunks in trace.thread_chunks(rank) if chunks]
    threads = [(rank, window.thread) for window in windows if not window.is_summed()]
    known = [trace.logs.functions[thread] for thread in threads if thread in trace.logs.functions]
    functions = [function for function in known if function is not None]
    return functions if len(functions) == len(known) else []


def _update_position(trace: Trace, block: Block, position: Position, thread: int) -> None:
    """Update a rank's state from the newest records of one thread."""
    kinds, starts = get_column(block, "kind"), get_column(block, "start")
    sent, received = get_column(block, "sent"), get_column(block, "received")
    shapes = trace.tables.shapes

    def call_at(i: int) -> Call:
        shape = shapes[int(block.shape[i])]
        key = (shape.communicator, int(block.sequence[i]), int(starts[i]))
        moved = (int(sent[i]), int(received[i]))
        if moved == (-1, -1):
            moved = (shape.sent, shape.received)
        return Call(shape, key, int(block.enter_ns[i]), int(block.exit_ns[i]), *moved)

    calls = np.isin(kinds, (CALL, START, COMPLETION))
    still = np.flatnonzero(calls & (block.exit_ns == 0)).tolist()
    position.open += [call_at(i) for i in still]
    if still:
        position.threads_in_calls.add(thread)
    wait = _current_wait(position, thread, block.take(calls))
    task = trace.logs.tasks.get((position.rank, thread), -1)
    position.free += bool(calls.any() and not still and task and wait is None)
    if task > 0 and (still or trace.logs.functions.get((position.rank, thread)) is not None):
        position.tasks.append(task)
    newest_calls = np.flatnonzero(kinds == CALL)[-(position.recent.maxlen or 0) :]
    position.recent.extend(call_at(i) for i in newest_calls.tolist())
    closed = np.flatnonzero(calls & (block.exit_ns != 0))
    if len(closed):
        newest = call_at(int(closed[np.argmax(block.exit_ns[closed])]))
        if position.last is None or newest.exit_ns > position.last.exit_ns:
            position.last = newest
    if calls.any():
        seen = wait or (call_at(still[-1]) if still else newest)
        _note_seen(position, seen, block.take(calls), shapes)
    starting = np.array(["nonblocking" in shape.flags for shape in shapes] or [False])
    begun = (kinds == START) | ((kinds == CALL) & starting[block.shape])
    for i in np.flatnonzero(begun | (kinds == COMPLETION)).tolist():
        call = call_at(i)
        if kinds[i] == COMPLETION:
            position.started.pop(call.key, None)
        elif block.exit_ns[i]:
            position.started[call.key] = call


def _current_wait(position: Position, thread: int, calls: Block) -> MessageWait | None:
    """Return the message call that a thread is in; remove it if a collective has begun later."""
    wait = next((wait for wait in position.waits if wait.thread == thread), None)
    if wait is not None and len(calls.enter_ns) and int(calls.enter_ns.max()) > wait.enter_ns:
        position.waits.remove(wait)
        return None
    return wait


def _note_seen(
    position: Position, call: Call | MessageWait, calls: Block, shapes: Sequence[Shape]
) -> None:
    """Store a thread's call for each communicator that no other thread called on later."""
    communicators = _communicators_of(calls, shapes)
    for communicator in np.unique(communicators).tolist():
        when = int(calls.enter_ns[communicators == communicator].max())
        if when > position.newest.get(communicator, (-1, call))[0]:
            position.newest[communicator] = (when, call)


def _communicators_of(block: Block, shapes: Sequence[Shape]) -> Int:
    used, inverse = np.unique(block.shape, return_inverse=True)
    return np.array([shapes[i].communicator for i in used])[inverse]


def group_by_instance(positions: Positions) -> dict[Key, dict[int, Call]]:
    """Return the newest calls of all ranks by instance, then by rank."""
    calls_by_instance: dict[Key, dict[int, Call]] = {}
    for position in positions:
        for call in position.recent:
            calls_by_instance.setdefault(call.key, {})[position.rank] = call
    return calls_by_instance
