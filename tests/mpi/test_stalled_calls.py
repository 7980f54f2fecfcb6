"""A process that is stopped inside a call is reported, and a rank that only waits is not."""

from __future__ import annotations

from pathlib import Path

from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run
from support.mpis import Mpi

import mpiprof
from mpiprof.reports.stalled_calls import stalled_as_data, stalled_sentences

SOURCE = PROGRAMS / "stalled_call.c"
STOP_NS = 600_000_000  # of each of 3 stops
HEAVY_YIELD = "MPIR_CVAR_ENABLE_HEAVY_YIELD"  # a rank that waits sleeps, in this MPICH


def record(mpi: Mpi, folder: Path, *, sleeps: bool) -> mpiprof.Trace:
    """Record the program; sleeps: MPICH's ranks sleep while they wait."""
    launcher = mpi.mpiexec(2)
    if HEAVY_YIELD in launcher:
        launcher[launcher.index(HEAVY_YIELD) + 1] = str(int(sleeps))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), "--"]
    run([*launcher, *words, compiled(mpi, SOURCE)], check=True)
    return mpiprof.open(folder)


def test_a_rank_that_is_stopped_in_a_call_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """Rank 0 stops the process of rank 1 three times while it waits in MPI_Recv."""
    trace = record(mpi, tmp_path / "t", sleeps=False)
    (line,) = (
        i for i, text in enumerate(SOURCE.read_text().splitlines(), 1) if "/* is stopped */" in text
    )
    stopped = [call for call in stalled_as_data(trace) if call["asleep_ns"] >= 0.9 * STOP_NS]
    assert stopped, trace.tables.stalled_calls
    for call in stopped:
        assert (call["rank"], call["operation"], call["line"]) == (1, "recv", line)
        assert call["asleep_ns"] + (call["queue_ns"] or 0) <= call["duration_ns"]
    # The earlier waits kept the processor.
    asleep = [call for call in stalled_as_data(trace) if call["asleep_ns"] * 2 > STOP_NS]
    assert len(asleep) <= 3
    text = " ".join(stalled_sentences(trace))
    assert "rank 1 was off the processor for" in text
    assert f"inside recv at stalled_call.c:{line} main: it was stopped" in text


def test_nothing_is_stated_if_the_ranks_sleep_while_they_wait(mpich: Mpi, tmp_path: Path) -> None:
    """A rank that is stopped then looks like a rank that waits."""
    trace = record(mpich, tmp_path / "t", sleeps=True)
    calls = trace.tables.stalled_calls
    assert not [call for call in calls if call.asleep_ns > call.queue_ns], calls
