"""A trace in Perfetto's native format (protobuf), which ui.perfetto.dev opens.

Tracks are as in the JSON format (see formats/perfetto_json.py). A call is a slice named by its
operation. An unfinished call is a slice without an end, and a start of a persistent operation is an
instant. A Wait or Test that completes operations is a separate slice. The calls of an instance
share a flow, which the format draws in order of their times. A message is a flow from the begin of
the call that sends it to the end of the call that receives it. A logged interval between two calls
is a slice with its counters. Each text is written once and then referenced by number. Timestamps
are ns from the first rank's entry into MPI.

Format: Perfetto, "TracePacket" and "TrackEvent"; messages by its package, in perfetto_trace_pb2.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from mpiprof.errors import MpiprofError
from mpiprof.formats.message_arrows import make_arrows, number_by_call
from mpiprof.formats.perfetto_json import INTERVAL, Tracks, iterate_intervals
from mpiprof.interface.installation import install_command
from mpiprof.metrics.tables import make_event_pieces
from mpiprof.trace import Trace
from mpiprof.trace.intervals import COUNTERS
from mpiprof.trace.types import Int

SEQUENCE_ID = 1  # packet sequence id: there is one writer
PACKETS_PER_WRITE = 1 << 12  # packets per write
NODE_UUID_BASE = 1 << 32  # first track number of nodes; threads have lower numbers
ANNOTATIONS = ("site", "communicator", "sequence", "algorithm", "bytes", "root", "start", "choice")
TEXT_ANNOTATIONS = ("site", "communicator", "algorithm", "choice")  # annotations with text values
ABSENT_VALUES = {
    "bytes": -1,
    "root": -1,
    "start": 0,
    "choice": "",
    "peer": -1,
}  # values that are omitted
VARYING_ANNOTATIONS = ("sequence", "start", *COUNTERS)  # they differ from slice to slice
INSTANT_END = -2  # stands in place of an end time
MESSAGE_FLOWS = 1 << 63  # first flow number of messages


class Slice(NamedTuple):
    """A slice of a track; times are ns since the trace's begin.

    end: -1 if the call is open, INSTANT_END for an instant. flows: numbers of flows through the
    slice's begin. ended_flows: numbers of flows that end at its end.
    """

    track: int
    begin: int
    end: int
    name: str
    category: str
    annotations: dict[str, Any]
    flows: tuple[int, ...] = ()
    ended_flows: tuple[int, ...] = ()


def write(path: Path, trace: Trace, facts: Mapping[str, Any], step: Callable[[int], None]) -> int:
    """Write a trace and return its number of calls; `step` is called twice per call.

    Raises MpiprofError if the package is not installed.
    """
    messages, calls = _import_messages(), 0
    tracks = Tracks(trace)
    with path.open("wb") as file:
        _write(file, messages, _description_packets(messages, tracks, facts))
        packets = _PacketMaker(messages)
        logs = _MessageCalls(trace, tracks), _Intervals(trace, tracks)
        for piece in make_event_pieces(trace):
            last = piece.iloc[-1:]
            until = zip(last["rank"].tolist(), last["enter_ns"].tolist(), strict=True)
            limit = next(until, (0, 0))
            more = [one for log in logs for one in log.take(*limit)]
            _write(file, messages, packets.make_all([*_make_slices(piece, tracks), *more]))
            calls += len(piece)
            step(2 * len(piece))
        rest = [one for log in logs for one in log.take(trace.ranks, 0)]
        _write(file, messages, packets.make_all(rest))
    return calls + len(trace.message_calls)


@cache
def _import_messages() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError:
        remedy = f"{install_command('perfetto')} (--to perfetto writes JSON without it)"
        raise MpiprofError(f"--to pftrace requires the package perfetto: {remedy}") from None
    return perfetto_trace_pb2


def _write(file: BinaryIO, messages: Any, packets: Iterator[Any]) -> None:
    """Write packets in chunks; concatenated traces form one valid trace."""
    while pending := list(islice(packets, PACKETS_PER_WRITE)):
        file.write(messages.Trace(packet=pending).SerializeToString())


# ---- tracks


def _description_packets(messages: Any, tracks: Tracks, facts: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the packets that describe the run, its nodes and its threads."""
    facts_text = messages.TracePacket(trusted_packet_sequence_id=SEQUENCE_ID)
    facts_text.sequence_flags = messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for name, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        facts_text.chrome_events.metadata.add(name=name, string_value=text)
    yield facts_text
    for pid, name in tracks.name_nodes():
        packet = messages.TracePacket(trusted_packet_sequence_id=SEQUENCE_ID)
        packet.track_descriptor.uuid = NODE_UUID_BASE + pid
        process = packet.track_descriptor.process
        process.pid, process.process_name, process.legacy_sort_index = pid, name, pid
        yield packet
    for rank, thread, name in tracks.name_threads():
        packet = messages.TracePacket(trusted_packet_sequence_id=SEQUENCE_ID)
        pid, tid = tracks.pids[rank], tracks.thread_id(rank, thread)
        track = packet.track_descriptor
        track.uuid, track.parent_uuid = tid, NODE_UUID_BASE + pid
        track.thread.pid, track.thread.tid = pid, tid
        track.thread.thread_name, track.thread.legacy_sort_index = name, rank
        yield packet


