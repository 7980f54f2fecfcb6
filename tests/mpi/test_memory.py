"""The recorder's memory is bounded and released, and its absence ends no program.

tests/programs/memory_refused_collectives.c checks every result of its collectives.
tests/programs/memory_refusal.c refuses memory to the recorder.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import EVERY_TRANSPORT, run, run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.account.shape_names import is_native
from mpiprof.collectives.schedule import COPY, Problem, Schedule, load_catalogue, step_columns

RANKS = 3
EVERYTHING = "alltoall=bruck,bcast=chain,allgather=bruck,allreduce=ring,reduce=ring,alltoallv=ring"


@pytest.fixture
def calls() -> Callable[[Mpi], Path]:
    """Return a function that compiles the program of checked calls."""
    return lambda mpi: compiled(mpi, "memory_refused_collectives.c", "-std=gnu11", "-O1")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that refuses memory."""
    library = tmp_path_factory.mktemp("failing") / "libfailing.so"
    words: list[str | Path] = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library]
    run(["cc", *words, PROGRAMS / "memory_refusal.c", "-ldl"], check=True)
    return library


def recorder(mpi: Mpi, folder: Path, options: list[str]) -> list[str | Path]:
    """Return the command line before a recorded program."""
    return [mpi.python, "-m", "mpiprof", "run", "-o", folder / "trace", *options, "--"]


