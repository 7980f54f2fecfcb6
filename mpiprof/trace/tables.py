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

from mpiprof.trace.checksum import line_is_sound, unsealed
from mpiprof.trace.communicators import Communicators
from mpiprof.trace.files import content_of, files_in
from mpiprof.trace.metadata import Communicator, Shape, Tables
from mpiprof.trace.sites import same_lines
from mpiprof.trace.types import Problems
from mpiprof.trace.validation import integer, text

SAMPLED = ("after", "before", "site", "samples", "ns")  # fields of a --where line
IDS = 1 << 24  # shape ids are dense, so a larger id is damage
RANK = re.compile(rb'\{"rank": (\d+), (?="(?:site|shape|communicator)")')


def read_tables(folder: Path, limit: int, problems: Problems) -> Tables:
    """Read every *.tables of a folder; ranks at or beyond `limit` count as damage."""
    reader = _Reader(limit, problems)
    for file in files_in(folder, ".tables"):
        try:
            content = content_of(file)
        except OSError as error:
            problems.note(f"{file.name}: cannot be read: {error.strerror}")
            reader.tables.cut = True
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
            self.tables.cut = True
            self.problems.note(f"{name}: its last line is truncated and ignored")
        damaged = begun = 0
        sound: list[tuple[bytes, bool | None]] = []
        for line in filter(None, lines[:-1]):
            _, hole, behind = line.rpartition(b"\0")
            known = line_is_sound(behind)
            begun += bool(hole and known)
            sound.append((behind if known else line, known))
        self.checked |= any(known for _, known in sound)
        for line, known in sound:
            whole = known is True or (known is None and not self.checked)
            damaged += not (whole and self._read_line(unsealed(line) if known else line))
        if begun:
            self.tables.cut = True
            self.problems.note(f"{name}: incomplete lines: {begun}")
        if damaged:
            self.tables.cut = True
            self.problems.note(f"{name}: damaged lines, ignored: {damaged}")

    def _read_line(self, line: bytes) -> bool:
        try:
            self._line(*self._parsed(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        return True

    def _parsed(self, line: bytes) -> tuple[Any, Any]:
        """Return a line's rank and its row. Ranks with equal lines share the row.

        Most lines are equal, because thousands of ranks have the same call sites.
        """
        found = RANK.match(line)
        if found is None:
            row = json.loads(line)
            return row["rank"], row
        behind = line[found.end() :]
        row = self.rows.get(behind)
        if row is None:
            row = self.rows[behind] = json.loads(b"{" + behind)
        return int(found[1]), row

    def _line(self, of: Any, row: Any) -> None:
        rank = integer(of, 0, self.limit - 1)
        tables = self.tables
        if "process" in row:
            tables.processes[rank] = _process(row["process"])
        elif "end" in row:
            tables.ends[rank] = _end(row["end"])
        elif "clock" in row:
            tables.clocks.append({"rank": rank, **_clock(row["clock"], self.limit)})
        elif "limit" in row:
            tables.limits[rank] = integer(row["limit"]["bytes"], 0)
            tables.limited_ns[rank] = integer(row["limit"]["at_ns"])
        elif "where" in row:
            self.where.append((rank, *(integer(row["where"][name], 0) for name in SAMPLED)))
        elif "note" in row:
            tables.notes.append((rank, text(row["note"])))
        elif "shape" in row:
            text(row["operation"])
            self.raw["shape"][rank, integer(row["shape"], 0, IDS)] = row
        elif "site" in row:
            self.raw["site"][rank, integer(row["site"], 0)] = row
        elif "name" in row:
            self.naming.append((rank, integer(row["communicator"], 0), text(row["name"])))
        elif "communicator" in row:
            self.raw["communicator"][rank, integer(row["communicator"], 0)] = row
        # Other lines come from a later mpiprof and do not change the meaning of these.

    def resolve(self) -> None:
        sites = self._each("site", _Sites(self.tables))
        lines = same_lines(self.tables.sites)
        sites = {key: lines[index] for key, index in sites.items()}
        self._resolve_where(sites)
        rows = self.raw["communicator"]
        lists = {(row.get("identity"), rank): row.get("members") for (rank, _), row in rows.items()}
        communicators = self._each("communicator", Communicators(self.tables, self.limit, lists))
        for rank, local, name in self.naming:
            if (rank, local) in communicators:
                self.tables.names[communicators[rank, local]] = name
        shapes = self._each("shape", _Shapes(self.tables, sites, communicators))
        largest: dict[int, int] = {}
        for rank, local in shapes:
            largest[rank] = max(local, largest.get(rank, 0))
        for rank, most in largest.items():
            self.tables.shape_ids[rank] = np.full(most + 1, -1, np.int64)
        for (rank, local), index in shapes.items():
            self.tables.shape_ids[rank][local] = index

    def _resolve_where(self, sites: dict[tuple[int, int], int]) -> None:
        found = self.tables.where
        for rank, after, before, site, samples, ns in self.where:
            left, entered, place = (sites.get((rank, of), -1) for of in (after, before, site))
            if min(entered, place) >= 0:
                count, whole = found.get((rank, left, entered, place), (0, 0))
                found[rank, left, entered, place] = (count + samples, whole + ns)

    def _each(self, kind: str, convert: Any) -> dict[tuple[int, int], int]:
        """Convert all rows of a kind to joint indices by `convert`."""
        ids: dict[tuple[int, int], int] = {}
        damaged = 0
        for (rank, local), row in self.raw[kind].items():
            index = _converted(convert, rank, row)
            if index is None:
                damaged += 1
            else:
                ids[rank, local] = index
        if damaged:
            self.tables.cut = True
            self.problems.note(f"tables: {damaged} lines of kind {kind} are damaged and ignored")
        self.raw[kind] = {}
        return ids


def _converted(convert: Any, rank: int, row: dict[str, Any]) -> int | None:
    try:
        return int(convert(rank, row))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _process(row: Any) -> dict[str, Any]:
    return {
        "host": text(row.get("host", "?")),
        "node": text(row.get("node", "?")),
        "pid": integer(row.get("pid", 0), 0),
        "log": text(row.get("log", "")),
        "processors": _processors(row.get("processors")),
        "started_ns": integer(row["started_ns"]) if row.get("started_ns") is not None else None,
        "started": row.get("started"),
        "size": integer(row.get("size", 0), 0),
        "abi": row.get("abi"),
        "mpi": row.get("mpi"),
        "address": _address(row.get("switches")),
    }


def _address(row: Any) -> tuple[str, str]:
    """Return the node's network address from Slurm: names and their pattern."""
    if not isinstance(row, dict):
        return "", ""
    return text(row.get("address", "")), text(row.get("pattern", ""))


def _processors(given: Any) -> list[int]:
    """Return the processors that a rank may run on, or [] if unknown."""
    return [p for p in given if type(p) is int and p >= 0] if isinstance(given, list) else []


def _end(row: Any) -> dict[str, Any]:
    return {
        "at_ns": integer(row["at_ns"]),
        "reason": text(row["reason"]),
        "dropped": integer(row.get("dropped", 0), 0),
        "recorder_ns": integer(row.get("recorder_ns", 0), 0),
        "chunks": integer(row.get("chunks", 0), 0),
    }


def _clock(row: Any, limit: int) -> dict[str, Any]:
    return {
        "node": text(row["node"]),
        "reference": integer(row["reference"], 0, limit - 1),
        "at_ns": integer(row["at_ns"]),
        "offset_ns": integer(row["offset_ns"]),
        "error_ns": integer(row["error_ns"], 0),
        "when": text(row.get("when", "init")),
    }


class _Sites:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.known: dict[str, int] = {}
        self.shared: dict[int, int] = {}  # by the id() of a row

    def __call__(self, _: int, row: dict[str, Any]) -> int:
        if id(row) not in self.shared:
            self.shared[id(row)] = self._joined(row["frames"])
        return self.shared[id(row)]

    def _joined(self, frames: Any) -> int:
        if not isinstance(frames, list) or not all(isinstance(f, dict) for f in frames):
            raise ValueError("not a list of frames")
        for frame in frames:
            if "module" in frame:
                text(frame["module"])
                integer(frame["offset"])
            else:
                text(frame["file"])
        key = json.dumps(frames, sort_keys=True)
        if key not in self.known:
            self.known[key] = len(self.tables.sites)
            self.tables.sites.append(tuple(frames))
        return self.known[key]


class _Shapes:
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
        communicator = self.communicators[rank, integer(row["communicator"])]
        site = row.get("site")
        flags = row.get("flags") or []
        shape = Shape(
            text(row["operation"]),
            communicator,
            -1 if site is None else self.sites.get((rank, integer(site)), -1),
            self._root(rank, self.tables.communicators[communicator], row.get("root")),
            self._bytes(row.get("sent")),
            self._bytes(row.get("received")),
            str(row.get("algorithm") or "native"),
            tuple(sorted(text(flag) for flag in flags)),
            text(row.get("type", "")),
            text(row.get("reduction", "")),
        )
        if shape not in self.known:
            self.known[shape] = len(self.tables.shapes)
            self.tables.shapes.append(shape)
        return self.known[shape]

    @staticmethod
    def _bytes(value: Any) -> int:
        return -1 if value is None else integer(value, 0)

    @staticmethod
    def _root(rank: int, communicator: Communicator, root: Any) -> int:
        """Return the world rank of the root; -3 in the table means the rank itself.

        Other values are a rank of the (remote) group.
        """
        if root is None or communicator.local:
            return -1
        value = integer(root, -3)
        if value == -2 or value == -1:
            return value
        if value == -3:
            return rank
        group = communicator.groups[0]
        if communicator.inter and rank in group:
            group = communicator.groups[1]
        if value >= len(group):
            raise ValueError("a root outside the group")
        return int(group[value])
