"""The log of a simulated program: what the recorder writes with `--messages auto`.

Records of all ranks are collected call by call and divided among the ranks at the end. Times are on
the joint clock until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.trace.messages import COMPLETE
from mpiprof.trace.types import (
    CALL,
    COMPLETION,
    EXTENSION,
    INTERVAL,
    INTERVAL_COUNTS,
    INTERVAL_TIMES,
    MESSAGE_CALL,
    OUTSIDE,
    POLL,
    RECEIVED_PART,
    SENT_PART,
    Array,
    Bool,
    Int,
)
from mpiprof.trace.writer import RECORD_TYPE, make_sums
from support.synthetic import Synthetic

LONG_CALL_NS = 20_000  # as in core/record/message_epochs.h: recorded outside of windows
REQUEST_BYTES = 2048  # as in core/record/message.c: the request of a shorter send is not followed
LONG_INTERVAL_NS = 200_000  # intervals between two calls that are logged
UNKNOWN_NS = np.iinfo(np.int64).max  # in place of the end of a call that is not recorded
NO_SHAPE = 0xFFFFFFFF  # in place of the shape of the call before the first one
POINT_TO_POINT, COMPLETING = 0, 1  # indices into trace.layout.OUTSIDE_CLASSES
CALLS, TOTAL, SENT_BYTES, RECEIVED_BYTES, LONGEST = range(5)  # rows of the sums, as in make_sums
HAVE_BEGIN = (CALL, COMPLETION, SENT_PART, RECEIVED_PART, MESSAGE_CALL, INTERVAL, POLL)
HAVE_END = (CALL, COMPLETION, MESSAGE_CALL, INTERVAL, POLL)


@dataclass(frozen=True)
class Shapes:
    """Shapes of the calls of some ranks: ids in the tables of each, and columns of the sums."""

    rank: Int
    id: Int
    column: Int


@dataclass(frozen=True)
class Parts:
    """Messages of some calls: arrays per message, or values for all.

    call: index of the call, ascending. shape: id of the shape of the call that posted it.
    """

    received: bool
    call: Int
    shape: Int
    posted_ns: Any
    bytes: Any
    number: Any
    tag: int
    flags: Any = COMPLETE


class ProgramLog:
    """Records of a simulated program; `finish` gives them to a synthetic trace."""

    def __init__(
        self, synthetic: Synthetic, start_ns: int, intervals: bool, counters: bool = False
    ) -> None:
        self.synthetic, self.intervals, self.counters = synthetic, intervals, counters
        self.is_complete = True  # otherwise only long calls are logged
        ranks = synthetic.ranks
        self.last_exit = np.full(ranks, start_ns, np.int64)
        self.last_shape = np.full(ranks, NO_SHAPE, np.int64)
        self.outside = np.zeros(ranks, np.int64)  # since the last collective
        # Since the last call: time off the processor, and time of waiting for a processor.
        self.off_ns, self.queue_ns = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
        self.spent = np.zeros((2, ranks), np.int64)
        self._known: dict[Any, Shapes] = {}
        self._columns: dict[tuple[int, int], int] = {}
        self._sums = np.zeros((5, 64), np.int64)
        self._counts: dict[tuple[str, int], Int] = {}
        self._positions: dict[str, Int] = {}
        self._calls: list[tuple[Int, Array]] = []
        self._messages: list[tuple[Int, Array]] = []

    # Shapes and numbers

    def find_shapes(
        self,
        operation: str,
        communicator: str,
        site: str,
        ranks: Int,
        peers: Int | None = None,
        **more: Any,
    ) -> Shapes:
        """Return the shapes of a call of some ranks; peers: world ranks, -1 for none."""
        peers = np.full(len(ranks), -1) if peers is None else peers
        facts = tuple(sorted(more.items()))
        key = (operation, communicator, site, ranks.tobytes(), peers.tobytes(), facts)
        if key not in self._known:
            self._known[key] = self._add_shapes(operation, communicator, site, ranks, peers, more)
        return self._known[key]

    def _add_shapes(
        self,
        operation: str,
        communicator: str,
        site: str,
        ranks: Int,
        peers: Int,
        more: dict[str, Any],
    ) -> Shapes:
        ids = []
        for rank, peer in zip(ranks.tolist(), peers.tolist(), strict=True):
            of_peer = {"peer": self.find_position(communicator, peer)} if peer >= 0 else {}
            ids.append(
                self.synthetic.add_shape(
                    rank, operation, communicator, site=site, **more, **of_peer
                )
            )
        keys = zip(ranks.tolist(), ids, strict=True)
        columns = [self._columns.setdefault(key, len(self._columns)) for key in keys]
        while self._sums.shape[1] < len(self._columns):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)], axis=1)
        return Shapes(ranks, np.array(ids, np.int64), np.array(columns, np.int64))

    def find_position(self, communicator: str, rank: int) -> int:
        """Return the rank in a communicator of a world rank."""
        if communicator not in self._positions:
            members = np.concatenate(self.synthetic.members[communicator])
            positions = np.full(self.synthetic.ranks, -1)
            positions[members] = np.arange(len(members))
            self._positions[communicator] = positions
        position = int(self._positions[communicator][rank])
        if position < 0:
            raise ValueError(f"rank {rank} is not in communicator {communicator}")
        return position

    def number_messages(
        self, communicator: str, tag: int, sources: Int, destinations: Int, occurrence: Any = 0
    ) -> Int:
        """Return the numbers of messages, and count them; occurrence: between two ranks."""
        key = communicator, tag % 16
        if key not in self._counts:
            ranks = self.synthetic.ranks
            self._counts[key] = np.zeros((ranks, ranks), np.int64)
        counts = self._counts[key]
        numbers: Int = counts[sources, destinations] + occurrence
        np.maximum.at(counts, (sources, destinations), numbers + 1)
        return numbers

    # Calls

    def add_collective(
        self,
        shapes: Shapes,
        kind: int,
        sequence: int,
        enter_ns: Int,
        exit_ns: Int,
        called: Shapes | None = None,
        is_recorded: bool = True,
    ) -> None:
        """Add the call of a collective, or the Wait that completes it; called: shapes of Wait.

        is_recorded: False for a call that is not in the sample, of which the recorder sees no time.
        """
        if not is_recorded and kind != COMPLETION:
            self.last_exit[shapes.rank] = UNKNOWN_NS
            return
        self._add_interval(shapes if called is None else called, enter_ns, exit_ns)
        if kind == COMPLETION:
            self._add_spent(COMPLETING, shapes.rank, exit_ns - enter_ns)
        if not is_recorded:
            return
        outside = self.outside[shapes.rank]
        limit = np.iinfo(np.uint32).max
        records = np.zeros(len(outside), RECORD_TYPE)
        records["enter_ns"], records["exit_ns"], records["sequence"] = enter_ns, exit_ns, sequence
        records["shape"], records["kind"] = shapes.id, kind
        records["outside_ns"] = np.minimum(outside, limit)
        wide = np.flatnonzero(outside > limit)
        if len(wide):
            extensions = np.zeros(len(wide), RECORD_TYPE)
            extensions["kind"], extensions["sequence"] = EXTENSION, OUTSIDE
            extensions["exit_ns"] = outside[wide]
            self._calls.append((shapes.rank[wide], extensions))
        self._calls.append((shapes.rank, records))
        self.outside[shapes.rank] = 0

    def add_posts(
        self, shapes: Shapes, enter_ns: Int, call_ns: int, posted: Parts, **sums: Any
    ) -> None:
        """Add short nonblocking calls with their messages, one each.

        A rank may have several calls, in order. sums: `sent` or `received` in bytes.
        """
        first = np.flatnonzero(np.diff(shapes.rank, prepend=-1))
        last = np.append(first[1:], len(shapes.rank)) - 1
        of_first = Shapes(shapes.rank[first], shapes.id[first], shapes.column[first])
        self._add_interval(of_first, enter_ns[first], enter_ns[last] + call_ns, shapes.id[last])
        calls = last - first + 1
        self._add_spent(POINT_TO_POINT, of_first.rank, calls * call_ns)
        self.add_sums(shapes, 1, call_ns, **sums)
        self._add_records(shapes, enter_ns, enter_ns + call_ns, [posted])

    def add_call(
        self,
        shapes: Shapes,
        enter_ns: Int,
        exit_ns: Int,
        parts: Sequence[Parts],
        spent: int = POINT_TO_POINT,
        **sums: Any,
    ) -> None:
        """Add calls with messages, one per rank."""
        self._add_interval(shapes, enter_ns, exit_ns)
        elapsed = exit_ns - enter_ns
        self._add_spent(spent, shapes.rank, elapsed)
        self.add_sums(shapes, 1, elapsed, **sums)
        self._add_records(shapes, enter_ns, exit_ns, parts)

    def add_poll(self, shapes: Shapes, begin_ns: Int, end_ns: Int, calls: Int) -> None:
        """Add loops of calls in vain, with their pauses, until the call that follows."""
        self._add_interval(shapes, begin_ns, end_ns)
        self._add_spent(POINT_TO_POINT, shapes.rank, end_ns - begin_ns)
        self.add_sums(shapes, calls, end_ns - begin_ns)
        records = np.zeros(len(calls), RECORD_TYPE)
        records["enter_ns"], records["exit_ns"], records["sequence"] = begin_ns, end_ns, calls
        records["shape"], records["kind"] = shapes.id, POLL
        is_logged = (calls > 0) & (self.synthetic.ring == 0)
        self._messages.append((shapes.rank[is_logged], records[is_logged]))

    def _add_records(
        self, shapes: Shapes, enter_ns: Int, exit_ns: Int, parts: Sequence[Parts]
    ) -> None:
        """Add the records of calls, which follow those of their messages."""
        is_logged = np.full(len(enter_ns), self.synthetic.ring == 0)
        if not self.is_complete:
            is_logged &= exit_ns - enter_ns >= LONG_CALL_NS
        if not is_logged.any():
            return
        of_part = [is_logged[p.call] for p in parts]
        records = [_part_records(p, chosen) for p, chosen in zip(parts, of_part, strict=True)]
        calls = np.zeros(int(is_logged.sum()), RECORD_TYPE)
        calls["enter_ns"], calls["exit_ns"] = enter_ns[is_logged], exit_ns[is_logged]
        calls["shape"], calls["kind"] = shapes.id[is_logged], MESSAGE_CALL
        for p in parts:
            count = np.bincount(p.call, minlength=len(enter_ns))
            calls["sequence"] += count[is_logged].astype("u4")
        owner = [p.call[chosen] for p, chosen in zip(parts, of_part, strict=True)]
        owners = np.concatenate([*owner, np.flatnonzero(is_logged)])
        order = np.argsort(owners, kind="stable")
        joined = np.concatenate([*records, calls])
        self._messages.append((shapes.rank[owners[order]], joined[order]))

    def add_sums(
        self, shapes: Shapes, calls: Any, elapsed: Any, sent: Any = 0, received: Any = 0
    ) -> None:
        """Add to the sums of some shapes."""
        columns = shapes.column
        for row, values in ((CALLS, calls), (TOTAL, elapsed), (SENT_BYTES, sent)):
            np.add.at(self._sums[row], columns, values)
        np.add.at(self._sums[RECEIVED_BYTES], columns, received)
        np.maximum.at(self._sums[LONGEST], columns, elapsed)

    def _add_spent(self, of: int, ranks: Int, elapsed: Int) -> None:
        self.spent[of, ranks] += elapsed
        self.outside[ranks] += elapsed

    def _add_interval(
        self, shapes: Shapes, enter_ns: Int, exit_ns: Int, last_shape: Int | None = None
    ) -> None:
        """Add records of long intervals before calls that end with exit_ns and last_shape."""
        ranks = shapes.rank
        begin = self.last_exit[ranks]
        if self.intervals:
            is_long = (begin != UNKNOWN_NS) & (enter_ns - begin >= LONG_INTERVAL_NS)
            records = np.zeros(int(is_long.sum()), RECORD_TYPE)
            records["enter_ns"], records["exit_ns"] = begin[is_long], enter_ns[is_long]
            records["sequence"] = self.last_shape[ranks[is_long]]
            records["shape"], records["kind"] = shapes.id[is_long], INTERVAL
            if self.counters:
                self._add_counters(ranks[is_long], (enter_ns - begin)[is_long])
            self._messages.append((ranks[is_long], records))
        self.off_ns[ranks] = self.queue_ns[ranks] = 0
        self.last_exit[ranks] = exit_ns
        self.last_shape[ranks] = shapes.id if last_shape is None else last_shape

    def _find_processor(self, rank: int) -> int:
        """Return the processor on which a rank runs now."""
        first = self.synthetic.processors.get(rank, [rank])[0]
        return self.synthetic.running_on.get(rank, first)

    def _add_counters(self, ranks: Int, length_ns: Int) -> None:
        """Add the counters of intervals, whose records must follow."""
        off_ns, queue_ns = self.off_ns[ranks], self.queue_ns[ranks]
        processor_ns = length_ns - off_ns - queue_ns
        processors = [self._find_processor(rank) for rank in ranks.tolist()]
        times, counts = np.zeros((2, len(ranks)), RECORD_TYPE)
        times["kind"], counts["kind"] = INTERVAL_TIMES, INTERVAL_COUNTS
        times["enter_ns"], times["exit_ns"] = processor_ns, queue_ns
        times["sequence"], times["shape"] = off_ns > 0, queue_ns > 0
        times["choice"] = 1  # no other thread has run
        counts["enter_ns"], counts["exit_ns"] = 2 * processor_ns, 3 * processor_ns
        for records in (times, counts):
            records["thread"] = processors
            self._messages.append((ranks, records))

    # The end

    def finish(self) -> None:
        """Give the records to the synthetic trace."""
        for rank, records in enumerate(self._divide(self._calls)):
            self.synthetic.records[rank].append(records)
        for rank, records in enumerate(self._divide(self._messages)):
            self.synthetic.add_messages(rank, records)
        owners = np.array([key for key, _ in self._columns.items()], np.int64).reshape(-1, 2)
        sums = self._sums[:, : len(owners)]
        used = np.flatnonzero(sums.any(0))
        used = used[np.argsort(owners[used, 0], kind="stable")]
        bounds = np.searchsorted(owners[used, 0], np.arange(self.synthetic.ranks + 1))
        for rank in range(self.synthetic.ranks):
            columns = used[bounds[rank] : bounds[rank + 1]]
            self.synthetic.add_message_sums(rank, make_sums(owners[columns, 1], sums[:, columns]))
            self.synthetic.spent[rank] = [*self.spent[:, rank].tolist(), 0, 0]

    def _divide(self, batches: list[tuple[Int, Array]]) -> list[Array]:
        """Return the records of each rank, with times on the clock of its node."""
        ranks = np.concatenate([np.zeros(0, np.int64), *(of for of, _ in batches)])
        records = np.concatenate([np.zeros(0, RECORD_TYPE), *(made for _, made in batches)])
        order = np.argsort(ranks, kind="stable")
        bounds = np.searchsorted(ranks[order], np.arange(self.synthetic.ranks + 1))
        divided = []
        for rank in range(self.synthetic.ranks):
            of_rank = records[order[bounds[rank] : bounds[rank + 1]]]
            for name, kinds in (("enter_ns", HAVE_BEGIN), ("exit_ns", HAVE_END)):
                times = np.isin(of_rank["kind"], kinds)
                of_rank[name][times] = self.synthetic.to_local(rank, of_rank[name][times])
            divided.append(of_rank)
        return divided


def _part_records(parts: Parts, chosen: Bool) -> Array:
    count = len(parts.call)
    records = np.zeros(int(chosen.sum()), RECORD_TYPE)
    columns = {
        "enter_ns": parts.posted_ns,
        "exit_ns": parts.bytes,
        "sequence": parts.number,
        "shape": parts.shape,
        "outside_ns": parts.tag & 0xFFFFFFFF,
        "choice": parts.flags,
    }
    for name, values in columns.items():
        records[name] = np.broadcast_to(values, count)[chosen]
    records["kind"] = RECEIVED_PART if parts.received else SENT_PART
    return records
