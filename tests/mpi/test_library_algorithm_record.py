"""The library's algorithm that a trace names is the one that ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.library_algorithm_runs import DIVIDED, FORCED, FUNCTIONS, NOT_FORCED, cases, recorded
from support.mpis import Mpi

import mpiprof
from mpiprof.facts.library_algorithms import find_algorithms


@pytest.mark.parametrize("index", range(1, 11))
def test_open_mpis_forced_algorithms(openmpi: Mpi, tmp_path: Path, index: int) -> None:
    """On 2 to 8 processes: the trace names the function that was called.

    The turn-th algorithm of every operation is forced. The last turn forces segmented algorithms.
    """
    forced = dict.fromkeys(FORCED, index)
    environment = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
    if index == 10:
        forced = {"allreduce": 5, "bcast": 4}
        for operation in forced:
            environment[f"OMPI_MCA_coll_tuned_{operation}_algorithm_segmentsize"] = "4096"
    forced = {o: n for o, n in forced.items() if n <= len(find_algorithms("openmpi", o))}
    if index == 6:
        del forced["allgather"]  # with two processes, MPI_Comm_split itself would fail
    environment |= {f"OMPI_MCA_coll_tuned_{o}_algorithm": str(n) for o, n in forced.items()}
    requested = [
        (operation, size, count)
        for operation, size, count in cases(tuple(forced))
        if size == 2
        or find_algorithms("openmpi", operation)[forced[operation] - 1].name != "two_proc"
    ]
    counter = compiled(openmpi, "library_algorithm_functions.c", "-shared", "-fPIC", "-ldl")
    environment["LD_PRELOAD"] = str(counter)
    printed, reported = recorded(openmpi, requested, environment, tmp_path)
    names = {
        f"{operation}_{word}": (operation, find_algorithms("openmpi", operation)[place].name)
        for operation, words in FUNCTIONS.items()
        for place, word in enumerate(words.split())
    }
    unknown = 0
    for case in requested:
        called = [names[one.replace("_intra_", "_")] for one in printed[case][1:]]
        took = [name for operation, name in called if operation == case[0]][-1]
        unknown += reported[case] == "native"
        assert reported[case] in ("native", f"native:{took}"), (case, printed[case])
    assert unknown <= 0.05 * len(requested)


def forced_in(index: int, apart: bool) -> dict[str, str]:
    """Return the turn-th algorithm of every operation that can be forced."""
    operations = sorted({one.operation for one in find_algorithms("mpich")})
    forced = {
        operation: find_algorithms("mpich", operation)[index - 1].name
        for operation in operations
        if index <= len(find_algorithms("mpich", operation)) and (operation in DIVIDED) == apart
    }
    return {o: name for o, name in forced.items() if name not in NOT_FORCED}


@pytest.mark.parametrize(
    ("index", "apart"),
    [(t, apart) for apart in (False, True) for t in range(1, 11) if forced_in(t, apart)],
)
def test_mpichs_forced_algorithms(mpich: Mpi, tmp_path: Path, index: int, apart: bool) -> None:
    """On 2 to 8 processes: the trace names the forced algorithm unless the library refuses it.

    The turn-th algorithm of every operation is forced. With `apart`, each process acts as a node,
    so algorithms in shared memory or by nodes do not exist.
    """
    forced = forced_in(index, apart)
    environment = {f"MPIR_CVAR_{o.upper()}_INTRA_ALGORITHM": name for o, name in forced.items()}
    # The library refuses impossible algorithms. The recorder itself calls this one with one
    # element.
    silent = forced.get("allreduce") == "reduce_scatter_allgather"
    environment["MPIR_CVAR_COLLECTIVE_FALLBACK"] = "silent" if silent else "error"
    if apart:
        environment |= {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ucx", "UCX_TLS": "tcp"}
    requested = [
        (operation, size, count)
        for operation, size, count in cases(tuple(forced), (2, 3, 4, 7, 8), (1, 1000, 1 << 16))
        # This algorithm ends the job on other numbers of processes.
        if forced[operation] != "noncommutative" or size in (2, 4, 8)
    ]
    printed, reported = recorded(mpich, requested, environment, tmp_path)
    for case in requested:
        refused = printed[case][0] != "0"
        if silent and case[0] == "allreduce" and case[2] == 1:
            assert reported[case] == "native:recursive_doubling", case  # too few elements
            continue
        if case[0] == "reduce_scatter" and forced[case[0]] == "noncommutative":
            assert reported[case] == "native", case  # equality of block sizes is not recorded
            continue
        assert reported[case] == ("native" if refused else f"native:{forced[case[0]]}"), case


VARIABLES = {"openmpi": "coll_tuned_barrier_algorithm", "mpich": "MPIR_CVAR_ALLTOALL_THROTTLE"}
ASKED = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}


def test_asking_leaves_the_librarys_settings_alone(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes: thread level and the program's own use of MPI_T are as without mpiprof."""
    settings = asked_beside(mpi, tmp_path)
    if mpi.name == "openmpi":
        assert settings[VARIABLES["openmpi"]] == 3
    assert settings


def test_asking_leaves_older_libraries_alone(system_mpi: Mpi, tmp_path: Path) -> None:
    """On 2 processes, as above: older libraries are not queried, as none names its algorithms."""
    assert asked_beside(system_mpi, tmp_path) == {}


def asked_beside(mpi: Mpi, folder: Path) -> dict[str, object]:
    """Run a program that uses MPI_T bare and recorded, compare, and return the recorded data."""
    command = [str(compiled(mpi, "mpi_t_program.c")), VARIABLES[mpi.name]]
    wrapper = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(folder / "trace"), "--"]
    bare = run_mpi(mpi, 2, command, env=ASKED, check=True).stdout
    ran = run_mpi(mpi, 2, [*wrapper, *command], env=ASKED, check=True).stdout
    assert bare.startswith("level 1") and "set to 3 3" in bare
    assert ran == bare
    settings: dict[str, object] = mpiprof.open(folder / "trace").meta["library"]["settings"]
    return settings
