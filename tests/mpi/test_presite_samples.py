"""`run --where` names the functions of late ranks, invisibly to the program."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import LONG_WITH_MPICH, Mpi

import mpiprof
from mpiprof.causes.sampled_code import describe_own_frames, find_sampled_code
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.trace import Trace

LATE = """
import sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD

def assemble():
    end = time.thread_time() + 0.08
    while time.thread_time() < end:
        for i in range(1000): pass

for _ in range(20):
    if world.rank == 1:
        assemble()
    world.Barrier()
END
"""


BETWEEN_MESSAGES = """
import time
from mpi4py import MPI
world = MPI.COMM_WORLD

def assemble():
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        for i in range(1000): pass

def pack():
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        for i in range(1000): pass

def reduce():
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        for i in range(1000): pass

buffer = bytearray(8)
for _ in range(12):
    world.Barrier()
    if world.rank == 1:
        assemble()
        world.Send(buffer, 0)
        pack()
        world.Recv(buffer, 0)
        reduce()
    else:
        world.Recv(buffer, 1)
        world.Send(buffer, 1)
world.Barrier()
"""


def wrapped(mpi: Mpi, folder: Path) -> list[str | Path]:
    return [mpi.python, "-m", "mpiprof", "run", "-q", "--where", "-o", folder / "trace"]


def sampled_function(trace: Trace) -> tuple[str, str]:
    """Return the file and function of most of rank 1's time between two calls of site 0."""
    sites = next(of.sites for of, number in trace.aggregate[1].items() if number == 0)
    place = find_sampled_code(trace, 1, sites, sites)
    assert place is not None and place["share"] > 0.5 and place["line"] > 0
    return Path(place["file"]).name, place["function"]


def sampled_stacks(trace: Trace) -> set[str]:
    """Return rank 1's stacks, as functions from the outermost to the innermost."""
    stacks = [key.location for key in trace.tables.presite_samples if key.rank == 1]
    described = describe_sites(trace.tables.sites, [stacks])[0]
    return {
        " ".join(frame["function"] for frame in (*reversed(site.get("stack", [])), site))
        for site in described
    }


@pytest.mark.parametrize("flags", [["-fno-omit-frame-pointer"], ["-O2"]], ids=["frames", "none"])
def test_a_function_in_c_is_named(mpi: Mpi, tmp_path: Path, flags: list[str]) -> None:
    """On 2 ranks: no sleep ends early, and most of rank 1's time is in heavy().

    Callers are recorded if the program has frame pointers.
    """
    program = compiled(mpi, "presite_late_function.c", *flags)
    done = run_mpi(mpi, 2, [*wrapped(mpi, tmp_path), program])
    assert done.returncode == 7, done
    trace = mpiprof.open(tmp_path / "trace")
    assert sampled_function(trace) == ("presite_late_function.c", "heavy")
    if flags == ["-fno-omit-frame-pointer"]:
        assert any(stack.endswith("main heavy") for stack in sampled_stacks(trace))


