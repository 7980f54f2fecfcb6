"""An opened trace folder: its meta.json, tables and logs, and its missing parts."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from mpiprof.errors import TraceError
from mpiprof.interface.format_units import format_ranks
from mpiprof.trace.checksum import is_line_intact
from mpiprof.trace.files import File, list_files
from mpiprof.trace.log import Chunk, open_logs
from mpiprof.trace.malloc_tuning import pause_garbage_collection
from mpiprof.trace.tables import read_tables
from mpiprof.trace.types import Problems

RANK_LIMIT = 1 << 22


def find_files(path: Path) -> tuple[list[File], list[File]]:
    """Return the logs and tables in a trace folder; raises TraceError if there are none."""
    if not path.exists():
        raise TraceError(f"{path}: no such trace folder; pass the folder that `run` printed")
    if not path.is_dir():
        raise TraceError(f"{path}: not a folder; pass the trace folder, not a file in it")
    if not os.access(path, os.R_OK | os.X_OK):  # glob would find nothing
        raise TraceError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}")
    try:
        logs, tables = list_files(path, ".log"), list_files(path, ".tables")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
    if not logs and not tables:
        raise TraceError(
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
        self.meta: dict[str, Any] = self._read_meta()
        limit = self._find_rank_limit(len(logs) + len(tables))
        with pause_garbage_collection():
            self.tables = read_tables(self.path, limit, self._found)
            live = bool(self.tables.processes.keys() - self.tables.ends.keys())
            self.logs = open_logs(self.path, limit, self._found, live)
        if logs and not self.logs.files:
            raise TraceError(
                self._found[-1] if len(logs) == 1 else self._no_readable_log_error(len(logs))
            )
        if not self._summed and any(log.layout.has_checksums for log in self.logs.opened):
            self._found.add(
                "meta.json is damaged and ignored: it has no checksum, but the logs have"
            )
            self.meta = {}
        self._check()

    def _no_readable_log_error(self, count: int) -> str:
        first = next((p for p in self._found if ".log" in p), "")
        return f"{self.path}: none of its {count} logs can be read; the first: {first}"

    def _read_meta(self) -> dict[str, Any]:
        path = self.path / "meta.json"
        self._summed = True  # until a meta.json without a checksum is read, as in version 1
        try:
            content = path.read_bytes()
            sound = is_line_intact(content.rstrip(b"\n"))
            self._summed = sound is not None
            if sound is False:
                raise ValueError("its checksum is wrong")
            meta = json.loads(content)
        except FileNotFoundError:
            self._found.add("meta.json is missing: the job is starting, or died in MPI_Init")
            return {}
        except OSError as error:
            self._found.add(f"meta.json cannot be read: {error.strerror}")
            return {}
        except (ValueError, RecursionError):
            self._found.add("meta.json is damaged and ignored")
            return {}
        if not isinstance(meta, dict):
            self._found.add("meta.json is damaged and ignored")
            return {}
        if meta.get("format", "mpiprof trace") != "mpiprof trace":
            raise TraceError(f"{path}: not a file of an mpiprof trace")
        version = meta.get("version", 1)
        if isinstance(version, int) and version > 1:
            raise TraceError(f"{path}: written by a newer mpiprof; update mpiprof to read it")
        return meta

    def _find_rank_limit(self, files: int) -> int:
        """Return the first impossible rank, so that damage allocates no arrays for such ranks."""
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
                f"{self.path}: no rank has written yet: the job is starting, or died in MPI_Init"
            )
        missing_ranks = (
            [r for r in range(self.ranks) if r not in known] if len(known) < self.ranks else []
        )
        if missing_ranks:
            self._found.add(f"no log of {format_ranks(missing_ranks)}")
        self._silent = self.tables.shape_ids.keys() - {rank for rank, _ in self.logs.threads}
        if self._silent:
            silent = format_ranks(sorted(self._silent))
            self._found.add(f"{silent}: the tables have call sites, but the log has no calls")
            self.logs.truncated = True
        found: Counter[int] = Counter()
        for (rank, _), chunks in self.logs.threads.items():
            found[rank] += len(chunks)
        for rank, end in self.tables.ends.items():
            dead_ranks = end["chunks"] - found[rank]
            if dead_ranks > 0:
                which = (
                    "a chunk of its log is"
                    if dead_ranks == 1
                    else f"{dead_ranks} chunks of its log are"
                )
                self._found.add(f"rank {rank}: {which} gone")
                self.logs.truncated = True
        unfinished = [r for r in sorted(known) if r not in self.tables.ends]
        if unfinished:
            why = "the job is running or was killed"
            why += ", or their last records could not be written" if self.unwritten_ranks else ""
            self._found.add(f"{format_ranks(unfinished)} did not reach the end of the run: {why}")
        aborted = [r for r, end in self.tables.ends.items() if end["reason"] != "finalize"]
        if aborted:
            self._found.add(f"{format_ranks(sorted(aborted))} aborted")
        if self.dropped_records:
            self._found.add(self.dropped_note)
        if self.tables.limits:
            self._found.add(
                f"the log of {format_ranks(sorted(self.tables.limits))} reached its limit "
                "(--limit): later calls are only in the totals"
            )
        if self.wrapped_chunks:
            self._found.add(
                f"the trace has only the last calls of {format_ranks(sorted(self.wrapped_chunks))} "
                "(--record ring): earlier calls are only in the totals"
            )
        for note in self.notes:
            self._found.add(note)

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
        """Recording mode: "events", "summary", or "ring" (the last events and a summary)."""
        if any(log.layout.ring_bytes for log in self.logs.opened):
            return "ring"
        return "summary" if self.meta.get("record") == "summary" else "events"

    @property
    def has_totals(self) -> bool:
        """True if all calls of all ranks were summed up, possibly beside events."""
        options = self.meta.get("options")
        told = isinstance(options, dict) and options.get("totals") is True
        return told or self.record in ("summary", "ring")

    @property
    def dropped_records(self) -> int:
        """Number of records that the recorder dropped, over all ranks."""
        in_logs: dict[int, int] = {}
        for (rank, _), count in self.logs.dropped.items():
            in_logs[rank] = in_logs.get(rank, 0) + count
        ends = {rank: end["dropped"] for rank, end in self.tables.ends.items()}
        return sum(max(in_logs.get(r, 0), ends.get(r, 0)) for r in in_logs.keys() | ends.keys())

    @property
    def dropped_note(self) -> str:
        """Message on the dropped records, as `problems` has it."""
        return f"{self.dropped_records} records were dropped while recording"

    @property
    def lost_ranks(self) -> set[int]:
        """Ranks of `unwritten`, except those with a full log: their later calls are summed up."""
        return self.unwritten_ranks - self.tables.limits.keys()

    @property
    def unwritten_ranks(self) -> set[int]:
        """Ranks with records that could not be written, for example on a full disk."""
        found = {rank for (rank, _), count in self.logs.dropped.items() if count}
        found |= {rank for rank, end in self.tables.ends.items() if end["dropped"]}
        return found | self._silent

    @property
    def is_complete(self) -> bool:
        """True if all ranks reached MPI_Finalize, and nothing was dropped, summed up or cut."""
        return self.is_sound and not self.wrapped_chunks

    @property
    def is_sound(self) -> bool:
        """True if the trace is `complete`, except for records that a ring has overwritten."""
        lacking = (
            self.dropped_records
            or self.tables.limits
            or self.logs.truncated
            or self.tables.truncated
        )
        lacking = lacking or self.logs.is_damaged
        return self.is_finalised and not lacking

    @property
    def is_finalised(self) -> bool:
        """True if every rank has called MPI_Finalize: none aborted, died or is still running."""
        ends = self.tables.ends.values()
        return len(ends) == self.ranks and all(one["reason"] == "finalize" for one in ends)

    @property
    def sampling_interval(self) -> int:
        """Sampling interval: one of so many instances was recorded."""
        found = self.meta.get("sample", 1)
        return found if type(found) is int and found > 1 else 1

    @cached_property
    def thread_count(self) -> int:
        """Number of threads with calls recorded as events; at least one per rank."""
        found = 0
        for rank in range(self.ranks):
            threads = self.thread_chunks(rank)
            alone = len(threads) < 2
            found += 1 if alone else max(sum(not c[0].is_summed() for c in threads), 1)
        return found

    # Threads

    @cached_property
    def _chunks_by_thread(self) -> dict[int, list[list[Chunk]]]:
        by_rank: dict[int, list[list[Chunk]]] = {}
        for (rank, _), chunks in sorted(self.logs.threads.items()):
            by_rank.setdefault(rank, []).append(chunks)
        return by_rank

    def thread_chunks(self, rank: int) -> list[list[Chunk]]:
        """Return the chunks of each thread of a rank."""
        return self._chunks_by_thread.get(rank, [])

    @cached_property
    def wrapped_chunks(self) -> dict[int, list[list[Chunk]]]:
        """Chunks of each thread with a ring that has overwritten its first calls, by rank."""
        found: dict[int, list[list[Chunk]]] = {}
        for (rank, _), chunks in sorted(self.logs.threads.items()):
            if chunks[0].log.layout.ring_bytes and chunks[0].serial > 0:
                found.setdefault(rank, []).append(chunks)
        return found
