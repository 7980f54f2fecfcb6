"""Reads all ranks' tables, which have one JSON object per line, into one set.

A cut, damaged or impossible line is skipped and noted; nothing is guessed. A writer reserves the
space of a line before it writes the line, so an unwritten line is zeros.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.affinity import parse_affinity
from mpiprof.trace.checksum import is_line_intact, remove_checksum
from mpiprof.trace.communicators import Communicators
from mpiprof.trace.exceptions import parse_exception
from mpiprof.trace.files import list_files, read_content
from mpiprof.trace.metadata import Communicator, SampleKey, Shape, Tables
from mpiprof.trace.quotas import parse_quota
from mpiprof.trace.run_metadata import RANK_LIMIT
from mpiprof.trace.sites import group_by_lines, parse_frame
from mpiprof.trace.stalled_calls import StalledCall, may_sleep, parse_stalled_call
from mpiprof.trace.thread_times import join_threads, parse_threads
from mpiprof.trace.types import Problems
from mpiprof.trace.validation import (
    check_integer,
    check_list,
    check_number,
    check_object,
    check_optional,
    check_text,
)

SAMPLE_KEYS = ("after", "before", "site", "samples", "ns")  # fields of a --where line
SAMPLE_SHAPES = ("left", "entered")  # further ones; earlier versions lack them
MAX_ID = 1 << 24  # shape ids are dense, so a larger id is damage
Converter = Callable[[int, dict[str, Any]], int]  # from a rank and its row to a joint index
RANK_PATTERN = re.compile(rb'\{"rank": (\d+), (?="(?:site|shape|communicator)")')


def read_tables(folder: Path, limit: int, problems: Problems) -> Tables:
    """Read every *.tables of a folder; ranks at or beyond `limit` count as damage."""
    reader = _Reader(limit, problems)
    for file in list_files(folder, ".tables"):
        try:
            content = read_content(file)
        except OSError as error:
            problems.add(f"{file.name}: cannot be read: {error.strerror}")
            reader.tables.truncated = True
            continue
        reader.read(file.name, content)
    reader.resolve()
    return reader.tables


class _Reader:
    """Collects raw lines first, because a line may refer to a later line or another file."""

    def __init__(self, limit: int, problems: Problems) -> None:
        self.limit, self.problems, self.tables = limit, problems, Tables()
        self.raw: dict[str, dict[tuple[int, int], dict[str, Any]]] = {
            kind: {} for kind in ("site", "communicator", "shape")
        }
        self.naming: list[tuple[int, int, str]] = []
        self.where: list[tuple[int, ...]] = []
        self.stalled: list[StalledCall] = []  # with the rank's own numbers of shapes
        self.checked = False  # set by the first line with a checksum; then all lines must have one
        self.rows: dict[bytes, Any] = {}  # by the text after the rank
        self.site_of_row: dict[int, int] = {}  # by the id() of a row
        # Joint indices, by content or by rank and local number.
        self.known_sites: dict[str, int] = {}
        self.known_shapes: dict[Shape, int] = {}
        self.sites: dict[tuple[int, int], int] = {}
        self.communicators: dict[tuple[int, int], int] = {}

    def read(self, name: str, content: bytes) -> None:
        lines = content.split(b"\n")
        if lines[-1]:
            self.tables.truncated = True
            self.problems.add(f"{name}: its last line is truncated and ignored")
        damaged = incomplete = 0
        checked_lines: list[tuple[bytes, bool | None]] = []
        for line in filter(None, lines[:-1]):
            _, hole, behind = line.rpartition(b"\0")
            intact = is_line_intact(behind)
            incomplete += bool(hole and intact)
            checked_lines.append((behind if intact else line, intact))
        self.checked |= any(intact for _, intact in checked_lines)
        for line, intact in checked_lines:
            damaged += not self._read_line(line, intact)
        for count, problem in (
            (incomplete, "incomplete lines"),
            (damaged, "damaged lines, ignored"),
        ):
            if count:
                self.tables.truncated = True
                self.problems.add(f"{name}: {problem}: {count}")

    def _read_line(self, line: bytes, intact: bool | None) -> bool:
        if intact is False or (intact is None and self.checked):
            return False
        try:
            self._store_row(*self._parse_line(remove_checksum(line) if intact else line))
        except (ValueError, KeyError):
            return False
        return True

    def _parse_line(self, line: bytes) -> tuple[Any, dict[str, Any]]:
        # Ranks with equal lines share a row, because thousands of ranks have the same call sites.
        match = RANK_PATTERN.match(line)
        if match is None:
            row = check_object(parse_json(line))
            return row["rank"], row
        behind = line[match.end() :]
        if behind not in self.rows:
            self.rows[behind] = parse_json(b"{" + behind)
        return int(match[1]), self.rows[behind]

    def _store_row(self, of: Any, row: dict[str, Any]) -> None:
        rank = check_integer(of, 0, self.limit - 1)
        tables = self.tables
        if "process" in row:
            tables.processes[rank] = _parse_process(row["process"])
        elif "end" in row:
            tables.ends[rank] = _parse_end(row["end"])
        elif "clock" in row:
            tables.clocks.append({"rank": rank, **_parse_clock(row["clock"], self.limit)})
        elif "limit" in row:
            limit = check_object(row["limit"])
            tables.limits[rank] = check_integer(limit["bytes"], 0)
            tables.limited_ns[rank] = check_integer(limit["at_ns"])
        elif "complete" in row:
            mark = check_object(row["complete"])
            is_begin = "begin_ns" in mark
            time_ns = check_integer(mark["begin_ns" if is_begin else "end_ns"])
            tables.complete_marks.setdefault(rank, []).append((is_begin, time_ns))
        elif "where" in row:
            values = check_object(row["where"])
            known = [check_integer(values[name], 0) for name in SAMPLE_KEYS]
            shapes = [check_integer(values.get(name, -1)) for name in SAMPLE_SHAPES]
            self.where.append((rank, *known, *shapes))
        elif "note" in row:
            tables.notes.append((rank, check_text(row["note"])))
        elif "exception" in row:
            raised = parse_exception(rank, row["exception"])
            tables.exceptions.setdefault(rank, []).append(raised)
        elif "threads" in row:
            before = tables.threads.get(rank, [])
            tables.threads[rank] = join_threads(before, parse_threads(row["threads"]))
        elif "thread_end" in row:
            ended = check_object(row["thread_end"])
            number, at_ns = check_integer(ended["thread"], 0), check_integer(ended["at_ns"])
            tables.thread_ends.setdefault((rank, number), []).append(at_ns)
        elif "affinity" in row:
            change = parse_affinity(row["affinity"])
            tables.affinities.setdefault(rank, []).append(change)
        elif "quota" in row:
            tables.quotas.setdefault(rank, []).append(parse_quota(row["quota"]))
        elif "stalled_call" in row:
            self.stalled.append(parse_stalled_call(rank, row["stalled_call"]))
        elif "missing_counter" in row:
            missing = check_object(row["missing_counter"])
            tables.missing_counters.append(
                (rank, check_text(missing["counter"]), check_text(missing["reason"]))
            )
        elif "shape" in row:
            check_text(row["operation"])
            self.raw["shape"][rank, check_integer(row["shape"], 0, MAX_ID)] = row
        elif "site" in row:
            self.raw["site"][rank, check_integer(row["site"], 0)] = row
        elif "name" in row:
            self.naming.append(
                (rank, check_integer(row["communicator"], 0), check_text(row["name"]))
            )
        elif "communicator" in row:
            self.raw["communicator"][rank, check_integer(row["communicator"], 0)] = row
        # Other lines come from a later mpiprof and do not change the meaning of these.

    def resolve(self) -> None:
        sites = self._convert_rows("site", self._find_site)
        lines = group_by_lines(self.tables.sites)
        self.sites = {key: lines[index] for key, index in sites.items()}
        rows = self.raw["communicator"]
        lists = {
            (row["identity"], rank): row.get("members")
            for (rank, _), row in rows.items()
            if isinstance(row.get("identity"), str)
        }
        find_communicator = Communicators(self.tables, self.limit, lists)
        self.communicators = self._convert_rows("communicator", find_communicator)
        for rank, local, name in self.naming:
            if (rank, local) in self.communicators:
                self.tables.names[self.communicators[rank, local]] = name
        shapes = self._convert_rows("shape", self._find_shape)
        ids_of_rank: dict[int, dict[int, int]] = {}
        for (rank, local), index in shapes.items():
            ids_of_rank.setdefault(rank, {})[local] = index
        for rank, ids in ids_of_rank.items():
            self.tables.shape_ids[rank] = np.full(max(ids) + 1, -1, np.int64)
            self.tables.shape_ids[rank][list(ids)] = list(ids.values())
        site_of_shape = {key: self.tables.shapes[index].site for key, index in shapes.items()}
        self._resolve_presite_samples(site_of_shape)
        stalled = [
            replace(call, shape=shapes.get((call.rank, call.shape), -1)) for call in self.stalled
        ]
        self.tables.stalled_calls = [call for call in stalled if not self._may_sleep(call)]

    def _may_sleep(self, call: StalledCall) -> bool:
        """Return whether a call off the processor is no stall, whatever other calls do."""
        return call.shape >= 0 and may_sleep(self.tables.shapes[call.shape].operation)

    def _resolve_presite_samples(self, site_of_shape: dict[tuple[int, int], int]) -> None:
        sums = self.tables.presite_samples
        for rank, after, before, site, samples, ns, left, entered in self.where:
            first, last, location = (self.sites.get((rank, of), -1) for of in (after, before, site))
            inner = first, last
            if entered >= 0:
                inner = site_of_shape.get((rank, left), -1), site_of_shape.get((rank, entered), -1)
            if min(last, location) >= 0:
                key = SampleKey(rank, first, last, location, *inner)
                count, total_ns = sums.get(key, (0, 0))
                sums[key] = (count + samples, total_ns + ns)

    def _convert_rows(self, kind: str, convert: Converter) -> dict[tuple[int, int], int]:
        """Convert all rows of a kind to joint indices by `convert`."""
        ids: dict[tuple[int, int], int] = {}
        damaged = 0
        for (rank, local), row in self.raw[kind].items():
            index = _convert_or_none(convert, rank, row)
            if index is None:
                damaged += 1
            else:
                ids[rank, local] = index
        if damaged:
            self.tables.truncated = True
            self.problems.add(f"tables: {damaged} lines of kind {kind} are damaged and ignored")
        self.raw[kind] = {}
        return ids

    def _find_site(self, _: int, row: dict[str, Any]) -> int:
        if id(row) not in self.site_of_row:
            self.site_of_row[id(row)] = self._join_frames(row["frames"])
        return self.site_of_row[id(row)]

    def _join_frames(self, listed: Any) -> int:
        frames = check_list(listed, parse_frame)
        index = self.known_sites.setdefault(
            json.dumps(frames, sort_keys=True), len(self.known_sites)
        )
        if index == len(self.tables.sites):
            self.tables.sites.append(tuple(frames))
        return index

    def _find_shape(self, rank: int, row: dict[str, Any]) -> int:
        communicator = self.communicators[rank, check_integer(row["communicator"])]
        site = row.get("site")
        sent, received = (
            -1 if count is None else check_integer(count, 0)
            for count in (row.get("sent"), row.get("received"))
        )
        shape = Shape(
            check_text(row["operation"]),
            communicator,
            -1 if site is None else self.sites.get((rank, check_integer(site)), -1),
            _world_root(rank, self.tables.communicators[communicator], row.get("root")),
            sent,
            received,
            check_text(row.get("algorithm") or "native"),
            tuple(sorted(check_list(row.get("flags") or [], check_text))),
            check_text(row.get("type", "")),
            check_text(row.get("reduction", "")),
            max(_world_root(rank, self.tables.communicators[communicator], row.get("peer")), -1),
        )
        index = self.known_shapes.setdefault(shape, len(self.known_shapes))
        if index == len(self.tables.shapes):
            self.tables.shapes.append(shape)
        return index


def _convert_or_none(convert: Converter, rank: int, row: dict[str, Any]) -> int | None:
    try:
        return convert(rank, row)
    except (ValueError, KeyError):
        return None


def _parse_process(listed: Any) -> dict[str, Any]:
    row = check_object(listed)
    address = check_object(row.get("switches") or {})  # of the node, from Slurm
    quota = check_object(row.get("quota") or {})
    environment = check_object(row.get("environment") or {})
    return {
        "host": check_text(row.get("host", "?")),
        "node": check_text(row.get("node", "?")),
        "pid": check_integer(row.get("pid", 0), 0),
        "log": check_text(row.get("log", "")),
        "processors": _parse_processors(row.get("processors")),
        "node_processors": check_integer(row.get("node_processors", 0), 0),
        "threads": check_integer(row.get("threads", 0), 0),
        "quota": check_number(quota.get("processors", 0)),  # 0 without a limit
        "quota_group": check_text(quota.get("group", "")),
        "environment": {name: check_text(value) for name, value in environment.items()},
        "started_ns": check_optional(row.get("started_ns"), check_integer),
        "size": check_integer(row.get("size", 0), 0, RANK_LIMIT),
        "abi": check_optional(row.get("abi"), check_text),
        "mpi": check_optional(row.get("mpi"), check_text),
        "address": tuple(check_text(address.get(name, "")) for name in ("address", "pattern")),
    }


def _parse_processors(processors: Any) -> list[int]:
    """Return the processors that a rank may run on, or [] if unknown."""
    listed = processors if isinstance(processors, list) else []
    return [number for number in listed if type(number) is int and number >= 0]


def _parse_end(listed: Any) -> dict[str, Any]:
    row = check_object(listed)
    return {
        "at_ns": check_integer(row["at_ns"]),
        "reason": check_text(row["reason"]),
        "dropped": check_integer(row.get("dropped", 0), 0),
        "recorder_ns": check_integer(row.get("recorder_ns", 0), 0),
        "chunks": check_integer(row.get("chunks", 0), 0),
    }


def _parse_clock(listed: Any, limit: int) -> dict[str, Any]:
    row = check_object(listed)
    return {
        "node": check_text(row["node"]),
        "reference": check_integer(row["reference"], 0, limit - 1),
        "at_ns": check_integer(row["at_ns"]),
        "offset_ns": check_integer(row["offset_ns"]),
        "error_ns": check_integer(row["error_ns"], 0),
    }


def _world_root(rank: int, communicator: Communicator, root: Any) -> int:
    """Return the world rank of the root: a rank of the (remote) group; -3 is the rank itself."""
    if root is None or communicator.is_local:
        return -1
    value = check_integer(root, -3)
    if value == -3:
        return rank
    if value < 0:
        return value
    group = communicator.groups[0]
    if communicator.is_inter and rank in group:
        group = communicator.groups[1]
    if value >= len(group):
        raise ValueError("a root outside the group")
    return int(group[value])
