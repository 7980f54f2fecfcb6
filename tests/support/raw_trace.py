"""Reads a trace folder as it is on disk, without matching or joining, for tests of the recorder.

It is independent of `mpiprof.trace`, so that a mistake there cannot hide one in the recorder.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES

MAGIC = 0x6863504D
REPLACED = {1: "outside_ns", 2: "start", 3: "sent", 4: "received"}


@dataclass(frozen=True)
class Record:
    """A record with the fields of its shape; bytes and n-th start come from its extensions."""

    rank: int
    thread: int
    kind: str
    operation: str
    communicator: int
    identity: str
    sequence: int
    root: int | None
    sent: int | None
    received: int | None
    flags: frozenset[str]
    frames: tuple[dict[str, Any], ...]
    enter_ns: int
    exit_ns: int
    outside_ns: int
    start: int
    choice: int

    @property
    def bytes(self) -> tuple[int | None, int | None]:
        """Bytes sent and received."""
        return self.sent, self.received


@dataclass(frozen=True)
class Raw:
    """All records by rank and thread, in order, and the lines of the tables.

    records: of collectives. gatherings: of other calls that all members make.
    """

    records: list[Record]
    lines: list[dict[str, Any]]
    gatherings: list[Record]

    def of(self, rank: int, kind: str = "call") -> list[Record]:
        """Return the records of one kind of one rank."""
        return [r for r in self.records if r.rank == rank and r.kind == kind]

    def gathered(self, rank: int) -> list[Record]:
        """Return the records of a rank's other calls that all members make."""
        return [r for r in self.gatherings if r.rank == rank]

    def communicators(self, rank: int) -> list[dict[str, Any]]:
        """Return the communicators of one rank, in order of creation."""
        return [line for line in self.lines if line["rank"] == rank and "how" in line]

    def identities(self, rank: int) -> list[tuple[str, str]]:
        """Return how each communicator of a rank was created, and its identity."""
        return [(line["how"], line["identity"]) for line in self.communicators(rank)]

    def ends(self) -> dict[int, str]:
        """Return the reason of each rank's log end."""
        return {line["rank"]: line["end"]["reason"] for line in self.lines if "end" in line}


def read(folder: Path) -> Raw:
    """Read every rank's log and tables; raises if a line or a header is damaged."""
    lines = [
        json.loads(line)
        for path in sorted(folder.glob("*.tables"))
        for line in path.read_text().splitlines()
    ]
    records = [r for path in sorted(folder.glob("*.log")) for r in _records(path, lines)]
    records.sort(key=lambda r: (r.rank, r.thread))
    gathered = [r.operation in MANAGEMENT_COLLECTIVES for r in records]
    retained = [r for r, other in zip(records, gathered, strict=True) if not other]
    return Raw(retained, lines, [r for r, other in zip(records, gathered, strict=True) if other])


def _dtype(fields: list[Any], size: int) -> np.dtype[Any]:
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def _records(path: Path, lines: list[dict[str, Any]]) -> list[Record]:
    data = path.read_bytes()
    head = json.loads(data[: data.index(b"\n")])
    chunk_bytes, header_bytes = head["chunk_bytes"], head["header_bytes"]
    record = _dtype(head["record"], head["record_bytes"])
    header = _dtype(head["header"], header_bytes)
    chunks: dict[tuple[int, int, int], tuple[int, int]] = {}
    for at in range(chunk_bytes, len(data), chunk_bytes):
        h = np.frombuffer(data, header, 1, at)[0]
        if h["content"]:  # messages
            continue
        key = (int(h["rank"]), int(h["thread"]), int(h["serial"]))
        if h["magic"] == MAGIC and not (h["window"] and key in chunks and not chunks[key][0]):
            chunks[key] = int(h["window"]), at
    count = (chunk_bytes - header_bytes) // record.itemsize
    records = []
    for (rank, _, _), (_, at) in sorted(chunks.items()):
        rows = np.frombuffer(data, record, count, at + header_bytes)
        records += _resolve(rows, rank, head["kinds"], lines)
    return records


def _resolve(
    rows: np.ndarray[Any, Any], rank: int, kinds: list[str], lines: list[dict[str, Any]]
) -> list[Record]:
    rank_lines = [line for line in lines if line["rank"] == rank]
    shapes = {line["shape"]: line for line in rank_lines if "shape" in line}
    sites = {line["site"]: line for line in rank_lines if "frames" in line}
    communicators = {line["communicator"]: line for line in rank_lines if "identity" in line}
    replaced: dict[str, int] = {}
    resolved = []
    for row in rows:
        kind = kinds[int(row["kind"])]
        if kind == "extension" and int(row["sequence"]) in REPLACED:
            replaced[REPLACED[int(row["sequence"])]] = int(row["exit_ns"])
        if kind in ("empty", "extension", "statistics"):
            continue
        shape = shapes[int(row["shape"])]
        values: dict[str, Any] = {name: shape[name] for name in ("root", "sent", "received")}
        values |= {"outside_ns": int(row["outside_ns"]), "start": 0} | replaced
        replaced = {}
        resolved.append(
            Record(
                rank=rank,
                thread=int(row["thread"]),
                kind=kind,
                operation=shape["operation"],
                communicator=shape["communicator"],
                identity=communicators[shape["communicator"]]["identity"],
                sequence=int(row["sequence"]),
                flags=frozenset(shape["flags"]),
                frames=tuple(sites[shape["site"]]["frames"]),
                enter_ns=int(row["enter_ns"]),
                exit_ns=int(row["exit_ns"]),
                choice=int(row["choice"]),
                **values,
            )
        )
    return resolved


def native_line(program: Path) -> Callable[[Record], int]:
    """Return a function from a record's native site to its source line, by addr2line."""
    known: dict[int, int] = {}

    def line(record: Record) -> int:
        frame = record.frames[0]
        assert Path(frame["module"]).resolve() == program.resolve()
        offset = int(frame["offset"])
        if offset not in known:
            words = ["addr2line", "-e", str(program), hex(offset)]
            out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            known[offset] = int(out.rpartition(":")[2].split()[0])
        return known[offset]

    return line
