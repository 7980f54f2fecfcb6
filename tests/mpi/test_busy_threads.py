"""Threads that compute while the calling thread sleeps are counted, and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof
from mpiprof.reports.delay_sentences import name_busy_threads

SOURCE = PROGRAMS / "busy_threads.c"
STEPS, THREADS, COMPUTE_NS = 20, 2, 20_000_000


@pytest.mark.parametrize(("kind", "name"), [("pthreads", "worker"), ("openmp", "busy_threads")])
def test_busy_threads_are_named_on_2_ranks(kind: str, name: str, mpi: Mpi, tmp_path: Path) -> None:
    """Threads of OpenMP have the name of the program."""
    flags = ["-O1", "-pthread", "-Wno-unknown-pragmas"]
    program = compiled(mpi, SOURCE, *flags, *(["-fopenmp"] if kind == "openmp" else []))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t"), "--"]
    passive = {"OMP_WAIT_POLICY": "passive"}
    run_mpi(mpi, 2, [*words, program, kind], env=passive, check=True)
    trace = mpiprof.open(tmp_path / "t")
    table = trace.intervals
    other_ns = table["other_threads_ns"].where(table["rank"] == 1, 0).clip(lower=0).sum()
    assert other_ns >= 0.9 * STEPS * THREADS * COMPUTE_NS
    (busy,) = [named for named in trace.tables.threads[1] if named.name == name]
    assert busy.count == THREADS
    # The last reading may be some steps old, and the kernel counts in ticks.
    assert THREADS * COMPUTE_NS <= busy.ns <= other_ns * 1.2
    assert name_busy_threads(trace, [1]) == f" ({THREADS} threads named {name})"
    assert name_busy_threads(trace, [0]) == ""
