"""The trace has the processors and the quota of each rank, also if they change during the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof

needs_processors = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="a single processor cannot be left"
)
QUOTA, STEP_NS = 0.25, 8 * 50_000_000  # as in processor_limits.c


def record(mpi: Mpi, folder: Path, mode: str, *options: str) -> mpiprof.Trace:
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", *options, "-o", str(folder)]
    run_mpi(mpi, 2, [*words, "--", compiled(mpi, "processor_limits.c", "-pthread"), mode])
    return mpiprof.open(folder)


@needs_processors
@pytest.mark.parametrize(
    ("mode", "options"),
    [("", []), ("end", []), ("", ["--record", "ring"]), ("", ["--record", "summary"])],
    ids=["interval", "finalize", "ring", "summary"],
)
def test_a_rank_that_is_bound_during_the_run_on_2_ranks(
    mode: str, options: list[str], openmpi: Mpi, tmp_path: Path
) -> None:
    trace = record(openmpi, tmp_path / "t", mode, *options)
    assert trace.problems == []
    allowed = trace.tables.processes[1]["processors"]
    assert trace.tables.processes[0]["processors"] == allowed and len(allowed) > 1
    ((rank, changes),) = trace.tables.affinities.items()
    (change,) = changes
    assert rank == 1 and change.processors == frozenset(allowed[:1])
    assert trace.run_start_ns < change.at_ns <= trace.tables.ends[1]["at_ns"]
    assert change.after_ns < change.at_ns
    if not mode and not options:
        starts = sorted(trace.intervals.query("rank == 1")["begin_ns"])
        assert starts[4] <= change.at_ns <= starts[8]


@needs_processors
def test_a_bound_thread_that_makes_no_calls_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    assert not record(openmpi, tmp_path / "t", "thread").tables.affinities


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """Create a control group with a quota, and return the file that adds a process to it."""
    group = Path("/sys/fs/cgroup/cpu", f"mpiprof-test-{os.getpid()}")
    limit, members = "cpu.cfs_quota_us", "cgroup.procs"
    try:
        group.mkdir()
        (group / limit).write_text(str(round(QUOTA * 100_000)))
    except OSError as error:
        pytest.skip(f"no control group can be created: {error}")
    yield group / members
    group.rmdir()


def test_a_rank_that_gets_a_quota_during_the_run_on_2_ranks(
    limited_group: Path, openmpi: Mpi, tmp_path: Path
) -> None:
    trace = record(openmpi, tmp_path / "t", str(limited_group))
    assert trace.problems == []
    ((rank, readings),) = trace.tables.quotas.items()
    assert rank == 1 and trace.tables.processes[1]["quota"] == 0
    assert {reading.group for reading in readings} == {str(limited_group.parent)}
    assert {reading.processors for reading in readings} == {QUOTA}
    stopped_ns = [reading.stopped_ns for reading in readings]
    assert stopped_ns == sorted(stopped_ns) and stopped_ns[0] == 0
    # The work ends after a time. The quota stops the rank for three quarters of it.
    assert STEP_NS <= stopped_ns[-1] <= 5 * STEP_NS
