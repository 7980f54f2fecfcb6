"""A trace in Chrome's trace event format (JSON), which Perfetto opens (ui.perfetto.dev).

    {"ph": "X", "name": "allreduce", "cat": "collective", "pid": 1, "tid": 3, "ts": 12.345, ...}

In the format's terms, nodes are processes and ranks are their threads. Further threads of a rank
have separate tracks. A call is a complete event (X) named by its operation. An unfinished call is a
begin without an end (B), and a start of a persistent operation is an instant (i). A Wait or Test
that completes operations is an event of another category. An instance is a flow (s, t, f) through
the calls of its ranks, in order of arrival. A logged call on messages is an event, too, and a
message whose both sides are logged is a flow from the begin of the call that sends it to the end of
the call that receives it. A logged interval between two calls is an event with its counters. ts and
dur are microseconds with three decimals, exact to the nanosecond, counted from the first rank's
entry into MPI.

Format: Google, "Trace Event Format".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from mpiprof.account.tables import communicator_names, make_event_pieces
from mpiprof.formats.message_windows import OF_CALLS, MessageWindow, iterate_message_windows
from mpiprof.trace import Trace
from mpiprof.trace.batch import Batch
from mpiprof.trace.intervals import COUNTERS

INTERVAL = "outside MPI"  # name of the interval between two calls
NS_PER_US = 1000  # ns per microsecond, the format's unit
Call = tuple[int, str, int]  # rank, communicator, sequence


def write(path: Path, trace: Trace, facts: Mapping[str, Any], step: Callable[[int], None]) -> int:
    """Write a trace and return its number of calls; `step` is called with each increment.

    The increments count each call twice: as an event, and as part of its instance.
    """
    tracks, calls = Tracks(trace), 0
    with path.open("w", encoding="ascii") as file:
        head = {"displayTimeUnit": "ns", "otherData": facts}
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        file.write(",\n".join(tracks.naming_events()))
        for piece in make_event_pieces(trace):
            tracks.note_threads(piece)
            _write(file, _call_events(piece, tracks))
            calls += len(piece)
            step(len(piece))
        number = 0
        for batch in trace.batches():
            _write(file, _flow_events(batch, tracks, number))
            number += len(batch)
            step(batch.shape.size)
        number = 0
        for window in iterate_message_windows(trace):
            _write(file, _message_call_events(window.calls, tracks))
            _write(file, _message_flow_events(window, tracks, number))
            _write(file, _interval_events(window.intervals, tracks))
            calls += len(window.calls)
            number += len(window.senders)
        file.write("\n]}\n")
    return calls


def _write(file: TextIO, lines: Iterator[str]) -> None:
    file.writelines(",\n" + line for line in lines)


class Tracks:
    """Tracks of ranks and threads, and the time origin."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        nodes = {node: i for i, node in enumerate(dict.fromkeys(trace.node_ids.values()), 1)}
        self.pids = [nodes.get(trace.node_ids.get(r, ""), 0) for r in range(trace.ranks)]
        self.several = any(thread for _, thread in trace.logs.threads)
        self.elsewhere: dict[Call, int] = {}  # calls on threads other than a rank's first
        names = communicator_names(trace)
        self.names = {c.identity: names[c.index] for c in trace.tables.communicators}

    def thread_id(self, rank: int, thread: int) -> int:
        """Return the number of a thread's track; never 0, which is the format's idle processor."""
        return thread * self.trace.ranks + rank + 1

    def track_ids(self, rank: int, thread: int) -> str:
        """Return the pid and tid of a thread as text."""
        return f'"pid":{self.pids[rank]},"tid":{self.thread_id(rank, thread)}'

    def name_nodes(self) -> Iterator[tuple[int, str]]:
        """Yield the pid and name of each node."""
        hosts = {r: str(p.get("host") or "?") for r, p in self.trace.tables.processes.items()}
        first = {pid: rank for rank, pid in reversed(list(enumerate(self.pids)))}
        for pid, rank in sorted(first.items()):
            yield pid, f"node {hosts.get(rank, '?')}"

    def name_threads(self) -> Iterator[tuple[int, int, str]]:
        """Yield the rank, thread and name of each thread."""
        threads = {(r, 0) for r in range(self.trace.ranks)} | set(self.trace.logs.threads)
        for rank, thread in sorted(threads):
            yield rank, thread, f"rank {rank}" + (f", thread {thread}" if thread else "")

    def format_time(self, ns: int) -> str:
        """Return a time in the format's representation."""
        return format_us(ns - self.trace.calls_start_ns)

    def naming_events(self) -> Iterator[str]:
        """Yield the events that name and order the tracks."""
        for pid, name in self.name_nodes():
            yield from _naming_event("process", f'"pid":{pid}', name, pid)
        for rank, thread, name in self.name_threads():
            yield from _naming_event("thread", self.track_ids(rank, thread), name, rank)

    def note_threads(self, piece: pd.DataFrame) -> None:
        """Store which calls are on threads other than a rank's first."""
        if self.several:
            rows = piece[piece["thread"] > 0]
            keys = zip(rows["rank"], rows["communicator"], rows["sequence"], strict=True)
            self.elsewhere |= dict(zip(keys, rows["thread"].tolist(), strict=True))


