"""Recording adds no waiting and drops no call; tests/benchmarks/overhead.py measures its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import ROOT
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof


def recording(mpi: Mpi, folder: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), *options, "--"]


def test_senders_run_ahead_of_a_late_rank_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """No barrier is added: a rank that only sends does not wait for the late rank.

    Under Open MPI only: MPICH's root also waits in a bare run, because its shared memory has few
    slots.
    """
    mpi = openmpi
    program = compiled(mpi, "rooted_run_ahead.c", "-O2")
    argv = [*recording(mpi, tmp_path / "trace"), str(program)]
    expected = ["bcast runs ahead", "reduce runs ahead", "gather runs ahead"]
    for name, words in (("bare", [str(program)]), ("recorded", argv)):
        done = run_mpi(mpi, 2, [*words, str(tmp_path / name)], check=True)
        assert done.stdout.splitlines() == expected
    trace = mpiprof.open(tmp_path / "trace")
    # The report agrees: the sender has not waited and has left long before.
    table: Any = trace.callsites.set_index("operation")
    for operation in ("bcast", "reduce", "gather"):
        arrivals, exits = trace.matrix(int(table.loc[operation, "callsite"]))
        assert (exits[:, 0] < arrivals[0, 1]).all()


def test_a_long_log_has_every_call_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, ROOT / "tests" / "benchmarks" / "overhead.c", "-O2")
    argv = [*recording(mpi, tmp_path / "trace"), str(program), "allreduce", "20", "20000"]
    run_mpi(mpi, 1, argv, check=True)
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete, trace.problems
    assert trace.dropped_records == 0
    # One warm-up batch, 20 timed batches, and the single calls.
    assert len(trace.events) == 22 * 20_000
    logs = sum(log.stat().st_size for log in (tmp_path / "trace").glob("*.log"))
    assert logs <= 22 * 20_000 * 32 * 1.01 + 3 * 65536


def test_summary_writes_no_event_log_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, ROOT / "tests" / "benchmarks" / "overhead.c", "-O2")
    options = recording(mpi, tmp_path / "trace", "--record", "summary")
    run_mpi(mpi, 1, [*options, str(program), "allreduce", "20", "20000"], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    assert int(trace.summary["calls"].sum()) == 22 * 20_000
    assert int(trace.summary["sent"].sum()) == 22 * 20_000 * 8
    assert sum(log.stat().st_size for log in (tmp_path / "trace").glob("*.log")) <= 3 * 65536
