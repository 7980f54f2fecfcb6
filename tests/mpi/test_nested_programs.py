"""Programs around, within and beside the recorded program, and the options for call sites."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support import PROGRAMS, raw_trace
from support.compilation import compiled
from support.jobs import run, run_failing_mpi, run_mpi
from support.mpis import Mpi
from support.wait_until import BARE_HANG_S

import mpiprof


def letters(output: str) -> list[str]:
    """Return the sorted characters of the output, because launchers mix the lines of ranks."""
    return sorted(output)


def words_for(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *options]


def script(folder: Path, text: str, name: str = "program.py") -> str:
    """Write a Python program and return its name."""
    path = folder / name
    path.write_text("from mpi4py import MPI\ncomm = MPI.COMM_WORLD\n" + text)
    return str(path)


def operations(trace: Path, rank: int) -> list[str]:
    """Return the operations that a rank has called, in order."""
    return [record.operation for record in raw_trace.read(trace).of(rank)]


@pytest.mark.parametrize(("ranks", "code"), [(2, 0), (1, 3)])
def test_shell_script_around_the_program(ranks: int, code: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, and on 1 that fails: Open MPI ends a job, output included, when a rank fails."""
    program = script(tmp_path, "comm.Barrier()\nprint(f'rank {comm.rank}\\n', end='')\n")
    around = tmp_path / "around.sh"
    around.write_text(
        f"#!/bin/sh\necho before | cat\n{mpi.python} {program}\necho after $?\nexit {code}\n"
    )
    around.chmod(0o755)
    words = words_for(mpi, tmp_path / "trace", "--mpi", mpi.name, "--", str(around))
    ended = run_failing_mpi(mpi, ranks, words)
    assert ended.returncode == code
    expected = "".join(f"before\nrank {rank}\nafter 0\n" for rank in range(ranks))
    assert letters(ended.stdout) == letters(expected)
    assert mpiprof.open(tmp_path / "trace").is_complete
    assert operations(tmp_path / "trace", ranks - 1) == ["barrier"]


