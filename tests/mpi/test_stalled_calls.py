"""A process that is stopped inside a call is reported, and a rank that only waits is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run
from support.mpis import Mpi

import mpiprof
from mpiprof.reports.words.processor_sentences import stalled_as_data, stalled_sentences

SOURCE = PROGRAMS / "stalled_call.c"
STOP_NS = 600_000_000  # of each of 3 stops
HEAVY_YIELD = "MPIR_CVAR_ENABLE_HEAVY_YIELD"  # a rank that waits sleeps, in this MPICH


def record(mpi: Mpi, folder: Path, mode: str = "", *, sleeps: bool = False) -> mpiprof.Trace:
    """Record the program in a mode; sleeps: MPICH's ranks sleep while they wait."""
    launcher = mpi.mpiexec(2)
    if HEAVY_YIELD in launcher:
        launcher[launcher.index(HEAVY_YIELD) + 1] = str(int(sleeps))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), "--"]
    run([*launcher, *words, compiled(mpi, SOURCE), mode], check=True)
    return mpiprof.open(folder)


def test_a_rank_that_is_stopped_in_a_call_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """Rank 0 stops the process of rank 1 three times while it waits in MPI_Recv."""
    trace = record(mpi, tmp_path / "t")
    line = find_line("is stopped")
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
    assert f"inside recv at stalled_call.c:{line} receive: it was stopped" in text


def find_line(comment: str) -> int:
    lines = SOURCE.read_text().splitlines()
    (line,) = (i for i, text in enumerate(lines, 1) if f"/* {comment} */" in text)
    return line


@pytest.mark.parametrize(
    ("mode", "operation", "comment", "most"),
    [("early", "recv", "is stopped", 1), ("poll", "test", "polls", 3)],
)
def test_a_rank_that_is_stopped_in_its_first_call_or_in_a_poll_on_2_ranks(
    mode: str, operation: str, comment: str, most: int, openmpi: Mpi, tmp_path: Path
) -> None:
    """On a busy machine a poll also waits for a processor, so some of its stops have no line."""
    trace = record(openmpi, tmp_path / "t", mode)
    stopped = [call for call in stalled_as_data(trace) if call["asleep_ns"] >= 0.9 * STOP_NS]
    assert 1 <= len(stopped) <= most, trace.tables.stalled_calls
    for call in stopped:
        location = call["rank"], call["operation"], call["line"]
        assert location == (1, operation, find_line(comment))
        assert call["asleep_ns"] + (call["queue_ns"] or 0) <= call["duration_ns"]


def test_nothing_is_stated_if_the_ranks_sleep_while_they_wait(mpich: Mpi, tmp_path: Path) -> None:
    """A rank that is stopped then looks like a rank that waits."""
    trace = record(mpich, tmp_path / "t", sleeps=True)
    assert not list(stalled_sentences(trace)), trace.tables.stalled_calls
