"""What a trace folder holds, read when it is asked for; Trace adds what is derived from it."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.trace import clock as clocks_module
from mpiprof.trace.batch import Batch
from mpiprof.trace.block import Block, column
from mpiprof.trace.check import line_is_sound
from mpiprof.trace.clock import Clock
from mpiprof.trace.files import File, files_in
from mpiprof.trace.log import Chunk, open_logs
from mpiprof.trace.machine import fault
from mpiprof.trace.match import BATCH, Matcher
from mpiprof.trace.stream import FOREVER, SLACK, RankStream, Source
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import EXTENSION, LONGEST, SUMMARY, Array, Problems

RANK_LIMIT = 1 << 22


def files_of(path: Path) -> tuple[list[File], list[File]]:
    """Return the logs and tables in a trace folder; raises TraceError where there are none."""
    if not path.exists():
        raise TraceError(f"{path}: no such trace folder; give the folder that run named")
    if not path.is_dir():
        raise TraceError(f"{path}: not a folder; give the trace folder, not a file in it")
    if not os.access(path, os.R_OK | os.X_OK):  # glob would find nothing
        raise TraceError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}")
    try:
        logs, tables = files_in(path, ".log"), files_in(path, ".tables")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
    if not logs and not tables:
        raise TraceError(
            f"{path}: no mpiprof trace in it (no .log files); "
            "record one with: mpiexec -n 4 python -m mpiprof run PROGRAM"
        )
    return logs, tables


class Records:
    """A trace folder, opened; raises TraceError when nothing in it can be read.

    What is wrong with parts of it stands in `.problems`; the rest is read as far as possible.
    All times are int64 ns on the clock of rank 0's node, right within `.clock_error_ns`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._found = Problems()
        logs, tables = files_of(self.path)
        self.meta: dict[str, Any] = self._read_meta()
        limit = self._rank_limit(len(logs) + len(tables))
        self.tables = read_tables(self.path, limit, self._found)
        live = bool(self.tables.processes.keys() - self.tables.ends.keys())
        self.logs = open_logs(self.path, limit, self._found, live)
        if logs and not self.logs.files:
            raise TraceError(self._found[-1] if len(logs) == 1 else self._none_readable(len(logs)))
        if not self._summed and any(log.layout.checked for log in self.logs.opened):
            self._found.note("meta.json is damaged and unread: it has no sum, and the logs have")
            self.meta = {}
        self._check()

    def _none_readable(self, count: int) -> str:
        first = next((p for p in self._found if ".log" in p), "")
        return f"{self.path}: none of its {count} logs can be read; the first: {first}"

    def _read_meta(self) -> dict[str, Any]:
        path = self.path / "meta.json"
        self._summed = True  # until it is there without a sum, as those of version 1
        try:
            content = path.read_bytes()
            sound = line_is_sound(content.rstrip(b"\n"))
            self._summed = sound is not None
            if sound is False:
                raise ValueError("its sum is another")
            meta = json.loads(content)
        except FileNotFoundError:
            self._found.note("meta.json is missing: the job is starting, or it died very early")
            return {}
        except OSError as error:
            self._found.note(f"meta.json cannot be read: {error.strerror}")
            return {}
        except (ValueError, RecursionError):
            self._found.note("meta.json is damaged and unread")
            return {}
        if not isinstance(meta, dict):
            self._found.note("meta.json is damaged and unread")
            return {}
        if meta.get("format", "mpiprof trace") != "mpiprof trace":
            raise TraceError(f"{path}: not of an mpiprof trace")
        version = meta.get("version", 1)
        if isinstance(version, int) and version > 1:
            raise TraceError(f"{path}: written by a newer mpiprof; update mpiprof to read it")
        return meta

    def _rank_limit(self, files: int) -> int:
        """Ranks from here on cannot be; damage must not make us hold arrays for them."""
        ranks = self.meta.get("ranks")
        if isinstance(ranks, int) and 0 < ranks <= RANK_LIMIT:
            return ranks
        return min(max(1 << 16, files), RANK_LIMIT)

    def _check(self) -> None:
        known = {rank for rank, _ in self.logs.threads} | set(self.tables.processes)
        sizes = [p["size"] for p in self.tables.processes.values()]
        declared = self.meta.get("ranks")
        if not (isinstance(declared, int) and 0 < declared <= RANK_LIMIT):
            declared = max(set(sizes), key=sizes.count) if sizes else 0
        if not 0 < declared <= RANK_LIMIT:
            declared = 0
        self.ranks: int = max(declared, max(known, default=-1) + 1)
        if self.ranks == 0:
            raise TraceError(
                f"{self.path}: no rank wrote yet: the job is starting, or died in MPI_Init"
            )
        absent = [r for r in range(self.ranks) if r not in known] if len(known) < self.ranks else []
        if absent:
            self._found.note(f"nothing was written by {_ranks(absent)}")
        silent = sorted(self.tables.shape_ids.keys() - {rank for rank, _ in self.logs.threads})
        if silent:
            self._found.note(f"{_ranks(silent)}: the tables name calls, but the log holds none")
            self.logs.cut = True
        found: Counter[int] = Counter()
        for (rank, _), chunks in self.logs.threads.items():
            found[rank] += len(chunks)
        for rank, end in self.tables.ends.items():
            gone = end["chunks"] - found[rank]
            if gone > 0:
                self._found.note(f"rank {rank}: {gone} chunks of its log are gone")
                self.logs.cut = True
        unfinished = [r for r in sorted(known) if r not in self.tables.ends]
        if unfinished:
            self._found.note(
                f"{_ranks(unfinished)} did not reach the end of the run: "
                "the job is running, or it was killed"
            )
        aborted = [r for r, end in self.tables.ends.items() if end["reason"] != "finalize"]
        if aborted:
            self._found.note(f"{_ranks(sorted(aborted))} aborted")
        if self.dropped:
            self._found.note(f"{self.dropped} records were dropped while recording")
        if self.tables.limits:
            self._found.note(
                f"the log of {_ranks(sorted(self.tables.limits))} reached its limit (--limit): "
                "later calls are summed up, without single instances"
            )
        if self.turned:
            self._found.note(
                f"of the calls of {_ranks(sorted(self.turned))} the last are held "
                "(--record ring): the table of all has the earlier ones, summed up"
            )
        for rank, note in self.tables.notes:
            self._found.note(f"rank {rank}: {note}")

    # What kind of trace it is

    @property
    def problems(self) -> Problems:
        """Lines that say what is missing or damaged; grows while more of the trace is read."""
        return self._found

    @property
    def notes(self) -> list[str]:
        """What the recorder had to say."""
        return [f"rank {rank}: {note}" for rank, note in self.tables.notes]

    @property
    def program(self) -> str:
        """Name of the recorded program, "?" if unknown."""
        return str(self.meta.get("program") or "?")

    @property
    def mpi(self) -> str:
        """Version line of the MPI library, "?" if unknown."""
        told = (p["mpi"] for p in self.tables.processes.values())
        return str(self.meta.get("mpi") or next((m for m in told if m), "?"))

    @property
    def record(self) -> str:
        """How it was recorded: "events", "summary", or "ring", the last events and a summary."""
        if any(log.layout.ring_bytes for log in self.logs.opened):
            return "ring"
        return "summary" if self.meta.get("record") == "summary" else "events"

    @property
    def totalled(self) -> bool:
        """Whether all calls of all ranks were summed up, be it beside events."""
        options = self.meta.get("options")
        told = isinstance(options, dict) and options.get("totals") is True
        return told or self.record in ("summary", "ring")

    @property
    def dropped(self) -> int:
        """Records that the recorder had to drop, over all ranks."""
        in_logs: dict[int, int] = {}
        for (rank, _), count in self.logs.dropped.items():
            in_logs[rank] = in_logs.get(rank, 0) + count
        ends = {rank: end["dropped"] for rank, end in self.tables.ends.items()}
        return sum(max(in_logs.get(r, 0), ends.get(r, 0)) for r in in_logs.keys() | ends.keys())

    @property
    def complete(self) -> bool:
        """Every rank reached MPI_Finalize; nothing was dropped, summed up or cut."""
        return self.sound and not self.turned

    @property
    def sound(self) -> bool:
        """As `complete`, but for what the ring of a rank no longer holds."""
        ended = all(e["reason"] == "finalize" for e in self.tables.ends.values())
        all_there = len(self.tables.ends) == self.ranks
        lacking = self.dropped or self.tables.limits or self.logs.cut or self.tables.cut
        lacking = lacking or self.logs.damaged
        return ended and all_there and not lacking

    @property
    def sample(self) -> int:
        """Of so many instances one was recorded."""
        found = self.meta.get("sample", 1)
        return found if type(found) is int and found > 1 else 1

    @cached_property
    def threads(self) -> int:
        """How many threads have calls recorded one by one; a rank counts as one at least."""
        found = 0
        for rank in range(self.ranks):
            threads = self.threads_of(rank)
            alone = len(threads) < 2
            found += 1 if alone else max(sum(not c[0].is_summed() for c in threads), 1)
        return found

    @property
    def process_time_ns(self) -> int:
        """The time of all ranks together, or of all their threads where several have calls."""
        return int(self.duration_ns) * self.threads

    # The machine

    @cached_property
    def machine_fault(self) -> str:
        """Why the message times that were measured can't be used; empty where they can."""
        return fault(self.meta.get("machine"))

    @property
    def machine(self) -> dict[str, Any] | None:
        """The machine table, None without a usable one."""
        table = self.meta.get("machine")
        return table if isinstance(table, dict) and not self.machine_fault else None

    # Nodes and clocks

    @cached_property
    def node_of(self) -> dict[int, str]:
        """Node id of each rank whose process is known."""
        return {r: p["node"] for r, p in sorted(self.tables.processes.items())}

    @property
    def nodes(self) -> int:
        """Number of nodes, at least 1."""
        return max(len(set(self.node_of.values())), 1)

    @cached_property
    def clocks(self) -> dict[str, Clock]:
        """The clock of each node."""
        names = list(dict.fromkeys(self.node_of.values()))
        if len(names) < 2:
            return {name: Clock() for name in names}
        corrected = self.meta.get("clock")
        if isinstance(corrected, dict) and isinstance(corrected.get("error_ns"), int):
            return clocks_module.told(names, corrected["error_ns"])
        led = {line["node"] for line in self.tables.clocks}
        reference = self.node_of.get(0) or next((n for n in names if n not in led), names[0])
        spans: dict[str, tuple[int, int]] = {}
        for rank, (first, last) in self._local_spans.items():
            node = self.node_of.get(rank)
            if node is not None:
                known = spans.get(node, (first, last))
                spans[node] = (min(first, known[0]), max(last, known[1]))
        for name in names:
            spans.setdefault(name, (0, 0))
        bounds = clocks_module.instance_bounds(
            self.batches(local_times=True), self._synchronising(), self.node_of, reference
        )
        clocks = clocks_module.build_clocks(
            self.tables.clocks, self.node_of, reference, spans, bounds, self._found
        )
        return (
            clocks if not isinstance(corrected, dict) else clocks_module.as_they_are(clocks, spans)
        )

    def _synchronising(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        names = clocks_module.SYNCHRONISING
        found = [
            s.operation in names
            and (s.sent > 0 or s.operation == "barrier")
            and "error" not in s.flags
            for s in self.tables.shapes
        ]
        return np.array([*found, False], np.bool_)

    @cached_property
    def clock_error_ns(self) -> int:
        """How far apart the clocks of two nodes may truly be, at most over the run; 0 on one."""
        errors = sorted((c.error_ns for c in self.clocks.values()), reverse=True)
        return sum(errors[:2])

    def clock_of(self, rank: int) -> Clock:
        """Return the clock of a rank's node."""
        return self.clocks.get(self.node_of.get(rank, "?"), Clock())

    @cached_property
    def _local_spans(self) -> dict[int, tuple[int, int]]:
        """First and last known time of each rank, on its own node's clock."""
        spans = {}
        for rank in range(self.ranks):
            process, end = self.tables.processes.get(rank, {}), self.tables.ends.get(rank)
            chunks = self.threads_of(rank)
            first, last = process.get("started_ns"), end["at_ns"] if end else None
            if first is None:
                starts = [t for c in chunks if (t := c[0].first_ns()) is not None]
                first = min(starts, default=None)
            if last is None:
                last = max((_last_time(c[-1]) for c in chunks), default=first)
            if first is not None and last is not None:
                spans[rank] = (first, max(first, last))
        return spans

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """First and last known time of each rank, ns on the joint clock."""
        return {
            rank: (first + c.offset_at(first), last + c.offset_at(last))
            for rank, (first, last) in self._local_spans.items()
            for c in (self.clock_of(rank),)
        }

    @cached_property
    def run_started_ns(self) -> int:
        """When the first rank started, on the joint clock."""
        return min((first for first, _ in self.spans.values()), default=0)

    @cached_property
    def run_ns(self) -> int:
        """From the start of the first rank to the last that is known of any."""
        return max((last for _, last in self.spans.values()), default=0) - self.run_started_ns

    @cached_property
    def started_ns(self) -> int:
        """When the calls begin that are held: with the run, but where rings have turned."""
        since = self.held_since_ns
        return self.run_started_ns if since is None else since

    @cached_property
    def duration_ns(self) -> int:
        """From `started_ns` to the end of the run, or of what is known of it."""
        return self.run_ns - (self.started_ns - self.run_started_ns)

    # Rings

    @cached_property
    def turned(self) -> dict[int, list[list[Chunk]]]:
        """The chunks of each thread whose ring no longer holds its first calls, by rank."""
        found: dict[int, list[list[Chunk]]] = {}
        for (rank, _), chunks in sorted(self.logs.threads.items()):
            if chunks[0].log.layout.ring_bytes and chunks[0].serial > 0:
                found.setdefault(rank, []).append(chunks)
        return found

    @cached_property
    def _held_from(self) -> dict[int, int]:
        """Since when the ring of a rank holds all its calls, on its own node's clock."""
        found = {}
        for rank, threads in self.turned.items():
            firsts = [
                next((t for c in chunks if c.log.is_sound(c.index) and (t := c.first_ns())), None)
                for chunks in threads
            ]
            found[rank] = max((t for t in firsts if t is not None), default=0)
        return found

    @cached_property
    def held_since_ns(self) -> int | None:
        """Since when the rings of all ranks hold all calls, on the joint clock; None: all are held.

        The tables of calls and instances, their waiting and the shares of all ranks' time are of
        what came since then.
        """
        found = [t + self.clock_of(r).offset_at(t) for r, t in self._held_from.items()]
        return max(found, default=None)

    @cached_property
    def passed(self) -> dict[tuple[int, int], int]:
        """The last sequence number that a rank's totals know, by rank and communicator."""
        found: dict[tuple[int, int], int] = {}
        if self.record != "ring":
            return found
        of = np.array([s.communicator for s in self.tables.shapes] + [-1], np.int64)
        for rank in range(self.ranks):
            for block in self.totals_of(rank):
                for index, last in zip(
                    of[block.shape].tolist(), block.sequence.tolist(), strict=True
                ):
                    found[rank, index] = max(last, found.get((rank, index), -1))
        return found

    def totals_of(self, rank: int) -> Iterator[Block]:
        """Yield what was summed up of a rank's calls, chunk by chunk.

        A line and its extensions never span two chunks.
        """
        for thread in self.stream(rank, local_times=True).threads:
            if not thread.is_summed():
                continue
            while thread.chunks and (block := thread.read(thread.chunks[0].log.layout.records)):
                yield block.take(column(block, "kind") == SUMMARY)

    # Records

    def stream(
        self, rank: int, local_times: bool = False, before: bool = False, held: bool = False
    ) -> RankStream:
        """Return the records of one rank, to be read once.

        before: each knows the one before. held: only since the rings of all ranks hold all.
        """
        since = None
        if held:
            since = self._held_from.get(rank) if local_times else self.held_since_ns
        process, end = self.tables.processes.get(rank, {}), self.tables.ends.get(rank)
        started = process.get("started_ns")
        clock = Clock() if local_times else self.clock_of(rank)
        source = Source(
            rank,
            self.tables.shape_map(rank),
            1 - FOREVER if started is None else started - SLACK,
            FOREVER if end is None else end["at_ns"] + SLACK,
            None if clock.is_identity else clock.to_global,
            before,
            since,
        )
        return RankStream(source, self.threads_of(rank), self._found)

    @cached_property
    def _threads(self) -> dict[int, list[list[Chunk]]]:
        by_rank: dict[int, list[list[Chunk]]] = {}
        for (rank, _), chunks in sorted(self.logs.threads.items()):
            by_rank.setdefault(rank, []).append(chunks)
        return by_rank

    def threads_of(self, rank: int) -> list[list[Chunk]]:
        """Return the chunks of each thread of a rank."""
        return self._threads.get(rank, [])

    def batches(
        self,
        local_times: bool = False,
        batch: int = BATCH,
        before: bool = False,
        since_ns: int | None = None,
    ) -> Iterator[Batch]:
        """All instances in batches; memory is bounded by `batch` records at a time.

        before: with what each rank recorded before each call. since_ns: only the instances whose
        first arrival is not earlier are sure to be there and whole; what is long before is unread.
        """
        streams = {rank: self.stream(rank, local_times, before, True) for rank in self._threads}
        passed = self.passed if self.turned else None
        problems = self._found
        if since_ns is not None:
            problems = Problems()  # that something begins in its middle is none of the trace
            for stream in streams.values():
                stream.skip_to(since_ns)
        tables = self.tables
        matcher = Matcher(streams, tables.communicators, tables.shapes, problems, batch, passed)
        return iter(matcher)


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (
        f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    )
    return ("rank " if len(ranks) == 1 else "ranks ") + shown


def _last_time(chunk: Chunk) -> int:
    records = chunk.log.read([(chunk.index, 0, chunk.log.layout.records)])
    used = records[(records["kind"] >= 1) & (records["kind"] <= 3)]
    if not len(used):
        return _last_summed(records)
    # Not the maximum: one damaged time must not become the length of the run.
    return max(int(used["enter_ns"][-1]), int(used["exit_ns"][-1]))


def _last_summed(records: Array) -> int:
    """Return when the last call ended that was summed up, 0 where none is known."""
    longest = (records["kind"] == EXTENSION) & (records["sequence"] == LONGEST)
    return int(records["enter_ns"][longest].max(initial=0))
