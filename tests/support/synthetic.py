"""Writes traces in the recorder's format from arrays, for tests and the reading benchmark.

Times are given on the joint clock (of node 0) and written on the clock of each node.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mpiprof.trace import writer
from mpiprof.trace.checksum import add_checksum, compute_checksum
from mpiprof.trace.chunks import MESSAGES
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.types import CALL, COMPLETION, EXTENSION, START, Array, Int
from mpiprof.trace.writer import CHUNK_BYTES, RECORD_TYPE

CHECK_OFFSET = 12  # of the checksum in a chunk's header
RANKS_PER_FILE = 32  # up to this many ranks on one node, each rank has its own files
# A link of 10 us and 1 ns per byte, so that T(m) = 10000 + m ns exactly.
LINK = {
    "alpha_ns": 10_000.0,
    "beta_ns_per_byte": 1.0,
    "sizes": [0, 1_000, 1_000_000],
    "one_way_ns": [10_000.0, 11_000.0, 1_010_000.0],
    "both_ways_ns": [10_000.0, 11_000.0, 1_010_000.0],
}
MACHINE = {
    "source": "init",
    "within": LINK,
    "between": None,
    "gamma_sum_ns_per_byte": 0.1,
    "gamma_maxloc_ns_per_byte": 0.2,
}


class Synthetic:
    """A trace under construction; `write` writes its folder."""

    def __init__(
        self,
        ranks: int,
        nodes: Sequence[int] | None = None,  # of each rank
        offsets: Sequence[int] = (0,),  # joint clock minus the node's clock at time 0, ns
        drifts: Sequence[float] = (0.0,),  # growth of the offset, ns per ns of the joint clock
        machine: dict[str, Any] | None = MACHINE,
        ring: int = 0,  # newest calls of each rank that are recorded; 0 for all
    ) -> None:
        self.ranks, self.ring = ranks, ring
        self.processors: dict[int, list[int]] = {}  # of each rank; its number by default
        self.running_on: dict[int, int] = {}  # of each rank; its first processor by default
        self.node_processors = 0  # of each node; 0 if it is unknown
        self.nodes = list(nodes) if nodes is not None else [0] * ranks
        self.offsets, self.drifts = list(offsets), list(drifts)
        self.meta: dict[str, Any] = {
            "format": "mpiprof trace",
            "version": 1,
            "mpiprof": "0.1.0",
            "program": "synthetic.py",
            "command": ["synthetic.py"],
            "mpi": "Synthetic MPI 1.0",
            "abi": "mpich",
            "ranks": ranks,
            "job": "5eed",
            "started": "2026-01-01T00:00:00Z",
            "record": "ring" if ring else "events",
            "sample": 1,
            "options": {},
            "machine": machine,
            "skipped": [],
        }
        self.lines: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
        self.records: list[list[Array]] = [[] for _ in range(ranks)]
        # Records of messages and of their sums, by rank; a thread has calls of both kinds.
        self.messages: dict[int, list[Array]] = {}
        self.message_sums: dict[int, list[Array]] = {}
        self.spent: dict[int, list[int]] = {}  # as layout.OUTSIDE_CLASSES; of all ranks or none
        self.shapes: list[dict[str, int]] = [{} for _ in range(ranks)]
        self.sites: list[dict[str, int]] = [{} for _ in range(ranks)]
        self.inside, self.signal = [0] * ranks, [0] * ranks
        self.members: dict[str, list[list[int]]] = {}
        self.sequence: dict[str, int] = {}
        self.started_ns, self.ended_ns = 1_000, 10**12
        # Time of the signals that ended ranks, and number of the launcher's children at that time.
        self.signal_ns, self.siblings = 10**11, 0
        self.add_communicator("world", list(range(ranks)))

    def to_local(self, rank: int, times: Any) -> Int:
        """Convert times from the joint clock to the clock of a rank's node."""
        node, t = self.nodes[rank], np.asarray(times, np.int64)
        local: Int = t - self.offsets[node] - np.rint(t * self.drifts[node]).astype(np.int64)
        return local

    def add_communicator(
        self,
        name: str,
        members: list[int],
        remote: list[int] | None = None,
        how: str | None = None,
        local: bool = False,
        topology: dict[int, tuple[list[int], list[int]]] | None = None,
    ) -> str:
        """Add a communicator, return its name; topology maps ranks to (sources, destinations)."""
        groups = [members] if remote is None else [members, remote]
        self.members[name] = groups
        self.sequence[name] = 0
        # Not per rank, because a job may have 65536 ranks.
        as_runs = [writer.make_runs(group) for group in groups]
        for side, group in enumerate(groups):
            for rank in group:
                line: dict[str, Any] = {
                    "rank": rank,
                    "communicator": len(self.members) - 1,
                    "identity": f"{zlib.crc32(name.encode()):016x}",
                    "parent": None,
                    "how": how or ("world" if name == "world" else "split"),
                    "local": local,
                    "inter": remote is not None,
                    "size": len(group),
                    "members": None if local else as_runs[side],
                }
                if remote is not None:
                    line["remote"] = as_runs[1 - side]
                if topology is not None:
                    line["sources"], line["destinations"] = topology[rank]
                self.lines[rank].append(line)
        return name

    def find_sources(self, communicator: str) -> tuple[list[int], ...]:
        """Return the ranks that each member of a communicator with a topology receives from."""
        number = list(self.members).index(communicator)
        return tuple(
            line["sources"]
            for group in self.members[communicator]
            for rank in group
            for line in self.lines[rank]
            if line.get("communicator") == number and "sources" in line
        )

    def add_site(self, rank: int, frame: str | dict[str, Any]) -> int:
        """Return the id of a site, given as "app.py:12:step" or as a frame.

        Several frames are given as "app.py:12:sum < app.py:30:main", the innermost first.
        """
        frames: list[dict[str, Any]] = []
        for text in frame.split(" < ") if isinstance(frame, str) else ():
            file, line, function = text.split(":")
            frames.append({"file": file, "line": int(line), "function": function})
        frames = frames or [frame]  # type: ignore[list-item]
        key = json.dumps(frames)
        known = self.sites[rank]
        if key not in known:
            known[key] = len(known)
            self.lines[rank].append({"rank": rank, "site": known[key], "frames": frames})
        return known[key]

    def add_shape(self, rank: int, operation: str, communicator: str, **more: Any) -> int:
        """Return the id of a shape; `more`: optional fields of its line and its site."""
        key = json.dumps([operation, communicator, more])
        known = self.shapes[rank]
        if key not in known:
            known[key] = len(known)
            line: dict[str, Any] = {
                "rank": rank,
                "shape": known[key],
                "operation": operation,
                "communicator": list(self.members).index(communicator),
                "site": self.add_site(rank, more.get("site", "app.py:1:main")),
                **{name: more.get(name) for name in ("root", "sent", "received")},
                "algorithm": more.get("algorithm", "native"),
                "flags": more.get("flags", []),
                **{name: more[name] for name in ("type", "reduction", "peer") if name in more},
            }
            self.lines[rank].append(line)
        return known[key]

    def add(
        self, rank: int, shape: int, sequence: Any, enter: Any, exit_: Any, kind: int = CALL
    ) -> None:
        """Add records of one rank; times are on the joint clock, exit is 0 if open."""
        enter, exit_ = np.atleast_1d(enter), np.atleast_1d(exit_)
        records = np.zeros(len(enter), RECORD_TYPE)
        records["enter_ns"] = self.to_local(rank, enter)
        records["exit_ns"] = np.where(exit_ == 0, 0, self.to_local(rank, exit_))
        records["sequence"], records["shape"], records["kind"] = sequence, shape, kind
        self.records[rank].append(records)

    def add_extension(self, rank: int, which: int, value: int) -> None:
        """Add an extension record for the record that is added next."""
        records = np.zeros(1, RECORD_TYPE)
        records["sequence"], records["exit_ns"], records["kind"] = which, value, EXTENSION
        self.records[rank].append(records)

    def add_messages(self, rank: int, records: Array) -> None:
        """Add calls on messages, each after its messages; times are on the clock of the node."""
        self.messages.setdefault(rank, []).append(records)

    def add_message_sums(self, rank: int, records: Array) -> None:
        """Add sums of calls on messages: summaries with their extensions."""
        self.message_sums.setdefault(rank, []).append(records)

    def add_collective(
        self,
        operation: str,
        arrivals: Any,
        exits: Any,
        communicator: str = "world",
        sent: Any = 8,
        received: Any = 8,
        root: Any = None,
        site: Any = "app.py:1:main",
        flags: Sequence[str] = (),
        completions: Any = None,
        algorithm: str = "native",
    ) -> None:
        """Add blocking or nonblocking instances; arrivals and exits are instances x members.

        sent, received, root and site may be dicts by world rank. completions: (enter, exit) of the
        completing Wait of nonblocking operations. Arrival -1 means absent.
        """
        arrivals, exits = np.atleast_2d(arrivals), np.atleast_2d(exits)
        members = [r for group in self.members[communicator] for r in group]
        first = self.sequence[communicator]
        self.sequence[communicator] += len(arrivals)
        numbers = first + np.arange(len(arrivals))
        for i, rank in enumerate(members):
            common = {"sent": sent, "received": received, "root": root, "site": site}
            more = {k: v.get(rank) if isinstance(v, dict) else v for k, v in common.items()}
            more |= {"flags": list(flags), "algorithm": algorithm}
            shape = self.add_shape(rank, operation, communicator, **more)
            arrived = arrivals[:, i] >= 0
            self.add(rank, shape, numbers[arrived], arrivals[arrived, i], exits[arrived, i])
            if completions is not None:
                enter, exit_ = (np.atleast_2d(c)[arrived, i] for c in completions)
                done = exit_ > 0
                self.add(rank, shape, numbers[arrived][done], enter[done], exit_[done], COMPLETION)

    def add_start(
        self, rank: int, shape: int, sequence: int, nth: int, enter: int, wait: tuple[int, int]
    ) -> None:
        """Add the nth start of a persistent operation of one rank, and its completing Wait."""
        for kind, times in ((START, (enter, enter)), (COMPLETION, wait)):
            self.add_extension(rank, 2, nth)
            self.add(rank, shape, sequence, times[0], times[1], kind)

    def add_clock(self, rank: int, reference: int, at: int, error: int, when: str = "init") -> None:
        """Add an exact clock line of a node leader, with the error that it claims."""
        local = int(self.to_local(rank, at))
        clock = {
            "node": f"node-{self.nodes[rank]}",
            "reference": reference,
            "at_ns": local,
            "offset_ns": int(self.to_local(reference, at)) - local,
            "error_ns": error,
            "when": when,
        }
        self.lines[rank].append({"rank": rank, "clock": clock})

    def format_tables(self, rank: int, finished: bool = True) -> str:
        """Return the text of a rank's tables."""
        process = {
            "host": f"n{self.nodes[rank]}",
            "pid": 100 + rank,
            "node": f"node-{self.nodes[rank]}",
            "processors": self.processors.get(rank, [rank]),
            "node_processors": self.node_processors,
            "started_ns": int(self.to_local(rank, self.started_ns)),
            "started": "2026-01-01T00:00:00Z",
            "size": self.ranks,
            "abi": "mpich",
            "mpi": "Synthetic MPI 1.0",
        }
        lines: list[dict[str, Any]] = [{"rank": rank, "process": process}, *self.lines[rank]]
        if finished:
            at_ns = int(self.to_local(rank, self.ended_ns))
            end = {"at_ns": at_ns, "reason": "finalize", "dropped": 0, "recorder_ns": 0}
            lines.append({"rank": rank, "end": end})
        return "".join(json.dumps(line) + "\n" for line in lines)

    def write_meta(self, folder: Path) -> None:
        """Write meta.json only."""
        (folder / "meta.json").write_text(json.dumps(self.meta))

    def write(self, folder: Path, finished: bool | Sequence[int] = True) -> Path:
        """Write the trace; finished: whether all ranks, or which ranks, reached MPI_Finalize.

        Like the recorder, it writes a log and tables for each rank or, with many ranks, for each
        node.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.write_meta(folder)
        for name, ranks in self.list_files().items():
            with (folder / f"{name}.tables").open("w") as tables:
                for rank in ranks:
                    done = finished if isinstance(finished, bool) else rank in finished
                    tables.write(self.format_tables(rank, done))
            with (folder / f"{name}.log").open("wb") as log:
                ring_bytes = self.ring and CHUNK_BYTES
                signal_ns = self.signal_ns if any(self.signal[rank] for rank in ranks) else 0
                state = signal_ns, self.siblings
                log.write(writer.make_head_chunk(bool(self.spent), ring_bytes, *state))
                for rank in ranks:
                    self._append(log, rank)
                    self._append_messages(log, rank)
        return folder

    def list_files(self) -> dict[str, list[int]]:
        """Return the names of logs and tables, without suffix, and the ranks in each."""
        if self.ranks <= RANKS_PER_FILE:
            return {f"rank-{rank:06d}": [rank] for rank in range(self.ranks)}
        ranks_of: dict[str, list[int]] = {}
        for rank, node in enumerate(self.nodes):
            ranks_of.setdefault(f"node-n{node}", []).append(rank)
        return ranks_of

    def _append(self, log: BinaryIO, rank: int) -> None:
        """Write a rank's chunks of collectives."""
        parts = self.records[rank]
        records = np.concatenate(parts) if parts else np.zeros(0, RECORD_TYPE)
        state = {"inside": self.inside[rank], "signal": self.signal[rank]}
        spent, serial = self.spent.get(rank, ()), 0
        if 0 < self.ring < len(records):
            serial = 1  # of the chunk that has replaced the first one
            self._write_records(log, rank, 1, writer.make_totals(records), [0] * len(spent))
            records = records[-self.ring :]
        self._write_records(log, rank, 0, records, spent, serial, **state)

    def _write_records(
        self,
        log: BinaryIO,
        rank: int,
        thread: int,
        records: Array,
        spent: Sequence[int],
        serial: int = 0,
        **state: int,
    ) -> None:
        """Write records of collectives as chunks."""
        chunks = writer.make_chunks(
            records, rank, thread, serial, window=True, spent=spent, **state
        )
        _write_chunks(log, chunks, len(records))

    def _append_messages(self, log: BinaryIO, rank: int) -> None:
        """Write a rank's chunks of messages; their sums have a thread number of their own."""
        spent = [0] * len(OUTSIDE_CLASSES) if self.spent else []
        for thread, parts in ((0, self.messages.get(rank)), (1, self.message_sums.get(rank))):
            if parts is not None:
                records = writer.pad_messages(np.concatenate(parts))
                of = rank, thread, 0, True
                chunks = writer.make_chunks(records, *of, spent=spent, content=MESSAGES)
                _write_chunks(log, chunks, len(records))


