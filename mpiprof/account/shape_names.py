"""Names of shapes: the library's algorithms, and mpi4py's methods that make several MPI calls.

A native call has the algorithm of the library, such as `native:ring`, where it is certain.

`comm.bcast(obj)` broadcasts the size of the pickled object, and then its bytes. If both calls were
one call site, every second instance would be different. So both are sites of their own, with the
name of the method.

mpi4py reduces objects itself, because only Python can add them. It duplicates the program's
communicator in the first reduction and sends messages on the duplicate. `allreduce` then broadcasts
the result on it, with the calls of `bcast`. On an inter-communicator, each group reduces on a
communicator of its own. `scan` and `exscan` make the same calls.

A reduction sends no messages on a communicator of one rank. There, and in a trace without messages,
a broadcast on a duplicate may belong to `bcast` or to `allreduce`, so it has no name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from mpiprof.collectives.library_choice import LibraryCall, identify_library, predict_choice
from mpiprof.facts.datatypes import DATATYPES
from mpiprof.facts.operations import OPERATIONS
from mpiprof.trace.metadata import Communicator, Shape

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace

NATIVE = "native"
OTHER_FORMS = {"inter", "nonblocking", "persistent", "error"}
SIZED_BY_RECEIVED = ("allgather", "alltoall")  # bytes of all blocks, in place or not
WITHOUT_SIZE = ("alltoallv", "gatherv", "scatterv")
NO_REDUCTIONS = ("MPI_REPLACE", "MPI_NO_OP")  # predefined operations
# First call of a method (of the sizes), which has the method's name, and second call (of the data).
DATA_CALLS = {
    "allgather": "allgatherv",
    "alltoall": "alltoallv",
    "bcast": "bcast",
    "gather": "gatherv",
    "neighbor_allgather": "neighbor_allgatherv",
    "neighbor_alltoall": "neighbor_alltoallv",
    "scatter": "scatterv",
}
REDUCTION_CALLS = ("send", "recv", "sendrecv")  # of reductions
SIZE_TYPE, DATA_TYPE = "MPI_COUNT", "MPI_BYTE"  # mpi4py 4

_MethodCall = tuple[int, int, str, str]  # site, communicator, operation and datatype


def is_native(algorithm: str) -> bool:
    """Return whether the library itself chose the algorithm, under any name."""
    return algorithm == NATIVE or algorithm.startswith(f"{NATIVE}:")


def name_shapes(trace: Trace) -> list[Shape]:
    """Return the trace's shapes with the names of library algorithms and of mpi4py's methods."""
    return name_object_methods(trace, name_native_shapes(trace))


def name_native_shapes(trace: Trace) -> list[Shape]:
    """Return the trace's shapes; native ones have the algorithm's name if it is certain."""
    tables = trace.tables
    library = identify_library(trace.mpi, trace.ranks, trace.meta.get("library"))
    if library is None:
        return tables.shapes
    names: dict[LibraryCall | None, str] = {None: ""}
    shapes = []
    for shape in tables.shapes:
        call = _library_call(shape, tables.communicators[shape.communicator])
        if call is not None and call not in names:
            names[call] = predict_choice(library, call)
        name = names[call]
        shapes.append(replace(shape, algorithm=f"{NATIVE}:{name}") if name else shape)
    return shapes


def join_algorithms(algorithms: set[str]) -> str:
    """Return the algorithms of all ranks, joined by "+"; "native" for different native ones."""
    if len(algorithms) > 1 and all(map(is_native, algorithms)):
        return NATIVE
    return "+".join(sorted(algorithms))


def _library_call(shape: Shape, communicator: Communicator) -> LibraryCall | None:
    """Return a native call as the library sees it, or None for other calls."""
    if (
        shape.algorithm != NATIVE
        or shape.operation not in OPERATIONS
        or OTHER_FORMS & set(shape.flags)
        or communicator.is_local
        or communicator.is_inter
        or communicator.size < 2
        or shape.sent < 0
    ):
        return None
    datatype = DATATYPES.get(shape.type)
    return LibraryCall(
        shape.operation,
        communicator.size,
        library_bytes(shape, communicator.size),
        0 if datatype is None or datatype.default else datatype.size,
        bool(shape.reduction) and shape.reduction not in NO_REDUCTIONS,
        "in_place" in shape.flags,
    )


def library_bytes(shape: Shape, size: int) -> int:
    """Return a call's bytes in the convention of collectives/library_choice.py."""
    operation = shape.operation
    if operation in WITHOUT_SIZE:
        return -1
    if operation in SIZED_BY_RECEIVED:
        return shape.received // size
    if operation == "bcast":
        return max(shape.sent, shape.received)
    if operation in ("allgatherv", "scatter", "reduce_scatter_block"):
        return shape.received
    return shape.sent


def name_object_methods(trace: Trace, shapes: list[Shape]) -> list[Shape]:
    """Return shapes with a site of its own for each sort of call of each method.

    The sites are appended to those of the trace.
    """
    sites = trace.tables.sites
    # Sites of a data set have the methods already.
    python = [bool(stack) and not {"module", "method"} & set(stack[0]) for stack in sites]
    calls = {_make_call(shape) for shape in shapes if shape.site >= 0 and python[shape.site]}
    part_of = _name_parts(trace, calls)
    added: dict[tuple[int, str], int] = {}
    site_of: dict[_MethodCall, int] = {}
    for call, part in sorted(part_of.items()):
        site = call[0]
        if (site, part) not in added:
            added[site, part] = len(sites)
            innermost, *outer = sites[site]
            sites.append(({**innermost, "method": part}, *outer))
        site_of[call] = added[site, part]
    return [_move(shape, site_of) for shape in shapes] if site_of else shapes