# ---- calls


def _make_slices(piece: pd.DataFrame, tracks: Tracks) -> Iterator[Slice]:
    """Yield slices of calls and of their completions; flow numbers start above 0."""
    started = tracks.trace.calls_start_ns
    number = {c.identity: c.index for c in tracks.trace.tables.communicators}
    sizes = {c.identity: len(c.ranks) for c in tracks.trace.tables.communicators}
    completed: set[tuple[int, int, int]] = set()
    times = ("enter_ns", "exit_ns", "completion_enter_ns", "completion_exit_ns")
    names = ("rank", "thread", "operation", *ANNOTATIONS, *times)
    columns = [
        piece[name].astype(object)
        if name in ("operation", *TEXT_ANNOTATIONS)
        else piece[name].to_numpy(np.int64, na_value=-1)
        for name in names
    ]
    for row in zip(*(column.tolist() for column in columns), strict=True):
        (rank, thread, name), values = row[:3], row[3:-4]
        enter, left, begin, end = row[-4:]
        track = tracks.thread_id(rank, thread)
        annotations = dict(zip(ANNOTATIONS, values, strict=True))
        identity, start = annotations["communicator"], annotations["start"]
        flows: tuple[int, ...] = ()
        if sizes[identity] > 1 and not start:
            flows = ((number[identity] + 1) << 32 | annotations["sequence"],)
        annotations["communicator"] = tracks.names[identity]
        annotations = {k: v for k, v in annotations.items() if v != ABSENT_VALUES.get(k)}
        enter -= started
        last = left - started if left >= 0 else INSTANT_END if start else -1
        yield Slice(track, enter, last, name, "collective", annotations, flows)
        if begin >= 0 and (track, begin, end) not in completed:
            completed.add((track, begin, end))
            first = {"first": name}
            yield Slice(track, begin - started, end - started, "completion", "completion", first)


class _LogSlices:
    """Slices of the rows of a table, by rank and time."""

    def __init__(self, tracks: Tracks, table: pd.DataFrame, begin: str) -> None:
        self.tracks, self.table = tracks, table
        rank, begin_ns = (table[name].to_numpy(np.int64) for name in ("rank", begin))
        self.order = np.lexsort((begin_ns, rank))
        self.rank, self.begin = rank[self.order], begin_ns[self.order]
        self.taken = 0

    def take(self, rank: int, until_ns: int) -> Iterator[Slice]:
        """Return the next slices, up to a time of a rank."""
        first, last = np.searchsorted(self.rank, [rank, rank + 1])
        end = int(first + np.searchsorted(self.begin[first:last], until_ns, side="right"))
        rows = self.order[self.taken : end]
        self.taken = max(self.taken, end)
        return self.make_slices(rows)

    def make_slices(self, rows: Int) -> Iterator[Slice]:
        """Yield the slices of some rows."""
        raise NotImplementedError


class _Intervals(_LogSlices):
    """Slices of the logged intervals between two calls."""

    def __init__(self, trace: Trace, tracks: Tracks) -> None:
        super().__init__(tracks, trace.intervals, "begin_ns")

    def make_slices(self, rows: Int) -> Iterator[Slice]:
        started = self.tracks.trace.calls_start_ns
        for rank, thread, begin, end, counters in iterate_intervals(self.table.iloc[rows]):
            track = self.tracks.thread_id(rank, thread)
            yield Slice(track, begin - started, end - started, INTERVAL, "interval", {**counters})


