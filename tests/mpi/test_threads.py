"""MPI_THREAD_MULTIPLE: no record is lost, resources are bounded, Python threads are not delayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof

CHUNK = 65536


@pytest.fixture
def threads(mpi: Mpi) -> Path:
    """Compile the program with many threads."""
    return compiled(mpi, "threads_collectives.c", "-pthread")


def words_for(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *options]


def test_eight_threads_lose_nothing_on_2_ranks(mpi: Mpi, threads: Path, tmp_path: Path) -> None:
    trace, count = tmp_path / "trace", 100
    run_mpi(mpi, 2, prepare_run(["-q", "-o", trace], [threads, "8", str(count)]), check=True)
    opened = mpiprof.open(trace)
    assert opened.is_complete, opened.problems
    assert opened.dropped_records == 0
    events = opened.events
    of_rank = events.groupby(["rank", "operation"]).size().to_dict()
    made = {"comm_dup": 8, "finalize": 1}
    calls = {"allreduce": 8 * count, "barrier": 8 * (count // 10)}
    assert of_rank == {
        (rank, name): number for rank in (0, 1) for name, number in (made | calls).items()
    }
    # Each communicator's calls have consecutive numbers, in one thread each, and match.
    for _, own in events[~events["operation"].isin(made)].groupby(["rank", "communicator"]):
        assert sorted(own["sequence"]) == list(range(count + count // 10))
        assert own["thread"].nunique() == 1
    instances = opened.instances
    assert len(instances) == 8 * (count + count // 10) + 9
    assert instances["complete"].all()


@pytest.mark.parametrize(("together", "waves"), [(8, 500), (100, 10)])
def test_threads_that_come_and_go(
    together: int, waves: int, mpi: Mpi, threads: Path, tmp_path: Path
) -> None:
    """On 1 rank: thousands of threads, `together` at a time, share as many windows and no more."""
    trace, count = tmp_path / "trace", 5
    words = prepare_run(["-q", "-o", trace], [threads, str(together), str(count), str(waves)])
    run_mpi(mpi, 1, words, check=True)
    opened = mpiprof.open(trace)
    assert opened.is_complete, opened.problems
    total = together * waves * (count + 1)
    assert len(opened.events) == total
    assert opened.events["thread"].nunique() <= together
    # These threads and the main thread have windows for calls and for intervals.
    chunks = 2 * (together + 1) + total // 2046
    assert (trace / "rank-000000.log").stat().st_size <= (chunks + 1) * CHUNK


def test_threads_that_are_cancelled(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: 100 threads, many cancelled while they write to the tables under a lock."""
    program = compiled(mpi, "threads_cancelled.c", "-pthread")
    words = prepare_run(["-q", "-o", tmp_path / "trace"], [program, "100"])
    assert run_mpi(mpi, 1, words, check=True).stdout == "all cancelled\n"
    mpiprof.open(tmp_path / "trace")


BUSY = """
import sys, threading, time
from mpi4py import MPI
stop = False
def spin():
    n = 0
    while not stop: n += 1
others = [threading.Thread(target=spin) for _ in range(2)]
for t in others: t.start()
for i in range(20): MPI.COMM_WORLD.Barrier()
stop = True
for t in others: t.join()
MPI.COMM_WORLD.Allreduce(b'12345678', bytearray(8))
"""


@pytest.mark.parametrize(
    ("option", "beside", "after"),
    [("auto", "file", "file"), ("always", "file", "file"), ("never", "module", "module")],
)
def test_beside_busy_python_threads(
    option: str, beside: str, after: str, mpi: Mpi, tmp_path: Path
) -> None:
    """On 2 ranks: Python call sites need no GIL; each type of call site has its own field."""
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    words = [*words_for(mpi, tmp_path / "trace", "--python-sites", option), str(program)]
    run_mpi(mpi, 2, words, check=True)
    trace = raw_trace.read(tmp_path / "trace")
    for rank in range(2):
        records = trace.of(rank)
        assert [r.operation for r in records] == ["barrier"] * 20 + ["allreduce"]
        assert all(beside in r.frames[0] for r in records[:20])
        assert after in records[20].frames[0]
        if after == "file":
            assert records[20].frames[0]["file"] == str(program)


