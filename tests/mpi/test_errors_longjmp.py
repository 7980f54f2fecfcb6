"""Calls that an error handler leaves by longjmp or an exception do not affect later calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof

TURNS = 20
SWITCHES = ["", "allreduce=ring,bcast=binomial", "auto", "random:7"]


@pytest.fixture(params=["longjmp", "exception"])
def leaving(mpi: Mpi, request: pytest.FixtureRequest) -> Path:
    """Compile the program as C, and again as C++."""
    if request.param == "longjmp":
        return compiled(mpi, "errors_longjmp_exception.c", "-Wno-clobbered", "-O1")
    compiler = str(mpi.bin / "mpicxx")
    if shutil.which("g++") is None or not Path(compiler).exists():
        pytest.skip("no C++ compiler of this MPI")
    return compiled(mpi, "errors_longjmp_exception.c", "-O1", "-x", "c++", compiler=compiler)


def recorded(mpi: Mpi, program: Path, folder: Path, switch: str, *words: str) -> str:
    """Record a program on 2 ranks; returns its output in order of ranks."""
    options = ["-q", "-o", folder / "trace", *(["--switch", switch] if switch else [])]
    done = run_mpi(mpi, 2, prepare_run(options, [program, *words]), cwd=folder, check=True)
    return "\n".join(sorted(done.stdout.splitlines()))


@pytest.mark.parametrize("switch", SWITCHES, ids=["recorded", "forced", "auto", "random"])
def test_what_a_handler_leaves_is_taken_back(
    switch: str, mpi: Mpi, leaving: Path, tmp_path: Path
) -> None:
    """On 2 ranks: the program checks the known answers of every good call."""
    bare = "\n".join(sorted(run_mpi(mpi, 2, [leaving], check=True).stdout.splitlines()))
    assert recorded(mpi, leaving, tmp_path, switch) == bare
    trace = mpiprof.open(tmp_path / "trace")
    instances = trace.instances
    assert trace.is_complete
    assert not [line for line in trace.problems if "different operations" in line]
    pairs = instances[instances["size"] == 2]
    assert pairs["complete"].all()
    wanted = {"allreduce": 2 * TURNS, "bcast": 2 * TURNS, "iallreduce": TURNS}
    wanted |= {"comm_dup": TURNS, "finalize": 1}
    assert pairs["operation"].value_counts().to_dict() == wanted
    # Calls that a handler makes are separate calls.
    calls = (trace.events["operation"] == "allreduce").sum()
    requested = sum(int(line.rpartition(" ")[2]) for line in bare.splitlines())
    assert calls - 2 * wanted["allreduce"] == requested > 10 * TURNS
    found = raw_trace.read(tmp_path / "trace")
    done = [r for r in found.records if r.kind == "completion"]
    assert len(done) == 2 * TURNS
    made = [[name for how, name in found.identities(r) if how == "dup"] for r in (0, 1)]
    assert made[0] == made[1] and len(set(made[0])) == TURNS


@pytest.mark.parametrize("switch", ["", "allreduce=ring"], ids=["recorded", "forced"])
def test_stacks_of_one_thread(switch: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: coroutines on three stacks, in every order of addresses."""
    program = compiled(mpi, "threads_coroutines.c", "-O1")
    printed = recorded(mpi, program, tmp_path, switch).splitlines()
    trace = mpiprof.open(tmp_path / "trace")
    instances = trace.instances
    assert trace.is_complete and instances["complete"].all()
    assert not [line for line in trace.problems if "different operations" in line]
    # Calls that a reduction operation makes on another stack are part of the reduction.
    assert any(line.endswith("nested 1") for line in printed) and len(printed) == 2
    found = instances.groupby(["operation", "size"]).size().to_dict()
    yields = sum(int(line.split()[3]) for line in printed)
    assert yields > 0
    assert found == {("allreduce", 2): 4 * 30, ("finalize", 2): 1}
    assert (trace.events["operation"] == "barrier").sum() == yields


def test_a_communicator_that_one_rank_alone_is_refused(openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: the program checks its sums. MPICH refuses within the call, and hangs bare."""
    program = compiled(openmpi, "communicators_refused.c", "-O1")
    recorder = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    words = [*recorder, "--switch", "random:7", "--", str(program)]
    assert run_mpi(openmpi, 3, words, check=True, cwd=tmp_path).stdout == "ok\n"
    instances = mpiprof.open(tmp_path / "trace").instances
    calls = instances[
        (instances["size"] == 3) & instances["operation"].isin(["allreduce", "bcast"])
    ]
    assert len(calls) == 2 * TURNS
    assert calls["complete"].all()
