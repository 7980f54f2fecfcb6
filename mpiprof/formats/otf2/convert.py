"""Converts an OTF2 archive to a trace folder.

Each process of MPI_COMM_WORLD is a rank, and its further locations are threads. Facts that the
archive lacks are unknown in the folder, too: no machine table, no processors. Times are corrected
by the archive's clock offsets. Their remaining error is derived from the records
(trace/records.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.errors import TraceError
from mpiprof.facts.operations import OPERATIONS
from mpiprof.formats.otf2 import calls as calls_of
from mpiprof.formats.otf2.communicators import ArchiveCommunicators
from mpiprof.formats.otf2.definitions import ArchiveClock, Definitions, read_definitions
from mpiprof.formats.otf2.events import Location, open_archive, open_locations, read_location
from mpiprof.formats.otf2.library import CREATOR, NEVER, UNDEFINED, import_otf2
from mpiprof.formats.otf2.messages import MessageRecords, read_recorded_sums
from mpiprof.formats.otf2.regions import Regions, classify_regions
from mpiprof.formats.otf2.shapes import RankTables
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.chunks import MESSAGES
from mpiprof.trace.layout import OUTSIDE_CLASSES
from mpiprof.trace.types import COMPLETION, Array, Int
from mpiprof.trace.writer import make_chunks, make_head_chunk, pad_messages

META = "MPIPROF::META"  # property of mpiprof's archives with the contents of meta.json
# Entries of meta.json that are also true of the archive.
COPIED_META = (
    *("program", "commit", "command", "mpi", "abi", "sample", "options", "machine", "started"),
    "job",
)


def convert(anchor: Path, folder: Path, step: Callable[[int], None]) -> None:
    """Write the trace folder of an archive; raises TraceError if it has no MPI calls.

    `step` is called with the number of further events read.
    """
    with open_archive(anchor) as reader:
        creator = str(import_otf2().Reader_GetCreator(reader) or "")
        definitions = read_definitions(reader)
        regions = classify_regions(definitions, creator)
        threads = definitions.threads()
        if not threads or not (regions.operations or regions.message_operations):
            why = "the archive has no MPI collectives and messages, so there is nothing to show"
            raise TraceError(f"{anchor}: {why}")
        local = open_locations(reader, [location for thread in threads for location in thread])
        metadata = _read_metadata(reader)
        conversion = _Conversion(folder, definitions, regions, metadata.get("dropped", {}))
        program = ""
        for rank, locations in enumerate(threads):
            read = [
                read_location(reader, n, definitions.count_events(n), regions.read_filter, local)
                for n in locations
            ]
            program = program or conversion.program_name(read)
            for location, location_data in zip(locations, read, strict=True):
                conversion.note_damage(location, location_data)
                step(definitions.count_events(location))
            conversion.write(rank, locations, read)
            for location_data in read:
                location_data.close()
    conversion.write_notes()
    meta = {name: metadata[name] for name in COPIED_META if name in metadata}
    if CREATOR not in creator:
        meta["mpi"] = f"an MPI traced by {creator or 'a tool'}"
    meta = {
        "format": "mpiprof trace",
        "version": 1,
        "program": program or anchor.parent.name,
        **meta,
        "ranks": len(threads),
        "record": "events",
        "clock": {"corrected": True, "error_ns": metadata.get("clock_error_ns")},
    }
    (folder / "meta.json").write_text(json.dumps(meta) + "\n")


def count_events(anchor: Path) -> int:
    """Return the number of events that an archive declares."""
    with open_archive(anchor) as reader:
        definitions = read_definitions(reader)
        return sum(map(definitions.count_events, definitions.records["Location"]))


def _read_metadata(reader: Any) -> dict[str, Any]:
    """Return the run's metadata from an archive that mpiprof wrote; {} for other archives."""
    otf2 = import_otf2()
    try:
        metadata = parse_json(str(otf2.Reader_GetProperty(reader, META)))
    except (otf2.Error, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


class _Conversion:
    """A trace folder being written, rank by rank."""

    def __init__(
        self, folder: Path, definitions: Definitions, regions: Regions, dropped: dict[str, int]
    ) -> None:
        self.folder, self.definitions, self.regions = folder, definitions, regions
        self.dropped = dropped
        self.ranks = len(definitions.threads())
        self.ticks = ArchiveClock(definitions)
        self.communicators = ArchiveCommunicators(definitions, self.ranks, regions.by_mpiprof)
        self.sums = read_recorded_sums(definitions) if regions.by_mpiprof else {}
        # Data that could not be converted, over all ranks.
        self.omitted_calls = 0  # without a communicator
        self.assumed_calls = 0  # assumed to be on MPI_COMM_WORLD
        self.unknown_events = 0
        self.cut_locations: list[int] = []  # could not be read to the end

    def program_name(self, read: list[Location]) -> str:
        """Return the program's name as recorded by a process."""
        names = (self.definitions.find_string(location.facts["program"]) for location in read)
        return next((Path(name).name for name in names if name), "")

    def note_damage(self, location: int, read: Location) -> None:
        """Store the unreadable parts of a location."""
        self.unknown_events += read.facts["unknown"]
        if not read.whole:
            self.cut_locations.append(location)

    def write(self, rank: int, locations: list[int], read: list[Location]) -> None:
        """Write a rank's log and tables from its locations."""
        tables = RankTables(rank, self.regions, self.communicators)
        records, thread = self._make_records(rank, tables, read)
        messages = MessageRecords(tables, read, self.ticks)
        message_records, message_thread = messages.make_records()
        log = [make_head_chunk(has_outside=True)]
        numbers = list(range(len(locations)))  # of threads
        if self.regions.by_mpiprof:
            numbers = [location // self.ranks for location in locations]
        for index, (number, location_data) in enumerate(zip(numbers, read, strict=True)):
            ticks = np.array([location_data.facts[name] for name in OUTSIDE_CLASSES], np.uint64)
            spent = self.ticks.spans_to_ns(ticks).tolist()
            of_thread = records[thread == index]
            of_thread["thread"] = number
            of_messages = message_records[message_thread == index]
            of_messages["thread"] = number
            if index == 0 or len(of_thread) or len(of_messages):
                log.append(make_chunks(of_thread, rank, number, 0, window=False, spent=spent))
            log += _make_message_chunks(of_messages, rank, number)
        sums = messages.make_sums(self.sums.get(rank, ()))
        log += _make_message_chunks(sums, rank, max(numbers) + 1)
        (self.folder / f"rank-{rank:06d}.log").write_bytes(b"".join(log))
        lines = [{"process": self._process_line(locations[0], read)}, *tables.lines]
        first = read[0]
        if first.whole and (first.facts["ended"] or not first.facts["began"]):
            lines.append({"end": self._end_line(rank, read)})
        text = "".join(json.dumps({"rank": rank, **line}) + "\n" for line in lines)
        (self.folder / f"rank-{rank:06d}.tables").write_text(text)

    def _make_records(
        self, rank: int, tables: RankTables, read: list[Location]
    ) -> tuple[Array, Int]:
        merged = calls_of.merge_threads(read)
        rank_calls = calls_of.pair_completions(merged, by_thread=not self.regions.by_mpiprof)
        calls = rank_calls.calls
        codes, names = tables.find_operations(calls)
        has_operation = np.array([name != "" for name in names], np.bool_)[codes]
        unplaced = (calls["communicator"] == UNDEFINED) & (calls["recorded"] == 0)
        if unplaced.any():
            data = np.array([name in _DATA for name in names], np.bool_)[codes]
            assumed = unplaced & data & (calls["exit"] != NEVER)
            calls["communicator"][assumed] = self.communicators.world
            self.assumed_calls += int(assumed.sum())
        is_member = self.communicators.has_member(calls["communicator"], rank)
        keep = has_operation & is_member
        self.omitted_calls += int((has_operation & ~is_member).sum())
        if not keep.all():
            done = np.flatnonzero(calls["kind"] == COMPLETION)
            start = calls["request"][done].astype(np.int64)
            keep[done] &= keep[start]
            calls["request"][done] = (np.cumsum(keep) - 1)[start]
            rank_calls, codes = rank_calls.take(keep), codes[keep]
        calls_of.number_calls(rank_calls)
        return tables.make_records(rank_calls, (codes, names), self.ticks)

    def _process_line(self, first: int, read: list[Location]) -> dict[str, Any]:
        node = self.definitions.find_node(first)
        begin = min((location.facts["initialised"] for location in read), default=NEVER)
        if begin == NEVER:  # a part of a run, or no MPI_Init in the archive
            begin = min((location.facts["first"] for location in read), default=NEVER)
        return {
            "host": node,
            "node": node,
            "size": self.ranks,
            "started_ns": None if begin == NEVER else self.ticks.time_to_ns(begin),
        }

    def _end_line(self, rank: int, read: list[Location]) -> dict[str, Any]:
        finalising = [location.facts["finalising"] for location in read]
        last = max((ticks for ticks in finalising if ticks != NEVER), default=NEVER)
        if last == NEVER:
            last = max(location.facts["last"] for location in read)
        dropped = self.dropped.get(str(rank), 0)
        return {"at_ns": self.ticks.time_to_ns(last), "reason": "finalize", "dropped": dropped}

    def write_notes(self) -> None:
        """Write notes about data that could not be converted."""
        cut, notes = self.cut_locations, []
        if cut:
            locations = ", ".join(map(str, cut[:4]))
            locations += f" and {len(cut) - 4} more" if len(cut) > 4 else ""
            notes.append(f"the archive's events of location {locations} are truncated or damaged")
        for count, how in (
            (self.omitted_calls, "ignored"),
            (self.assumed_calls, "treated as calls on MPI_COMM_WORLD"),
        ):
            if count:
                notes.append(f"{count} calls have no communicator in the archive and are {how}")
        if self.unknown_events:
            notes.append(f"{self.unknown_events} events of unknown types are ignored")
        with (self.folder / "rank-000000.tables").open("a") as file:
            file.writelines(json.dumps({"rank": 0, "note": note}) + "\n" for note in notes)


def _make_message_chunks(records: Array, rank: int, thread: int) -> list[bytes]:
    """Return the chunks of a thread's calls on messages, or of their sums; none without records."""
    if not len(records):
        return []
    padded = pad_messages(records)
    spent = [0] * len(OUTSIDE_CLASSES)
    return [make_chunks(padded, rank, thread, 0, window=False, spent=spent, content=MESSAGES)]


# Operations that may be assumed to be on MPI_COMM_WORLD.
_DATA = {"finalize", *OPERATIONS, *(f"i{name}" for name in OPERATIONS)}
