"""The sentence on a trace's state: fact, effect and remedy of each kind of loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.dashboard_traces import empty
from support.hang_traces import abort, drop
from support.page_traces import simulate, write_damaged, write_summary

import mpiprof
from mpiprof.__main__ import main
from mpiprof.reports.words.trace_sentences import state_sentence


def write_killed(folder: Path) -> Path:
    """Write 4 ranks, of which only 0 and 2 reached MPI_Finalize."""
    program = simulate(4, 2, 5)
    program.log.finish()
    return program.synthetic.write(folder, finished=(0, 2))


def write_aborted(folder: Path) -> Path:
    """Write 4 ranks that ended in MPI_Abort."""
    abort(simulate(4, 2, 5).write(folder))
    return folder


def write_dropped(folder: Path) -> Path:
    """Write 4 ranks, of which rank 1 dropped 17 records."""
    drop(simulate(4, 2, 5).write(folder), 1)
    return folder


def write_without_rank(folder: Path) -> Path:
    """Write 4 ranks without the files of rank 1."""
    simulate(4, 2, 5).write(folder)
    for path in folder.glob("rank-000001.*"):
        path.unlink()
    return folder


WRITERS: list[Callable[[Path], Path]] = [
    *(empty, write_damaged, write_without_rank, write_killed, write_aborted),
    *(write_summary, write_dropped),
]


@pytest.mark.parametrize("write", WRITERS)
def test_an_incomplete_trace_has_a_sentence(write: Callable[[Path], Path], tmp_path: Path) -> None:
    sentence = state_sentence(mpiprof.open(write(tmp_path / "t")))
    assert 0 < len(sentence) < 300  # pages shorten longer texts


def test_a_complete_trace_needs_no_sentence(tmp_path: Path) -> None:
    trace = simulate(4, 2, 5).write(tmp_path / "t")
    assert state_sentence(mpiprof.open(trace)) == ""


@pytest.mark.parametrize("write", [write_damaged, write_without_rank, write_dropped])
def test_a_short_report_begins_with_the_loss(
    tmp_path: Path, write: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The facts of the trace may not fit into 40 lines."""
    assert main(["report", str(write(tmp_path / "t"))]) == 0
    assert capsys.readouterr().out.startswith("Trace is incomplete: ")
