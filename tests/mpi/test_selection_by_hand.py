"""Selection by hand: the algorithms that run, and the messages about rules that do not apply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run, run_mpi, run_verb
from support.mpis import Mpi
from support.rabenseifner import static_choice
from support.switch_runs import algorithms_run, script, switched, unnamed
from support.trace_tables import table_rows

import mpiprof

REDUCTIONS = """
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
for n in (2, 200, 8192):
    given, out = array('d', range(n)), array('d', [0] * n)
    wanted = [world.size * i for i in range(n)]
    world.Allreduce(given, out)
    assert list(out) == wanted
    world.Reduce(given, out, root=0)
    assert list(out) == wanted
"""
OPERATIONS = """
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
everyone = range(size)
for turn in range(4):
    out = array('i', [0] * 2 * size)
    world.Alltoall(array('i', [100 * rank + i // 2 for i in range(2 * size)]), out)
    assert list(out) == [100 * (i // 2) + rank for i in range(2 * size)], out
    message = array('i', range(300) if rank == 1 else [0] * 300)
    world.Bcast(message, root=1)
    assert list(message) == list(range(300))
    counts = [50 * (i % 2) + 1 for i in everyone]
    out = array('i', [0] * sum(counts))
    world.Allgatherv(array('i', [rank] * counts[rank]), [out, counts])
    assert list(out) == [i for i in everyone for _ in range(counts[i])]
    out = array('i', [0])
    world.Allreduce(array('i', [rank + turn]), out)
    assert out[0] == sum(i + turn for i in everyone)
    out = array('i', [0] * size)
    world.Allgather(array('i', [rank]), out)
    assert list(out) == list(everyone)
    world.Barrier()
if size == 4:
    half = world.Split(rank // 2)
    bridge = half.Create_intercomm(0, world, 2 - rank // 2 * 2)
    out = array('i', [0, 0])
    bridge.Allgather(array('i', [rank]), out)
    assert list(out) == [2 - rank // 2 * 2, 3 - rank // 2 * 2]
    for i in range(3):
        if rank < 2:
            bridge.Allgather(array('i', [rank]), out) # the first group
        else:
            bridge.Allgather(array('i', [rank]), out)
        assert list(out) == [2 - rank // 2 * 2, 3 - rank // 2 * 2]
"""


def line_of(text: str, mark: str) -> int:
    """Return the number of the line with a mark."""
    return next(n for n, line in enumerate(text.split("\n"), 1) if line.endswith(f"# {mark}"))


@pytest.mark.parametrize("ranks", [3, 4])
def test_operations(mpi: Mpi, tmp_path: Path, ranks: int) -> None:
    script(tmp_path, OPERATIONS)
    spec = (
        "alltoall=pair,bcast=binomial,allgatherv=pipelined_ring:block_size=64:order=spread,"
        "allreduce=recursive_doubling,allgather=kang,allgather=ring,alltoall=simple,"
        f"app.py:{line_of(OPERATIONS, 'the first group')}=kang_two_step"
    )
    words = ["-m", "mpiprof", "run", "-n", str(ranks), "-o", "trace", "--switch", spec, "app.py"]
    done = run([mpi.python, *words], cwd=tmp_path, check=True)
    trace = mpiprof.open(tmp_path / "trace")
    table = trace.callsites[trace.callsites["size"] == ranks].set_index("operation")["algorithm"]
    expected = {
        "alltoall": "pair" if ranks == 4 else "native",
        "bcast": "binomial",
        "allgatherv": "pipelined_ring:block_size=64:order=spread",
        "allreduce": "recursive_doubling",
        "barrier": "native",
        "allgather": "kang+kang_two_step+ring" if ranks == 4 else "ring",
    }
    assert "+".join(sorted({*table.loc[["allgather"]]})) == expected["allgather"]
    for operation in set(expected) - {"allgather"}:
        assert unnamed(table[operation]) == expected[operation], operation
    complaints = [line for line in done.stderr.splitlines() if "left to the library" in line]
    assert len(complaints) == (ranks == 3)
    assert ("kang_two_step was not used" in done.stderr) == (ranks == 3)
    if ranks == 3:
        assert "alltoall=pair: 4 calls were left to the library" in complaints[0]
        assert "(it requires a power of two of processes)" in complaints[0]
    assert "pipelined_ring:block_size=64:order=spread" in run_verb("report", "--all", trace.path)[1]
    sites = json.loads(run_verb("report", trace.path, "--json")[1])["callsites"]
    assert {s["algorithm"] for s in sites if s["operation"] == "bcast"} == {"binomial"}


CALL_SITES = """
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
a, b, c, d, e = (world.Dup() for _ in range(5))
one, two = array('i', [1]), array('i', [0])
for i in range(8):
    a.Barrier()
    a.Allreduce(one, two) # after the barrier
    assert two[0] == size
    a.Bcast(one)
    a.Allreduce(one, two) # after the broadcast
    assert two[0] == size
for i in range(8):
    if rank == 0:
        b.Bcast(one) # the root
    else:
        b.Bcast(two) # the others
    assert rank == 0 or two[0] == 1
for i in range(8):
    c.Barrier() # named second
    c.Barrier() # named first
for i in range(8):
    d.Allgather(one, array('i', [0] * size)) # unnamed
    d.Allgather(one, array('i', [0] * size)) # named
MPI.Pcontrol(0)
for i in range(8):
    if i == 4 + rank: MPI.Pcontrol(1)
    e.Alltoall(array('i', [i] * size), array('i', [0] * size)) # paused
"""


def test_call_sites(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: each communicator has separate keys, so it is a separate case."""
    script(tmp_path, CALL_SITES)
    at = {
        name: line_of(CALL_SITES, name)
        for name in (
            "after the barrier",
            "after the broadcast",
            "the root",
            "the others",
            "named first",
            "named second",
            "named",
            "unnamed",
            "paused",
        )
    }
    wishes = {
        "after the broadcast": "binary_tree",
        "the root": "chain:block_size=3",
        "named first": "tournament",
        "named second": "linear",
        "named": "ring",
        "paused": "ring_light_barrier",
        "the others": "flat_tree",
    }
    spec = ",".join(f"{tmp_path.name}/app.py:{at[name]}={a}" for name, a in wishes.items())
    spec = spec.replace(f"{tmp_path.name}/app.py", "app.py", 2)
    trace, printed = switched(mpi, 3, tmp_path, spec, "app.py")

    assert set(algorithms_run(trace, at["after the barrier"])) == {"native"}
    assert algorithms_run(trace, at["after the broadcast"]) == ["binary_tree"] * 8
    # Rank 0 sees the root's line, and the other ranks follow.
    assert algorithms_run(trace, at["the root"]) == ["chain:block_size=3"] * 8
    # After the first few calls their histories are equal. They share one key, whose agreed rule
    # changes no later than at its 8th instance.
    assert set(algorithms_run(trace, at["named first"])[5:]) == {"tournament"}
    assert set(algorithms_run(trace, at["named second"])[5:]) == {"tournament"}
    assert set(algorithms_run(trace, at["named"])[5:]) == {"ring"}
    assert set(algorithms_run(trace, at["unnamed"])[5:]) == {"ring"}
    # MPI_Pcontrol pauses records, not choices.
    assert algorithms_run(trace, at["paused"])[-2:] == ["ring_light_barrier"] * 2
    assert len(algorithms_run(trace, at["paused"])) == 4

    name = {key: f"app.py:{line}" for key, line in at.items()}
    own = f"{tmp_path.name}/"
    text = "\n".join(printed)
    assert len([line for line in printed if "yields to" in line]) == 1, text
    assert f"{own}{name['named second']}=linear yields to {own}{name['named first']}" in text
    assert f"{own}{name['named']}=ring also applies to {name['unnamed']}" in text, text
    assert f"{own}{name['the others']}=flat_tree was not used" in text, text
    assert len(printed) == 3, text


def test_random_choices_are_equal_on_all_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks: every byte is right, and all members name the same random algorithm."""
    script(tmp_path, OPERATIONS)
    trace, printed = switched(mpi, 4, tmp_path, "random:7", "app.py")
    assert printed == []
    events = trace.events
    by_call = events.groupby(["communicator", "sequence"], observed=True)["algorithm"]
    assert (by_call.nunique() == 1).all()
    assert len(set(events["algorithm"])) > 8


def test_a_seed_draws_the_same_in_every_job(openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: a seed reproduces the choices of a run, and another seed differs."""

    def drawn(name: str, seed: int) -> list[str]:
        (tmp_path / name).mkdir()
        script(tmp_path / name, OPERATIONS)
        events = switched(openmpi, 3, tmp_path / name, f"random:{seed}", "app.py")[0].events
        by = ["rank", "communicator", "sequence", "operation"]
        return [str(algorithm) for algorithm in events.sort_values(by)["algorithm"]]

    first = drawn("first", 7)
    assert first == drawn("again", 7)
    assert first != drawn("other", 8)


FREED = """
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
one, two = array('i', [1]), array('i', [0])
for i in range(1000):
    comm = world.Dup()
    comm.Allreduce(one, two)
    assert two[0] == world.size
    comm.Free()
for i in range(300): # more keys than the table holds, each again after all others
    world.Bcast(bytearray(1 + i % 150))
    if i % 5 == 0: world.Barrier()
"""


def test_freed_communicators_and_many_keys(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: 1000 communicators switched and freed, and 300 keys in a table of 128."""
    script(tmp_path, FREED)
    line = next(n for n, text in enumerate(FREED.split("\n"), 1) if "world.Bcast" in text)
    spec = f"allreduce=ring,app.py:{line}=chain"
    trace, printed = switched(mpi, 2, tmp_path, spec, "--record", "summary", "app.py")
    table = table_rows(trace.callsites).set_index("operation")
    assert printed == []
    assert table["algorithm"].to_dict() == {
        "allreduce": "ring",
        "bcast": "chain",
        "barrier": "native",
    }
    assert table["instances"].to_dict() == {"allreduce": 1000, "bcast": 300, "barrier": 60}


@pytest.mark.parametrize("ranks", [3, 4])
def test_the_papers_choice_of_a_protocol(ranks: int, openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 and 4 ranks: the protocol follows from processes and bytes, and the trace names it."""
    app = script(tmp_path, REDUCTIONS)
    trace, _ = switched(openmpi, ranks, tmp_path, "allreduce=static,reduce=static", app)
    for operation in ("allreduce", "reduce"):
        rows = table_rows(trace.instances).to_dict("records")
        found = [r["algorithm"] for r in rows if r["operation"] == operation]
        assert found == [static_choice(operation, ranks, 8 * n) for n in (2, 200, 8192)]


def test_only_reductions_have_a_choice_of_the_papers(openmpi: Mpi, tmp_path: Path) -> None:
    app = script(tmp_path, "")
    words = [openmpi.python, "-m", "mpiprof", "run", "--switch", "bcast=static", app]
    done = run([str(word) for word in words], cwd=tmp_path)
    assert done.returncode == 2
    assert "no algorithm 'static' for bcast" in done.stderr


@pytest.mark.parametrize(
    "switch",
    ["barrier=dissemination,allreduce=ring", "allreduce=native:ring", "auto", "random:1", "robust"],
)
def test_nonblocking_operations_in_another_order_on_3_ranks(
    switch: str, mpi: Mpi, tmp_path: Path
) -> None:
    """Libraries forgive ranks that start one on different sides of a barrier, and so do schedules.

    The program checks its results, also on the duplicates that are created in this way.
    """
    program = compiled(mpi, "selection_order.c")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    done = run_mpi(mpi, 3, [*words, "--switch", switch, "--", program], check=True)
    assert done.stdout == "0 wrong\n"
    if "dissemination" in switch:
        calls = mpiprof.open(tmp_path / "trace").events
        algorithms = calls[calls["operation"] == "barrier"]["algorithm"].astype(str)
        assert set(algorithms) == {"dissemination"} and len(algorithms) == 3 * 60


def test_no_communicator_is_made_beside_a_pending_duplicate(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: one has a pending MPI_Comm_idup in the first barrier, the others call it later.

    Libraries number communicators one after the other, so the first one would wait for the others.
    """
    program = compiled(mpi, "selection_order.c")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    words += ["--switch", "barrier=dissemination", "--", str(program), "3"]
    done = run_mpi(mpi, 3, words, check=True)
    assert done.stdout == "0 wrong\n"
    calls = mpiprof.open(tmp_path / "trace").events
    algorithms = calls[calls["operation"] == "barrier"].sort_values(["rank", "enter_ns"])[
        "algorithm"
    ]
    of_rank = algorithms.astype(str).to_numpy().reshape(3, 57)
    assert (of_rank[:, 0] == "native").all() and (of_rank[:, 1:] == "dissemination").all()
