"""OTF2 regions as operations, and Score-P's byte counts as the recorder counts bytes."""

from __future__ import annotations

import numpy as np
import pytest

from mpiprof.formats.otf2 import shapes
from mpiprof.formats.otf2.regions import parse_operation


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("MPI_Allreduce", "allreduce"),
        ("PMPI_Reduce_scatter_block", "reduce_scatter_block"),
        ("mpi_alltoallv_", "alltoallv"),
        ("MPI_Ibcast_c", "ibcast"),
        ("MPI_Barrier_f08", "barrier"),
        ("MPI_Allreduce_init", "allreduce_init"),
        ("my_MPI_Allreduce", ""),
        ("main", ""),
    ],
)
def test_names_of_functions(name: str, known: str) -> None:
    assert parse_operation(name) == known


# Score-P 8's counts for a vector or contribution of 24 bytes at rank 1 of 4, root 0 (by its
# functions scorep_mpi_coll_bytes_*), also for a call in place.
@pytest.mark.parametrize(
    ("name", "reported", "known"),
    [
        ("allreduce", (96, 96), (24, 24)),
        ("allgather", (96, 96), (24, 96)),
        ("ialltoall", (96, 96), (96, 96)),
        ("bcast", (0, 24), (0, 24)),
        ("gather", (24, 0), (24, 0)),
        ("reduce", (24, 0), (24, 0)),
        ("reduce_scatter_block", (96, 96), (96, 24)),
        ("scan", (72, 48), (24, 24)),
        ("exscan", (48, 24), (24, 24)),
        ("barrier", (0, 0), (0, 0)),
        ("allreduce", (-1, -1), (-1, -1)),
        ("allreduce_init", (15, 15), (5, 5)),  # in place: from the three other ranks
    ],
)
def test_bytes_as_score_p_counts_them(
    name: str, reported: tuple[int, int], known: tuple[int, int]
) -> None:
    one = np.zeros(1, np.int64)
    found = shapes.convert_sizes(
        one, [name], one + reported[0], one + reported[1], one + 4, one + 1, one > 0
    )
    assert tuple(int(v[0]) for v in found) == known
