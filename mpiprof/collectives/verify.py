"""Proof of a schedule: every rank ends with exactly the right data, independent of timing.

The schedules of all ranks run on labels in place of data, under the strictest progress rule. A send
waits for its receive (rendezvous), and a round ends when all its messages are matched. Everything
that could depend on timing is an error. Errors are a range that a round both receives and reads,
overlapping receives, and an element of OUT that is written twice or read before it is written. In a
barrier, which has no data, no rank may end without a chain of messages from every rank.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives import buffer_contract
from mpiprof.collectives.buffer_contract import EMPTY, STRIDE, ExpressionTable, Labels
from mpiprof.collectives.schedule import (
    BARRIER,
    COPY,
    IN,
    OUT,
    RECEIVE,
    REDUCE,
    REMOTE,
    RIGHT,
    SEND,
    TOKEN,
    Algorithm,
    Problem,
    Schedule,
)
from mpiprof.errors import MpiprofError

BUFFERS = ("IN", "OUT", "SCRATCH")
PAIR = 1 << 24  # above every tree's number; in a label, tree numbers are above STRIDE
MAXIMA = ("talking", "messages", "sent", "received", "conflicts")  # of the processes, for `Proof`
Row = list[int]


class BrokenScheduleError(MpiprofError):
    """Raised for a schedule that violates its operation; names rank, round and range."""


@dataclass(frozen=True)
class ScheduleProof:
    """Cost of a proved schedule, before alpha and beta: maxima over the ranks, without tokens."""

    rounds: int  # with messages
    messages: int
    sent: int
    received: int
    conflicts: int  # rounds in which a rank sends or receives several messages at once
    ordered: bool  # reductions preserve the order of operands
    # Time of the last end if every message takes time 1 (also tokens), or its bytes. Ports are
    # full-duplex and serve one message at a time, in the order of the proof.
    span: int
    volume: int


@dataclass(slots=True)
class _Clock:
    """Times of a process: begin of its round, last end of its messages, ports free."""

    round: int = 0
    end: int = 0
    sending: int = 0
    receiving: int = 0


@dataclass(slots=True)
class _Process:
    number: int
    rank: int
    peers_first: int
    remote_first: int
    schedule: Schedule
    rounds: Iterator[NDArray[np.int64]]
    buffers: list[Labels]
    round: int = -1
    open: int = 0
    talking: int = 0
    messages: int = 0
    sent: int = 0
    received: int = 0
    conflicts: int = 0
    done: bool = False
    clocks: tuple[_Clock, _Clock] = field(default_factory=lambda: (_Clock(), _Clock()))
    addresses: list[int] = field(init=False)  # of the buffers, which may share memory
    # Sets of ranks implied to have arrived, at the begin of this round and by its messages.
    entered: int = 0
    received_from: int = 0

    def __post_init__(self) -> None:
        self.addresses = [data.ctypes.data // data.itemsize for data in self.buffers]


@dataclass
class _Proof:
    algorithm: Algorithm
    unit: int
    reduces: bool
    expressions: ExpressionTable
    processes: list[_Process]
    posted: dict[tuple[int, int], deque[tuple[_Process, Row]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    waiting: list[_Process] = field(default_factory=list)
    ready: deque[_Process] = field(default_factory=deque)

    def fail(self, process: _Process, row: Row, fault: str) -> BrokenScheduleError:
        name = f"{self.algorithm.operation} {self.algorithm.name}, {len(self.processes)} processes"
        step = f"{BUFFERS[row[3]]} [{row[4]}, {row[4] + row[5]})"
        where = f"rank {process.rank}, round {process.round}, {step}"
        return BrokenScheduleError(f"{name}: {fault} ({where})")

    def step_range(self, process: _Process, row: Row, buffer: int, offset: int) -> Labels:
        length, data = row[5] // self.unit, process.buffers[buffer]
        begin = offset // self.unit
        if begin < 0 or begin + length > len(data):
            raise self.fail(process, row, f"outside of {BUFFERS[buffer]}, {len(data)} long")
        return data[begin : begin + length]

    def address(self, process: _Process, buffer: int, offset: int) -> int:
        """Return the memory address of a range, counted in elements."""
        return process.addresses[buffer] + offset // self.unit

    def read(self, process: _Process, row: Row, buffer: int, offset: int) -> Labels:
        data = self.step_range(process, row, buffer, offset)
        if len(data) and np.minimum.reduce(data) == EMPTY:
            raise self.fail(process, row, "reads data that was never written")
        return data

    def write(self, process: _Process, row: Row, data: Labels) -> None:
        target = self.step_range(process, row, row[3], row[4])
        if row[3] == IN:
            raise self.fail(process, row, "writes into IN")
        written = row[3] == OUT and not self.reduces and len(target)
        if written and np.maximum.reduce(target) != EMPTY:
            raise self.fail(process, row, "writes into OUT a second time")
        target[:] = data

    def run_local(self, process: _Process, row: Row) -> None:
        source = self.read(process, row, row[6], row[7])
        if row[1] == COPY:
            apart = self.address(process, row[3], row[4]) - self.address(process, row[6], row[7])
            if apart == 0:
                return
            if abs(apart) < len(source):
                raise self.fail(process, row, "copies between ranges that overlap")
            self.write(process, row, source)
            return
        target = self.read(process, row, row[3], row[4])
        if row[3] == IN:
            raise self.fail(process, row, "reduces into IN")
        (left, places), (right, target_places) = (
            np.divmod(source, STRIDE),
            np.divmod(target, STRIDE),
        )
        if (places != target_places).any():
            raise self.fail(process, row, "reduces elements with different indices")
        if row[8] & RIGHT:
            left, right = right, left
        try:
            target[:] = self.combine(left, right) * STRIDE + places
        except ValueError as error:
            raise self.fail(process, row, str(error)) from error
        if row[8] & RIGHT:
            source[:] = EMPTY

    def combine(self, left: Labels, right: Labels) -> Labels | int:
        """Return the trees that join the left and right operand of each element."""
        pairs = left * PAIR + right
        if len(pairs) and (pairs == pairs[0]).all():  # the usual case
            return self.expressions.combine(int(left[0]), int(right[0]))
        distinct, back = np.unique(pairs, return_inverse=True)
        combined = [self.expressions.combine(*divmod(pair, PAIR)) for pair in distinct.tolist()]
        return np.asarray(np.array(combined, np.int64)[back.reshape(-1)])

    def check_overlaps(self, process: _Process, rows: list[Row]) -> None:
        if len(rows) < 2:
            return
        ranges = sorted(
            (self.address(process, row[3], row[4]), row[5] // self.unit, row[1], i)
            for i, row in enumerate(rows)
            if row[5] > 0
        )
        # Largest ends so far of received and of sent ranges.
        received = sent = -1
        for begin, length, kind, i in ranges:
            if begin < received or (kind == RECEIVE and begin < sent):
                fault = "receives into a range that another step of the round uses"
                raise self.fail(process, rows[i], fault)
            if kind == RECEIVE:
                received = max(received, begin + length)
            else:
                sent = max(sent, begin + length)

    def match(self, sender: tuple[_Process, Row], receiver: tuple[_Process, Row]) -> None:
        (source, out), (target, into) = sender, receiver
        if out[5] != into[5] or (out[8] ^ into[8]) & TOKEN:
            sent = f"rank {source.rank} sends {out[5]} in round {source.round}"
            raise self.fail(target, into, f"receives {into[5]} bytes where {sent}")
        if not out[8] & TOKEN:
            self.write(target, into, self.read(source, out, out[3], out[4]))
        target.received_from |= source.entered
        for sending, receiving, took in zip(source.clocks, target.clocks, (1, out[5]), strict=True):
            begin = max(sending.round, receiving.round, sending.sending, receiving.receiving)
            sending.sending = receiving.receiving = end = begin + took
            for clock in (sending, receiving):
                if clock.end < end:
                    clock.end = end
        for process in (source, target):
            process.open -= 1
            if process.open == 0:
                self.ready.append(process)

    def post(self, process: _Process, row: Row) -> None:
        first = process.remote_first if row[8] & REMOTE else process.peers_first
        peer = first + row[2]
        if not 0 <= peer < len(self.processes) or self.processes[peer].rank != row[2]:
            raise self.fail(process, row, f"peer {row[2]} does not exist")
        sends = row[1] == SEND
        key = (process.number, peer) if sends else (peer, process.number)
        queue = self.posted[key]
        if queue and (queue[0][1][1] == SEND) != sends:
            waiting = queue.popleft()
            posted = (process, row)
            self.match(posted if sends else waiting, waiting if sends else posted)
        else:
            queue.append((process, row))

    def add_costs(self, process: _Process, messages: list[Row]) -> None:
        data = [row for row in messages if not row[8] & TOKEN]
        sends = [row[5] for row in data if row[1] == SEND]
        receives = [row[5] for row in data if row[1] == RECEIVE]
        process.talking += bool(data)
        process.messages += len(sends)
        process.sent += sum(sends)
        process.received += sum(receives)
        process.conflicts += len(sends) > 1 or len(receives) > 1

    def advance(self, process: _Process) -> None:
        """Move a process to its next round. It becomes ready again when that round is over."""
        process.entered |= process.received_from
        for clock in process.clocks:
            clock.round = clock.end
        steps = next(process.rounds, None)
        if steps is None:
            process.done = True
            return
        process.round += 1
        messages: list[Row] = []
        barriers: list[Row] = []
        for row in steps.tolist():
            if row[1] in (COPY, REDUCE):
                self.run_local(process, row)
            else:
                (barriers if row[1] == BARRIER else messages).append(row)
        if messages:
            self.add_costs(process, messages)
            self.check_overlaps(process, messages)
        if barriers:
            if messages:
                raise self.fail(process, barriers[0], "has a barrier and messages in one round")
            self.waiting.append(process)
            if len(self.waiting) == len(self.processes):
                self.pass_barrier()
                self.ready.extend(self.waiting)
                self.waiting = []
            return
        process.open = len(messages)
        if not messages:
            self.ready.append(process)
        for row in messages:
            self.post(process, row)

    def pass_barrier(self) -> None:
        everyone = (1 << len(self.processes)) - 1
        # A barrier counts as long as a dissemination.
        takes = (len(self.processes) - 1).bit_length()
        for clocks in zip(*(p.clocks for p in self.processes), strict=True):
            last = max(clock.round for clock in clocks) + takes
            takes = 0
            for clock in clocks:
                clock.end = last
        for process in self.waiting:
            process.received_from = everyone

    def run(self) -> None:
        self.ready.extend(self.processes)
        while self.ready:
            self.advance(self.ready.popleft())
        for process in self.processes:
            if not process.done:
                posted = (pair for queue in self.posted.values() for pair in queue)
                stuck = next((row for poster, row in posted if poster is process), [0] * 9)
                raise self.fail(process, stuck, "waits forever: its message has no partner")


def verify(algorithm: Algorithm, problem: Problem, *, in_place: bool = False) -> ScheduleProof:
    """Prove a schedule for one problem; raises BrokenScheduleError with rank, round and range."""
    reduces = algorithm.operation in buffer_contract.REDUCTIONS
    expressions = ExpressionTable(problem.size + problem.remote_size)
    if problem.remote_size and not problem.first_group:
        problem = buffer_contract.mirror_problem(problem)
    groups = buffer_contract.list_groups(problem)
    processes = [
        _start_process(algorithm, group, rank, first, remote, in_place)
        for group, first, remote in groups
        for rank in range(group.size)
    ]
    run = _Proof(algorithm, problem.unit if reduces else 1, reduces, expressions, processes)
    try:
        run.run()
        ordered = _check_results(run, groups)
    finally:
        for process in processes:
            process.schedule.close()
    facts: list[Any] = [max(getattr(p, name) for p in processes) for name in MAXIMA]
    facts += [ordered, *(max(p.clocks[i].end for p in processes) for i in range(2))]
    return ScheduleProof(*facts)


def _start_process(
    algorithm: Algorithm, problem: Problem, rank: int, first: int, remote: int, in_place: bool
) -> _Process:
    operation, number = algorithm.operation, first + rank
    schedule = Schedule(algorithm, problem, rank)
    unit = problem.unit if operation in buffer_contract.REDUCTIONS else 1
    scratch = np.full(schedule.scratch // unit, EMPTY, np.int64)
    buffers = [*buffer_contract.make_buffers(operation, problem, rank, number, in_place), scratch]
    return _Process(
        number, rank, first, remote, schedule, schedule.by_round(), buffers, entered=1 << number
    )


def _check_results(run: _Proof, groups: list[tuple[Problem, int, int]]) -> bool:
    operation = run.algorithm.operation
    total = buffer_contract.count_elements(operation, groups[0][0]) if run.reduces else 0
    agreed = np.full(total, EMPTY, np.int64)
    ordered = True
    for problem, first, _ in groups:
        everyone = (1 << problem.size) - 1
        for process in run.processes[first : first + problem.size]:
            want = buffer_contract.required_contents(operation, problem, process.rank)
            have = process.buffers[OUT]
            right = have % STRIDE == want if run.reduces else have == want
            wrong = np.flatnonzero(~right | (have == EMPTY))
            if len(wrong):
                row = [0, 0, 0, OUT, int(wrong[0]) * run.unit, run.unit, 0, 0, 0]
                raise run.fail(process, row, "wrong data at the end")
            if operation == "barrier" and process.entered != (1 << len(run.processes)) - 1:
                missing = (~process.entered & -~process.entered).bit_length() - 1
                raise run.fail(process, [0] * 9, f"exits before rank {missing} has arrived")
            if not run.reduces:
                continue
            for tree in np.unique(have // STRIDE).tolist():
                row = [0, 0, 0, OUT, 0, len(have) * run.unit, 0, 0, 0]
                if run.expressions.members[tree] != everyone:
                    raise run.fail(process, row, "operands are missing from the result")
                ordered &= run.expressions.ordered[tree]
            _check_agreement(run, process, have, agreed)
    if run.reduces and run.algorithm.keeps_order and not ordered:
        raise run.fail(run.processes[0], [0] * 9, "changes the order of operands")
    return ordered


def _check_agreement(run: _Proof, process: _Process, have: Labels, agreed: Labels) -> None:
    """Check that every element's association is equal to that on earlier ranks."""
    trees, places = np.divmod(have, STRIDE)
    agreed_trees = agreed[places]
    differing = np.flatnonzero((agreed_trees != EMPTY) & (agreed_trees != trees))
    if len(differing):
        row = [0, 0, 0, OUT, int(differing[0]) * run.unit, run.unit, 0, 0, 0]
        raise run.fail(process, row, "associates operands differently from another rank")
    agreed[places] = trees