def _move(shape: Shape, site_of: dict[_MethodCall, int]) -> Shape:
    site = site_of.get(_make_call(shape))
    return shape if site is None else replace(shape, site=site)


def _make_call(shape: Shape) -> _MethodCall:
    return shape.site, shape.communicator, shape.operation, shape.type


def _name_parts(trace: Trace, calls: set[_MethodCall]) -> dict[_MethodCall, str]:
    """Return the method and its part for each call that a method makes, such as "data of ..."."""
    pairs = set()
    for site, communicator, operation, datatype in calls:
        data_call = site, communicator, DATA_CALLS.get(operation, ""), DATA_TYPE
        if datatype == SIZE_TYPE and data_call in calls:
            pairs.add((site, communicator, operation))
    reductions = ObjectReductions(trace, calls, pairs)
    part_of: dict[_MethodCall, str] = {}
    for site, communicator, operation in pairs:
        method = reductions.name_pair(site, communicator, operation)
        if method:
            part_of[site, communicator, operation, SIZE_TYPE] = f"sizes of comm.{method}"
            data = site, communicator, DATA_CALLS[operation], DATA_TYPE
            part_of[data] = f"data of comm.{method}"
    for call in calls:
        method = reductions.name_message(*call[:3])
        if method:
            part_of[call] = f"messages of comm.{method}"
    return part_of


class ObjectReductions:
    """Reductions of objects in a trace.

    _program_comm: identity of the program's communicator, by mpi4py's communicator for it.
    _with_messages: sites, and program's communicators, of reductions with messages.
    _with_broadcast: those of allreduce.
    """

    def __init__(
        self, trace: Trace, calls: set[_MethodCall], pairs: set[tuple[int, int, str]]
    ) -> None:
        """Find the reductions.

        calls: site, communicator, operation and datatype of calls from Python. pairs: site,
        communicator and operation of calls that pass the size of an object and then its bytes.
        """
        self._communicators = trace.tables.communicators
        self._by_identity = {comm.identity: comm for comm in self._communicators}
        messages = {(site, comm) for site, comm, name, _ in calls if name in REDUCTION_CALLS}
        broadcasts = {(site, comm) for site, comm, name in pairs if name == "bcast"}
        self._has_messages = bool(messages)
        creations = {
            (site, self._communicators[comm].identity, name) for site, comm, name, _ in calls
        }
        self._program_comm = dict(self._find_private(messages, broadcasts, creations))
        self._with_messages = self._find_reductions(messages)
        self._with_broadcast = self._find_reductions(broadcasts)

    def _find_private(
        self,
        messages: set[tuple[int, int]],
        broadcasts: set[tuple[int, int]],
        creations: set[tuple[int, str, str]],
    ) -> Iterator[tuple[int, str]]:
        """Yield mpi4py's communicators, with the program's communicators that they stand for."""
        sites = {site for site, _, _ in creations}
        for comm in self._communicators:
            program_comm = self._find_program_comm(comm)
            if program_comm is None or comm.parent is None:
                continue
            is_merged = comm.origin == "create"
            for site in sites:
                is_created = (site, program_comm, "comm_dup") in creations
                if is_merged:
                    is_created &= (site, comm.parent, "comm_create") in creations
                used = (site, comm.index) in messages
                # Only these calls are recorded if MPI_Pcontrol paused the creation.
                is_allreduce = used and (site, comm.index) in broadcasts
                if is_allreduce or (is_created and (used or is_merged)):
                    yield comm.index, program_comm
                    break

    def _find_program_comm(self, comm: Communicator) -> str | None:
        """Return the communicator for which mpi4py may have made another one, or None."""
        if comm.origin == "dup":
            return comm.parent
        merged = self._by_identity.get(comm.parent or "")
        if comm.origin == "create" and merged is not None and merged.origin == "intercomm_merge":
            return merged.parent
        return None

    def _find_reductions(self, calls: set[tuple[int, int]]) -> set[tuple[int, str]]:
        """Return the sites and program's communicators of calls on mpi4py's communicators."""
        program_comm = self._program_comm
        return {(site, program_comm[comm]) for site, comm in calls if comm in program_comm}

    def name_pair(self, site: int, comm: int, operation: str) -> str:
        """Return the method that passes the size of an object and its bytes; "" if unknown."""
        reduction = site, self._program_comm.get(comm, "")
        if operation != "bcast":
            return operation
        if reduction in self._with_messages:
            return "allreduce"
        communicator = self._communicators[comm]
        is_visible = self._has_messages and not communicator.has_one_member
        return operation if is_visible or self._find_program_comm(communicator) is None else ""

    def name_message(self, site: int, comm: int, operation: str) -> str:
        """Return the reduction that makes a call on messages, or ""."""
        if operation not in REDUCTION_CALLS or comm not in self._program_comm:
            return ""
        if operation == "sendrecv" and not self._communicators[comm].is_inter:
            return "scan or exscan"
        reduction = site, self._program_comm[comm]
        return "allreduce" if reduction in self._with_broadcast else "reduce"
