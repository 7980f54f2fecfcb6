"""Synthetic traces of jobs that hang in message calls, and the verdicts on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mpiprof
from mpiprof.hang import job_verdict, rank_state, verdict_text
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.verdict import Verdict
from mpiprof.testing.synthetic import upgrade_folder
from mpiprof.trace.checksum import add_checksum, compute_checksum
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.log import MESSAGES
from mpiprof.trace.message_counts import COUNTS_END, TAG_CLASSES
from mpiprof.trace.messages import UNSURE, WILDCARD
from mpiprof.trace.types import MESSAGE_COUNT, RECEIVED_PART, SENT_PART, Array
from mpiprof.trace.writer import CHUNK_BYTES
from support.hang_traces import job
from support.message_traces import CHECK_OFFSET, call, make_chunk, part, record

ANY = -1
PROBES = ("probe", "mprobe")
WINDOW_FIELDS = [["window", "u1", 10], ["content", "u1", 11]]
TIME_FIELDS = [[f"{name}_ns", "<i8", 32 + 8 * i] for i, name in enumerate(OUTSIDE_CLASSES)]


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
        id_ = self.synthetic.add_shape(rank, operation, comm, site=site, peer=peer)
        for row in self.synthetic.lines[rank]:
            if row.get("shape") == id_:
                row["peer"] = peer
        return id_

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
    ) -> tuple[Verdict, str]:
        """Return the verdict on the trace, and its text."""
        trace = self.write(folder, finished)
        positions, pending = rank_state.find(trace)
        verdict = job_verdict.conclude(trace, positions, pending, processes)
        return verdict, verdict_text.format_verdict(trace, positions, verdict)

    def write(self, folder: Path, finished: Any = False) -> mpiprof.Trace:
        """Write the trace and open it."""
        for rank in range(self.ranks):
            self.synthetic.add(rank, 0, 0, 0, 0, kind=0)
        upgrade_folder(self.synthetic.write(folder / "t", finished=finished))
        for rank in range(self.ranks):
            path = folder / "t" / f"rank-{rank:06d}.log"
            content = path.read_bytes()
            described = json.loads(content.split(b"\n")[0])
            fields = [field for field in described["header"] if field[0] not in ("window", "check")]
            described["header"] = [*fields, ["check", "<u4", CHECK_OFFSET], *WINDOW_FIELDS]
            described["header"] += TIME_FIELDS if self.are_counts_known else []
            line = add_checksum(json.dumps(described).encode()) + b"\n"
            records = (self.open, self.counts, self.of_second_thread)
            chunks = [_seal(rank, thread, r[rank]) for thread, r in enumerate(records)]
            body = content[CHUNK_BYTES:] + b"".join(chunks)
            path.write_bytes(line.ljust(CHUNK_BYTES, b"\0") + body)
        return mpiprof.open(folder / "t")


def _seal(rank: int, thread: int, records: list[Array]) -> bytes:
    """Return a chunk of messages with its checksum; b"" without records."""
    if not records:
        return b""
    content = make_chunk(rank, thread, 0, MESSAGES, *records)
    check = compute_checksum(content, CHECK_OFFSET).to_bytes(4, "little")
    return content[:CHECK_OFFSET] + check + content[CHECK_OFFSET + 4 :]
