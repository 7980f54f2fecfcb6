"""A trace as an OTF2 archive, which Vampir, Scalasca and Pipit read: DIR/traces.otf2.

A rank is a process (a location group) on its node, and its threads are locations. A call is an MPI
region with a record of the collective. An outer region represents its call site, with the call's
file and line. Nonblocking and persistent operations are requests, completed in MPI_Wait. Logged
calls on messages are regions with events of their messages (formats/otf2/export_messages.py). Times
are ns on the joint clock. OTF2 has no field for the algorithm, the communicator's identity or a
stack of frames. Descriptions and attributes carry them, and formats/otf2 restores the trace from
these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.account.tables import communicator_names
from mpiprof.errors import MpiprofError
from mpiprof.facts.operations import MESSAGE_OPERATIONS, base_operation, wait_state
from mpiprof.formats.otf2 import library
from mpiprof.formats.otf2.convert import COPIED_META, META
from mpiprof.formats.otf2.export_calls import RankWriter, Shapes
from mpiprof.formats.otf2.export_messages import MessageExport, make_sum_texts
from mpiprof.formats.otf2.library import NEVER, UNDEFINED
from mpiprof.formats.otf2.regions import ATTRIBUTE_PREFIX, CREATE_HANDLE, OPERATION_NUMBERS
from mpiprof.interface.output_files import format_utf8_path
from mpiprof.trace import Trace
from mpiprof.trace.metadata import Shape
from mpiprof.trace.sites import describe_sites

ARCHIVE_NAME = "traces"
PARAMETER = "mpiprof message"  # of messages without their other side in the archive
CHUNK_BYTES = 1 << 20  # bytes per chunk of events and of definitions
TICKS_PER_SECOND = 10**9
ROLES = {  # of regions, by the wait state of their operation
    "barrier": "BARRIER",
    "late_root": "COLL_ONE2ALL",
    "early_root": "COLL_ALL2ONE",
    "nxn": "COLL_ALL2ALL",
}


def write(folder: Path, trace: Trace, facts: Mapping[str, Any], step: Callable[[int], None]) -> int:
    """Write an archive into an existing folder, and return its number of events.

    `step` is called with the number of additional calls written.
    """
    otf2 = library.import_otf2()
    try:
        return Archive(folder, trace, facts).write(step)
    except otf2.Error as error:
        raise MpiprofError(f"{folder}: OTF2 cannot write to it: {error}") from None


class Archive:
    """An archive being written."""

    def __init__(self, folder: Path, trace: Trace, facts: Mapping[str, Any]) -> None:
        self.otf2, self.trace = library.import_otf2(), trace
        self.strings: dict[str, int] = {"": 0}
        self.regions: dict[str, tuple[Any, ...]] = {}
        otf2 = self.otf2
        modes = (otf2.SUBSTRATE_POSIX, otf2.COMPRESSION_NONE)
        path, sizes = format_utf8_path(folder, "OTF2"), (CHUNK_BYTES, CHUNK_BYTES)
        self.archive = otf2.Archive_Open(path, ARCHIVE_NAME, otf2.FILEMODE_WRITE, *sizes, *modes)
        # Must live as long as the archive, which calls them.
        self.flush = otf2.FlushCallbacks(lambda *_: otf2.FLUSH, None)
        otf2.Archive_SetFlushCallbacks(self.archive, self.flush, None)
        otf2.Archive_SetSerialCollectiveCallbacks(self.archive)
        otf2.Archive_SetCreator(self.archive, f"{library.CREATOR} {facts['mpiprof']}")
        otf2.Archive_SetProperty(self.archive, META, json.dumps(self._collect_metadata()), True)
        otf2.Archive_OpenEvtFiles(self.archive)
        otf2.Archive_OpenDefFiles(self.archive)

    def _collect_metadata(self) -> dict[str, Any]:
        trace = self.trace
        ends = trace.tables.ends.items()
        return {
            **{name: trace.meta[name] for name in COPIED_META if name in trace.meta},
            "mpi": trace.mpi,
            "clock_error_ns": int(trace.clock_error_ns),
            "dropped": {rank: end["dropped"] for rank, end in ends if end["dropped"]},
        }

    def find_string(self, text: str) -> int:
        """Return the number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def write(self, step: Callable[[int], None]) -> int:
        """Write all events and definitions, and return the number of events."""
        shapes = self._describe_shapes()
        program = self.find_string(self.trace.program)
        messages = MessageExport(self.trace, shapes.region, shapes.site)
        counts: dict[int, int] = {}
        for rank in range(self.trace.ranks):
            of_rank = messages.of_rank(rank)
            writer = RankWriter(self.archive, self.trace, rank, shapes, of_rank, program)
            counts |= writer.write(step)
        for text in make_sum_texts(self.trace, self.site_regions):
            self.find_string(text)
        self.otf2.Archive_CloseEvtFiles(self.archive)
        self.otf2.Archive_CloseDefFiles(self.archive)
        self._write_definitions(counts)
        self.otf2.Archive_Close(self.archive)
        return sum(counts.values())

    # Regions

    def find_region(
        self, name: str, description: Any, role: Any, file: str = "", line: int = 0
    ) -> int:
        """Return the number of a region; MPI regions have no file."""
        described = json.dumps(description, sort_keys=True) if description else ""
        key = json.dumps([name, described, file, line])
        if key not in self.regions:
            mpi = self.otf2.PARADIGM_MPI if name.startswith("MPI_") else self.otf2.PARADIGM_USER
            texts = [self.find_string(text) for text in (name, name, described)]
            number = len(self.regions)
            file_number = self.find_string(file) if file else UNDEFINED
            none = self.otf2.REGION_FLAG_NONE
            self.regions[key] = (number, *texts, role, mpi, none, file_number, line, line)
        return int(self.regions[key][0])

    def _describe_shapes(self) -> Shapes:
        tables = self.trace.tables
        self.find_region("MPI_Wait", None, self.otf2.REGION_ROLE_POINT2POINT)
        sites = tables.sites
        described = [d[0] for d in describe_sites(sites, [[i] for i in range(len(sites))])]
        role, of_site = self.otf2.REGION_ROLE_FUNCTION, []
        for frames, place in zip(sites, described, strict=True):
            name, line = place["function"] or place["file"] or "?", int(place["line"] or 0)
            file = str(place["file"] or "")
            of_site.append(self.find_region(str(name), list(frames), role, file, line))
        self.site_regions = of_site
        shapes, number = tables.shapes, np.uint32
        return Shapes(
            np.array([self._mpi_region(s) for s in shapes], number),
            np.array([self._mpi_region(s, start=True) for s in shapes], number),
            np.array([of_site[s.site] if s.site >= 0 else UNDEFINED for s in shapes], number),
            np.array([s.communicator for s in shapes], number),
            np.array([_operation_number(s.operation) for s in shapes], np.uint8),
            np.array([s.sent for s in shapes], np.int64),
            np.array([s.received for s in shapes], np.int64),
        )

    def _mpi_region(self, shape: Shape, start: bool = False) -> int:
        """Return the region of a shape's calls, or of the starts of a persistent operation."""
        is_message = shape.operation in MESSAGE_OPERATIONS
        if start and (is_message or not shape.operation.endswith("_init")):
            return UNDEFINED
        facts = {
            "algorithm": shape.algorithm if shape.algorithm != "native" else "",
            "flags": list(shape.flags),
            "type": shape.type,
            "reduction": shape.reduction,
            "operation": shape.operation if start else "",
        }
        name = "MPI_Start" if start else f"MPI_{shape.operation.capitalize()}"
        described = {key: value for key, value in facts.items() if value}
        role = ROLES.get(wait_state(base_operation(shape.operation)) or "", "COLL_OTHER")
        role = "POINT2POINT" if is_message else role
        return self.find_region(name, described, getattr(self.otf2, f"REGION_ROLE_{role}"))

    # Definitions

    def _write_definitions(self, counts: Mapping[int, int]) -> None:
        otf2, trace = self.otf2, self.trace
        writer = otf2.Archive_GetGlobalDefWriter(self.archive)
        otf2.GlobalDefWriter_WriteClockProperties(
            writer, TICKS_PER_SECOND, trace.run_start_ns, trace.run_ns, NEVER
        )
        lines = [*self._system_tree(counts), *self._communicator_definitions()]
        for number, name in enumerate(library.ATTRIBUTES):
            label = self.find_string(ATTRIBUTE_PREFIX + name)
            lines.append(("Attribute", number, label, 0, otf2.TYPE_UINT64))
        lines += [("Region", *values) for values in self.regions.values()]
        lines.append(("Parameter", 0, self.find_string(PARAMETER), otf2.PARAMETER_TYPE_UINT64))
        for text, number in self.strings.items():
            otf2.GlobalDefWriter_WriteString(writer, number, text)
        for kind, *values in lines:
            getattr(otf2, f"GlobalDefWriter_Write{kind}")(writer, *values)
        otf2.Archive_CloseGlobalDefWriter(self.archive, writer)

    def _system_tree(self, counts: Mapping[int, int]) -> list[tuple[Any, ...]]:
        """Return the system tree: nodes, processes and threads."""
        otf2, trace = self.otf2, self.trace
        machine = self.find_string("machine")
        lines: list[tuple[Any, ...]] = [("SystemTreeNode", 0, machine, machine, UNDEFINED)]
        hosts = {node: trace.tables.processes[r]["host"] for r, node in trace.node_ids.items()}
        names = list(hosts.values())
        nodes = {}
        for number, (node, host) in enumerate(hosts.items(), 1):
            nodes[node] = number
            name = self.find_string(host if names.count(host) == 1 else f"{host} {node}")
            lines.append(("SystemTreeNode", number, name, self.find_string("node"), 0))
        process = otf2.LOCATION_GROUP_TYPE_PROCESS
        for rank in range(trace.ranks):
            place = nodes.get(trace.node_ids.get(rank, ""), 0)
            name = self.find_string(f"rank {rank}")
            lines.append(("LocationGroup", rank, name, process, place, UNDEFINED))
        for number, events in sorted(counts.items()):
            thread, rank = divmod(number, trace.ranks)
            name = self.find_string(f"thread {thread}")
            kind = otf2.LOCATION_TYPE_CPU_THREAD
            lines.append(("Location", number, name, kind, events, rank))
        return lines

    def _communicator_definitions(self) -> list[tuple[Any, ...]]:
        """Return the groups and communicators; a group's name carries further facts."""
        otf2, trace = self.otf2, self.trace
        groups: list[tuple[Any, ...]] = []
        communicators: list[tuple[Any, ...]] = []
        text = self.find_string

        def add_group(name: str, kind: Any, members: list[int]) -> int:
            fixed = (otf2.PARADIGM_MPI, otf2.GROUP_FLAG_NONE)
            groups.append(("Group", len(groups), text(name), kind, *fixed, members))
            return len(groups) - 1

        add_group("processes", otf2.GROUP_TYPE_COMM_LOCATIONS, list(range(trace.ranks)))
        names, flag = communicator_names(trace), otf2.COMM_FLAG_NONE
        neighbours = _list_neighbours(trace)
        for c in trace.tables.communicators:
            facts = {
                "identity": c.identity,
                "how": c.origin,
                "parent": c.parent,
                "local": c.is_local,
                "size": c.size,
                "like": trace.tables.duplicates.get(c.index),
                "unnamed": c.index not in trace.tables.names,
                **neighbours.get(c.index, {}),
            }
            kind, facts_text = otf2.GROUP_TYPE_COMM_GROUP, json.dumps(facts)
            numbers = [add_group(facts_text, kind, members.tolist()) for members in c.groups]
            if c.is_inter and len(numbers) == 2:
                name = text(names[c.index])
                communicators.append(("InterComm", c.index, name, *numbers, UNDEFINED, flag))
            else:
                name = text("MPI_COMM_WORLD" if c.origin == "world" else names[c.index])
                communicators.append(("Comm", c.index, name, numbers[0], UNDEFINED, flag))
        return [*groups, *communicators]


def _list_neighbours(trace: Trace) -> dict[int, dict[str, dict[str, list[int]]]]:
    """Return the neighbours of each rank, as ranks of its communicator."""
    neighbours: dict[int, dict[str, dict[str, list[int]]]] = {}
    tables = trace.tables
    for side, table in (("sources", tables.sources), ("destinations", tables.destinations)):
        for (index, rank), neighbour_ranks in table.items():
            place = {r: i for i, r in enumerate(tables.communicators[index].ranks.tolist())}
            of_side = neighbours.setdefault(index, {}).setdefault(side, {})
            of_side[str(rank)] = [place[r] for r in neighbour_ranks.tolist()]
    return neighbours


def _operation_number(operation: str) -> int:
    name = base_operation(operation).removeprefix("neighbor_")
    return OPERATION_NUMBERS.index(name) if name in OPERATION_NUMBERS else CREATE_HANDLE
