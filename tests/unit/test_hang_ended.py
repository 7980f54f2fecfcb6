"""Verdicts on jobs that were ended: a wait is a hang only if it had lasted."""

from __future__ import annotations

import json
from pathlib import Path
from signal import Signals

import pytest
from support.hang_traces import HERE, SECOND, call, conclude, job
from support.synthetic import Synthetic

from mpiprof.hang import first_end, hang_threshold
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.words.verdict_text import verdict_title

ENTRY_NS = 9_000  # of the open calls
PARENT = 2 << 8
GONE = JobProcesses(10_000, dict.fromkeys(range(4), False))


def waiting(rounds: int = 8) -> Synthetic:
    """Return a job in which rank 3 has not arrived at an allreduce."""
    synthetic = job(4, rounds)
    synthetic.signal = [Signals.SIGTERM | PARENT] * 4
    for rank in range(3):
        call(synthetic, rank, "allreduce", sequence=rounds, site=HERE)
    return synthetic


@pytest.mark.parametrize("lasted_ns", [1_500, SECOND])
def test_a_short_wait_in_an_ended_job_is_no_hang(lasted_ns: int, tmp_path: Path) -> None:
    synthetic = waiting()
    synthetic.signal_ns = ENTRY_NS + lasted_ns
    verdict, text = conclude(synthetic, tmp_path, GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", ())
    assert verdict_title(verdict) == "JOB ENDED"
    assert text.startswith("SIGTERM ended the job after ")
    assert "no rank was waiting unusually long then (the longest call had lasted " in text
    assert ": allreduce at app.py:5 main)" in text


def test_a_long_wait_in_an_ended_job_keeps_its_verdict(tmp_path: Path) -> None:
    synthetic = waiting()
    synthetic.signal_ns = ENTRY_NS + 3 * SECOND
    verdict, text = conclude(synthetic, tmp_path, GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (3,)), text


def test_a_wait_as_long_as_an_earlier_call_is_no_hang(tmp_path: Path) -> None:
    synthetic = waiting()
    synthetic.add_communicator("own", [0])
    call(synthetic, 0, "barrier", communicator="own", sequence=0, ends=ENTRY_NS + 5 * SECOND)
    synthetic.signal_ns = ENTRY_NS + 6 * SECOND
    assert conclude(synthetic, tmp_path, GONE)[0].odd_ranks == ()
    synthetic.signal_ns = ENTRY_NS + 11 * SECOND
    assert conclude(synthetic, tmp_path / "long", GONE)[0].odd_ranks == (3,)


@pytest.mark.parametrize(("lasted_s", "odd"), [(9, ()), (11, (3,))])
def test_without_earlier_calls_the_limit_is_10_seconds(
    lasted_s: int, odd: tuple[int, ...], tmp_path: Path
) -> None:
    synthetic = waiting(1)
    synthetic.signal_ns = ENTRY_NS + lasted_s * SECOND
    assert conclude(synthetic, tmp_path, GONE)[0].odd_ranks == odd


def test_a_reported_hang_needs_no_duration(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    hang_threshold.store_limit(tmp_path / "t", 0.5)
    synthetic = waiting()
    synthetic.signal_ns = ENTRY_NS + SECOND
    verdict, text = conclude(synthetic, tmp_path, GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (3,)), text


@pytest.mark.parametrize("siblings", [4, 3])
def test_a_rank_that_the_launcher_killed_before_its_note(siblings: int, tmp_path: Path) -> None:
    """If the launcher had 4 children when it ended the job, no rank had ended before."""
    synthetic = waiting()
    synthetic.siblings = siblings
    synthetic.signal[3] = 0
    synthetic.signal_ns = ENTRY_NS + SECOND
    verdict, text = conclude(synthetic, tmp_path, GONE)
    expected = () if siblings == 4 else (3,)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", expected), text
    assert ("exception" in text) == (siblings == 3)


def test_a_job_of_which_no_rank_recorded_a_signal(tmp_path: Path) -> None:
    """The wait is described; no rank is accused, because its duration is unknown."""
    synthetic = waiting()
    synthetic.signal = [0] * 4
    verdict, text = conclude(synthetic, tmp_path, GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", ())
    assert "the time of the end is unknown. Ranks 0-2 waited in allreduce" in text
    assert "Rank 3 had not arrived" in text and "duration of this wait is unknown" in text


def test_a_first_end_by_sigint_is_no_death(tmp_path: Path) -> None:
    """MPICH's launcher passes SIGINT on, and kills the remaining ranks as soon as one ends."""
    synthetic = waiting()
    synthetic.signal = [0] * 4
    (tmp_path / "t").mkdir()
    stored = {"rank": 3, "sure": True, "status": 2, "at_ns": ENTRY_NS + SECOND}
    (tmp_path / "t" / first_end.FILE).write_text(json.dumps(stored))
    verdict, text = conclude(synthetic, tmp_path, GONE)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", ())
    assert text.startswith("SIGINT ended the job after ")


@pytest.mark.parametrize(("lasted_s", "kind"), [(1, "dead"), (20, "undecided")])
def test_the_first_end_is_the_end_of_the_job(lasted_s: int, kind: str, tmp_path: Path) -> None:
    synthetic = waiting()
    synthetic.signal = [0] * 4
    (tmp_path / "t").mkdir()
    stored = {"rank": 0, "sure": True, "at_ns": ENTRY_NS + lasted_s * SECOND}
    (tmp_path / "t" / first_end.FILE).write_text(json.dumps(stored))
    verdict, text = conclude(synthetic, tmp_path, GONE)
    assert (verdict.kind, verdict.odd_ranks) == (kind, ()), text
