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


LOST = "Waiting in the lost calls is unknown. Copy the trace again, or rerun with -o"
STATES: list[tuple[Callable[[Path], Path], tuple[str, ...]]] = [
    (empty, ("No MPI call was recorded, so there is no waiting", "`doctor` tests it")),
    (write_damaged, ("Trace is incomplete: rank 3: the tables have", LOST)),
    (write_without_rank, ("Trace is incomplete: no log of rank 1. ", LOST)),
    (write_killed, ("without MPI_Finalize on 2 of 4 ranks", "`status` reports")),
    (write_aborted, ("without MPI_Finalize on 4 of 4 ranks", "`status` reports")),
    (write_summary, ("This trace has only totals", "Record without --record summary")),
    (write_dropped, ("17 records were dropped. The figures lack", "with --sample")),
]


@pytest.mark.parametrize(("write", "parts"), STATES)
def test_the_sentence_has_fact_effect_and_remedy(
    tmp_path: Path, write: Callable[[Path], Path], parts: tuple[str, ...]
) -> None:
    sentence = state_sentence(mpiprof.open(write(tmp_path / "t")))
    assert all(part in sentence for part in parts), sentence
    assert len(sentence) < 300  # pages shorten longer texts


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
