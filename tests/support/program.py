"""Simulates an MPI program on many ranks and writes its trace, for tests with a known truth.

A program is a sequence of steps: work of each rank, and calls. A message is sent and received in
one step. The steps are in an order in which each rank makes its calls.

    program = Program(8)
    neighbours = make_ring(8)
    work = np.full(8, 1_000_000)
    work[3] = 9_000_000
    for _ in range(60):
        program.halo(neighbours, own_ns=work)
        program.collective("allreduce")
    trace = mpiprof.open(program.write(folder))
    truth = program.make_truth()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.trace.messages import ANY_SOURCE, COMPLETE, UNSURE, WILDCARD
from mpiprof.trace.types import Int
from support.neighbours import Neighbours
from support.program_log import COMPLETING, REQUEST_BYTES, Parts
from support.simulation import Entry, Simulation, Times

CLOCK_ERROR_NS = 500  # that a node claims for its clock
END_NS = 100_000  # from the last call to the end of the processes
HALO_SITES = ("halo.py:11:exchange", "halo.py:12:exchange", "halo.py:13:exchange")
MESSAGE_SITES = ("app.py:3:main", "app.py:4:main")
POLL_SITES = ("app.py:6:main", "app.py:7:main", "app.py:8:main")
POST_SITES = ("app.py:16:main", "app.py:17:main", "app.py:18:main")
NEVER = 0  # before all times


class Program(Simulation):
    """A simulated program with messages; `write` writes its trace."""

    def write(self, folder: Path, finalize: bool = True) -> Path:
        """Write the trace and return its folder; finalize: end with MPI_Finalize. Call it once."""
        if finalize:
            self.collective("finalize", "app.py:9:main")
        synthetic = self.synthetic
        synthetic.ended_ns = int(self.now_ns.max()) + END_NS
        synthetic.meta["options"] = {"messages": "sums" if synthetic.ring else "auto"}
        for node in range(1, max(synthetic.nodes) + 1):
            for at in (synthetic.started_ns, synthetic.ended_ns):
                synthetic.add_clock(synthetic.nodes.index(node), 0, at, CLOCK_ERROR_NS)
        self.log.finish()
        return synthetic.write(folder)

    def make_truth(self) -> pd.DataFrame:
        """Return one row per call and rank: the fields of SimulatedCall, and the call's number.

        Short Irecv and Isend calls of a halo have no rows.
        """
        counts = [len(call.ranks) for call in self.calls]
        frame = pd.DataFrame({"call": np.repeat(np.arange(len(counts)), counts)})
        for name in ("operation", "site", "communicator"):
            values = [getattr(call, name) for call in self.calls]
            frame[name] = np.repeat(np.array(values, object), counts)
        for name in ("ranks", "own_ns", "enter_ns", "exit_ns", "wait_ns", "awaited"):
            values = [getattr(call, name) for call in self.calls]
            frame[name] = np.concatenate([np.zeros(0, np.int64), *values])
        return frame.rename(columns={"ranks": "rank"})

    # Messages with blocking calls

    def message(
        self,
        sources: Any,
        destinations: Any,
        bytes_: int = 8,
        tag: int = 0,
        sites: Sequence[str] = MESSAGE_SITES,
        communicator: str = "world",
        synchronous: bool = False,
        any_source: bool = False,
    ) -> None:
        """Send a message from each source to its destination, by blocking calls.

        sources, destinations: a rank or several; no rank may occur twice. sites: of send and recv.
        synchronous: as MPI_Ssend, which waits for its receiver. any_source: receive from any rank.
        """
        senders, receivers = (np.atleast_1d(ranks) for ranks in (sources, destinations))
        if len(np.unique([*senders, *receivers])) < 2 * len(senders):
            raise ValueError("a rank sends or receives twice in one step; use several steps")
        sent, received = self.enter(senders), self.enter(receivers)
        transfer = self.network.transfers_ns(bytes_, senders, receivers)
        waits = synchronous or bytes_ > self.network.eager_bytes
        both = np.maximum(sent.enter_ns, received.enter_ns)
        arrived = both + transfer if waits else sent.enter_ns + transfer
        ends = np.maximum(received.enter_ns, arrived) + self.network.call_ns
        sends = ends if waits else sent.enter_ns + self.network.call_ns
        self._add_messages(
            sent, sends, received, ends, bytes_, tag, sites, communicator, synchronous, any_source
        )

    def poll(
        self,
        source: int,
        destination: int,
        pause_ns: int,
        bytes_: int = 8,
        tag: int = 0,
        sites: Sequence[str] = POLL_SITES,
        communicator: str = "world",
    ) -> None:
        """Send a short message, for which the receiver looks by MPI_Iprobe between pauses.

        pause_ns: 0 for a loop without pauses. sites: of send, iprobe and recv.
        """
        call_ns = self.network.call_ns
        sent, probed = (self.enter(np.array([rank])) for rank in (source, destination))
        arrived = sent.enter_ns + self.network.transfers_ns(bytes_, sent.ranks, probed.ranks)
        step_ns = max(pause_ns, call_ns)
        polls = np.maximum(-((probed.enter_ns - arrived) // step_ns), 0)
        found = Entry(probed.ranks, probed.own_ns, probed.enter_ns + polls * step_ns)
        any_probe = self.log.find_shapes("iprobe", communicator, sites[1], probed.ranks)
        self.log.add_poll(any_probe, probed.enter_ns, found.enter_ns, polls)
        number = self.log.number_messages(communicator, tag, sent.ranks, probed.ranks)
        begin_ns, first = found.enter_ns, np.zeros(1, np.int64)
        for name, site in (("iprobe", sites[1]), ("recv", sites[2])):
            shapes = self.log.find_shapes(name, communicator, site, found.ranks, sent.ranks)
            described = shapes.id, begin_ns, bytes_, number, tag
            part = Parts(True, first, *described, COMPLETE | WILDCARD | ANY_SOURCE)
            self.log.add_call(shapes, begin_ns, begin_ns + call_ns, [part], received=bytes_)
            begin_ns = begin_ns + call_ns
        self.leave(probed, begin_ns, sent.enter_ns, sent.ranks, "iprobe", sites[1], communicator)
        shapes = self.log.find_shapes("send", communicator, sites[0], sent.ranks, found.ranks)
        part = Parts(False, first, shapes.id, sent.enter_ns, bytes_, number, tag)
        exits = sent.enter_ns + call_ns
        self.log.add_call(shapes, sent.enter_ns, exits, [part], sent=bytes_)
        self.leave(sent, exits, sent.enter_ns, found.ranks, "send", sites[0], communicator)

    def pipeline(
        self,
        own_ns: Times,
        order: Sequence[int] | Int | None = None,
        bytes_: int = 8,
        tag: int = 0,
        sites: Sequence[str] = MESSAGE_SITES,
        communicator: str = "world",
    ) -> None:
        """Let each rank receive from the rank before it, work, and send to the next rank."""
        ranks = np.arange(self.ranks) if order is None else np.asarray(order)
        waits = bytes_ > self.network.eager_bytes
        transfer, call = self.network.transfer_ns(bytes_), self.network.call_ns
        begins = self.now_ns[ranks]
        own = np.broadcast_to(np.asarray(own_ns, np.int64), self.ranks)[ranks]
        received, sent = [], [int(begins[0] + own[0])]
        for begin, work in zip(begins[1:].tolist(), own[1:].tolist(), strict=True):
            arrived = max(begin, sent[-1]) + transfer if waits else sent[-1] + transfer
            received.append(max(begin, arrived) + call)
            sent.append(received[-1] + work)
        ends = np.array(received, np.int64)
        receivers = self.enter(ranks[1:])
        first = self.enter(ranks[:1], own_ns)
        works = np.append(first.own_ns, own[1:])
        senders = Entry(ranks[:-1], works[:-1], np.array(sent[:-1], np.int64))
        sends = ends if waits else senders.enter_ns + call
        self._add_messages(senders, sends, receivers, ends, bytes_, tag, sites, communicator)
        self.now_ns[ranks[-1]] = sent[-1]
        self.worked_ns[ranks[-1]] = works[-1]

    def sendrecv(
        self,
        destinations: Sequence[int] | Int,
        sources: Sequence[int] | Int,
        own_ns: Times = 0,
        bytes_: int = 8,
        tag: int = 0,
        site: str = "app.py:5:main",
        communicator: str = "world",
    ) -> None:
        """Let all ranks exchange messages by MPI_Sendrecv; -1 stands for MPI_PROC_NULL."""
        to, of = np.asarray(destinations), np.asarray(sources)
        entry = self.enter(np.arange(self.ranks), own_ns)
        sends, receives = np.flatnonzero(to >= 0), np.flatnonzero(of >= 0)
        if not np.array_equal(of[to[sends]], sends) or len(sends) != len(receives):
            raise ValueError("a source does not send to the rank that receives from it")
        enter, transfer = entry.enter_ns, self.network.transfer_ns(bytes_)
        from_source, from_destination = (
            np.where(peer >= 0, enter[peer], NEVER) for peer in (of, to)
        )
        until, awaited, done = from_source, of, from_source + transfer * (of >= 0)
        if bytes_ > self.network.eager_bytes:
            later = from_destination > from_source
            until = np.maximum(from_source, from_destination)
            awaited = np.where(later, to, of)
            for peer, begun in ((of, from_source), (to, from_destination)):
                done = np.where(
                    peer >= 0, np.maximum(done, np.maximum(enter, begun) + transfer), done
                )
        exits = np.maximum(enter, done) + self.network.call_ns
        calls, parts, shapes = np.arange(self.ranks), [], {}
        for peers, is_receive in ((to, False), (of, True)):
            present = peers >= 0
            of_side = self.log.find_shapes("sendrecv", communicator, site, calls, peers)
            shapes[is_receive] = of_side
            flags = np.where(present, COMPLETE, COMPLETE | UNSURE)
            size, number = np.where(present, bytes_, 0), np.zeros(self.ranks, np.int64)
            parts.append(Parts(is_receive, calls, of_side.id, enter, size, number, tag, flags))
        numbers = self.log.number_messages(communicator, tag, sends, to[sends])
        parts[0].number[sends] = parts[1].number[to[sends]] = numbers
        self.log.add_sums(shapes[False], 0, 0, sent=parts[0].bytes)
        self.log.add_call(shapes[True], enter, exits, parts, received=parts[1].bytes)
        self.leave(entry, exits, until, awaited, "sendrecv", site, communicator)

    def _add_messages(
        self,
        sent: Entry,
        sends: Int,
        received: Entry,
        ends: Int,
        bytes_: int,
        tag: int,
        sites: Sequence[str],
        communicator: str,
        synchronous: bool = False,
        any_source: bool = False,
    ) -> None:
        """Add receives and sends that end at given times."""
        operation = "ssend" if synchronous else "send"
        waits = synchronous or bytes_ > self.network.eager_bytes
        number = self.log.number_messages(communicator, tag, sent.ranks, received.ranks)
        flags = COMPLETE | (WILDCARD | ANY_SOURCE) * any_source
        sides = [
            (received, "recv", sites[1], sent, ends, {"received": bytes_}),
            (sent, operation, sites[0], received, sends, {"sent": bytes_}),
        ]
        for entry, name, site, other, exits, sums in sides:
            shapes = self.log.find_shapes(name, communicator, site, entry.ranks, other.ranks)
            is_receive = entry is received
            part = Parts(
                is_receive,
                np.arange(len(number)),
                shapes.id,
                entry.enter_ns,
                bytes_,
                number,
                tag,
                flags if is_receive else COMPLETE,
            )
            self.log.add_call(shapes, entry.enter_ns, exits, [part], **sums)
            until = other.enter_ns if is_receive or waits else entry.enter_ns
            self.leave(entry, exits, until, other.ranks, name, site, communicator)

    # Messages with nonblocking calls

    def message_to_wait(self, source: int, destination: int, bytes_: int = 8, tag: int = 0) -> None:
        """Send a short message, which is received by MPI_Irecv and MPI_Wait directly after it."""
        call_ns, first = self.network.call_ns, np.zeros(1, np.int64)
        sent, posted = (self.enter(np.array([rank])) for rank in (source, destination))
        wait = Entry(posted.ranks, posted.own_ns, posted.enter_ns + call_ns)
        number = self.log.number_messages("world", tag, sent.ranks, wait.ranks)
        irecv = self.log.find_shapes("irecv", "world", POST_SITES[1], wait.ranks, sent.ranks)
        part = Parts(True, first, irecv.id, posted.enter_ns, bytes_, number, tag)
        self.log.add_posts(irecv, posted.enter_ns, call_ns, replace(part, bytes=-1, flags=0))
        arrived = sent.enter_ns + self.network.transfers_ns(bytes_, sent.ranks, wait.ranks)
        exits = np.maximum(wait.enter_ns, arrived) + call_ns
        shapes = self.log.find_shapes("wait", "world", POST_SITES[2], wait.ranks)
        self.log.add_call(shapes, wait.enter_ns, exits, [part], received=bytes_)
        self.leave(wait, exits, sent.enter_ns, sent.ranks, "wait", POST_SITES[2], "world")
        shapes = self.log.find_shapes("send", "world", POST_SITES[0], sent.ranks, wait.ranks)
        part = Parts(False, first, shapes.id, sent.enter_ns, bytes_, number, tag)
        exits = sent.enter_ns + call_ns
        self.log.add_call(shapes, sent.enter_ns, exits, [part], sent=bytes_)
        self.leave(sent, exits, sent.enter_ns, wait.ranks, "send", POST_SITES[0], "world")

    def halo(
        self,
        neighbours: Neighbours,
        own_ns: Times = 0,
        bytes_: int = 8,
        tag: int = 0,
        overlap_ns: Times = 0,
        sites: Sequence[str] = HALO_SITES,
        communicator: str = "world",
    ) -> None:
        """Exchange messages with all neighbours: Irecv from each, Isend to each, Waitall.

        overlap_ns: work between the last Isend and Waitall. sites: of Irecv, Isend and Waitall.
        """
        n, call_ns = neighbours, self.network.call_ns
        entry = self.enter(n.ranks, own_ns)
        received_at = entry.enter_ns[n.row] + n.position * call_ns
        sent_at = received_at + n.degree[n.row] * call_ns
        from_peer = sent_at[n.reverse]
        transfer = self.network.transfers_ns(bytes_, n.peer, n.rank)
        done = from_peer + transfer
        if bytes_ > self.network.eager_bytes:
            begin = np.maximum(from_peer, received_at)
            done = np.maximum(begin, begin[n.reverse]) + transfer
            from_peer = np.maximum(from_peer, received_at[n.reverse])
        parts = self._make_parts(n, received_at, sent_at, bytes_, tag, sites, communicator)
        self._add_posts(n, parts, sites, communicator)
        self.now_ns[n.ranks] = entry.enter_ns + 2 * n.degree * call_ns
        wait = self.enter(n.ranks, overlap_ns)
        wait = Entry(n.ranks, entry.own_ns + wait.own_ns, wait.enter_ns)
        last = np.maximum.reduceat(done, n.first)
        exits = np.maximum(wait.enter_ns, last) + call_ns
        until = np.maximum.reduceat(from_peer, n.first)
        latest = np.flatnonzero(from_peer == until[n.row])
        awaited = n.peer[latest[np.searchsorted(n.row[latest], np.arange(len(n.ranks)))]]
        shapes = self.log.find_shapes("waitall", "world", sites[2], n.ranks)
        followed = parts if bytes_ >= REQUEST_BYTES else parts[:1]
        self.log.add_call(shapes, wait.enter_ns, exits, followed, spent=COMPLETING)
        self.leave(wait, exits, until, awaited, "waitall", sites[2], communicator)

    def _add_posts(
        self, n: Neighbours, parts: Sequence[Parts], sites: Sequence[str], communicator: str
    ) -> None:
        """Add the calls that post messages; parts: received and sent ones, when complete."""
        names = ("irecv", "received"), ("isend", "sent")
        for part, site, (name, sum_) in zip(parts, sites, names, strict=False):
            shapes = self.log.find_shapes(name, communicator, site, n.rank, n.peer)
            bytes_ = -1 if part.received else part.bytes
            posted = replace(part, call=np.arange(len(n.rank)), bytes=bytes_, flags=0)
            sums = {sum_: part.bytes}
            self.log.add_posts(shapes, part.posted_ns, self.network.call_ns, posted, **sums)

    def _make_parts(
        self,
        n: Neighbours,
        received_at: Int,
        sent_at: Int,
        bytes_: int,
        tag: int,
        sites: Sequence[str],
        communicator: str,
    ) -> list[Parts]:
        """Return the received and the sent messages."""
        numbers = self.log.number_messages(communicator, tag, n.peer, n.rank, n.occurrence)
        find = self.log.find_shapes
        irecv, isend = (
            find(name, communicator, site, n.rank, n.peer)
            for name, site in zip(("irecv", "isend"), sites, strict=False)
        )
        return [
            Parts(True, n.row, irecv.id, received_at, bytes_, numbers, tag),
            Parts(False, n.row, isend.id, sent_at, bytes_, numbers[n.reverse], tag),
        ]
