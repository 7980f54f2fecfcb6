"""Which of its own algorithms a library took, as traces tell it, against what it did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.jobs import run_mpi
from support.mpis import Mpi
from support.programs import compiled

import mpiprof
from mpiprof.analysis.natives import library_bytes
from mpiprof.model.libraries import own
from mpiprof.operations import OPERATIONS

MOST = 8  # processes
BYTES = (1, 8, 64, 1000, 4096, 65536, 1 << 20)
FORCED = tuple(sorted({one.operation for one in own("openmpi")}))

# The functions of Open MPI that its algorithms are, in the order of their numbers.
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
    """Return calls of some operations, on all sizes, of all bytes."""
    return [
        (operation, size, count)
        for operation in operations
        for size in sizes
        for count in (counts if operation != "barrier" else counts[:1])
    ]


def recorded(
    mpi: Mpi, asked: Sequence[Case], environment: dict[str, str], folder: Path
) -> tuple[dict[Case, list[str]], dict[Case, str]]:
    """Record a job of eight ranks; gives what rank 0 says of each call, and what the trace says."""
    program = compiled(mpi, "own_ran.c", "-ldl")
    words = [f"{name}:{size}:{count}" for name, size, count in asked]
    command = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(folder / "trace"), "--"]
    command += [str(program), str(folder), *words]
    run_mpi(mpi, MOST, command, env=environment, check=True)
    said = [line.split()[1:] for line in (folder / "0").read_text().splitlines()]
    trace = mpiprof.open(folder / "trace")
    told: dict[Case, str] = {}
    refused: dict[Case, str] = {}  # which were expected to be accepted, by another shape
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
        assert told.setdefault(case, shape.algorithm) == shape.algorithm or refused, case
    # Of a call with an array of counts that was refused nothing is known.
    return dict(zip(asked, said, strict=True)), {
        c: (told | refused).get(c, "native") for c in asked
    }


@pytest.mark.parametrize("turn", range(1, 11))
def test_open_mpis_forced_algorithms(openmpi: Mpi, tmp_path: Path, turn: int) -> None:
    """On 2 to 8 processes: what the trace names is the function that was called.

    The turn-th algorithm of every operation is forced; in the last turn those with segments.
    """
    forced = dict.fromkeys(FORCED, turn)
    environment = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
    if turn == 10:
        forced = {"allreduce": 5, "bcast": 4}
        for operation in forced:
            environment[f"OMPI_MCA_coll_tuned_{operation}_algorithm_segmentsize"] = "4096"
    forced = {o: n for o, n in forced.items() if n <= len(own("openmpi", o))}
    if turn == 6:
        del forced["allgather"]  # for two processes: MPI_Comm_split itself would fail
    environment |= {f"OMPI_MCA_coll_tuned_{o}_algorithm": str(n) for o, n in forced.items()}
    asked = [
        (operation, size, count)
        for operation, size, count in cases(tuple(forced))
        if size == 2 or own("openmpi", operation)[forced[operation] - 1].name != "two_proc"
    ]
    counter = compiled(openmpi, "own_functions.c", "-shared", "-fPIC", "-ldl")
    environment["LD_PRELOAD"] = str(counter)
    said, told = recorded(openmpi, asked, environment, tmp_path)
    names = {
        f"{operation}_{word}": (operation, own("openmpi", operation)[place].name)
        for operation, words in FUNCTIONS.items()
        for place, word in enumerate(words.split())
    }
    unknown = 0
    for case in asked:
        called = [names[one.replace("_intra_", "_")] for one in said[case][1:]]
        took = [name for operation, name in called if operation == case[0]][-1]
        unknown += told[case] == "native"
        assert told[case] in ("native", f"native:{took}"), (case, said[case])
    assert unknown <= 0.05 * len(asked)


# Forced on communicators of several nodes, or where it can end the job.
NOT_FORCED = {"smp": "needs several nodes", "ccl": "needs a library of its own"}


DIVIDED = ("allreduce", "barrier", "bcast", "reduce")  # by nodes, unless each process is apart


def forced_in(turn: int, apart: bool) -> dict[str, str]:
    """Return the turn-th algorithm of every operation that can be forced."""
    operations = sorted({one.operation for one in own("mpich")})
    forced = {
        operation: own("mpich", operation)[turn - 1].name
        for operation in operations
        if turn <= len(own("mpich", operation)) and (operation in DIVIDED) == apart
    }
    return {o: name for o, name in forced.items() if name not in NOT_FORCED}


@pytest.mark.parametrize(
    ("turn", "apart"),
    [(t, apart) for apart in (False, True) for t in range(1, 11) if forced_in(t, apart)],
)
def test_mpichs_forced_algorithms(mpich: Mpi, tmp_path: Path, turn: int, apart: bool) -> None:
    """On 2 to 8 processes: what is forced is named unless the library says that it can't be.

    The turn-th algorithm of every operation is forced. `apart`: each process as if on a node of its
    own, where there are no algorithms in shared memory and no division by nodes.
    """
    forced = forced_in(turn, apart)
    environment = {f"MPIR_CVAR_{o.upper()}_INTRA_ALGORITHM": name for o, name in forced.items()}
    # Else the library refuses what can't be; but this the recorder itself calls, with one element.
    silent = forced.get("allreduce") == "reduce_scatter_allgather"
    environment["MPIR_CVAR_COLLECTIVE_FALLBACK"] = "silent" if silent else "error"
    if apart:
        environment |= {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "tcp"}
    asked = [
        (operation, size, count)
        for operation, size, count in cases(tuple(forced), (2, 3, 4, 7, 8), (1, 1000, 1 << 16))
        # Which ends the job on other numbers.
        if forced[operation] != "noncommutative" or size in (2, 4, 8)
    ]
    said, told = recorded(mpich, asked, environment, tmp_path)
    for case in asked:
        refused = said[case][0] != "0"
        if silent and case[0] == "allreduce" and case[2] == 1:
            assert told[case] == "native:recursive_doubling", case  # too few elements
            continue
        if case[0] == "reduce_scatter" and forced[case[0]] == "noncommutative":
            assert told[case] == "native", case  # whether blocks are of one size is not told
            continue
        assert told[case] == ("native" if refused else f"native:{forced[case[0]]}"), case


VARIABLES = {"openmpi": "coll_tuned_barrier_algorithm", "mpich": "MPIR_CVAR_ALLTOALL_THROTTLE"}
ASKED = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}


def test_asking_leaves_the_librarys_settings_alone(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes: a program's thread level and its own use of MPI_T are as without mpiprof."""
    settings = asked_beside(mpi, tmp_path)
    if mpi.name == "openmpi":
        assert settings[VARIABLES["openmpi"]] == 3
    assert settings


def test_asking_leaves_older_libraries_alone(system_mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes, as above: these are not even asked, as none of their algorithms is named."""
    assert asked_beside(system_mpi, tmp_path) == {}


def asked_beside(mpi: Mpi, folder: Path) -> dict[str, object]:
    """Run a program that uses MPI_T bare and recorded, compare, and give what was recorded."""
    command = [str(compiled(mpi, "own_tool.c")), VARIABLES[mpi.name]]
    wrapper = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(folder / "trace"), "--"]
    bare = run_mpi(mpi, 2, command, env=ASKED, check=True).stdout
    ran = run_mpi(mpi, 2, [*wrapper, *command], env=ASKED, check=True).stdout
    assert bare.startswith("level 1") and "set to 3 3" in bare
    assert ran == bare
    settings: dict[str, object] = mpiprof.open(folder / "trace").meta["library"]["settings"]
    return settings
