"""Every sample prints the same result bare and recorded, and the trace has its collectives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import ROOT
from support.jobs import EVERY_TRANSPORT, run, run_failing_mpi, run_mpi
from support.mpis import LONG_WITH_MPICH, Mpi
from support.trace_tables import table_rows

import mpiprof

SAMPLES = ROOT / "samples"


@dataclass(frozen=True)
class Case:
    """A run of a sample: its file and arguments, its number of ranks, and its operations."""

    words: str
    ranks: int
    operations: str

    @property
    def argv(self) -> list[str]:
        """Return the program with its arguments, without its interpreter."""
        name, *arguments = self.words.split()
        return [str(SAMPLES / name), *arguments]


CASES = [
    Case("nbody.py", 4, "allgather gather"),
    Case("ft.py", 3, "bcast barrier alltoall reduce"),
    Case("integer_sort.py", 4, "allreduce alltoall alltoallv exscan"),
    Case("md.py --variant allgatherv", 3, "bcast barrier allgatherv allreduce"),
    Case("md.py --variant allreduce", 4, "bcast barrier allreduce"),
    Case("metal.py", 3, "bcast barrier allreduce"),
    Case("metal.py --variant allgatherv", 4, "bcast barrier allgatherv allreduce"),
    Case("transpose.py", 4, "alltoall allreduce"),
    Case("transpose.py --datatype --order 100", 3, "alltoall allreduce"),
    Case("fft2d.py", 4, "alltoall allreduce"),
    Case("fft2d.py --pieces 3 --order 100", 3, "ialltoall allreduce"),
    Case("hydro.py", 2, "alltoall allreduce"),
    Case("hydro.py --axis y --cells 50", 3, "alltoall allreduce"),
    Case("coupled.py", 4, "allgather allgatherv allreduce"),
    Case("microbenchmark.py --late 1:2", 3, "barrier alltoall allreduce gather"),
]
LATE_RANK = "barrier bcast reduce allreduce gather allgather alltoall"


# Runs one sample after the other in one process, separated by form feeds, because numpy's import
# takes half of the time.
EACH = """
import json, runpy, sys
from pathlib import Path
from mpi4py import MPI
for words in json.loads(sys.argv[1]):
    sys.argv, sys.path[0] = words, str(Path(words[0]).parent)
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 0:
        print(chr(12), end="", flush=True)
