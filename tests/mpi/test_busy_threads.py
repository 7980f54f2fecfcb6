"""Threads that compute while the calling thread sleeps are counted, and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import LONG_WITH_MPICH, Mpi

import mpiprof
from mpiprof.causes import delay_reasons
from mpiprof.causes.delay_reasons import explain_delay, find_largest_reason
from mpiprof.reports.words.delay_sentences import name_busy_threads
from mpiprof.trace.thread_times import find_stretches
from mpiprof.trace.trace import Trace

SOURCE = PROGRAMS / "busy_threads.c"
STEPS, THREADS, COMPUTE_NS = 20, 2, 20_000_000
LIBOMP = Path("/usr/lib/x86_64-linux-gnu/libomp.so.5")  # has the functions of libgomp, too
ENDED = " (threads that end before the next call of MPI, so their names are unknown)"
SPINNING = (delay_reasons.OTHER_THREADS, delay_reasons.MORE_WORK, delay_reasons.PREEMPTED)


def record(mpi: Mpi, folder: Path, *program: str | Path, **variables: str | Path) -> Trace:
    """Record a program on 2 ranks, with variables of its environment."""
    env = ["env", *(f"{name}={value}" for name, value in variables.items())]
    run = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder / "t"), "--"]
    run_mpi(mpi, 2, [*env, *run, *program], check=True)
    return mpiprof.open(folder / "t")


def find_reason(trace: Trace) -> str | None:
    """Return the reason for which rank 1's intervals are long; rank 0 has no work there."""
    table = trace.intervals
    is_long = table["end_ns"] - table["begin_ns"] >= COMPUTE_NS
    late = table[is_long & (table["rank"] == 1)]
    stretches = find_stretches(trace.tables.threads)
    return find_largest_reason(explain_delay(late, table[:0], trace.page_fault_ns, stretches))


def count_other_ns(trace: Trace) -> int:
    """Return the processor time of rank 1's other threads."""
    table = trace.intervals
    return int(table["other_threads_ns"].where(table["rank"] == 1, 0).clip(lower=0).sum())


KINDS: dict[str, tuple[str, str, dict[str, str | Path]]] = {
    "pthreads": ("pthreads", "worker", {}),
    "libgomp": ("openmp", "busy_threads", {"OMP_WAIT_POLICY": "passive"}),
    "libgomp-active": ("openmp", "busy_threads", {"OMP_WAIT_POLICY": "active"}),
    "libomp": ("openmp", "busy_threads", {"KMP_BLOCKTIME": "0", "LD_PRELOAD": LIBOMP}),
}


@LONG_WITH_MPICH
@pytest.mark.parametrize("kind", KINDS)
def test_busy_threads_are_named_on_2_ranks(kind: str, mpi: Mpi, tmp_path: Path) -> None:
    """Threads of OpenMP have the name of the program. With active waiting the caller may spin."""
    argument, name, variables = KINDS[kind]
    if kind == "libomp" and not LIBOMP.exists():
        pytest.skip(f"no {LIBOMP}: apt-get install libomp5")
    flags = ["-O1", "-pthread", "-Wno-unknown-pragmas"]
    openmp = ["-fopenmp"] if argument == "openmp" else []
    program = compiled(mpi, SOURCE, *flags, *openmp)
    trace = record(mpi, tmp_path, program, argument, **variables)
    other_ns = count_other_ns(trace)
    assert other_ns >= 0.9 * STEPS * THREADS * COMPUTE_NS
    (busy,) = [named for named in trace.tables.threads[1] if named.name == name]
    assert busy.count == THREADS
    # The last reading may be some steps old, and the kernel counts in ticks.
    assert THREADS * COMPUTE_NS <= busy.ns <= other_ns * 1.2
    assert name_busy_threads(trace, [1]) == f" ({THREADS} threads named {name})"
    assert name_busy_threads(trace, [0]) == ""
    reason = find_reason(trace)
    assert reason in SPINNING if kind == "libgomp-active" else reason == SPINNING[0]


@pytest.mark.parametrize("kind", ["standard", "python"])
def test_threads_that_have_ended_have_no_name(kind: str, openmpi: Mpi, tmp_path: Path) -> None:
    """Of a std::thread and of a thread of Python in each step, on 2 ranks."""
    program: list[str | Path]
    if kind == "python":
        program = [PROGRAMS / "busy_threads.py", "each"]
    else:
        compiler = str(openmpi.bin / "mpicxx")
        flags = ("-O1", "-pthread")
        program = [compiled(openmpi, "busy_threads.cpp", *flags, compiler=compiler)]
    trace = record(openmpi, tmp_path, *program)
    assert count_other_ns(trace) >= 0.9 * STEPS * COMPUTE_NS
    assert name_busy_threads(trace, [1]) == ENDED


def test_a_thread_of_python_is_the_reason(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the main thread waits in each step for a thread that lives on."""
    trace = record(openmpi, tmp_path, PROGRAMS / "busy_threads.py", "persistent")
    assert find_reason(trace) == delay_reasons.OTHER_THREADS
    assert name_busy_threads(trace, [1]).startswith(" (1 thread named python")


def test_threads_of_blas_are_no_sleep(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the calling thread multiplies a part of the matrix itself."""
    program = PROGRAMS / "busy_threads.py"
    trace = record(openmpi, tmp_path, program, "blas", OPENBLAS_NUM_THREADS="2")
    assert count_other_ns(trace) > 0
    assert find_reason(trace) in (*SPINNING, None)
