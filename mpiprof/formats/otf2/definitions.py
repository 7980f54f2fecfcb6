"""Global definitions of an archive that mpiprof needs: clock, processes, regions, communicators.

They are read by OTF2's own reader. The registry of the wheel rejects archives with definitions
unknown to it, although mpiprof does not need these.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.formats.otf2.library import NEVER, UNDEFINED, import_otf2
from mpiprof.interface.untrusted_text import clean_text
from mpiprof.trace.types import Array, Int

COMM_LOCATIONS, COMM_SELF, GLOBAL_MEMBERS = 4, 6, 1
MPI, PROCESS_THREAD = 4, 1
RECORD_KINDS = (
    *("SystemTreeNode", "LocationGroup", "Location", "Region", "Group", "Comm", "InterComm"),
    *("SourceCodeLocation", "CallingContext", "Attribute"),
)


@dataclass(frozen=True)
class Region:
    """A region: of the program, with `file` and `line` of its definition, or of MPI."""

    name: str
    canonical: str
    description: str
    role: int
    paradigm: int
    file: str
    line: int


@dataclass(frozen=True)
class ArchiveCommunicator:
    """An MPI communicator; `groups` are world ranks, or () for a communicator per process."""

    name: str
    groups: tuple[tuple[int, ...], ...]
    facts: str  # name of its (first) group, in which mpiprof writes facts
    world_roots: bool = False  # True if roots are world ranks


class Definitions:
    """Definitions of an archive: its strings, and the records of each kind, by their numbers."""

    def __init__(self) -> None:
        self.resolution = self.offset = 0
        self.strings: dict[int, str] = {}
        self.records: dict[str, dict[int, tuple[Any, ...]]] = {kind: {} for kind in RECORD_KINDS}

    def find_string(self, reference: int) -> str:
        """Return a string, or "" if it is undefined."""
        return self.strings.get(reference, "")

    def regions(self) -> dict[int, Region]:
        """Return the regions by their numbers."""
        regions = {}
        for number, record in self.records["Region"].items():
            *references, role, paradigm, _, file, line, _ = record
            name, canonical, description = map(self.find_string, references)
            place = (self.find_string(file), 0 if line == UNDEFINED else line)
            regions[number] = Region(name, canonical, description, role, paradigm, *place)
        return regions

    def threads(self) -> list[list[int]]:
        """Return the locations of each world rank, the MPI location first; [] without MPI."""
        locations, groups = self.records["Location"], self.records["Group"].values()
        members = [g[4] for g in groups if g[1] == COMM_LOCATIONS and g[2] == MPI]
        world = [first for first in (members[0] if members else []) if first in locations]
        of_process: dict[int, list[int]] = {}
        for number, (_, kind, _, process) in sorted(locations.items()):
            if kind == PROCESS_THREAD and number not in world:
                of_process.setdefault(process, []).append(number)
        return [[first, *of_process.get(locations[first][3], [])] for first in world]

    def count_events(self, location: int) -> int:
        """Return the declared number of events of a location."""
        return int(self.records["Location"][location][2])

    def find_node(self, location: int) -> str:
        """Return the name of a location's node, else of its process's system tree entry."""
        nodes = self.records["SystemTreeNode"]
        process = self.records["LocationGroup"].get(self.records["Location"][location][3])
        first = tree_node = UNDEFINED if process is None else process[2]
        while tree_node in nodes:
            name, kind, parent = nodes[tree_node]
            if self.find_string(kind).lower() == "node":
                return self.find_string(name)
            tree_node = parent
        return self.find_string(nodes[first][0]) if first in nodes else "?"

    def read_communicators(self) -> dict[int, ArchiveCommunicator]:
        """Return the communicators of MPI by their numbers."""
        communicators, defined = {}, self.records["Group"]
        records = self.records["Comm"] | self.records["InterComm"]
        for number, (name, *groups, _, _) in records.items():
            group_records = [defined[group] for group in groups if group in defined]
            if len(group_records) < len(groups) or any(g[2] != MPI for g in group_records):
                continue
            alone = any(g[1] == COMM_SELF for g in group_records)
            members = () if alone else tuple(tuple(g[4]) for g in group_records)
            texts = [self.find_string(reference) for reference in (name, group_records[0][0])]
            world_roots = any(g[3] & GLOBAL_MEMBERS for g in group_records)
            communicators[number] = ArchiveCommunicator(texts[0], members, texts[1], world_roots)
        return communicators


def read_definitions(reader: Any) -> Definitions:
    """Read the global definitions of an open archive; raises the wheel's exceptions."""
    otf2, definitions = import_otf2(), Definitions()

    def clock(_: Any, resolution: int, offset: int, *_rest: int) -> None:
        definitions.resolution, definitions.offset = resolution, offset

    def into(table: dict[int, Any]) -> Callable[..., None]:
        def store(_: Any, number: int, *values: Any) -> None:
            # A value may be a member of the wheel's enumerations.
            table[number] = tuple(getattr(value, "value", value) for value in values)

        return store

    def string(_: Any, number: int, text: bytes | str) -> None:
        decoded = text if isinstance(text, str) else text.decode(errors="replace")
        definitions.strings[number] = clean_text(decoded)

    handlers: dict[str, Callable[..., None]] = {"ClockProperties": clock, "String": string}
    handlers |= {kind: into(table) for kind, table in definitions.records.items()}
    global_reader = otf2.Reader_GetGlobalDefReader(reader)
    callbacks = otf2.GlobalDefReaderCallbacks_New()
    for name, handler in handlers.items():
        getattr(otf2, f"GlobalDefReaderCallbacks_Set{name}Callback")(callbacks, handler)
    otf2.Reader_RegisterGlobalDefCallbacks(reader, global_reader, callbacks, None)
    otf2.GlobalDefReaderCallbacks_Delete(callbacks)
    # For a name that is not valid text, the wheel prints a traceback and then raises.
    with contextlib.redirect_stderr(io.StringIO()):
        otf2.Reader_ReadAllGlobalDefinitions(reader, global_reader)
    otf2.Reader_CloseGlobalDefReader(reader, global_reader)
    return definitions


