"""Library algorithms of calls, as library_algorithm_calls.c and as the trace state them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mpiprof
from mpiprof.account.shape_names import library_bytes
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.operations import OPERATIONS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

MOST = 8  # processes
BYTES = (1, 8, 64, 1000, 4096, 65536, 1 << 20)
FORCED = tuple(sorted({one.operation for one in find_algorithms("openmpi")}))

# The functions of Open MPI's algorithms, in the order of the algorithms' numbers.
FUNCTIONS = {
    "allgather": "basic_linear bruck recursivedoubling ring neighborexchange two_procs sparbit",
    "allgatherv": "basic_default bruck ring neighborexchange two_procs sparbit",
    "allreduce": "basic_linear nonoverlapping recursivedoubling ring ring_segmented "
    "redscat_allgather",
    "alltoall": "basic_linear pairwise bruck linear_sync two_procs",
    "alltoallv": "basic_linear pairwise",
    "barrier": "basic_linear doublering recursivedoubling bruck two_procs tree",
    "bcast": "basic_linear chain pipeline split_bintree bintree binomial knomial "
    "scatter_allgather scatter_allgather_ring",
    "gather": "basic_linear binomial linear_sync",
    "reduce": "basic_linear chain pipeline binary binomial in_order_binary redscat_gather",
    "reduce_scatter": "nonoverlapping basic_recursivehalving ring butterfly",
    "reduce_scatter_block": "basic_linear recursivedoubling recursivehalving butterfly",
    "scatter": "basic_linear binomial linear_nb",
}

Case = tuple[str, int, int]  # operation, processes, bytes of a block, vector or message


def cases(
    operations: Sequence[str],
    sizes: Sequence[int] = range(2, MOST + 1),
    counts: Sequence[int] = BYTES,
) -> list[Case]:
    """Return the calls of all combinations of operations, sizes and bytes."""
    return [
        (operation, size, count)
        for operation in operations
        for size in sizes
        for count in (counts if operation != "barrier" else counts[:1])
    ]


def recorded(
    mpi: Mpi,
    requested: Sequence[Case],
    environment: dict[str, str],
    folder: Path,
    options: Sequence[str] = (),
) -> tuple[dict[Case, list[str]], dict[Case, str]]:
    """Record a job of eight ranks.

    Returns rank 0's observation and the trace's record of each call.

    options: of `run`, beside the folder.
    """
    program = compiled(mpi, "library_algorithm_calls.c", "-ldl")
    words = [f"{name}:{size}:{count}" for name, size, count in requested]
    called = [program, folder, *words]
    command = prepare_run(["-o", folder / "trace", *options], called, env=environment)
    run_mpi(mpi, MOST, command, env=environment, check=True)
    printed = [line.split()[1:] for line in (folder / "0").read_text().splitlines()]
    trace = mpiprof.open(folder / "trace")
    reported: dict[Case, str] = {}
    refused: dict[Case, str] = {}  # calls expected to be accepted, recorded under another shape
    for shape in trace.tables.shapes:
        size = trace.tables.communicators[shape.communicator].size
        if shape.operation not in OPERATIONS or (shape.sent < 0 and shape.operation != "barrier"):
            continue
        count = library_bytes(shape, size)
        if shape.operation in ("allgatherv", "reduce_scatter"):
            count //= size
        elif shape.operation in ("alltoallv", "scatterv"):
            count = shape.received // (size if shape.operation == "alltoallv" else 1)
        elif shape.operation == "gatherv":
            count = shape.sent
        elif shape.operation == "barrier":
            count = BYTES[0]
        case = (shape.operation, size, count)
        if "error" in shape.flags:
            refused[case] = shape.algorithm
        # A call with a selected algorithm has two shapes: as entered, and as run.
        same = reported.setdefault(case, shape.algorithm) == shape.algorithm
        assert same or refused or options, case
    # The size of a refused call with an array of counts is unknown.
    return dict(zip(requested, printed, strict=True)), {
        c: (reported | refused).get(c, "native") for c in requested
    }


# Never selected: they need communicators on several nodes, or can end the job.
NOT_FORCED = {"smp": "needs several nodes", "ccl": "needs a library of its own"}


# Divided by nodes, unless each process has a separate node.
DIVIDED = ("allreduce", "barrier", "bcast", "reduce")