def _write_chunks(log: BinaryIO, chunks: bytes, records: int) -> None:
    """Write chunks with so many records; empty records at the end become a hole in the file."""
    end = log.tell() + len(chunks)
    full, last = divmod(records, writer.RECORDS_PER_CHUNK)
    last_bytes = writer.HEADER_BYTES + last * writer.RECORD_BYTES
    log.write(chunks[: full * CHUNK_BYTES + last_bytes])
    log.truncate(end)
    log.seek(end)


def upgrade_folder(folder: Path) -> Path:
    """Rewrite a trace of Synthetic.write as version 2 of the format; returns the folder."""
    chunks = Counter({path.stem: _upgrade_log(path) for path in folder.glob("*.log")})
    for path in folder.glob("*.tables"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "end" in line:
                line["end"]["chunks"] = chunks[path.stem]
        checked = (add_checksum(json.dumps(line).encode()) + b"\n" for line in lines)
        path.write_bytes(b"".join(checked))
    meta = folder / "meta.json"
    meta.write_bytes(add_checksum(meta.read_bytes()) + b"\n")
    return folder


def _upgrade_log(path: Path) -> int:
    """Rewrite a log and return its number of chunks."""
    content = path.read_bytes()
    head, *parts = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    described = json.loads(head.split(b"\n")[0])
    described["version"] = 2
    line = add_checksum(json.dumps(described).encode()) + b"\n"
    path.write_bytes(line.ljust(CHUNK_BYTES, b"\0") + b"".join(map(add_chunk_checksum, parts)))
    return len(parts)


def add_chunk_checksum(chunk: bytes) -> bytes:
    """Return a chunk without a checksum with its checksum."""
    check = compute_checksum(chunk, CHECK_OFFSET).to_bytes(4, "little")
    return chunk[:CHECK_OFFSET] + check + chunk[CHECK_OFFSET + 4 :]