NS_PER_SECOND = 10**9
# Ticks per second up to which a second's ticks times 10^9 fit into 64 bits.
EXACT_BELOW = (1 << 64) // NS_PER_SECOND
LATEST_NS = 1 << 60  # ns; later times count from the archive's begin


class ArchiveClock:
    """Converts ticks of an archive's clock to ns, rounded to the nearest."""

    def __init__(self, definitions: Definitions) -> None:
        self.resolution = definitions.resolution or NS_PER_SECOND
        late = definitions.offset > LATEST_NS // NS_PER_SECOND * self.resolution
        self.origin = definitions.offset if late else 0

    def spans_to_ns(self, ticks: Array) -> Int:
        """Convert numbers of ticks (uint64) to ns (int64)."""
        if self.resolution == NS_PER_SECOND:
            return ticks.astype(np.int64)
        if self.resolution > EXACT_BELOW:
            scaled = np.rint(ticks.astype(np.longdouble) * NS_PER_SECOND / self.resolution)
            return np.asarray(scaled, np.int64)
        second, resolution = np.uint64(NS_PER_SECOND), np.uint64(self.resolution)
        seconds, remainder = np.divmod(ticks, resolution)
        remainder_ns = (remainder * second + resolution // np.uint64(2)) // resolution
        spans_ns: Int = (seconds * second + remainder_ns).astype(np.int64)
        return spans_ns

    def times_to_ns(self, ticks: Array) -> Int:
        """Convert times (uint64 ticks) to ns, with 0 for NEVER."""
        never = ticks == NEVER
        since = np.maximum(ticks, np.uint64(self.origin)) - np.uint64(self.origin)
        return self.spans_to_ns(np.where(never, 0, since))

    def time_to_ns(self, ticks: int) -> int:
        """Return one time in ns."""
        return int(self.times_to_ns(np.array([ticks], np.uint64))[0])
