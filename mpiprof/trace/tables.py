"""Reads all ranks' tables, which have one JSON object per line, into one set.

A cut, damaged or impossible line is skipped and noted; nothing is guessed. A writer reserves the
space of a line before it writes the line, so an unwritten line is zeros.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.trace.checksum import is_line_intact, remove_checksum
from mpiprof.trace.communicators import Communicators
from mpiprof.trace.files import list_files, read_content
from mpiprof.trace.metadata import Communicator, Shape, Tables
from mpiprof.trace.sites import group_by_lines
from mpiprof.trace.types import Problems, check_integer, check_text

SAMPLE_KEYS = ("after", "before", "site", "samples", "ns")  # fields of a --where line
MAX_ID = 1 << 24  # shape ids are dense, so a larger id is damage
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
        self.limit = limit
        self.problems = problems
        self.tables = Tables()
        self.raw: dict[str, dict[tuple[int, int], dict[str, Any]]] = {
            "site": {},
            "communicator": {},
            "shape": {},
        }
        self.naming: list[tuple[int, int, str]] = []
        self.where: list[tuple[int, ...]] = []
        self.checked = False  # set by the first line with a checksum; then all lines must have one
        self.rows: dict[bytes, Any] = {}  # by the text after the rank

    def read(self, name: str, content: bytes) -> None:
        lines = content.split(b"\n")
        if lines[-1]:
            self.tables.truncated = True
            self.problems.add(f"{name}: its last line is truncated and ignored")
        damaged = begun = 0
        sound: list[tuple[bytes, bool | None]] = []
        for line in filter(None, lines[:-1]):
            _, hole, behind = line.rpartition(b"\0")
            known = is_line_intact(behind)
            begun += bool(hole and known)
            sound.append((behind if known else line, known))
        self.checked |= any(known for _, known in sound)
        for line, known in sound:
            whole = known is True or (known is None and not self.checked)
            damaged += not (whole and self._read_line(remove_checksum(line) if known else line))
        if begun:
            self.tables.truncated = True
            self.problems.add(f"{name}: incomplete lines: {begun}")
        if damaged:
            self.tables.truncated = True
            self.problems.add(f"{name}: damaged lines, ignored: {damaged}")

    def _read_line(self, line: bytes) -> bool:
        try:
            self._store_row(*self._parse_line(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        return True

    def _parse_line(self, line: bytes) -> tuple[Any, Any]:
        """Return a line's rank and its row. Ranks with equal lines share the row.

        Most lines are equal, because thousands of ranks have the same call sites.
        """
        found = RANK_PATTERN.match(line)
        if found is None:
            row = json.loads(line)
            return row["rank"], row
        behind = line[found.end() :]
        row = self.rows.get(behind)
        if row is None:
            row = self.rows[behind] = json.loads(b"{" + behind)
        return int(found[1]), row

    def _store_row(self, of: Any, row: Any) -> None:
        rank = check_integer(of, 0, self.limit - 1)
        tables = self.tables
        if "process" in row:
            tables.processes[rank] = _parse_process(row["process"])
        elif "end" in row:
            tables.ends[rank] = _parse_end(row["end"])
        elif "clock" in row:
            tables.clocks.append({"rank": rank, **_parse_clock(row["clock"], self.limit)})
        elif "limit" in row:
            tables.limits[rank] = check_integer(row["limit"]["bytes"], 0)
            tables.limited_ns[rank] = check_integer(row["limit"]["at_ns"])
        elif "where" in row:
            self.where.append(
                (rank, *(check_integer(row["where"][name], 0) for name in SAMPLE_KEYS))
            )
        elif "note" in row:
            tables.notes.append((rank, check_text(row["note"])))
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
        sites = self._convert_rows("site", _SiteTable(self.tables))
        lines = group_by_lines(self.tables.sites)
        sites = {key: lines[index] for key, index in sites.items()}
        self._resolve_presite_samples(sites)
        rows = self.raw["communicator"]
        lists = {(row.get("identity"), rank): row.get("members") for (rank, _), row in rows.items()}
        communicators = self._convert_rows(
            "communicator", Communicators(self.tables, self.limit, lists)
        )
        for rank, local, name in self.naming:
            if (rank, local) in communicators:
                self.tables.names[communicators[rank, local]] = name
        shapes = self._convert_rows("shape", _ShapeTable(self.tables, sites, communicators))
        largest: dict[int, int] = {}
        for rank, local in shapes:
            largest[rank] = max(local, largest.get(rank, 0))
        for rank, most in largest.items():
            self.tables.shape_ids[rank] = np.full(most + 1, -1, np.int64)
        for (rank, local), index in shapes.items():
            self.tables.shape_ids[rank][local] = index

    def _resolve_presite_samples(self, sites: dict[tuple[int, int], int]) -> None:
        found = self.tables.presite_samples
        for rank, after, before, site, samples, ns in self.where:
            left, entered, place = (sites.get((rank, of), -1) for of in (after, before, site))
            if min(entered, place) >= 0:
                count, whole = found.get((rank, left, entered, place), (0, 0))
                found[rank, left, entered, place] = (count + samples, whole + ns)

    def _convert_rows(self, kind: str, convert: Any) -> dict[tuple[int, int], int]:
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


def _convert_or_none(convert: Any, rank: int, row: dict[str, Any]) -> int | None:
    try:
        return int(convert(rank, row))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _parse_process(row: Any) -> dict[str, Any]:
    return {
        "host": check_text(row.get("host", "?")),
        "node": check_text(row.get("node", "?")),
        "pid": check_integer(row.get("pid", 0), 0),
        "log": check_text(row.get("log", "")),
        "processors": _parse_processors(row.get("processors")),
        "started_ns": check_integer(row["started_ns"])
        if row.get("started_ns") is not None
        else None,
        "started": row.get("started"),
        "size": check_integer(row.get("size", 0), 0),
        "abi": row.get("abi"),
        "mpi": row.get("mpi"),
        "address": _parse_address(row.get("switches")),
    }


def _parse_address(row: Any) -> tuple[str, str]:
    """Return the node's network address from Slurm: names and their pattern."""
    if not isinstance(row, dict):
        return "", ""
    return check_text(row.get("address", "")), check_text(row.get("pattern", ""))


