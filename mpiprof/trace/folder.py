"""An opened trace folder: its meta.json, tables and logs, and its missing parts."""

from __future__ import annotations

import errno
import itertools
import os
from collections import Counter
from collections.abc import Set
from functools import cached_property
from pathlib import Path
from typing import Any

from mpiprof.errors import NoTraceError, TraceError
from mpiprof.interface.format_units import format_ranks
from mpiprof.trace.chunks import Chunk, count_capacity, open_logs
from mpiprof.trace.files import DiskFile, list_files
from mpiprof.trace.malloc_tuning import pause_garbage_collection
from mpiprof.trace.run_metadata import FILE, RANK_LIMIT, read_metadata
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems


def find_files(path: Path) -> tuple[list[DiskFile], list[DiskFile]]:
    """Return the logs and tables in a trace folder; raises TraceError if there are none."""
    if not path.exists():
        raise NoTraceError(f"{path}: no such trace folder; pass the folder that `run` printed")
    if not path.is_dir():
        raise NoTraceError(f"{path}: not a folder; pass the trace folder, not a file in it")
    if not os.access(path, os.R_OK | os.X_OK):  # glob would find nothing
        raise TraceError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}")
    try:
        logs, tables = list_files(path, ".log"), list_files(path, ".tables")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
    if not logs and not tables:
        raise NoTraceError(
            f"{path}: no mpiprof trace in it (no .log files); "
            "record one with: mpiexec -n 4 python -m mpiprof run PROGRAM"
        )
    return logs, tables


