"""Library algorithms of native calls, such as `native:ring`, where they are certain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mpiprof.datatypes import DATATYPES
from mpiprof.metrics.object_methods import name_object_methods
from mpiprof.model.library_choice import LibraryCall, identify_library, predict_choice
from mpiprof.operations import OPERATIONS
from mpiprof.trace.metadata import Communicator, Shape

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace

NATIVE = "native"
OTHER_FORMS = {"inter", "nonblocking", "persistent", "error"}
SIZED_BY_RECEIVED = ("allgather", "alltoall")  # bytes of all blocks, in place or not
WITHOUT_SIZE = ("alltoallv", "gatherv", "scatterv")
NO_REDUCTIONS = ("MPI_REPLACE", "MPI_NO_OP")  # predefined operations


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
    """Return a call's bytes in the convention of model/library_choice.py."""
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
