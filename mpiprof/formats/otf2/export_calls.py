"""Calls of one rank as events of an OTF2 archive; formats/otf2/export.py describes the mapping."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.errors import MpiprofError
from mpiprof.formats.otf2 import library
from mpiprof.formats.otf2.export_messages import MessageEvents
from mpiprof.formats.otf2.library import ATTRIBUTE_BITS, NEVER, ROOT_NOBODY, ROOT_SELF, UNDEFINED
from mpiprof.trace import Trace
from mpiprof.trace.match import is_nonblocking
from mpiprof.trace.metadata import Shape
from mpiprof.trace.rank_arrays import Block, get_column
from mpiprof.trace.types import CALL, COMPLETION, START, Array

WAIT_REGION = 0  # number of the region
BLOCK_CALLS = 1 << 16  # records per block
LATEST = (1 << 63) - 1  # ns
REQUIRED_IF_OPEN = sum(ATTRIBUTE_BITS[n] for n in ("communicator", "root", "sent", "received"))


@dataclass(frozen=True)
class Shapes:
    """The archive's data for the calls of each shape; `roots` are as in a rank's records."""

    region: Array
    start_region: Array
    site: Array
    communicator: Array
    operation: Array
    sent: Array
    received: Array


class RankWriter:
    """Writer of one rank's calls into an open archive of OTF2 (see export)."""

    def __init__(
        self,
        archive: Any,
        trace: Trace,
        rank: int,
        shapes: Shapes,
        messages: MessageEvents,
        program: int,
    ) -> None:
        self.archive, self.trace, self.rank = archive, trace, rank
        self.shapes, self.messages, self.program = shapes, messages, program
        threads = {0} | {t for r, t in trace.logs.threads if r == rank}
        self.threads = sorted(threads | set(messages.thread.tolist()))
        self.roots = np.array([_otf2_root(trace, s, rank) for s in trace.tables.shapes], np.uint32)
        names = [s.operation for s in trace.tables.shapes]
        self.nonblocking = np.array([is_nonblocking(name) for name in names], np.bool_)
        self.next = np.zeros(len(trace.tables.communicators), np.int64)  # next numbers
        self.requests: dict[tuple[int, int, int], int] = {}

    def write(self, step: Callable[[int], None]) -> dict[int, int]:
        """Write all events and return their number per location."""
        trace = self.trace
        numbers = {t: t * trace.ranks + self.rank for t in self.threads}
        writers = {t: LocationWriter(self.archive, number) for t, number in numbers.items()}
        end, clock = trace.tables.ends.get(self.rank), trace.clock_of(self.rank)
        started = trace.tables.processes.get(self.rank, {}).get("started_ns")
        if started is not None:
            writers[0].begin_program(started + clock.offset_at(started), self.program)
        written = 0  # calls on messages
        for block in trace.open_stream(self.rank).iterate_blocks(BLOCK_CALLS):
            if not bool((block.enter_ns[1:] >= block.enter_ns[:-1]).all()):
                block = block.take(np.argsort(block.enter_ns, kind="stable"))
            calls, thread = self._convert_calls(block), get_column(block, "thread")
            until = int(block.enter_ns[-1]) if len(block) else 0
            records, more_thread = self.messages.between(written, until)
            written += len(records)
            if len(records):
                # A Wait that completes messages precedes its completions of collectives.
                calls, thread = (
                    np.concatenate(p) for p in ((records, calls), (more_thread, thread))
                )
                order = np.argsort(calls["enter"], kind="stable")
                calls, thread = calls[order], thread[order]
            self._write_calls(writers, calls, thread)
            step(2 * len(block))
        self._write_calls(writers, *self.messages.between(written, LATEST))
        if end is not None and end["reason"] == "finalize":
            writers[0].end_program(end["at_ns"] + clock.offset_at(end["at_ns"]))
        return {writer.number: writer.close() for writer in writers.values()}

    def _write_calls(self, writers: dict[int, LocationWriter], calls: Array, thread: Array) -> None:
        for number, writer in writers.items():
            chosen = thread == number
            writer.write(calls if chosen.all() else calls[chosen], self.messages.messages)

    def _convert_calls(self, block: Block) -> Array:
        """Return records in the layout of core/otf2/call.h."""
        shapes, shape = self.shapes, block.shape
        calls = np.zeros(len(block), library.call_dtype())
        kind = get_column(block, "kind") if block.kind is not None else np.full(len(block), CALL)
        start = get_column(block, "start")
        calls["enter"] = np.maximum(block.enter_ns, 0)
        exit_ns = np.maximum(block.exit_ns, 0).view(np.uint64)
        calls["exit"] = np.where(block.exit_ns == 0, NEVER, exit_ns)
        calls["kind"], calls["start"], calls["sequence"] = kind, start, block.sequence
        calls["region"] = np.where(kind == START, shapes.start_region[shape], shapes.region[shape])
        calls["site"] = shapes.site[shape]
        calls["communicator"] = shapes.communicator[shape]
        calls["operation"] = shapes.operation[shape]
        calls["root"] = self.roots[shape]
        for name in ("sent", "received"):
            recorded = get_column(block, name)
            size = np.where(recorded >= 0, recorded, getattr(shapes, name)[shape])
            calls[name] = np.where(size < 0, NEVER, size.view(np.uint64))
        calls["outside"] = get_column(block, "outside")
        calls["choice"] = get_column(block, "choice")
        begins = (kind == START) | ((kind == CALL) & self.nonblocking[shape])
        requested = begins | (kind == COMPLETION)
        calls["request"] = NEVER
        if requested.any():
            # Each start of an operation has its own number.
            keys = calls[requested][["communicator", "sequence", "start"]].tolist()
            numbers = [self.requests.setdefault(key, len(self.requests)) for key in keys]
            calls["request"][requested] = np.array(numbers, np.int64)
        calls["given"] = self._needed_attributes(calls, kind, begins)
        return calls

    def _needed_attributes(self, calls: Array, kind: Array, begins: Array) -> Array:
        """Return the attributes that each call needs because the archive's records lack them."""
        attributes = np.zeros(len(calls), np.uint16)
        attributes[calls["outside"] > 0] |= ATTRIBUTE_BITS["outside"]
        attributes[calls["choice"] > 0] |= ATTRIBUTE_BITS["choice"]
        opened = kind != COMPLETION
        attributes[opened & (calls["start"] > 0)] |= (
            ATTRIBUTE_BITS["start"] | ATTRIBUTE_BITS["sequence"]
        )
        attributes[opened & (begins | (calls["exit"] == NEVER))] |= REQUIRED_IF_OPEN
        rows = np.flatnonzero(kind == CALL)
        attributes[rows[~self._follows_last(calls[rows])]] |= ATTRIBUTE_BITS["sequence"]
        if len(self.threads) > 1:
            attributes[opened] |= ATTRIBUTE_BITS["sequence"]
        return attributes

    def _follows_last(self, calls: Array) -> Array:
        """Return whether each call's number follows the last number of its communicator."""
        order = np.argsort(calls["communicator"], kind="stable")
        communicator = calls["communicator"][order].astype(np.int64)
        sequence = calls["sequence"][order].astype(np.int64)
        expected = np.empty(len(order), np.int64)
        expected[1:] = sequence[:-1] + 1
        first = np.ones(len(order), np.bool_)
        first[1:] = communicator[1:] != communicator[:-1]
        expected[first] = self.next[communicator[first]]
        last = np.roll(first, -1)
        self.next[communicator[last]] = sequence[last] + 1
        follows = np.empty(len(order), np.bool_)
        follows[order] = expected == sequence
        return follows


