"""Synthetic traces of jobs that hang in message calls, and the verdicts on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.hang import job_verdict, rank_state
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text
from mpiprof.trace.chunks import MESSAGES
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.message_counts import COUNTS_END, TAG_CLASSES
from mpiprof.trace.messages import UNSURE, WILDCARD
from mpiprof.trace.types import MESSAGE_COUNT, RECEIVED_PART, SENT_PART, Array
from mpiprof.trace.writer import make_chunks
from support.hang_traces import call as enter
from support.hang_traces import job
from support.message_traces import call, part, record

ANY = -1
PROBES = ("probe", "mprobe")


class MessageHang:
    """A job with some completed barriers, whose ranks then wait in calls."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.synthetic = job(ranks)
        self.open: list[list[Array]] = [[] for _ in range(ranks)]
        self.of_second_thread: list[list[Array]] = [[] for _ in range(ranks)]
        self.counts: list[list[Array]] = [[] for _ in range(ranks)]
        self.are_counts_known = True

    def shape(self, rank: int, operation: str, peer: int | None, line: int, comm: str) -> int:
        """Return the id of a shape; peer: rank in the communicator, None without a peer."""
        site = f"app.c:{line}:main"
        return self.synthetic.add_shape(rank, operation, comm, site=site, peer=peer)

    def message(
        self,
        rank: int,
        operation: str,
        peer: int,
        tag: int,
        number: int = 0,
        line: int = 10,
        comm: str = "world",
        is_sent: bool | None = None,
    ) -> Array:
        """Return a message of an open call that is posted by `operation`."""
        sends = "send" in operation if is_sent is None else is_sent
        kind = SENT_PART if sends else RECEIVED_PART
        wildcard = kind == RECEIVED_PART and (peer == ANY or tag == ANY)
        late = wildcard or operation in PROBES
        flags = (WILDCARD if wildcard else 0) | (UNSURE if late else 0)
        shape = self.shape(rank, operation, None if peer == ANY else peer, line, comm)
        return part(kind, shape, number, tag, -1, 9_000, flags)

    def wait(self, rank: int, operation: str, *messages: Array, line: int = 10) -> None:
        """Add an open call with messages, such as a Waitall."""
        shape = self.shape(rank, operation, None, line, "world")
        self.open[rank].append(call(shape, 9_000, 0, *messages))

    def block(
        self, rank: int, operation: str, peer: int, tag: int, number: int = 0, line: int = 10,
        comm: str = "world",
    ) -> None:  # fmt: skip
        """Add an open blocking call with one message, and count the message."""
        message = self.message(rank, operation, peer, tag, number, line, comm)
        peer_or_none = None if peer == ANY else peer
        shape = self.shape(rank, operation, peer_or_none, line, comm)
        self.open[rank].append(call(shape, 9_000, 0, message))
        if peer != ANY and tag != ANY and operation not in PROBES:
            side = "sent" if "send" in operation else "received"
            self.count(rank, peer, tag, line=line, comm=comm, **{side: number + 1})

    def enter_barrier(self, *ranks: int) -> None:
        """Let ranks enter the barrier that follows the completed barriers."""
        for rank in ranks:
            enter(self.synthetic, rank, "barrier")

    def count(
        self,
        rank: int,
        peer: int,
        tag: int,
        sent: int = 0,
        received: int = 0,
        line: int = 10,
        comm: str = "world",
    ) -> None:
        """Add the numbers of messages with a peer in the class of a tag."""
        shape = self.shape(rank, "send" if sent else "recv", peer, line, comm)
        values = {"sequence": sent, "exit_ns": received, "shape": shape, "outside_ns": tag}
        values |= {"enter_ns": tag << 32 | shape, "choice": tag % TAG_CLASSES}
        self.counts[rank].append(record(MESSAGE_COUNT, **values))

    def stop_counting(self, rank: int) -> None:
        """Add the record after which a process counts no more messages."""
        self.counts[rank].append(record(MESSAGE_COUNT, choice=COUNTS_END))

    def conclude(
        self, folder: Path, processes: JobProcesses, finished: Any = False
    ) -> tuple[HangVerdict, str]:
        """Return the verdict on the trace, and its text."""
        trace = self.write(folder, finished)
        positions, pending = rank_state.find(trace)
        verdict = job_verdict.conclude(trace, positions, pending, processes)
        return verdict, verdict_text.format_verdict(trace, positions, verdict)

    def write(self, folder: Path, finished: Any = False) -> mpiprof.Trace:
        """Write the trace and open it."""
        synthetic = self.synthetic
        for rank in range(self.ranks):
            synthetic.add(rank, 0, 0, 0, 0, kind=0)
            if self.are_counts_known:  # a rank without counts has spent no time in messages
                synthetic.spent[rank] = [0] * len(OUTSIDE_CLASSES)
        synthetic.messages = {r: parts for r, parts in enumerate(self.open) if parts}
        synthetic.message_sums = {r: parts for r, parts in enumerate(self.counts) if parts}
        synthetic.write(folder / "t", finished=finished)
        spent = synthetic.spent.get(0, ())
        for rank, parts in enumerate(self.of_second_thread):
            if parts:
                of = rank, 2, 0, True
                chunk = make_chunks(np.concatenate(parts), *of, spent=spent, content=MESSAGES)
                with (folder / "t" / f"rank-{rank:06d}.log").open("ab") as log:
                    log.write(chunk)
        return mpiprof.open(folder / "t")