def format_us(ns: int) -> str:
    """Return a time in microseconds without rounding."""
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{size // NS_PER_US}.{size % NS_PER_US:03d}"


def _naming_event(track_type: str, track: str, name: str, order: int) -> Iterator[str]:
    yield f'{{"ph":"M","name":"{track_type}_name",{track},"args":{{"name":{json.dumps(name)}}}}}'
    yield f'{{"ph":"M","name":"{track_type}_sort_index",{track},"args":{{"sort_index":{order}}}}}'


# ---- calls


def _call_events(piece: pd.DataFrame, tracks: Tracks) -> Iterator[str]:
    """Yield an event for each call, and an event for each call that completed operations."""
    completed: set[tuple[int, int, int, int]] = set()
    communicators = [json.dumps(tracks.names[c]) for c in piece["communicator"].cat.categories]
    communicator = np.array(communicators, object)[piece["communicator"].cat.codes]
    optional = ("exit_ns", "completion_enter_ns", "completion_exit_ns", "bytes", "root")
    rows = zip(
        *(piece[name].tolist() for name in ("rank", "thread")),
        _quote_column(piece["operation"]),
        _quote_column(piece["site"]),
        communicator,
        *(piece[name].tolist() for name in ("sequence", "start", "enter_ns")),
        *(piece[name].to_numpy(np.int64, na_value=-1).tolist() for name in optional),
        _quote_column(piece["algorithm"]),
        piece["choice"].tolist(),
        strict=True,
    )
    for row in rows:
        rank, thread, name, site, comm, seq, start, enter, left, begin, end, n, root, ran, why = row
        track = tracks.track_ids(rank, thread)
        how = '"ph":"i","s":"t"' if start else '"ph":"B"'
        if left >= 0:
            how = f'"ph":"X","dur":{format_us(left - enter)}'
        tail = f',"bytes":{n}' if n >= 0 else ""
        tail += f',"root":{root}' if root >= 0 else ""
        tail += f',"start":{start}' if start else ""
        tail += f',"choice":"{why}"' if why else ""
        yield (
            f'{{{how},"name":{name},"cat":"collective",{track},"ts":{tracks.format_time(enter)},'
            f'"args":{{"site":{site},"communicator":{comm},"sequence":{seq},"algorithm":{ran}{tail}}}}}'
        )
        if begin >= 0 and (rank, thread, begin, end) not in completed:
            completed.add((rank, thread, begin, end))
            yield (
                f'{{"ph":"X","dur":{format_us(end - begin)},"name":"completion","cat":"completion",'
                f'{track},"ts":{tracks.format_time(begin)},"args":{{"first":{name}}}}}'
            )


def _quote_column(column: pd.Series[Any]) -> Any:
    """Return a text column as JSON strings."""
    texts = np.array([json.dumps(text) for text in column.cat.categories], object)
    return texts[column.cat.codes]


# ---- instances


def _flow_events(batch: Batch, tracks: Tracks, number: int) -> Iterator[str]:
    """Yield the flows of instances, from first to last arrival, numbered from `number`.

    Instances with one rank and starts of persistent operations have no flow.
    """
    ranks, identity = batch.communicator.ranks.tolist(), batch.communicator.identity
    present = batch.shape >= 0
    arrival = np.where(present, batch.arrival_ns, np.iinfo(np.int64).max)
    order = np.argsort(arrival, axis=0, kind="stable")
    times_in_order = np.take_along_axis(batch.arrival_ns, order, 0)
    columns = (batch.sequence, batch.start, order.T, times_in_order.T, present.sum(0))
    facts = zip(*(column.tolist() for column in columns), strict=True)
    for i, (sequence, start, rows, times, count) in enumerate(facts, number):
        if count < 2 or start:
            continue
        for k, (row, time) in enumerate(zip(rows[:count], times, strict=False)):
            thread = tracks.elsewhere.get((ranks[row], identity, sequence), 0)
            kind = '"s"' if k == 0 else '"f","bp":"e"' if k == count - 1 else '"t"'
            yield (
                f'{{"ph":{kind},"id":{i},"name":"instance","cat":"instance",'
                f'{tracks.track_ids(ranks[row], thread)},"ts":{tracks.format_time(time)}}}'
            )


# ---- messages


def _message_call_events(calls: pd.DataFrame, tracks: Tracks) -> Iterator[str]:
    """Yield an event for each logged call on messages."""
    names = ("rank", "thread", "operation", "site", "peer", "enter_ns", "exit_ns", "messages")
    rows = zip(*(calls[name].tolist() for name in names), strict=True)
    for rank, thread, operation, site, peer, enter, left, messages in rows:
        how = f'"ph":"X","dur":{format_us(left - enter)}' if left else '"ph":"B"'
        tail = f',"peer":{peer}' if peer >= 0 else ""
        yield (
            f'{{{how},"name":{json.dumps(operation)},"cat":"message",'
            f'{tracks.track_ids(rank, thread)},"ts":{tracks.format_time(enter)},'
            f'"args":{{"site":{json.dumps(site)},"messages":{messages}{tail}}}}}'
        )


def _message_flow_events(window: MessageWindow, tracks: Tracks, first: int) -> Iterator[str]:
    """Yield the begin and the end of the flow of each message, numbered from `first`."""
    sides = [
        zip(*(calls[name].tolist() for name in OF_CALLS), strict=True)
        for calls in (window.senders, window.receivers)
    ]
    for number, (sender, receiver) in enumerate(zip(*sides, strict=True), first):
        # The end of a flow belongs to the call that encloses it, so it is before the call's end.
        ends = (
            ("s", "", sender, sender[2]),
            ("f", ',"bp":"e"', receiver, max(receiver[2], receiver[3] - 1)),
        )
        for kind, tail, (rank, thread, _, _), time in ends:
            yield (
                f'{{"ph":"{kind}"{tail},"id":{number},"name":"message","cat":"message",'
                f'{tracks.track_ids(rank, thread)},"ts":{tracks.format_time(time)}}}'
            )


# ---- intervals


def _interval_events(intervals: pd.DataFrame, tracks: Tracks) -> Iterator[str]:
    """Yield an event for each logged interval between two calls, with its known counters."""
    for rank, thread, begin, end, counters in iterate_intervals(intervals):
        yield (
            f'{{"ph":"X","dur":{format_us(end - begin)},"name":"{INTERVAL}","cat":"interval",'
            f'{tracks.track_ids(rank, thread)},"ts":{tracks.format_time(begin)},'
            f'"args":{json.dumps(counters)}}}'
        )


def iterate_intervals(
    intervals: pd.DataFrame,
) -> Iterator[tuple[int, int, int, int, dict[str, int]]]:
    """Yield rank, thread, begin, end and known counters of each interval."""
    columns = [intervals[name].tolist() for name in ("rank", "thread", "begin_ns", "end_ns")]
    counters = [intervals[name].tolist() for name in COUNTERS]
    for *facts, values in zip(*columns, zip(*counters, strict=True), strict=True):
        rank, thread, begin, end = facts
        counted = zip(COUNTERS, values, strict=True)
        yield rank, thread, begin, end, {name: value for name, value in counted if value >= 0}
