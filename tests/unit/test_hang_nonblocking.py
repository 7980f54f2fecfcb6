"""The verdict on a nonblocking collective that all ranks started and some ranks wait for."""

from __future__ import annotations

from pathlib import Path

from support.hang_traces import HERE, SECOND, call, conclude, job, now
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang import hang_threshold, rank_state, status
from mpiprof.hang.processes import JobProcesses

ALL = frozenset(range(4))
TEXT = (
    "Ranks 0, 2-3 wait in MPI_Wait or MPI_Test for iallreduce at app.py:5 main on MPI_COMM_WORLD. "
    "Rank 1 has started it, too, and is outside MPI, last seen after iallreduce at app.py:5 main: "
    "MPI may go on with it only while it calls MPI. It uses no processor"
)


def started() -> Synthetic:
    """Return a job in which all ranks have started an operation; all but rank 1 are in a Wait."""
    synthetic = job(4)
    for rank in range(4):
        call(synthetic, rank, "iallreduce", site=HERE, flags=["nonblocking"], ends=9_010)
    synthetic.inside = [2, 0, 2, 2]
    return synthetic


def test_who_does_not_come_to_its_wait_is_named(tmp_path: Path) -> None:
    synthetic = started()
    verdict, text = conclude(synthetic, tmp_path, now(*ALL, after=20, still=ALL))
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,)) and text.startswith(TEXT)
    trace = mpiprof.open(tmp_path / "t")
    states, pending = rank_state.find(trace)
    assert hang_threshold.find_suspects(states, pending, 10_000 + 20 * SECOND) == [0, 1, 2, 3]
    reported = status.status_text(trace, states, pending, verdict)
    assert "No collective is pending" not in reported
    assert "of these outside MPI: 1" in reported


def test_none_while_a_rank_moves_or_it_is_only_late(tmp_path: Path) -> None:
    synthetic = started()
    assert conclude(synthetic, tmp_path, now(*ALL, after=5, still=ALL))[0].kind == "none"
    moves = now(*ALL, after=20, still=ALL - {1}, busy=frozenset([1]))
    assert conclude(synthetic, tmp_path, moves)[0].kind == "none"
    # Rank 1 waits for a message; after the message, the operation continues too.
    synthetic.inside = [2, 1, 2, 2]
    some = now(*ALL, after=20, still=ALL - {0}, busy=frozenset([0]))
    assert conclude(synthetic, tmp_path / "receives", some)[0].kind == "none"
    synthetic.inside = [0, 0, 0, 0]  # no rank waits for it yet
    assert conclude(synthetic, tmp_path / "works", now(*ALL, after=20, still=ALL))[0].kind == "none"


def test_it_stands_after_the_launcher_has_ended_the_job(tmp_path: Path) -> None:
    synthetic = started()
    synthetic.signal = [15, 15, 0, 0]
    gone = JobProcesses(10_000, dict.fromkeys(range(4), False))
    verdict, text = conclude(synthetic, tmp_path, gone)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert "Rank 1 had started it, too, and was outside MPI" in text and "ranks 2-3" in text
    synthetic.signal = [15, 0, 15, 15]  # it left by an exit, and the other ranks waited
    verdict, _ = conclude(synthetic, tmp_path / "left", gone)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,))


def test_what_no_rank_is_in_is_not_undecided(tmp_path: Path) -> None:
    """All ranks wait, perhaps for other requests; they progress, although the operation is old."""
    synthetic = started()
    synthetic.inside = [2, 2, 2, 2]
    moves = now(*ALL, after=20, busy=ALL)
    assert conclude(synthetic, tmp_path, moves)[0].kind == "none"
