"""Calls of mpi4py's methods for Python objects, which make several MPI calls each.

`comm.bcast(obj)` broadcasts the size of the pickled object, and then its bytes. If both calls were
one call site, every second instance would be different. So both are sites of their own, with the
name of the method. Reductions of objects send messages (metrics/object_reductions.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mpiprof.metrics.object_reductions import ObjectReductions
from mpiprof.trace.metadata import Shape

if TYPE_CHECKING:
    from mpiprof.trace.trace import Trace

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
SIZE_TYPE, DATA_TYPE = "MPI_COUNT", "MPI_BYTE"  # mpi4py 4

Call = tuple[int, int, str, str]  # site, communicator, operation and datatype


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
    site_of: dict[Call, int] = {}
    for call, part in sorted(part_of.items()):
        site = call[0]
        if (site, part) not in added:
            added[site, part] = len(sites)
            innermost, *outer = sites[site]
            sites.append(({**innermost, "method": part}, *outer))
        site_of[call] = added[site, part]
    return [_move(shape, site_of) for shape in shapes] if site_of else shapes


def _move(shape: Shape, site_of: dict[Call, int]) -> Shape:
    site = site_of.get(_make_call(shape))
    return shape if site is None else replace(shape, site=site)


def _make_call(shape: Shape) -> Call:
    return shape.site, shape.communicator, shape.operation, shape.type


def _name_parts(trace: Trace, calls: set[Call]) -> dict[Call, str]:
    """Return the method and its part for each call that a method makes, such as "data of ..."."""
    pairs = {
        (site, communicator, operation)
        for site, communicator, operation, datatype in calls
        if datatype == SIZE_TYPE
        and (site, communicator, DATA_CALLS.get(operation, ""), DATA_TYPE) in calls
    }
    reductions = ObjectReductions(trace, calls, pairs)
    part_of: dict[Call, str] = {}
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