def test_second_program_of_a_script_stays_passive(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a folder has one run; a second program in it is not recorded, without a message.

    Under Open MPI 5.0 the second program hangs in one of a hundred bare runs. Such runs are
    ignored.
    """
    program = script(tmp_path, "comm.Barrier()\ncomm.Bcast(bytearray(1))\n")
    twice = f"{mpi.python} {program}; {mpi.python} {program}; echo $?"
    shell = ["--mpi", mpi.name, "--", "/bin/sh", "-c", twice]
    bare = ended_within(mpi, lambda _: shell[-3:])
    ended = ended_within(mpi, lambda turn: words_for(mpi, tmp_path / f"trace{turn}", *shell))
    trace = max(tmp_path.glob("trace*"))
    assert (ended.returncode, ended.stdout) == (bare.returncode, bare.stdout)
    assert "mpiprof:" not in ended.stderr
    assert mpiprof.open(trace).is_complete
    assert operations(trace, 0) == ["barrier", "bcast"]


def ended_within(
    mpi: Mpi, words: Callable[[int], Sequence[str | Path]]
) -> subprocess.CompletedProcess[str]:
    """Run on 1 rank; after a hang, run the next command line. Three hangs are a fault."""
    for turn in range(2):
        with contextlib.suppress(pytest.fail.Exception):
            return run_mpi(mpi, 1, words(turn), timeout=BARE_HANG_S)
    return run_mpi(mpi, 1, words(2))


def test_subprocesses_have_no_library(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: neither the environment of the process nor os.environ has the library."""
    program = script(
        tmp_path,
        "import os, subprocess, sys\n"
        "show = [sys.executable, '-c', 'import os; print(os.environ.get(\"LD_PRELOAD\"))']\n"
        "a = subprocess.run(show, capture_output=True, text=True).stdout.strip()\n"
        "b = subprocess.run(show, env=dict(os.environ), capture_output=True, text=True)\n"
        "c = os.popen('echo ${LD_PRELOAD-None}').read().strip()\n"
        "comm.Barrier()\n"
        "print(f\"{a} {b.stdout.strip()} {c} {os.environ.get('LD_PRELOAD')}\\n\", end='')\n",
    )
    ended = run_mpi(mpi, 2, [*words_for(mpi, tmp_path / "trace"), program], check=True)
    assert letters(ended.stdout) == letters("None None None None\n" * 2)
    assert mpiprof.open(tmp_path / "trace").is_complete


def test_a_job_within_a_job_is_separate(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a program starts an mpiexec of 2 ranks before MPI_Init, in its environment."""
    inner = script(tmp_path, "comm.Barrier()\nprint(f'inner {comm.size}\\n', end='')\n", "inner.py")
    launcher = shlex.join([*mpi.mpiexec(2), str(mpi.python), inner])
    program = tmp_path / "outer.py"
    program.write_text(
        "import os, subprocess\n"
        "names = ('PMI', 'OMPI', 'PMIX', 'PRTE', 'HYD')\n"
        "env = {k: v for k, v in os.environ.items() if not k.startswith(names)}\n"
        "env |= {k: '1' for k in ('OMPI_ALLOW_RUN_AS_ROOT', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM')}\n"
        "from mpi4py import MPI\n"
        "MPI.COMM_WORLD.Barrier()\n"
        "env.pop('LD_PRELOAD', None)\n"
        f"print(subprocess.run({launcher!r}, shell=True, env=env).returncode, flush=True)\n"
        "MPI.COMM_WORLD.Barrier()\n"
    )
    ended = run_mpi(mpi, 1, [*words_for(mpi, tmp_path / "trace"), program], check=True)
    assert letters(ended.stdout) == letters("0\ninner 2\ninner 2\n")
    assert mpiprof.open(tmp_path / "trace").is_complete
    assert operations(tmp_path / "trace", 0) == ["barrier", "barrier"]


def test_spawned_processes_run_bare(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank and 2 spawned ones: a merged communicator is recorded as local."""
    program = str(compiled(mpi, "spawn_barrier.c"))
    # Open MPI counts slots; the test needs three.
    words = [*words_for(mpi, tmp_path / "trace"), "--", program]
    ended = run_mpi(mpi, 1, words, check=True)
    assert ended.stdout == "3 together\n"
    assert mpiprof.open(tmp_path / "trace").is_complete
    trace = raw_trace.read(tmp_path / "trace")
    assert operations(tmp_path / "trace", 0) == ["barrier"]
    made = {line["how"]: line["local"] for line in trace.communicators(0)}
    assert made["comm_spawn" if "comm_spawn" in made else "spawn"]
    assert made["intercomm_merge"]


def one_rank_runs_bare(mpi: Mpi, folder: Path, *options: str) -> str:
    """Run 2 ranks, one of which a script leaves bare; returns the recorder's messages."""
    program = script(folder, "comm.Barrier()\ncomm.Bcast(bytearray(8))\nprint('ok\\n', end='')\n")
    trace = folder / "trace"
    recorded = [word for word in words_for(mpi, trace, *options) if word != "-q"]
    choice = folder / "choice.sh"
    choice.write_text(
        "#!/bin/sh\n"
        "if [ ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} = 0 ]\n"
        f"then exec {shlex.join([*recorded, program])}\n"
        f"else exec {shlex.join([str(mpi.python), program])}\nfi\n"
    )
    ended = run_mpi(mpi, 2, ["sh", choice], check=True)
    assert letters(ended.stdout) == letters("ok\nok\n")
    assert operations(trace, 0) == ["barrier", "bcast"]
    assert not (trace / "rank-000001.log").exists()
    return ended.stderr


def test_one_rank_runs_bare_with_partial(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: with --partial, no rank waits for the bare one."""
    assert "have not answered" not in one_rank_runs_bare(mpi, tmp_path, "--partial")


def test_one_rank_runs_bare_unannounced(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: after 10 s one line names the silent rank and the option; the job continues."""
    printed = one_rank_runs_bare(mpich, tmp_path)
    assert printed.count("1 of 2 ranks have not answered for 10 s (1)") == 1
    assert "--partial" in printed


def test_tool_behind_us_is_called(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: an earlier tool in LD_PRELOAD stays, and its wrapper is the native function."""
    tool = tmp_path / "libtool.so"
    run([mpi.mpicc, "-shared", "-fPIC", "-o", tool, PROGRAMS / "preload_tool.c"], check=True)
    program = str(compiled(mpi, "threads_collectives.c", "-pthread"))
    words = [*words_for(mpi, tmp_path / "trace"), "--", program, "1", "20"]
    ended = run_mpi(mpi, 2, ["env", f"LD_PRELOAD={tool}", *words], check=True)
    assert letters(ended.stdout) == letters("done\ntool saw 20\n" * 2)
    assert mpiprof.open(tmp_path / "trace").is_complete
    assert operations(tmp_path / "trace", 0).count("allreduce") == 20


@pytest.mark.parametrize(
    ("options", "lines", "seen"),
    [
        pytest.param([], 0, 20, id="recorded"),
        pytest.param(["--record", "summary"], 0, 20, id="summary"),
        pytest.param(["--switch", "allreduce=ring"], 1, 0, id="switched"),
    ],
)
def test_one_line_states_what_a_tool_behind_us_does_not_see(
    options: list[str], lines: int, seen: int, mpi: Mpi, tmp_path: Path
) -> None:
    """On 2 ranks: under --switch, the tool sees only calls that run on the library's default."""
    tool = compiled(mpi, "preload_tool.c", "-shared", "-fPIC")
    program = compiled(mpi, "threads_collectives.c", "-pthread")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(tmp_path / "trace"), *options]
    words = ["env", f"LD_PRELOAD={tool}", *words, "--", str(program), "1", "20"]
    ended = run_mpi(mpi, 2, words, check=True)
    assert letters(ended.stdout) == letters(f"done\ntool saw {seen}\n" * 2)
    assert ended.stderr.count(f"{tool} also intercepts MPI_Allreduce") == lines


def test_summary_has_the_right_totals(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: calls, bytes and time of each call site are right, without a log of events."""
    program = script(
        tmp_path,
        "import os, sys, time\n"
        "for i in range(30): comm.Bcast(bytearray(i), root=1)\n"
        "for i in range(5): comm.Allgather(bytearray(10), bytearray(20))\n"
        "if comm.rank == 0:\n"
        "    while not os.path.exists(sys.argv[1]): time.sleep(0.001)\n"
        "    time.sleep(0.6)\n"  # after rank 1 has signalled its arrival
        "else: open(sys.argv[1], 'w').close()\n"
        "comm.Barrier()\n",
    )
    words = words_for(mpi, tmp_path / "trace", "--record", "summary")
    run_mpi(mpi, 2, [*words, program, tmp_path / "sign"], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete
    assert trace.record == "summary"
    assert len(trace.events) == 0
    data = trace.summary
    totals = {(r["rank"], r["operation"]): r for _, r in data.iterrows()}
    assert totals[1, "bcast"]["calls"] == 30
    assert totals[1, "bcast"]["sent"] == sum(range(30))
    assert totals[0, "bcast"]["received"] == sum(range(30))
    assert totals[0, "allgather"]["sent"] == 50
    assert totals[0, "allgather"]["received"] == 100
    assert totals[1, "barrier"]["total_ns"] > 100_000_000


NESTED = """
def inner(): comm.Barrier()
def middle(): inner()
def outer():
    middle()
outer()
"""


def test_stack_of_frames(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: Python frames are innermost first; native frames are the program's."""
    program = script(tmp_path, NESTED)
    words = words_for(mpi, tmp_path / "trace", "--stack", "4")
    run_mpi(mpi, 1, [*words, program], check=True)
    frames = raw_trace.read(tmp_path / "trace").of(0)[0].frames
    assert [f["function"] for f in frames] == ["inner", "middle", "outer", "<module>"]
    assert [f["line"] for f in frames] == [4, 5, 7, 8]
    native = tmp_path / "native"
    words = words_for(mpi, native, "--stack", "4")
    run_mpi(mpi, 1, [*words, "--", str(compiled(mpi, "spawn_barrier.c", "-O0"))], check=True)
    frames = raw_trace.read(native).of(0)[0].frames
    assert Path(frames[0]["module"]).name == "spawn_barrier"
    assert 2 <= len(frames) <= 4


def test_skipped_package(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: the call site is the caller of a skipped layer over MPI."""
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer" / "__init__.py").write_text(
        "from mpi4py import MPI\ndef sync(): MPI.COMM_WORLD.Barrier()\n"
    )
    program = script(tmp_path, "import layer\ndef step(): layer.sync()\nstep()\n")
    for option, function in ((["--skip-package", "layer"], "step"), ([], "sync")):
        trace = tmp_path / function
        run_mpi(mpi, 1, [*words_for(mpi, trace, *option), program], check=True)
        assert raw_trace.read(trace).of(0)[0].frames[0]["function"] == function


def test_a_module_of_a_skipped_package_keeps_its_innermost_frame(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: `python -m` leaves the frames of runpy as the only ones of no skipped package."""
    ring = [str(mpi.python), "-m", "mpi4py.bench", "ringtest", "-q", "-n", "8", "-l", "2"]
    run_mpi(mpi, 2, [*words_for(mpi, tmp_path / "trace"), "--", *ring], check=True)
    for rank in range(2):
        frames = [call.frames[0] for call in raw_trace.read(tmp_path / "trace").of(rank)]
        assert {Path(frame["file"]).name for frame in frames} == {"bench.py"}, frames


def test_names_of_sites_are_equal_across_runs_and_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, twice: address space randomisation has no effect on names."""
    program = str(compiled(mpi, "exit_modes.c"))
    names = []
    for i in range(2):
        trace = tmp_path / f"trace{i}"
        run_mpi(mpi, 2, [*words_for(mpi, trace), "--", program, "plain", "10"], check=True)
        read = raw_trace.read(trace)
        names += [[record.frames for record in read.of(rank)] for rank in range(2)]
    assert len(names[0]) == 10
    assert names[0] == names[1] == names[2] == names[3]


BARRIER_IN_A_FUNCTION = (
    "from mpi4py import MPI\ndef work():\n    MPI.COMM_WORLD.Barrier()\nwork()\n"
)


def test_a_user_folder_may_have_the_name_of_a_skipped_package(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a user's folder may have a skipped package's name; its files are call sites."""
    script = tmp_path / "mpi4py" / "demo" / "x.py"
    script.parent.mkdir(parents=True)
    script.write_text(BARRIER_IN_A_FUNCTION)
    run([*words_for(mpi, tmp_path / "a"), "--", mpi.python, "-m", "mpi4py", script], check=True)
    (call,) = raw_trace.read(tmp_path / "a").of(0)
    assert (call.frames[0]["file"], call.frames[0]["function"]) == (str(script), "work")