"""


def result_of(output: str) -> list[str]:
    """Return the output of a sample without the lines with measured times."""
    return [line for line in output.splitlines() if not line.startswith("measured:")]


def printed(mpi: Mpi, ranks: int, argvs: list[list[str]]) -> list[str]:
    """Return the output of each of some Python samples; all run in one job."""
    words = [str(mpi.python), "-c", EACH, json.dumps(argvs)]
    *texts, rest = run_mpi(mpi, ranks, words, check=True).stdout.split("\f")
    assert len(texts) == len(argvs) and not rest.strip()
    return texts


@pytest.fixture(scope="module")
def printed_bare(mpi: Mpi) -> dict[Case, str]:
    """Return the output of each case unrecorded."""
    found: dict[Case, str] = {}
    for ranks in sorted({case.ranks for case in CASES}):
        cases = [case for case in CASES if case.ranks == ranks]
        texts = printed(mpi, ranks, [case.argv for case in cases])
        found |= dict(zip(cases, texts, strict=True))
    return found


def same_bare_and_recorded(
    mpi: Mpi,
    ranks: int,
    bare: str,
    recorded: list[str],
    operations: str,
    trace: Path,
    env: dict[str, str] | None = None,
) -> None:
    """Run a sample recorded; `recorded` follows `mpiprof run` and its options."""
    wrapper = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace)]
    printed = run_mpi(mpi, ranks, [*wrapper, *recorded], check=True, cwd=trace.parent, env=env)
    assert result_of(bare)[-1] == "check ok"
    assert result_of(printed.stdout) == result_of(bare)
    recording = mpiprof.open(trace)
    assert recording.is_complete, recording.problems
    assert set(table_rows(recording.callsites)["operation"]) == set(operations.split())


@LONG_WITH_MPICH
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.words}, {case.ranks} ranks")
def test_python(case: Case, mpi: Mpi, printed_bare: dict[Case, str], tmp_path: Path) -> None:
    bare, trace = printed_bare[case], tmp_path / "trace"
    same_bare_and_recorded(mpi, case.ranks, bare, case.argv, case.operations, trace)


def test_beside_all_that_open_mpi_opens_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """With Libfabric and UCX, which has hooks of its own; all other tests disable them."""
    words = [str(openmpi.python), *(case := CASES[1]).argv]
    env, trace = EVERY_TRANSPORT, tmp_path / "trace"
    bare = run_mpi(openmpi, case.ranks, words, check=True, cwd=tmp_path, env=env).stdout
    same_bare_and_recorded(openmpi, case.ranks, bare, case.argv, case.operations, trace, env)
    noisy = {**env, "OMPI_MCA_pml_base_verbose": "10"}
    message = run_mpi(openmpi, case.ranks, words, check=True, cwd=tmp_path, env=noisy)
    assert "initializing pml component ucx" in message.stdout + message.stderr


def compile_late_rank(mpi: Mpi, folder: Path) -> list[str]:
    """Compile the C sample with an MPI's own compiler; returns its command line."""
    program = folder / "late_rank"
    source = SAMPLES / "late_rank.c"
    run([mpi.mpicc, "-Wall", "-Wextra", "-Werror", "-g", "-O2", "-o", program, source], check=True)
    return [str(program), "--rank", "1", "--late", "2"]


def test_c_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    argv = compile_late_rank(mpi, tmp_path)
    bare = run_mpi(mpi, 3, argv, check=True).stdout
    same_bare_and_recorded(mpi, 3, bare, ["--", *argv], LATE_RANK, tmp_path / "trace")


def test_c_on_3_ranks_of_the_system(system_mpi: Mpi, tmp_path: Path) -> None:
    argv = compile_late_rank(system_mpi, tmp_path)
    bare = run_mpi(system_mpi, 3, argv, check=True).stdout
    same_bare_and_recorded(system_mpi, 3, bare, ["--", *argv], LATE_RANK, tmp_path / "trace")


@pytest.mark.parametrize(
    ("exchange", "operations"),
    [("sendrecv", "allreduce"), ("neighbor", "allreduce neighbor_alltoall")],
)
def test_fortran_on_4_ranks(
    exchange: str, operations: str, system_mpi: Mpi, tmp_path: Path
) -> None:
    program = tmp_path / "halo"
    source = SAMPLES / "halo.f90"
    run([system_mpi.mpifort, "-g", "-O2", "-o", program, source], cwd=tmp_path, check=True)
    argv = [str(program), "50", "50", exchange]
    bare = run_mpi(system_mpi, 4, argv, check=True).stdout
    same_bare_and_recorded(system_mpi, 4, bare, ["--", *argv], operations, tmp_path / "trace")


@LONG_WITH_MPICH
def test_both_variants_of_molecular_dynamics_have_equal_results(mpi: Mpi) -> None:
    """On 2 ranks."""
    names, variants = ("md.py", "metal.py"), ("allgatherv", "allreduce")
    argvs = [[str(SAMPLES / name), "--variant", v] for name in names for v in variants]
    first, second, third, fourth = printed(mpi, 2, argvs)
    assert result_of(first) == result_of(second) != []
    assert result_of(third) == result_of(fourth) != []


def test_coupled_states_its_requirements(mpi: Mpi) -> None:
    alone = run_failing_mpi(mpi, 1, [mpi.python, SAMPLES / "coupled.py"])
    assert alone.returncode == 2
    assert alone.stderr.startswith("coupled.py: needs at least 2 processes")
    assert alone.stdout == ""