def test_python_threads_that_call(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: two Python threads, each with a communicator."""
    program = tmp_path / "both.py"
    program.write_text(
        "import threading\nfrom mpi4py import MPI\n"
        "comms = [MPI.COMM_WORLD.Dup() for _ in range(2)]\n"
        "both = threading.Barrier(2)\n"
        "def work(c):\n"
        "    both.wait()\n"
        "    for i in range(50): c.Barrier()\n"
        "    both.wait()\n"
        "ts = [threading.Thread(target=work, args=(c,)) for c in comms]\n"
        "for t in ts: t.start()\n"
        "for t in ts: t.join()\n"
    )
    run_mpi(mpi, 2, [*words_for(mpi, tmp_path / "trace"), str(program)], check=True)
    trace = raw_trace.read(tmp_path / "trace")
    for rank in range(2):
        records = trace.of(rank)
        assert len(records) == 100
        assert {r.frames[0]["function"] for r in records} == {"work"}
        assert len({r.thread for r in records}) == 2


@pytest.mark.parametrize("spec", ["random:1", "allgather=kang", "auto", "allgather=ring"])
def test_communicators_taken_for_each_other_on_3_ranks(
    spec: str, openmpi: Mpi, tmp_path: Path
) -> None:
    """Two threads create them at once with one tag, in another order on another rank."""
    program = compiled(openmpi, "threads_crossed_creation.c", "-pthread")
    words = prepare_run(["-q", "-o", tmp_path / "trace", "--switch", spec], [program, "60"])
    ended = run_mpi(openmpi, 3, words, check=True)
    assert ended.stdout == "0 wrong\n"


@pytest.mark.parametrize("spec", ["random:1", "barrier=dissemination"])
def test_private_communicators_beside_those_of_threads(spec: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks of Open MPI, which once hung, and 2 of MPICH."""
    program = compiled(mpi, "threads_creation.c", "-pthread")
    words = prepare_run(["-q", "-o", tmp_path / "trace", "--switch", spec], [program, "2"])
    ended = run_mpi(mpi, 4 if mpi.name == "openmpi" else 2, words, check=True)
    assert ended.stdout == "made\n"


@pytest.mark.slow
def test_threads_with_equal_request_handles(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: each of 4 threads completes its own operations, though their handle is equal."""
    program = str(compiled(mpi, "threads_shared_request.c", "-pthread"))
    ended = run_mpi(mpi, 1, prepare_run(["-q", "-o", tmp_path / "trace"], [program]), check=True)
    assert ended.stdout == "done\n"
    trace = raw_trace.read(tmp_path / "trace")
    assert len(trace.of(0)) == len(trace.of(0, "completion")) == 4 * 30000


SMALL_STACKS = {
    "recorded": [],
    "stack": ["--stack", "4"],
    "summary": ["--record", "summary"],
    "plan": ["--switch", "allreduce=ring,allgather=ring,bcast=binomial,barrier=dissemination"],
    "library": ["--switch", "allreduce=native:recursive_doubling,allgather=native:ring"],
    "auto": ["--switch", "auto"],
    "random": ["--switch", "random:7"],
    "robust": ["--switch", "robust"],
}


@pytest.mark.parametrize("options", SMALL_STACKS.values(), ids=SMALL_STACKS)
def test_stacks_of_16_kilobytes_on_2_ranks(options: list[str], mpi: Mpi, tmp_path: Path) -> None:
    """A thread and a coroutine make all calls of a communicator, also the first switched call."""
    program, trace = compiled(mpi, "threads_small_stacks.c", "-pthread"), tmp_path / "trace"
    words = prepare_run(["-q", "-o", trace, *options], [program])
    done = run_mpi(mpi, 2, words, check=True)
    assert done.stdout == "600\n"
    opened = mpiprof.open(trace)
    assert opened.is_complete, opened.problems
    if "allgather=" in "".join(options):
        algorithms = opened.instances.groupby("operation")["algorithm"].unique()["allgather"]
        assert all("ring" in str(name) for name in algorithms)