def _parse_processors(given: Any) -> list[int]:
    """Return the processors that a rank may run on, or [] if unknown."""
    return [p for p in given if type(p) is int and p >= 0] if isinstance(given, list) else []


def _parse_end(row: Any) -> dict[str, Any]:
    return {
        "at_ns": check_integer(row["at_ns"]),
        "reason": check_text(row["reason"]),
        "dropped": check_integer(row.get("dropped", 0), 0),
        "recorder_ns": check_integer(row.get("recorder_ns", 0), 0),
        "chunks": check_integer(row.get("chunks", 0), 0),
    }


def _parse_clock(row: Any, limit: int) -> dict[str, Any]:
    return {
        "node": check_text(row["node"]),
        "reference": check_integer(row["reference"], 0, limit - 1),
        "at_ns": check_integer(row["at_ns"]),
        "offset_ns": check_integer(row["offset_ns"]),
        "error_ns": check_integer(row["error_ns"], 0),
        "when": check_text(row.get("when", "init")),
    }


class _SiteTable:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.known: dict[str, int] = {}
        self.shared: dict[int, int] = {}  # by the id() of a row

    def __call__(self, _: int, row: dict[str, Any]) -> int:
        if id(row) not in self.shared:
            self.shared[id(row)] = self._join_frames(row["frames"])
        return self.shared[id(row)]

    def _join_frames(self, frames: Any) -> int:
        if not isinstance(frames, list) or not all(isinstance(f, dict) for f in frames):
            raise ValueError("not a list of frames")
        for frame in frames:
            if "module" in frame:
                check_text(frame["module"])
                check_integer(frame["offset"])
            else:
                check_text(frame["file"])
        key = json.dumps(frames, sort_keys=True)
        if key not in self.known:
            self.known[key] = len(self.tables.sites)
            self.tables.sites.append(tuple(frames))
        return self.known[key]


class _ShapeTable:
    def __init__(
        self,
        tables: Tables,
        sites: dict[tuple[int, int], int],
        communicators: dict[tuple[int, int], int],
    ) -> None:
        self.tables = tables
        self.sites = sites
        self.communicators = communicators
        self.known: dict[Shape, int] = {}

    def __call__(self, rank: int, row: dict[str, Any]) -> int:
        communicator = self.communicators[rank, check_integer(row["communicator"])]
        site = row.get("site")
        flags = row.get("flags") or []
        shape = Shape(
            check_text(row["operation"]),
            communicator,
            -1 if site is None else self.sites.get((rank, check_integer(site)), -1),
            self._world_root(rank, self.tables.communicators[communicator], row.get("root")),
            self._parse_byte_count(row.get("sent")),
            self._parse_byte_count(row.get("received")),
            str(row.get("algorithm") or "native"),
            tuple(sorted(check_text(flag) for flag in flags)),
            check_text(row.get("type", "")),
            check_text(row.get("reduction", "")),
        )
        if shape not in self.known:
            self.known[shape] = len(self.tables.shapes)
            self.tables.shapes.append(shape)
        return self.known[shape]

    @staticmethod
    def _parse_byte_count(value: Any) -> int:
        return -1 if value is None else check_integer(value, 0)

    @staticmethod
    def _world_root(rank: int, communicator: Communicator, root: Any) -> int:
        """Return the world rank of the root; -3 in the table means the rank itself.

        Other values are a rank of the (remote) group.
        """
        if root is None or communicator.is_local:
            return -1
        value = check_integer(root, -3)
        if value == -2 or value == -1:
            return value
        if value == -3:
            return rank
        group = communicator.groups[0]
        if communicator.is_inter and rank in group:
            group = communicator.groups[1]
        if value >= len(group):
            raise ValueError("a root outside the group")
        return int(group[value])