def _otf2_root(trace: Trace, shape: Shape, rank: int) -> int:
    """Return a root as OTF2 requires: a rank of the communicator's (remote) group."""
    communicator = trace.tables.communicators[shape.communicator]
    if shape.root == -2:
        return ROOT_NOBODY
    if shape.root < 0:
        return UNDEFINED
    if communicator.is_inter and shape.root == rank:
        return ROOT_SELF
    for group in communicator.groups:
        positions = np.flatnonzero(group == shape.root)
        if len(positions):
            return int(positions[0])
    return UNDEFINED


class LocationWriter:
    """Writer of one location; a resource."""

    def __init__(self, archive: Any, number: int) -> None:
        otf2 = library.import_otf2()
        self.otf2, self.archive, self.number = otf2, archive, number
        self.definitions = otf2.Archive_GetDefWriter(archive, number)
        self.writer = otf2.Archive_GetEvtWriter(archive, number)
        self.attributes = otf2.AttributeList_New()
        self.last = np.zeros(1, np.uint64)
        listed = otf2.conf.lib
        functions = [listed[f"OTF2_EvtWriter_{name}"] for name in library.WRITERS]
        functions.append(listed["OTF2_AttributeList_AddUint64"])
        addresses = map(library.function_address, functions)
        self.functions = (ctypes.c_void_p * len(functions))(*addresses)

    def begin_program(self, time: int, program: int) -> None:
        """Write that the program begins."""
        self.last[0] = max(time, 0)
        self.otf2.EvtWriter_ProgramBegin(self.writer, None, int(self.last[0]), program, [])

    def end_program(self, time: int) -> None:
        """Write that the program has ended normally."""
        time = max(time, int(self.last[0]))
        self.otf2.EvtWriter_ProgramEnd(self.writer, None, time, 0)

    def write(self, calls: Array, messages: Array) -> None:
        """Write calls in their order; raises MpiprofError if OTF2 rejects a call."""
        calls = np.ascontiguousarray(calls)
        handles = (ctypes.cast(p, ctypes.c_void_p) for p in (self.writer, self.attributes))
        arrays = (self.last.ctypes.data, calls.ctypes.data, len(calls), messages.ctypes.data)
        done = library.load_core().writing_calls(self.functions, *handles, 0, WAIT_REGION, *arrays)
        if done < 0:
            failure = "OTF2 cannot write its events: check the free disk space"
            raise MpiprofError(f"location {self.number}: {failure}")

    def close(self) -> int:
        """Close the location and return its number of events."""
        events = int(self.otf2.EvtWriter_GetNumberOfEvents(self.writer))
        self.otf2.AttributeList_Delete(self.attributes)
        self.otf2.Archive_CloseEvtWriter(self.archive, self.writer)
        self.otf2.Archive_CloseDefWriter(self.archive, self.definitions)
        return events
