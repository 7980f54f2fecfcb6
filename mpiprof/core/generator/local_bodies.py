"""Bodies of the wrappers of calls without messages: management collectives, and local calls."""

from __future__ import annotations

from mpiprof.core.generator.collectives import Function
from mpiprof.operations import LOCAL_OPERATIONS

# Class of the time in the calls of a family; that of the other families is OTHER.
TIME_CLASSES = {
    "partitions": "POINT_TO_POINT",
    "one_sided": "ONE_SIDED",
    "window": "ONE_SIDED",
    "files": "FILES",
    "file": "FILES",
}


def local_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines of a call that is recorded by call site only."""
    error = "*ierror" if fortran else "error"
    address = "address" if fortran else "CALLER()"
    spent = TIME_CLASSES.get(function.family, "OTHER")
    return [
        "struct message_call m;",
        f"message_begin_local(&m, OP_{function.operation}, SPENT_{spent}, {address});",
        call,
        f"message_end_local(&m, {error});",
    ]


def gathered_lines(function: Function, fortran: bool, call: str, entry: str) -> list[str]:
    """Return the lines of a call that is recorded on an entry, or by call site only.

    A function without an operation is only called.
    """
    if not function.operation:
        return [call]
    if function.operation in LOCAL_OPERATIONS:
        return local_lines(function, fortran, call)
    error = "*ierror" if fortran else "error"
    address = "address" if fortran else "CALLER()"
    spent = TIME_CLASSES.get(function.family, "OTHER")
    return [
        "struct management_collective g;",
        f"management_collective_begin(&g, OP_{function.operation}, {entry}, SPENT_{spent}, "
        f"{address});",
        call,
        f"management_collective_end(&g, {error});",
    ]
