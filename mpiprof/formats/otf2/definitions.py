"""Global definitions of an archive that mpiprof needs: clock, processes, regions, communicators.

They are read by OTF2's own reader. The registry of the wheel rejects archives with definitions
unknown to it, although mpiprof does not need these.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mpiprof.formats.otf2.library import UNDEFINED, import_otf2

COMM_LOCATIONS, COMM_GROUP, COMM_SELF, GLOBAL_MEMBERS = 4, 5, 6, 1
MPI, PROCESS_THREAD = 4, 1


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
class Communicator:
    """An MPI communicator; `groups` are world ranks, or () for a communicator per process."""

    name: str
    groups: tuple[tuple[int, ...], ...]
    parent: int
    facts: str  # name of its (first) group, in which mpiprof writes facts
    world_roots: bool = False  # True if roots are world ranks


@dataclass
class Definitions:
    """Definitions of an archive, by their numbers."""

    resolution: int = 0
    offset: int = 0
    realtime: int = 0
    strings: dict[int, str] = field(default_factory=dict)
    nodes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    processes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    locations: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    region_definitions: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    groups: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    comms: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    inters: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    tree_nodes: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    contexts: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    attributes: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def find_string(self, reference: int) -> str:
        """Return a string, or "" if it is undefined."""
        return self.strings.get(reference, "")

    def regions(self) -> dict[int, Region]:
        """Return the regions by their numbers."""
        return {
            number: Region(
                self.find_string(name),
                self.find_string(canonical),
                self.find_string(description),
                role,
                paradigm,
                self.find_string(file),
                0 if line == UNDEFINED else line,
            )
            for number, (name, canonical, description, role, paradigm, _, file, line, _) in (
                self.region_definitions.items()
            )
        }

    def threads(self) -> list[list[int]]:
        """Return the locations of each world rank, the MPI location first; [] without MPI."""
        world = self._world()
        of_process: dict[int, list[int]] = {}
        for number, (_, kind, _, process) in sorted(self.locations.items()):
            if kind == PROCESS_THREAD and number not in world:
                of_process.setdefault(process, []).append(number)
        return [
            [first, *of_process.get(self.locations[first][3], [])]
            for first in world
            if first in self.locations
        ]

    def _world(self) -> list[int]:
        found = [g[4] for g in self.groups.values() if g[1] == COMM_LOCATIONS and g[2] == MPI]
        return found[0] if found else []

    def count_events(self, location: int) -> int:
        """Return the declared number of events of a location."""
        return int(self.locations[location][2])

    def find_node(self, location: int) -> str:
        """Return the name of a location's node, else of its process's system tree entry."""
        process = self.processes.get(self.locations[location][3])
        tree_node = UNDEFINED if process is None else process[2]
        told = tree_node
        while tree_node in self.nodes:
            name, kind, parent = self.nodes[tree_node]
            if self.find_string(kind).lower() == "node":
                return self.find_string(name)
            tree_node = parent
        return self.find_string(self.nodes[told][0]) if told in self.nodes else "?"

    def read_communicators(self) -> dict[int, Communicator]:
        """Return the communicators of MPI by their numbers."""
        found = {}
        for number, (name, *groups, parent, _) in [*self.comms.items(), *self.inters.items()]:
            told = [self.groups.get(group) for group in groups]
            if any(g is None or g[2] != MPI for g in told):
                continue
            alone = any(g[1] == COMM_SELF for g in told if g)
            found[number] = Communicator(
                self.find_string(name),
                () if alone else tuple(tuple(g[4]) for g in told if g),
                parent,
                self.find_string(told[0][0] if told[0] else UNDEFINED),
                any(g[3] & GLOBAL_MEMBERS for g in told if g),
            )
        return found


def enum_number(value: Any) -> Any:
    """Return the number of a value of the wheel's enumerations."""
    return getattr(value, "value", value)


def read_definitions(reader: Any) -> Definitions:
    """Read the global definitions of an open archive; raises the wheel's exceptions."""
    otf2, found = import_otf2(), Definitions()

    def clock(_: Any, resolution: int, offset: int, length: int, realtime: int) -> None:  # noqa: ARG001
        found.resolution, found.offset, found.realtime = resolution, offset, realtime

    def into(table: dict[int, Any]) -> Callable[..., None]:
        def keep(_: Any, number: int, *values: Any) -> None:
            table[number] = tuple(enum_number(value) for value in values)

        return keep

    def string(_: Any, number: int, text: bytes | str) -> None:
        found.strings[number] = text if isinstance(text, str) else text.decode(errors="replace")

    handlers: dict[str, Callable[..., None]] = {
        "ClockProperties": clock,
        "String": string,
        "SystemTreeNode": into(found.nodes),
        "LocationGroup": into(found.processes),
        "Location": into(found.locations),
        "Region": into(found.region_definitions),
        "Group": into(found.groups),
        "Comm": into(found.comms),
        "InterComm": into(found.inters),
        "SourceCodeLocation": into(found.tree_nodes),
        "CallingContext": into(found.contexts),
        "Attribute": into(found.attributes),
    }
    definitions = otf2.Reader_GetGlobalDefReader(reader)
    callbacks = otf2.GlobalDefReaderCallbacks_New()
    for name, handler in handlers.items():
        getattr(otf2, f"GlobalDefReaderCallbacks_Set{name}Callback")(callbacks, handler)
    otf2.Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, None)
    otf2.GlobalDefReaderCallbacks_Delete(callbacks)
    # For a name that is not valid text, the wheel prints a traceback and then raises.
    with contextlib.redirect_stderr(io.StringIO()):
        otf2.Reader_ReadAllGlobalDefinitions(reader, definitions)
    otf2.Reader_CloseGlobalDefReader(reader, definitions)
    return found
