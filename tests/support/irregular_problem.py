"""Problems with unequal blocks, for any algorithm of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiprof.collectives.schedule import Algorithm, Problem

REDUCTIONS = ("reduce", "allreduce", "reduce_scatter", "reduce_scatter_block")


def make_irregular_problem(
    a: Algorithm, bytes_: int, counts: Sequence[int], remote_counts: Sequence[int], **fields: Any
) -> Problem:
    """Return a problem of so many processes, with these blocks if the operation has blocks.

    fields: further fields of the problem.
    """
    size, remote_size = len(counts), len(remote_counts)
    is_irregular = a.operation.endswith("v") or a.operation == "reduce_scatter"
    return Problem(
        size,
        bytes_,
        remote_size=remote_size,
        remote_bytes=48 if remote_size else 0,
        unit=8 if a.operation in REDUCTIONS else 1,
        counts=tuple(counts) if is_irregular else (),
        remote_counts=tuple(remote_counts) if is_irregular else (),
        rows=(tuple(counts),) * size if a.operation == "alltoallv" else (),
        **fields,
    )
