"""Intel MPI's runtime from PyPI: mpi4py recorded, on mpiprof's algorithms, and with exported rules.

`CI=true make test` installs it into an environment of its own. mpi4py is that of MPICH's
environment, because the two MPIs have one ABI.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ROOT
from support.jobs import run
from support.mpis import Mpi
from support.switch_runs import algorithms_run, script
from support.trace_tables import table_rows

import mpiprof
from mpiprof.collectives.tune.export_rules import targets
from mpiprof.collectives.tune.export_rules.cells import Cell
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.library_table import INTEL

pytestmark = pytest.mark.slow

INSTALLED = ROOT / ".venv" / "impi"
PROGRAM = """\
import numpy
for turn in range(20):
    total = numpy.empty(4)
    comm.Allreduce(numpy.full(4, float(comm.rank)), total)
    assert (total == sum(range(comm.size))).all()
    comm.Barrier()
    assert comm.bcast("text" if comm.rank == 1 else None, root=1) == "text"
print(MPI.Get_library_version().partition("\\n")[0])
"""


@pytest.fixture
def launch() -> list[str]:
    """Return the words that start a program on 2 ranks under Intel MPI."""
    launcher = INSTALLED / "bin" / "mpiexec"
    if not launcher.exists():
        pytest.skip(f"no Intel MPI in {INSTALLED}: `make .venv/impi/.runtime` installs it")
    libmpi = f"MPI4PY_LIBMPI={INSTALLED / 'lib' / 'libmpi.so.12'}"
    return ["env", libmpi, "I_MPI_DEBUG=4", str(launcher), "-n", "2"]


@pytest.mark.parametrize("switch", ["", "allreduce=ring,bcast=binomial"], ids=["recorded", "plan"])
def test_mpi4py(switch: str, launch: list[str], mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the program checks its results; every call is recorded, on its algorithm."""
    program = script(tmp_path, "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n" + PROGRAM)
    recorder = [str(mpich.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace")]
    recorder += ["--switch", switch] if switch else []
    ended = run([*launch, *recorder, str(program)], cwd=tmp_path, check=True)
    assert ended.stdout.count("Intel(R) MPI Library") >= 2
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete and not trace.problems
    assert str(trace.meta["mpi"]).startswith("Intel(R) MPI Library")
    instances = table_rows(trace.instances)
    counts = instances.groupby("operation").size().to_dict()
    # An object has two broadcasts: of its length, and of its bytes.
    assert counts == {"allreduce": 20, "barrier": 20, "bcast": 40}
    assert instances["complete"].all()
    ran = ["ring", "native", "binomial", "binomial"] if switch else ["native"] * 4
    assert algorithms_run(trace)[:80] == ran * 20


def test_exported_lines_are_accepted(launch: list[str], mpich: Mpi, tmp_path: Path) -> None:
    """Intel MPI names each line that it ignores: only the wrong one of this test."""
    program = script(tmp_path, "from mpi4py import MPI\n")
    algorithms = find_algorithms(INTEL)
    cells = [Cell(one.operation, 2, 8, 4096, one, 0, "", "") for one in algorithms]
    variables = targets.make_environment(cells)
    assert set(variables) == {f"I_MPI_ADJUST_{one.operation.upper()}" for one in algorithms}
    del variables["I_MPI_ADJUST_SCATTER"]
    lines = [f"{name}={value}" for name, value in variables.items()]
    lines.append("I_MPI_ADJUST_SCATTER=1:from-to@2")
    ended = run(["env", *lines, *launch, str(mpich.python), str(program)], check=True)
    ignored = [line for line in ended.stdout.splitlines() if "Incorrect adjust value" in line]
    assert len(ignored) == 1 and "SCATTER" in ignored[0], ended.stdout
