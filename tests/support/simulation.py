"""Ranks of a simulated program that work and make collectives; program.py adds messages.

Each call advances the clocks of its ranks at once, by max-plus arithmetic: it ends when the last
event that it depends on has happened, plus the time of a transfer.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from mpiprof.account.wait_states import Group, awaited_rows, earliest_exit
from mpiprof.facts.operations import OPERATIONS, WaitRule, base_operation
from mpiprof.trace.types import CALL, COMPLETION, Int
from support.program_log import ProgramLog, Shapes
from support.synthetic import Synthetic

NOBODY = -1
Times = Any  # ns: one value, or an array with one value for each rank of the job


@dataclass(frozen=True)
class Network:
    """Costs of calls and transfers. A message of more than `eager_bytes` waits for its receiver.

    slow_links: time that messages from one rank to another take longer, by both ranks.
    """

    latency_ns: int = 2_000
    bytes_per_ns: float = 10.0
    eager_bytes: int = 8_192
    call_ns: int = 200  # of a call besides its waiting and transfers
    slow_links: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def transfer_ns(self, bytes_: int) -> int:
        """Return the time from the start of a message to its end at the receiver."""
        return self.latency_ns + round(bytes_ / self.bytes_per_ns)

    def transfers_ns(self, bytes_: int, sources: Int, destinations: Int) -> Int:
        """Return the times of messages between ranks."""
        if not self.slow_links:
            return np.full(len(sources), self.transfer_ns(bytes_))
        links = zip(sources.tolist(), destinations.tolist(), strict=True)
        more = np.array([self.slow_links.get(link, 0) for link in links], np.int64)
        return more + self.transfer_ns(bytes_)

    def collective_ns(self, ranks: int, bytes_: int) -> int:
        """Return the time of a collective after the last arrival."""
        return max((ranks - 1).bit_length(), 1) * self.latency_ns + round(
            bytes_ / self.bytes_per_ns
        )


@dataclass(frozen=True)
class SimulatedCall:
    """One call of some ranks: arrays with one value for each of them.

    own_ns: work before the call, since the previous call. wait_ns: time in the call before the
    awaited rank, the last one that the call depends on, has begun its part. awaited: world rank, or
    -1 if wait_ns is 0.
    """

    operation: str
    site: str
    communicator: str
    ranks: Int
    own_ns: Int
    enter_ns: Int
    exit_ns: Int
    wait_ns: Int
    awaited: Int


@dataclass(frozen=True)
class Entry:
    """Ranks that make a call, their work before it and their times of entry."""

    ranks: Int
    own_ns: Int
    enter_ns: Int


@dataclass(frozen=True)
class Started:
    """A nonblocking collective that has been started, and when it can end on each rank."""

    operation: str
    communicator: str
    shapes: Shapes
    sequence: int
    earliest_ns: Int
    awaited: Int
    duration_ns: int


class Simulation:
    """The state of a simulated program.

    now_ns: time of each rank on the joint clock. calls: the calls so far. synthetic: the trace, to
    which communicators are added before their first use. Ranks are world ranks. own_ns: work before
    a call, one value or a value for each rank of the job.
    """

    def __init__(
        self,
        ranks: int,
        network: Network | None = None,
        start_ns: int = 1_000_000,
        intervals: bool = False,
        sample: int = 1,
        counters: bool = False,
        **options: Any,
    ) -> None:
        """intervals: write records of the time between two calls. options: of Synthetic.

        sample: record one of so many instances of collectives, as `--sample` does. counters: write
        also the counters of the threads between two calls.
        """
        self.ranks, self.network, self.sample = ranks, network or Network(), sample
        self.synthetic = Synthetic(ranks, **options)
        self.synthetic.meta["sample"] = sample
        self.synthetic.started_ns = start_ns
        self.now_ns = np.full(ranks, start_ns, np.int64)
        self.calls: list[SimulatedCall] = []
        # A ring has no intervals.
        intervals = intervals and not self.synthetic.ring
        self.log = ProgramLog(self.synthetic, start_ns, intervals, counters)
        self.worked_ns = np.zeros(ranks, np.int64)  # since the last call
        self._group_of = cache(self._make_group)

    def work(self, own_ns: Times) -> None:
        """Let each rank work."""
        self.now_ns += own_ns
        self.worked_ns += own_ns

    def lose(self, off_ns: Times = 0, queue_ns: Times = 0) -> None:
        """Let ranks spend time off the processor, and time in which they wait for a processor."""
        self.log.off_ns += off_ns
        self.log.queue_ns += queue_ns
        self.work(off_ns)
        self.work(queue_ns)

    def enter(self, ranks: Int, own_ns: Times = 0) -> Entry:
        """Let some ranks work and make a call."""
        more = np.broadcast_to(np.asarray(own_ns, np.int64), self.ranks)[ranks]
        own = self.worked_ns[ranks] + more
        self.worked_ns[ranks] = 0
        return Entry(ranks, own, self.now_ns[ranks] + more)

    def leave(
        self, entry: Entry, exit_ns: Int, until_ns: Any, awaited: Int, *described: str
    ) -> None:
        """Add a call that waits for a rank until a time.

        described: operation, call site and communicator.
        """
        wait = np.clip(until_ns - entry.enter_ns, 0, exit_ns - entry.enter_ns)
        awaited = np.where(wait > 0, awaited, NOBODY)
        self.now_ns[entry.ranks] = exit_ns
        operation, site, communicator = described
        times = entry.ranks, entry.own_ns, entry.enter_ns, exit_ns
        self.calls.append(SimulatedCall(operation, site, communicator, *times, wait, awaited))

    # Collectives

    def collective(
        self,
        operation: str,
        site: str = "app.py:1:main",
        own_ns: Times = 0,
        bytes_: int = 8,
        root: int | None = None,
        communicator: str = "world",
        root_site: str = "",
        datatype: str | None = None,
    ) -> None:
        """Make a blocking collective; its ranks wait as the operation's wait rule says.

        root_site: site of the root's call in the trace, if it is elsewhere in the source. The truth
        has `site` for the root as well.
        """
        described = operation, site, communicator
        more = root_site, datatype
        entry, call = self._start(operation, site, own_ns, bytes_, root, communicator, *more)
        exits = np.maximum(entry.enter_ns, call.earliest_ns) + call.duration_ns
        self._log(call, CALL, entry.enter_ns, exits)
        self.leave(entry, exits, call.earliest_ns, call.awaited, *described)

    def start(
        self,
        operation: str,
        site: str = "app.py:1:main",
        own_ns: Times = 0,
        bytes_: int = 8,
        root: int | None = None,
        communicator: str = "world",
    ) -> Started:
        """Start a nonblocking collective, such as iallreduce."""
        entry, call = self._start(operation, site, own_ns, bytes_, root, communicator)
        exits = entry.enter_ns + self.network.call_ns
        self._log(call, CALL, entry.enter_ns, exits)
        self.leave(entry, exits, entry.enter_ns, entry.ranks, operation, site, communicator)
        return call

    def wait(
        self,
        started: Started,
        site: str = "app.py:2:main",
        own_ns: Times = 0,
        progress: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Wait for a nonblocking collective to end.

        progress: pairs of ranks, of which the first cannot leave before the second has entered,
        because the library passes the data on inside calls only. The truth has no such waits.
        """
        entry = self.enter(started.shapes.rank, own_ns)
        ended = np.array(started.earliest_ns + started.duration_ns)
        for held, by in progress:
            row = np.searchsorted(entry.ranks, [held, by])
            ended[row[0]] = max(ended[row[0]], entry.enter_ns[row[1]] + self.network.latency_ns)
        exits = np.maximum(entry.enter_ns, ended) + self.network.call_ns
        called = self.log.find_shapes("wait", "world", site, entry.ranks)
        self._log(started, COMPLETION, entry.enter_ns, exits, called)
        described = "wait", site, started.communicator
        self.leave(entry, exits, started.earliest_ns, started.awaited, *described)

    def _log(
        self, call: Started, kind: int, enter_ns: Int, exit_ns: Int, called: Shapes | None = None
    ) -> None:
        """Add the records of a collective, if it is in the sample."""
        # The lowest bits of a checksum follow the bits of the number.
        mixed = zlib.crc32(f"{call.communicator} {call.sequence}".encode()) * 0x9E3779B1 >> 20
        is_recorded = call.operation == "finalize" or mixed % self.sample == 0
        times = enter_ns, exit_ns
        self.log.add_collective(call.shapes, kind, call.sequence, *times, called, is_recorded)

    def _start(
        self,
        operation: str,
        site: str,
        own_ns: Times,
        bytes_: int,
        root: int | None,
        communicator: str,
        root_site: str = "",
        datatype: str | None = None,
    ) -> tuple[Entry, Started]:
        base = base_operation(operation)
        known = OPERATIONS.get(base)
        if known is not None and known.rooted and root is None:
            root = 0
        ranks = np.concatenate(self.synthetic.members[communicator])
        group = self._group_of(base, communicator, root)
        size = 0 if base == "barrier" else bytes_ if known is not None else None
        rank_of_root = None if root is None else self.log.find_position(communicator, root)
        facts: dict[str, Any] = {"sent": size, "received": size, "root": rank_of_root}
        if datatype is not None:
            facts["type"] = datatype
        shapes = self.log.find_shapes(operation, communicator, site, ranks, **facts)
        if root_site and root is not None:
            shapes = self._move_root(shapes, root, operation, communicator, root_site, facts)
        entry = self.enter(ranks, own_ns)
        arrivals = entry.enter_ns[:, None]
        earliest = np.broadcast_to(earliest_exit(arrivals, group), arrivals.shape)[:, 0]
        awaited = ranks[awaited_rows(arrivals, group)[:, 0]]
        sequence = self.synthetic.sequence[communicator]
        self.synthetic.sequence[communicator] += 1
        duration = self.network.collective_ns(len(ranks), size or 0)
        started = Started(operation, communicator, shapes, sequence, earliest, awaited, duration)
        return entry, started

    def _move_root(
        self,
        shapes: Shapes,
        root: int,
        operation: str,
        communicator: str,
        site: str,
        facts: dict[str, Any],
    ) -> Shapes:
        """Return the shapes of a collective whose root calls it at another site."""
        alone = self.log.find_shapes(operation, communicator, site, np.array([root]), **facts)
        is_root = shapes.rank == root
        ids, columns = (
            np.where(is_root, of_root, of_all)
            for of_root, of_all in ((alone.id, shapes.id), (alone.column, shapes.column))
        )
        return Shapes(shapes.rank, ids, columns)

    def _make_group(self, operation: str, communicator: str, root: int | None) -> Group:
        groups = self.synthetic.members[communicator]
        if len(groups) > 1:
            raise ValueError(f"{communicator}: an inter-communicator cannot be simulated")
        known = OPERATIONS.get(operation)
        rule = WaitRule.UNSPECIFIED if known is None else known.wait_rule
        position = -1 if root is None else self.log.find_position(communicator, root)
        sources: tuple[list[int], ...] = ()
        if rule is WaitRule.RANK_FOR_SOURCES:
            sources = self.synthetic.find_sources(communicator)
        return Group(rule, (len(groups[0]), 0), position, sources)
