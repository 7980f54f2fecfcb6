"""Meaning of an archive's regions: an MPI operation, or a location in the program.

Regions are identified by their names in C or Fortran, whichever tool recorded them. Unknown MPI
regions are classified by their role in the archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.core.generator.other_functions import FAMILIES
from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES, MESSAGE_OPERATIONS, OPERATIONS
from mpiprof.formats.otf2.definitions import MPI, Definitions, Region
from mpiprof.formats.otf2.events import ReadFilter
from mpiprof.formats.otf2.library import ATTRIBUTES, CREATOR, UNDEFINED
from mpiprof.interface.untrusted_text import parse_json

# Classes as in core/otf2/reading.c.
OTHER, IGNORED, COLLECTIVE, STARTING, RESTARTING = range(5)
POINT_TO_POINT, COMPLETING, ONE_SIDED, FILES, INITIALISING, FINALISING = range(5, 11)
COLLECTIVE_ROLES = (15, 23, 24, 25, 26)  # barrier, one to all, ..., other
NAME_PATTERN = re.compile(r"p?mpi_([a-z_]+?)(_c|_f08(ts)?|__?)?", re.IGNORECASE)
# Operations by their OTF2 number. Calls that create or free objects have no data.
OPERATION_NUMBERS = (
    *("barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv"),
    *("alltoall", "alltoallv", "alltoallw", "allreduce", "reduce", "reduce_scatter", "scan"),
    *("exscan", "reduce_scatter_block"),
)
CREATE_HANDLE = 17
MAX_FRAMES = 64  # frames of a stack
ATTRIBUTE_PREFIX = "mpiprof "  # prefix of mpiprof's attribute names


def _flatten_names(names: Iterable[str]) -> set[str]:
    return {name.partition("@")[0].rstrip("*").lower() for name in names}


_CLASSES = {
    **dict.fromkeys((*MANAGEMENT_COLLECTIVES, *OPERATIONS), COLLECTIVE),
    **dict.fromkeys((f"{name}_init" for name in OPERATIONS), COLLECTIVE),
    **dict.fromkeys((f"i{name}" for name in OPERATIONS), STARTING),
    **dict.fromkeys(_flatten_names(FAMILIES["completion"]), COMPLETING),
    **dict.fromkeys(("start", "startall"), RESTARTING),
    "request_free": IGNORED,
    **dict.fromkeys(_flatten_names(FAMILIES["point_to_point"]), POINT_TO_POINT),
    **dict.fromkeys(_flatten_names(FAMILIES["one_sided"]), ONE_SIDED),
    **dict.fromkeys(_flatten_names(FAMILIES["files"]), FILES),
}
# Functions outside the run of a rank. In archives by mpiprof, MPI_Finalize is a call of the run.
_LIMITS = {
    **dict.fromkeys(("init", "init_thread", "session_init"), INITIALISING),
    **dict.fromkeys(("finalize", "session_finalize"), FINALISING),
}


@dataclass(frozen=True)
class Regions:
    """The regions of an archive: classes to read, operations and call sites.

    operations: operation of each MPI region, or "" if unknown. message_operations: the same for
    calls on messages. shapes: further properties of its
    calls (algorithm, flags, ...), if mpiprof wrote the archive.
    """

    read_filter: ReadFilter
    operations: dict[int, str]
    message_operations: dict[int, str]
    shapes: dict[int, dict[str, Any]]
    regions: dict[int, Region]
    definitions: Definitions
    by_mpiprof: bool
    score_p: bool

    def site_frames(self, site: int) -> list[dict[str, Any]] | None:
        """Return the frames of a call site: of a calling context if defined, else of a region."""
        if len(self.read_filter.context_regions):
            return self._context_frames(site)
        region = self.regions.get(site)
        if region is None:
            return None
        if self.by_mpiprof and (frames := _parse_json(region.description, list)) is not None:
            return list(frames)
        return [_make_frame(region, region.file, region.line)]

    def _context_frames(self, context: int) -> list[dict[str, Any]] | None:
        """Return the frames around a call's own context, the innermost first."""
        records = self.definitions.records
        contexts, places = records["CallingContext"], records["SourceCodeLocation"]
        frames: list[dict[str, Any]] = []
        calling_context = contexts.get(context, (0, 0, UNDEFINED))[2]
        while calling_context in contexts and len(frames) < MAX_FRAMES:
            number, location, outer = contexts[calling_context]
            region = self.regions.get(number)
            if region is not None and region.paradigm != MPI:
                reference, line = places.get(location, (UNDEFINED, 0))
                file = self.definitions.find_string(reference)
                place = (file, line) if file else (region.file, region.line)
                frames.append(_make_frame(region, *place))
            calling_context = outer
        return frames or None


def _make_frame(region: Region, file: str, line: int) -> dict[str, Any]:
    return {"file": file, "line": line or None, "function": region.name}


def _parse_json(text: str, kind: type) -> Any:
    try:
        data = parse_json(text)
    except ValueError:
        return None
    return data if isinstance(data, kind) else None


def parse_operation(name: str) -> str:
    """Return the operation of an MPI function name such as MPI_Iallreduce_c, else ""."""
    match = NAME_PATTERN.fullmatch(name)
    return match[1].lower() if match else ""


def classify_regions(definitions: Definitions, creator: str) -> Regions:
    """Return the classified regions of an archive that the tool `creator` wrote."""
    by_mpiprof = creator.startswith(CREATOR)
    regions = definitions.regions()
    classes = np.zeros(max(regions, default=-1) + 1, np.uint8)
    operations, message_operations, shapes = {}, {}, {}
    for number, region in regions.items():
        name = parse_operation(region.canonical) or parse_operation(region.name)
        region_class = _CLASSES.get(name, IGNORED if name or region.paradigm == MPI else OTHER)
        if not by_mpiprof:
            region_class = _LIMITS.get(name, region_class)
        elif name == "request_free":  # mpiprof records it as a call that completes nothing
            region_class = COMPLETING
        if region_class == IGNORED and region.paradigm == MPI and not name:
            region_class = COLLECTIVE if region.role in COLLECTIVE_ROLES else IGNORED
        classes[number] = region_class
        if region_class in (COLLECTIVE, STARTING, RESTARTING):
            operations[number] = name
        if region_class in (POINT_TO_POINT, COMPLETING, RESTARTING) and name in MESSAGE_OPERATIONS:
            message_operations[number] = name
        if by_mpiprof and region_class != OTHER:
            shapes[number] = _parse_json(region.description, dict) or {}
    recorded = definitions.records["CallingContext"]
    contexts = np.full(max(recorded, default=-1) + 1, UNDEFINED, np.uint32)
    for number, (region_number, _, _) in recorded.items():
        contexts[number] = region_number
    attributes = definitions.records["Attribute"].items()
    attribute_numbers = {
        definitions.find_string(attribute[0]): number for number, attribute in attributes
    }
    first = (
        attribute_numbers.get(ATTRIBUTE_PREFIX + ATTRIBUTES[0], UNDEFINED)
        if by_mpiprof
        else UNDEFINED
    )
    read_filter = ReadFilter(classes, contexts, first)
    score_p = creator.startswith("Score-P")
    named_operations = operations, message_operations
    return Regions(
        read_filter, *named_operations, shapes, regions, definitions, by_mpiprof, score_p
    )
