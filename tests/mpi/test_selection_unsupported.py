"""Calls that selection by hand leaves to the library: unsupported calls and wrong calls."""

from __future__ import annotations

import json
from pathlib import Path

from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.switch_runs import algorithms_run, script, switched, unnamed
from support.trace_tables import table_rows

import mpiprof

USED_UP = """
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
one, two = array('i', [1]), array('i', [0])
world.Set_errhandler(MPI.ERRORS_RETURN)
last, kept = world.Dup(), []
while True:
    try: kept.append(world.Dup())
    except MPI.Exception: break
assert len(kept) > 1000
kept.pop().Free()
for comm in (kept[0], last): # with one communicator left, the first gets it
    comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
    for i in range(3):
        comm.Allreduce(one, two)
        assert two[0] == world.size
    assert comm.Get_errhandler() == MPI.ERRORS_ARE_FATAL
"""


def test_no_private_communicator_left(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: MPICH has 2043 communicators; without a private one the library's choice runs."""
    script(tmp_path, USED_UP)
    trace, printed = switched(mpich, 2, tmp_path, "allreduce=ring", "app.py")
    assert sorted(algorithms_run(trace)) == ["native"] * 3 + ["ring"] * 3
    assert printed == [
        "1 communicator was left to the library: MPI could not create another private communicator"
    ]


SPLIT = """
from array import array
from mpi4py import MPI
comm = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank > 0)
one, two = array('i', [1] * comm.size), array('i', [0] * comm.size)
for i in range(3):
    comm.Alltoall(one, two)
"""


def test_another_leader_notes_what_was_left(openmpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks: rank 1 leads a communicator without rank 0, and has its note in the trace."""
    script(tmp_path, SPLIT)
    trace, said = switched(openmpi, 4, tmp_path, "alltoall=pair", "app.py")
    assert said == []
    (note,) = trace.notes
    assert note.startswith("rank 1: alltoall=pair: 3 calls were left to the library")


WRONG = """
#include <mpi.h>
#include <stdio.h>

static void show(const char *name, int error)
{
    int class = 0;

    MPI_Error_class(error, &class);
    printf("%s %d\\n", name, class);
}

int main(int c, char **v)
{
    int x[64] = {0}, y[64] = {0}, counts[16] = {1, -1};

    MPI_Init(&c, &v);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++) {
        show("root", MPI_Bcast(x, 1, MPI_INT, 99, MPI_COMM_WORLD));
        show("type", MPI_Bcast(x, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
        show("count", MPI_Alltoall(x, -1, MPI_INT, y, -1, MPI_INT, MPI_COMM_WORLD));
        show("counts", MPI_Allgatherv(x, 1, MPI_INT, y, counts, counts, MPI_INT, MPI_COMM_WORLD));
        show("op", MPI_Allreduce(x, y, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
        show("good", MPI_Bcast(x, 1, MPI_INT, 0, MPI_COMM_WORLD)); /* named */
        show("good", MPI_Allreduce(x, y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        MPI_Reduce(x, y, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Exscan(x, y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""


def test_wrong_arguments_and_lines_of_c(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: errors are the library's own, and a refused call switches nothing."""
    source = tmp_path / "wrong.c"
    source.write_text(WRONG)
    program = tmp_path / "wrong"
    run([mpi.mpicc, "-w", "-g", "-O1", "-o", program, source], check=True)
    bare = run_mpi(mpi, 3, [program], check=True).stdout.splitlines()
    line = next(n for n, text in enumerate(WRONG.split("\n"), 1) if "/* named */" in text)
    plan = [
        {"call_sites": [f"wrong.c:{line}"], "algorithm": "chain", "parameters": {"block_size": 2}},
        {"operation": "allreduce", "size": 3, "bytes": {"to": 8}, "algorithm": "binary_tree"},
        {"operation": "reduce", "size": 4, "algorithm": "ring", "why": "not this size"},
        {"operation": "reduce", "bytes": {"from": 5}, "algorithm": "ring", "why": "nor bytes"},
        {"operation": "alltoall", "algorithm": "ring"},
        {"operation": "allgatherv", "algorithm": "linear_ring"},
    ]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    recorder: list[str | Path] = [
        mpi.python,
        "-m",
        "mpiprof",
        "run",
        "-q",
        "-o",
        tmp_path / "trace",
    ]
    words: list[str | Path] = [*recorder, "--switch", "plan.json", "--", program]
    done = run_mpi(mpi, 3, words, cwd=tmp_path, check=True)
    assert sorted(done.stdout.splitlines()) == sorted(bare)
    rows = table_rows(mpiprof.open(tmp_path / "trace").callsites)
    table = rows.set_index("operation")["algorithm"].map(unnamed)
    # Open MPI finds nothing wrong with counts that add up to 0.
    assert table.pop("allgatherv") == "native" if "allgatherv" in table else True
    assert table.to_dict() == {
        "bcast": "chain:block_size=2",
        "allreduce": "binary_tree",
        "reduce": "native",
        "exscan": "native",
    }


def test_ranks_with_different_wishes_switch_nothing(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks with different rules: nothing is switched, which avoids a deadlock."""
    app = script(tmp_path, "from mpi4py import MPI\nfor i in range(5): MPI.COMM_WORLD.Barrier()\n")
    parts: list[str | Path] = []
    for name in ("linear", "tournament"):
        words: list[str | Path] = ["-m", "mpiprof", "run", "-o", tmp_path / "trace"]
        words += ["--switch", f"barrier={name}"]
        parts += [":", "-n", "1", mpich.python, *words, app]
    done = run([mpich.bin / "mpiexec", *parts[1:]], check=True)
    assert done.stderr.count(": the ranks have different options") == 1
    assert set(algorithms_run(mpiprof.open(tmp_path / "trace"))) == {"native"}