class Folder:
    """An opened trace folder; raises TraceError if nothing in it is readable.

    `.problems` lists the damage. The undamaged data are read as far as possible.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._found = Problems()
        logs, tables = find_files(self.path)
        metadata = read_metadata(self.path)
        self.meta: dict[str, Any] = metadata.fields
        if metadata.problem:
            self._found.add(metadata.problem)
        limit = self._find_rank_limit(len(logs) + len(tables))
        with pause_garbage_collection():
            self.tables = read_tables(self.path, limit, self._found)
            self._explain_missing_meta()
            live = bool(self.tables.processes.keys() - self.tables.ends.keys())
            self.logs = open_logs(self.path, limit, self._found, live)
        if logs and not self.logs.opened:
            if len(logs) == 1:
                raise TraceError(self._found[-1])
            first = next((p for p in self._found if ".log" in p), "")
            raise TraceError(
                f"{self.path}: none of its {len(logs)} logs can be read; the first: {first}"
            )
        if not metadata.has_checksum and any(log.layout.has_checksums for log in self.logs.opened):
            self._found.add(
                "meta.json is damaged and ignored: it has no checksum, but the logs have"
            )
            self.meta = {}
        self._check()

    def _explain_missing_meta(self) -> None:
        """Add the problem of a missing meta.json; rank 0 writes the file in MPI_Init."""
        if os.path.lexists(self.path / FILE):
            return
        why = "the job is starting, or died in MPI_Init"
        if self.tables.ends:
            why = "the file was lost after the run"
        self._found.add(f"meta.json is missing: {why}")

    def _find_rank_limit(self, files: int) -> int:
        """Return the first impossible rank, so that damage allocates no arrays for such ranks."""
        ranks: int | None = self.meta.get("ranks")
        return ranks or min(max(1 << 16, files), RANK_LIMIT)

    def _check(self) -> None:
        with_logs = {rank for rank, _ in self.logs.threads}
        ends, known = self.tables.ends, with_logs | self.tables.processes.keys()
        self.ranks = self._count_ranks(known)
        self._silent = self.tables.shape_ids.keys() - with_logs
        chunks = Counter(self.logs.unused)
        for threads in (self.logs.threads, self.logs.messages):
            for (rank, _), of_thread in threads.items():
                chunks[rank] += len(of_thread)
        lost_chunks = {rank: end["chunks"] - chunks[rank] for rank, end in ends.items()}
        lost_chunks = {rank: count for rank, count in lost_chunks.items() if count > 0}
        self.logs.truncated |= bool(self._silent or lost_chunks)
        why = "the job is running or was killed"
        why += ", or their last records could not be written" if self.unwritten_ranks else ""
        self._missing = set(range(self.ranks)) - known if len(known) < self.ranks else set()
        self._note_ranks("no log of {}", self._missing)
        self._note_ranks("{}: the tables have call sites, but the log has no calls", self._silent)
        for rank, count in lost_chunks.items():
            which = f"{count} chunks of its log are" if count > 1 else "a chunk of its log is"
            self._found.add(f"rank {rank}: {which} gone")
        self._note_ranks(f"{{}} did not reach the end of the run: {why}", known - ends.keys())
        self._note_ranks("{} aborted", {r for r in ends if ends[r]["reason"] != "finalize"})
        if self.dropped_records:
            self._found.add(self.dropped_note)
        self._note_ranks(
            "the log of {} reached its limit (--limit): later calls are only in the totals",
            self.tables.limits.keys(),
        )
        self._note_ranks(
            "the trace has only the last calls of {} (--record ring): "
            "earlier calls are only in the totals",
            self.wrapped_chunks.keys(),
        )
        for note in self.notes:
            self._found.add(note)

    def _count_ranks(self, known: Set[int]) -> int:
        """Return the number of ranks as declared by meta.json or most tables, or of known ranks."""
        sizes = [p["size"] for p in self.tables.processes.values()]
        declared = self.meta.get("ranks") or max(set(sizes), key=sizes.count, default=0)
        ranks = max(declared, max(known, default=-1) + 1)
        if ranks == 0:
            raise TraceError(
                f"{self.path}: no rank has written yet: the job is starting, or died in MPI_Init"
            )
        return ranks

    def _note_ranks(self, message: str, ranks: Set[int]) -> None:
        """Add a problem with the ranks that have it, if any."""
        if ranks:
            self._found.add(message.format(format_ranks(sorted(ranks))))

    # Facts about the trace

    @property
    def problems(self) -> Problems:
        """Messages on missing or damaged data; the list grows while more of the trace is read."""
        return self._found

    @property
    def notes(self) -> list[str]:
        """The recorder's messages, each with the ranks that wrote it."""
        ranks_of_note: dict[str, list[int]] = {}
        for rank, note in self.tables.notes:
            ranks_of_note.setdefault(note, []).append(rank)
        return [
            f"{format_ranks(list(dict.fromkeys(ranks)))}: {note}"
            for note, ranks in ranks_of_note.items()
        ]

    @property
    def missing_counters(self) -> dict[str, str]:
        """Counters that the intervals of some ranks lack, each with the reason."""
        return {counter: reason for _, counter, reason in self.tables.missing_counters}

    @property
    def program(self) -> str:
        """Name of the recorded program, "?" if unknown."""
        return self.meta.get("program") or "?"

    @property
    def mpi(self) -> str:
        """Version line of the MPI library, "?" if unknown."""
        versions = (p["mpi"] for p in self.tables.processes.values())
        return self.meta.get("mpi") or next(filter(None, versions), "?")

    @property
    def record(self) -> str:
        """Recording mode: "events", "summary", or "ring" (the last events and a summary)."""
        if any(log.layout.ring_bytes for log in self.logs.opened):
            return "ring"
        return "summary" if self.meta.get("record") == "summary" else "events"

    @property
    def has_totals(self) -> bool:
        """True if all calls of all ranks were summed up, possibly beside events."""
        requested: bool = self.meta.get("options", {}).get("totals", False)
        return requested or self.record in ("summary", "ring")

    @property
    def dropped_records(self) -> int:
        """Number of records that the recorder dropped, over all ranks."""
        in_logs: Counter[int] = Counter()
        for (rank, _), count in self.logs.dropped.items():
            in_logs[rank] += count
        in_ends = Counter({rank: end["dropped"] for rank, end in self.tables.ends.items()})
        return (in_logs | in_ends).total()  # the larger number of each rank

    @property
    def dropped_note(self) -> str:
        """Message on the dropped records, as `problems` has it."""
        return f"{self.dropped_records} records were dropped while recording"

    @property
    def lost_ranks(self) -> set[int]:
        """Ranks of `unwritten`, except ranks with a full log: their later calls are summed up."""
        return self.unwritten_ranks - self.tables.limits.keys()

    @property
    def ranks_without_records(self) -> set[int]:
        """Ranks that took part in the run, but of which no call is in the trace."""
        is_finalised = any(end["reason"] == "finalize" for end in self.tables.ends.values())
        return self._silent | (self._missing if is_finalised else set())

    @property
    def recorded_rank_count(self) -> int:
        """Number of ranks with records in the trace."""
        return self.ranks - len(self.ranks_without_records)

    @property
    def unwritten_ranks(self) -> set[int]:
        """Ranks with records that could not be written, for example on a full disk."""
        ranks = {rank for (rank, _), count in self.logs.dropped.items() if count}
        ranks |= {rank for rank, end in self.tables.ends.items() if end["dropped"]}
        return ranks | self._silent

    @property
    def is_complete(self) -> bool:
        """True if all ranks reached MPI_Finalize, and nothing was dropped, summed up or cut."""
        return self.is_sound and not self.wrapped_chunks

    @property
    def is_sound(self) -> bool:
        """True if the trace is `complete`, except for records that a ring has overwritten."""
        return self.is_finalised and not (
            self.dropped_records
            or self.tables.limits
            or self.logs.truncated
            or self.tables.truncated
            or self.logs.is_damaged
        )

    @property
    def is_finalised(self) -> bool:
        """True if every rank has called MPI_Finalize: none aborted, died or is still running."""
        ends = self.tables.ends.values()
        return len(ends) == self.ranks and all(end["reason"] == "finalize" for end in ends)

    @property
    def sampling_interval(self) -> int:
        """Sampling interval: one of so many instances was recorded."""
        interval = self.meta.get("sample", 1)
        return interval if type(interval) is int and interval > 1 else 1

    @cached_property
    def thread_count(self) -> int:
        """Number of threads with calls recorded as events; at least one per rank."""
        threads_of = (self.thread_chunks(rank) for rank in range(self.ranks))
        return sum(
            1 if len(threads) < 2 else max(sum(not c[0].is_summed() for c in threads), 1)
            for threads in threads_of
        )

    # Threads

    @cached_property
    def _chunks_by_thread(self) -> dict[int, list[list[Chunk]]]:
        return _group_by_rank(self.logs.threads)

    @cached_property
    def _message_chunks(self) -> dict[int, list[list[Chunk]]]:
        return _group_by_rank(self.logs.messages)

    @cached_property
    def ranks_with_messages(self) -> list[int]:
        """The ranks with chunks of messages, ascending."""
        return sorted(rank for rank in self._message_chunks if rank < self.ranks)

    @cached_property
    def has_message_events(self) -> bool:
        """True if there are records of single calls on messages, or of intervals between calls."""
        return any(not chunks[0].is_summed() for chunks in self.logs.messages.values())

    def message_chunks(self, rank: int) -> list[list[Chunk]]:
        """Return the chunks with messages of each thread of a rank."""
        return self._message_chunks.get(rank, [])

    def thread_chunks(self, rank: int) -> list[list[Chunk]]:
        """Return the chunks of each thread of a rank."""
        return self._chunks_by_thread.get(rank, [])

    @property
    def record_capacity(self) -> int:
        """Upper bound of the records of collective calls."""
        threads = (of for rank in self._chunks_by_thread for of in self.thread_chunks(rank))
        return count_capacity(itertools.chain.from_iterable(threads))

    @cached_property
    def wrapped_chunks(self) -> dict[int, list[list[Chunk]]]:
        """Chunks of each thread with a ring that has overwritten its first calls, by rank."""
        wrapped = {
            key: chunks
            for key, chunks in self.logs.threads.items()
            if chunks[0].log.layout.ring_bytes and chunks[0].serial > 0
        }
        return _group_by_rank(wrapped)


def _group_by_rank(threads: dict[tuple[int, int], list[Chunk]]) -> dict[int, list[list[Chunk]]]:
    by_rank: dict[int, list[list[Chunk]]] = {}
    for (rank, _), chunks in sorted(threads.items()):
        by_rank.setdefault(rank, []).append(chunks)
    return by_rank