OWN_FUNCTIONS = {name: {f"{name}_kernel"} for name in ("exp", "copy", "clock", "align")}
OWN_FUNCTIONS["sort"] = {"sort_kernel", "sort_compare"}
OWN_FUNCTIONS["convert"] = {"convert_kernel"}
OWN_SHARE, MIN_COUNT = 0.95, 100
OPTIMISED = ("-O2", "-fomit-frame-pointer", "-Wl,--no-as-needed", "-lm")
OFTEN = {"MPIPROF_WHERE_PERIOD": "2000"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="callers need frame pointers")
@pytest.mark.parametrize("kernel", OWN_FUNCTIONS)
def test_the_program_s_own_function_is_named(kernel: str, mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, optimised and without frame pointers, in functions that call libraries."""
    program = compiled(mpich, "presite_own_functions.c", *OPTIMISED)
    check_own_functions(mpich, [program, kernel], tmp_path, OWN_FUNCTIONS[kernel])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="callers need frame pointers")
def test_a_template_s_own_function_is_named(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: maps and texts of libstdc++."""
    compiler = str(mpich.bin / "mpicxx")
    program = compiled(mpich, "presite_own_functions.cpp", *OPTIMISED, compiler=compiler)
    check_own_functions(mpich, [program], tmp_path, {"own_kernel"})


@pytest.mark.skipif(platform.machine() != "x86_64", reason="callers need frame pointers")
def test_a_subroutine_s_own_function_is_named(system_mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: intrinsic functions of libm and libgfortran."""
    fortran = system_mpi.mpifort
    program = compiled(system_mpi, "presite_own_functions.f90", *OPTIMISED, compiler=fortran)
    check_own_functions(system_mpi, [program], tmp_path, {"own_kernel"})


def check_own_functions(mpi: Mpi, program: list[str | Path], folder: Path, names: set[str]) -> None:
    """At least 95 % of rank 1's samples are in functions with one of these names."""
    run_mpi(mpi, 2, [*wrapped(mpi, folder), *program], env=OFTEN, check=True)
    trace = mpiprof.open(folder / "trace")
    counts: Counter[str] = Counter()
    samples = {key: of for key, of in trace.tables.presite_samples.items() if key.rank == 1}
    frames = describe_own_frames(trace, {key.location for key in samples})
    for key, (count, _) in samples.items():
        (_, name), _ = frames[key.location]
        counts[str(name)] += count
    own = sum(count for name, count in counts.items() if any(word in name for word in names))
    assert counts.total() >= MIN_COUNT and own >= OWN_SHARE * counts.total(), counts


@LONG_WITH_MPICH
@pytest.mark.parametrize(
    "end",
    ["MPI.Finalize()", "", "sys.exit(3)", "import os; os._exit(3)"],
    ids=["finalize", "at exit", "exit", "at once"],
)
def test_a_function_in_python_is_named(mpi: Mpi, tmp_path: Path, end: str) -> None:
    """On 2 ranks: the exit is as without --where, for every way to exit."""
    program = tmp_path / "late.py"
    program.write_text(LATE.replace("END", end))
    done = run_mpi(mpi, 2, [*wrapped(mpi, tmp_path), program])
    if "3" in end:
        assert done.returncode != 0
    else:
        assert done.returncode == 0, done.stderr
        trace = mpiprof.open(tmp_path / "trace")
        assert sampled_function(trace) == ("late.py", "assemble")
        assert "<module> assemble" in sampled_stacks(trace)


@LONG_WITH_MPICH
def test_a_function_between_messages_is_named(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: other work follows the messages, before the collective that ends a step."""
    program = tmp_path / "messages.py"
    program.write_text(BETWEEN_MESSAGES)
    run_mpi(mpi, 2, [*wrapped(mpi, tmp_path), "--messages", "all", program], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    site_of_line = {frames[0]["line"]: site for site, frames in enumerate(trace.tables.sites)}
    lines = BETWEEN_MESSAGES.splitlines()
    calls = [
        "    world.Barrier()",
        "        world.Send(buffer, 0)",
        "        world.Recv(buffer, 0)",
    ]
    barrier, send, receive = ([site_of_line[lines.index(call) + 1]] for call in calls)
    for before, after, function in (
        (barrier, send, "assemble"),
        (send, receive, "pack"),
        (receive, barrier, "reduce"),
    ):
        found = find_sampled_code(trace, 1, before, after)
        assert found is not None and found["function"] == function


def test_threads_and_children_beside_it(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks of Python that start threads, fork and run commands while they are sampled."""
    program = tmp_path / "beside.py"
    program.write_text(
        "import os, subprocess, threading, time\n"
        "from mpi4py import MPI\n"
        "def spin():\n"
        "    end = time.time() + 0.1\n"
        "    while time.time() < end: sum(range(1000))\n"
        "others = [threading.Thread(target=spin) for _ in range(3)]\n"
        "for one in others: one.start()\n"
        "for _ in range(10):\n"
        "    child = os.fork()\n"
        "    if not child: spin(); os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    assert subprocess.run(['true']).returncode == 0\n"
        "    MPI.COMM_WORLD.Barrier()\n"
        "for one in others: one.join()\n"
        "print('done')\n"
    )
    done = run_mpi(mpi, 2, [*wrapped(mpi, tmp_path), program], check=True)
    assert done.stdout.splitlines() == ["done", "done"]


def test_a_summary_states_that_it_has_no_samples(mpich: Mpi, tmp_path: Path) -> None:
    words = [
        *wrapped(mpich, tmp_path),
        "--record",
        "summary",
        compiled(mpich, "presite_late_function.c"),
    ]
    run_mpi(mpich, 2, words)
    notes = dict(mpiprof.open(tmp_path / "trace").tables.notes)
    assert notes[0] == "--where: no samples: --record summary stores no samples"


def test_a_sandbox_does_not_end_a_sampled_process(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank, under a filter that ends a process for perf_event_open."""
    program = compiled(mpich, "intervals_cases.c", "-pthread")
    run_mpi(mpich, 1, [*wrapped(mpich, tmp_path), program, "sandbox"], check=True)
    notes = dict(mpiprof.open(tmp_path / "trace").tables.notes)
    assert notes[0] == "--where: no samples: a seccomp filter is active"
