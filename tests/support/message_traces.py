"""Writes traces with logs of messages, record by record, in the recorder's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import mpiprof
from mpiprof.trace.checksum import add_checksum
from mpiprof.trace.chunks import MESSAGES
from mpiprof.trace.messages import COMPLETE
from mpiprof.trace.types import MESSAGE_CALL, Array
from mpiprof.trace.writer import (
    CHUNK_BYTES,
    HEADER_BYTES,
    RECORD_TYPE,
    make_chunks,
    make_head_chunk,
    make_sums,
)
from support.synthetic import Synthetic, add_chunk_checksum, upgrade_folder


def record(kind: int, **values: int) -> Array:
    """Return one record."""
    made = np.zeros(1, RECORD_TYPE)
    made["kind"] = kind
    for name, value in values.items():
        made[name] = value
    return made


def part(
    kind: int,
    shape: int,
    number: int = 0,
    tag: int = 0,
    bytes_: int = 4,
    posted: int = 1000,
    flags: int = COMPLETE,
) -> Array:
    """Return the record of a message of the next call."""
    values = {"enter_ns": posted, "exit_ns": bytes_, "sequence": number, "shape": shape}
    return record(kind, outside_ns=tag & 0xFFFFFFFF, choice=flags, **values)


def call(shape: int, enter: int, exit_: int, *parts: Array, thread: int = 0) -> Array:
    """Return the records of a call, after those of its messages."""
    values = {"enter_ns": enter, "exit_ns": exit_, "sequence": len(parts), "thread": thread}
    return np.concatenate([*parts, record(MESSAGE_CALL, shape=shape, **values)])


def sums(shape: int, calls: int, total: int, sent: int, received: int, longest: int) -> Array:
    """Return the records of the sums of a shape."""
    values = np.array([[calls], [total], [sent], [received], [longest]])
    return make_sums(np.array([shape]), values)


class MessageTrace:
    """A trace under construction with logs of messages; `write` writes it and opens it."""

    def __init__(self, ranks: int = 2, **options: Any) -> None:
        self.synthetic = Synthetic(ranks, **options)
        # A thread with messages also has a window of calls.
        empty = np.zeros(0, RECORD_TYPE)
        self.chunks = [[make_chunks(empty, rank, 0, 0, window=True)] for rank in range(ranks)]

    def shape(
        self, rank: int, operation: str, peer: int | None, line: int = 1, comm: str = "world"
    ) -> int:
        """Return the id of a shape; peer: rank in the communicator."""
        site = f"app.py:{line}:main"
        return self.synthetic.add_shape(rank, operation, comm, site=site, peer=peer)

    def add_chunk(self, rank: int, *records: Array, thread: int = 0, serial: int = 0) -> None:
        """Add a full chunk of messages to the log of a rank."""
        content = make_chunks(
            np.concatenate(records), rank, thread, serial, window=False, content=MESSAGES
        )
        self.chunks[rank].append(add_chunk_checksum(content))

    def damage_last_chunk(self, rank: int) -> None:
        """Change one byte of the chunk that was added last."""
        content = bytearray(self.chunks[rank][-1])
        content[HEADER_BYTES + 1] ^= 1
        self.chunks[rank][-1] = bytes(content)

    def write(self, folder: Path) -> mpiprof.Trace:
        """Write the trace with the recorder's format, and open it."""
        upgrade_folder(self.synthetic.write(folder))
        described = json.loads(make_head_chunk().split(b"\n")[0])
        described["version"] = 2
        line = add_checksum(json.dumps(described).encode()) + b"\n"
        for rank, chunks in enumerate(self.chunks):
            path = folder / f"rank-{rank:06d}.log"
            path.write_bytes(line.ljust(CHUNK_BYTES, b"\0") + b"".join(chunks))
        return mpiprof.open(folder)
