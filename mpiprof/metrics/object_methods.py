"""Calls of mpi4py's methods for Python objects, which make two MPI calls each.

`comm.bcast(obj)` broadcasts the size of the pickled object, and then its bytes. If both calls were
one call site, every second instance would be different. So both are sites of their own, with the
name of the method.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mpiprof.trace.metadata import Shape

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace

# First call of a method (of the sizes), which has the method's name, and second call (of the data).
DATA_CALLS = {
    "allgather": "allgatherv",
    "alltoall": "alltoallv",
    "bcast": "bcast",
    "gather": "gatherv",
    "scatter": "scatterv",
}
SIZE_TYPE, DATA_TYPE = "MPI_COUNT", "MPI_BYTE"  # mpi4py 4


def name_object_methods(trace: Trace, shapes: list[Shape]) -> list[Shape]:
    """Return shapes with separate sites for both calls of each method, which are added."""
    sites = trace.tables.sites
    python = [bool(stack) and "module" not in stack[0] for stack in sites]

    def calls(datatype: str) -> set[tuple[int, int, str]]:
        """Return the site, communicator and operation of calls with a datatype from Python."""
        return {
            (shape.site, shape.communicator, shape.operation)
            for shape in shapes
            if shape.type == datatype and shape.site >= 0 and python[shape.site]
        }

    sizes, data = calls(SIZE_TYPE), calls(DATA_TYPE)
    added: dict[tuple[int, str], int] = {}
    site_of: dict[tuple[int, int, str, str], int] = {}
    for site, communicator, operation in sorted(sizes):
        of_data = DATA_CALLS.get(operation, "")
        if (site, communicator, of_data) not in data:
            continue
        for datatype, name, part in (
            (SIZE_TYPE, operation, f"sizes of comm.{operation}"),
            (DATA_TYPE, of_data, f"data of comm.{operation}"),
        ):
            if (site, part) not in added:
                added[site, part] = len(sites)
                innermost, *outer = sites[site]
                sites.append(({**innermost, "method": part}, *outer))
            site_of[site, communicator, name, datatype] = added[site, part]
    return [_move(shape, site_of) for shape in shapes] if site_of else shapes


def _move(shape: Shape, site_of: dict[tuple[int, int, str, str], int]) -> Shape:
    key = (shape.site, shape.communicator, shape.operation, shape.type)
    return replace(shape, site=site_of[key]) if key in site_of else shape