class _MessageCalls(_LogSlices):
    """Slices of the logged calls on messages."""

    def __init__(self, trace: Trace, tracks: Tracks) -> None:
        super().__init__(tracks, trace.message_calls, "enter_ns")
        arrows = make_arrows(trace.messages, self.table)
        self.begun = number_by_call(arrows.sender, MESSAGE_FLOWS)
        self.ended = number_by_call(arrows.receiver, MESSAGE_FLOWS)

    def make_slices(self, rows: Int) -> Iterator[Slice]:
        names = ("rank", "thread", "operation", "site", "peer", "enter_ns", "exit_ns", "messages")
        columns = (self.table[name].iloc[rows].tolist() for name in names)
        started = self.tracks.trace.calls_start_ns
        for row, *values in zip(rows.tolist(), *columns, strict=True):
            of, thread, operation, site, peer, enter, left, messages = values
            annotations = {"site": site, "peer": peer, "messages": messages}
            yield Slice(
                self.tracks.thread_id(of, thread),
                enter - started,
                left - started if left else -1,
                operation,
                "message",
                {k: v for k, v in annotations.items() if v != ABSENT_VALUES.get(k)},
                self.begun.get(row, ()),
                self.ended.get(row, ()),
            )


class _PacketMaker:
    """Maker of packets from slices; a packet also defines the names that it uses first.

    Most packets are modified copies of an earlier packet, because copying is faster.
    """

    def __init__(self, messages: Any) -> None:
        self.messages = messages
        self.known: dict[str, dict[str, int]] = {}
        self.alike: dict[tuple[Any, ...], Any] = {}

    def make_all(self, slices: Iterable[Slice]) -> Iterator[Any]:
        """Yield the packets of slices, sorted by track and time."""
        for one in sorted(slices, key=lambda s: s[:3]):
            yield from self.make_packets(one)

    def make_packets(self, of: Slice) -> Iterator[Any]:
        """Yield the packets of a slice, ordered by time."""
        track, first, end, name, category, annotations = of[:6]
        begin = max(first, 0)  # the format has no times before the start of the run
        varying = {n: annotations.pop(n) for n in VARYING_ANNOTATIONS if n in annotations}
        key = (track, name, category, end == INSTANT_END, *annotations.items())
        if key in self.alike:
            packet = self._copy_packet(key, begin)
        else:
            packet = self._begin_packet(of._replace(annotations=annotations))
            packet.timestamp = begin
            self.alike[key] = copy.deepcopy(packet)
            self.alike[key].ClearField("interned_data")
        event = packet.track_event
        for varied, value in varying.items():
            number = self._intern_text(packet, "debug_annotation_names", varied)
            event.debug_annotations.add(name_iid=number, int_value=value)
        event.flow_ids.extend(of.flows)
        yield packet
        if end >= first:
            if (track,) not in self.alike:
                slice_end = self.messages.TrackEvent.TYPE_SLICE_END
                self.alike[track,] = self._make_packet(track, slice_end)
            packet = self._copy_packet((track,), max(end, 0))
            packet.track_event.terminating_flow_ids.extend(of.ended_flows)
            yield packet

    def _copy_packet(self, key: tuple[Any, ...], time_ns: int) -> Any:
        packet = self.messages.TracePacket()  # faster than copy.copy
        packet.CopyFrom(self.alike[key])
        packet.timestamp = time_ns
        return packet

    def _make_packet(self, track: int, kind: int) -> Any:
        packet = self.messages.TracePacket(trusted_packet_sequence_id=SEQUENCE_ID)
        packet.sequence_flags = packet.SEQ_NEEDS_INCREMENTAL_STATE
        packet.track_event.track_uuid, packet.track_event.type = track, kind
        return packet

    def _begin_packet(self, of: Slice) -> Any:
        """Return the packet of a slice's begin, without its time and its flows."""
        kinds = self.messages.TrackEvent
        kind = kinds.TYPE_INSTANT if of.end == INSTANT_END else kinds.TYPE_SLICE_BEGIN
        packet = self._make_packet(of.track, kind)
        event = packet.track_event
        event.name_iid = self._intern_text(packet, "event_names", of.name)
        event.category_iids.append(self._intern_text(packet, "event_categories", of.category))
        for key, value in of.annotations.items():
            annotation = event.debug_annotations.add()
            annotation.name_iid = self._intern_text(packet, "debug_annotation_names", key)
            if isinstance(value, str):
                number = self._intern_text(packet, "debug_annotation_string_values", value)
                annotation.string_value_iid = number
            else:
                annotation.int_value = value
        return packet

    def _intern_text(self, packet: Any, kind: str, text: str) -> int:
        """Return the number of a text; the packet defines the text if it is new."""
        numbers = self.known.setdefault(kind, {})
        if text not in numbers:
            numbers[text] = len(numbers) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid = numbers[text]
            if kind == "debug_annotation_string_values":
                entry.str = text.encode("utf-8", "replace")
            else:
                entry.name = text.encode("utf-8", "replace").decode()
        return numbers[text]