def started(
    mpi: Mpi, folder: Path, options: list[str], program: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run the program switched; it must end normally, with the results that it checks itself."""
    argv = prepare_run(["-o", folder / "trace", *options], [program, *words])
    return run_mpi(mpi, RANKS, argv, check=True)


def kept_kb(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Return the growth of each rank's resident memory."""
    return [int(kb) for kb in re.findall(r"rank \d+ kept (-?\d+) KB", done.stdout)]


def algorithms_run(folder: Path, operation: str) -> set[str]:
    """Return the algorithms of an operation's instances with several ranks."""
    instances = mpiprof.open(folder / "trace").instances
    ours = (instances["operation"] == operation) & (instances["size"] > 1)
    names = instances.loc[ours, "algorithm"].astype(str)
    return {"native" if is_native(name) else name for name in names}


def test_given_back(mpi: Mpi, calls: Callable[[Mpi], Path], tmp_path: Path) -> None:
    """Bruck's algorithm needs 18 MB in a call, packing 12 MB; 1 MB per communicator remains."""
    options = ["--switch", "alltoall=bruck", "--scratch", "128M"]
    done = started(mpi, tmp_path, options, calls(mpi), "1", "2000000")
    bare = run_mpi(mpi, RANKS, [calls(mpi), "1", "2000000"], check=True)
    assert algorithms_run(tmp_path, "alltoall") == {"bruck"}
    assert max(kept_kb(done)) < max(kept_kb(bare)) + 15000
    assert "ignored" not in done.stderr


def test_bounded(mpi: Mpi, calls: Callable[[Mpi], Path], tmp_path: Path) -> None:
    """An algorithm that needs more than --scratch is no candidate; one message has the remedy."""
    options = ["--switch", "alltoall=bruck,allreduce=recursive_doubling", "--scratch", "1M"]
    done = started(mpi, tmp_path, options, calls(mpi), "1", "400000")
    assert algorithms_run(tmp_path, "alltoall") == {"native"}
    assert algorithms_run(tmp_path, "allreduce") == {"recursive_doubling"}
    lines = [line for line in done.stderr.splitlines() if "variants" in line]
    assert len(lines) == 1
    assert "alltoall=bruck and its variants did not run" in lines[0]
    assert "require 3.4 MB for each process, which --scratch 4M permits" in lines[0]


def test_packed_beyond_the_limit(mpi: Mpi, calls: Callable[[Mpi], Path], tmp_path: Path) -> None:
    """If one rank alone must pack more than the limit, all ranks run that call natively."""
    options = ["--switch", "alltoall=ring,alltoallv=ring,bcast=chain", "--scratch", "1M"]
    started(mpi, tmp_path, options, calls(mpi), "2", "300000")
    assert algorithms_run(tmp_path, "alltoall") == {"ring", "native"}
    assert algorithms_run(tmp_path, "alltoallv") == {"ring"}
    assert algorithms_run(tmp_path, "bcast") == {"chain"}


def test_different_scratch(mpi: Mpi, calls: Callable[[Mpi], Path], tmp_path: Path) -> None:
    """Ranks with different limits would choose differently, so none switches."""
    options = ["--switch", "alltoall=bruck", "--scratch"]
    first = [*recorder(mpi, tmp_path, [*options, "1M"]), calls(mpi), "3", "400"]
    others = [*recorder(mpi, tmp_path, [*options, "2M"]), calls(mpi), "3", "400"]
    words = [*first, ":", "-n", "2", *others]
    done = run_mpi(mpi, 1, words, check=True)
    assert "no algorithm is selected" in done.stderr


PLANS = [(1, 1, -1), (2, 1, 0), (30, 1, 1), (100, 1, 0), (180, 1, -1), (250, 1, 1), (400, 1, 0)]
PLANS += [(phase, 3, (-1, 0, 1)[phase % 3]) for phase in (1, 2, 3)]
SWITCHES = [
    ["--switch", "random:7"],
    ["--switch", "auto"],
    ["--switch", EVERYTHING],
    ["--record", "summary"],
    [],
]


def refused(
    mpi: Mpi,
    program: Path,
    failing: Path,
    folder: Path,
    options: list[str],
    plan: tuple[int, int, int],
) -> int:
    """Run with memory refused by a plan; returns the number of requests on one rank."""
    first, every, rank = plan
    counts = folder / "counts"
    environment = {
        "LD_PRELOAD": str(failing),
        "FAIL_FROM": str(first),
        "FAIL_EVERY": str(every),
        "FAIL_RANK": str(rank),
        "FAIL_COUNT": str(counts),
    }
    names = [f"{name}={value}" for name, value in environment.items() if name != "LD_PRELOAD"]
    called = [program, "20", "4000"]
    argv = prepare_run(["-o", folder / "trace", *options], called, env=environment)
    done = run_mpi(mpi, RANKS, ["env", *names, *argv])
    assert done.returncode == 0, (plan, done.stdout[-2000:] + done.stderr[-3000:])
    assert "wrong data" not in done.stderr
    rows = [[int(word) for word in line.split()] for line in counts.read_text().splitlines()]
    assert len(rows) == RANKS
    return min(requested for _, requested, _ in rows)


@SLOW_WITH_MPICH
@pytest.mark.parametrize("number", range(5), ids=["random", "auto", "forced", "summary", "record"])
def test_refused_memory(
    mpi: Mpi, calls: Callable[[Mpi], Path], failing: Path, tmp_path: Path, number: int
) -> None:
    """Two plans for each way to run; `test_every_plan` has all plans."""
    for turn in (2 * number, 2 * number + 1):
        folder = tmp_path / str(turn)
        folder.mkdir()
        refused(mpi, calls(mpi), failing, folder, SWITCHES[number], PLANS[turn])


@cache
def code_bare(mpi: Mpi, more: str) -> int:
    """Return the exit code of the program without mpiprof, limited to `more` KB above its use."""
    words = [str(compiled(mpi, "memory_limited.c")), more, "12", "200000"]
    return run_mpi(mpi, 2, words, env=EVERY_TRANSPORT).returncode


@pytest.mark.parametrize("number", range(4), ids=["random", "auto", "forced", "summary"])
@pytest.mark.parametrize("more", ["4000", "10000", "30000"])
def test_address_space_that_is_short(more: str, number: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks with some MB to spare: the recorder leaves the library the memory for sending.

    Without that memory the library ends the program: Open MPI with MPI_ERR_INTERN, MPICH by a
    signal.
    """
    words: list[str | Path] = [compiled(mpi, "memory_limited.c"), more, "12", "200000"]
    started = prepare_run(["-o", tmp_path / "trace", *SWITCHES[number]], words)
    wrapped = run_mpi(mpi, 2, started, env=EVERY_TRANSPORT)
    assert code_bare(mpi, more) == 0
    assert wrapped.returncode == 0, wrapped.stdout[-2000:] + wrapped.stderr[-3000:]
    assert wrapped.stdout.count(": 0 wrong") == 2


@cache
def addresses_kb(mpi: Mpi, program: Path) -> int:
    """Return the maximum address space in KB of a rank of the program of checked calls."""
    free = run_mpi(mpi, 2, [program, "4", "20000"], check=True, env=EVERY_TRANSPORT)
    return max(int(kb) for kb in re.findall(r"had (\d+) KB", free.stdout))


@pytest.mark.parametrize("number", range(5), ids=["random", "auto", "forced", "summary", "record"])
def test_limit_of_the_shell(
    number: int, mpi: Mpi, calls: Callable[[Mpi], Path], tmp_path: Path
) -> None:
    """On 2 ranks under `ulimit -v`, from 4 MB above the bare program's use: the end is the same.

    If less than 32 MB remain after MPI_Init, the recorder switches itself off with a message. The
    test uses all of the library's transports, which need most of their memory in MPI_Init.
    """
    words: list[str | Path] = [calls(mpi), "4", "20000"]
    had = addresses_kb(mpi, calls(mpi))
    for more in (4_000, 20_000, 150_000):
        limit = ["bash", "-c", f'ulimit -v {had + more}; exec "$@"', "limited"]
        folder = tmp_path / str(more)
        folder.mkdir()
        started = [*recorder(mpi, folder, SWITCHES[number]), *limit, *words]
        ended = run_mpi(mpi, 2, started, env=EVERY_TRANSPORT)
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-3000:]
        assert ("runs unrecorded" in ended.stderr) == (more < 40_000), ended.stderr


@pytest.mark.everything
@pytest.mark.parametrize("number", range(5), ids=["random", "auto", "forced", "summary", "record"])
def test_every_plan(
    mpi: Mpi, calls: Callable[[Mpi], Path], failing: Path, tmp_path: Path, number: int
) -> None:
    """Each request fails alone, on all ranks, on the root or on another; or all from one on."""
    plans = [*PLANS, *((n, 0, n % 3 - 1) for n in range(1, 320))]
    for turn, plan in enumerate(plans):
        folder = tmp_path / str(turn)
        folder.mkdir()
        refused(mpi, calls(mpi), failing, folder, SWITCHES[number], plan)


def blocks_of(operation: str, problem: Problem, rank: int) -> tuple[list[int], list[int]]:
    """Return the bytes of the blocks in IN and in OUT by rank, or one value for a single block."""
    own = [problem.counts[rank]] if problem.counts else []
    if operation == "alltoallv":
        return list(problem.rows[rank]), [row[rank] for row in problem.rows]
    whole = list(problem.counts) if rank == problem.root else []
    return (own, whole) if operation == "gatherv" else (whole, own)


def test_whole_blocks() -> None:
    """If not all members know the sizes, messages are whole blocks, so nothing is packed."""
    size, counts = 5, (3, 0, 7, 1, 4)
    rows = tuple(tuple((7 * i + 3 * j) % 5 for j in range(size)) for i in range(size))
    seen = 0
    for algorithm in load_catalogue():
        if algorithm.operation not in ("alltoallv", "gatherv", "scatterv"):
            continue
        v = algorithm.operation == "alltoallv"
        problem = Problem(size, rows=rows) if v else Problem(size, root=1, counts=counts)
        for rank in range(size):
            sides = blocks_of(algorithm.operation, problem, rank)
            with Schedule(algorithm, problem, rank) as schedule:
                steps = [
                    dict(zip(step_columns(), row, strict=True))
                    for row in schedule.read_steps(0, schedule.rounds).tolist()
                ]
            for step in (step for step in steps if step["length"]):
                seen += 1
                peer = rank if step["kind"] == COPY else step["peer"]
                places = [(step["buffer"], step["offset"])]
                if step["kind"] == COPY:
                    places.append((step["source"], step["source_offset"]))
                for buffer, offset in places:
                    blocks = sides[buffer]
                    block = peer if len(blocks) > 1 else 0
                    assert (offset, step["length"]) == (sum(blocks[:block]), blocks[block])
    assert seen > 100
