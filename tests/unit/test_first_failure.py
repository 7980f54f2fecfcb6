"""A hang that was ended through the launcher keeps its verdict, and no rank is called dead.

The launcher sends SIGTERM and soon after SIGKILL, which leaves no note. So some ranks have no
recorded signal, although none died by itself.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support.hang_traces import HERE, THERE, call, conclude, job
from support.jobs import run_verb
from support.synthetic import Synthetic

import mpiprof
from mpiprof.hang import first_end, hang_threshold, job_verdict, rank_state, status
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.words import verdict_text

DOUBT = "No signal is noted of"
OLD_S = time.time() - 1000  # `pack` refuses traces with recent writes


def gone(ranks: int) -> JobProcesses:
    """Return the state of a job without living processes."""
    return JobProcesses(10_000, dict.fromkeys(range(ranks), False))


def lacking(ranks: int = 4, missing: int = 1) -> Synthetic:
    """Return a job in which one rank has not arrived at an alltoall."""
    synthetic = job(ranks)
    for rank in set(range(ranks)) - {missing}:
        call(synthetic, rank, "alltoall", site=HERE)
    return synthetic


@pytest.mark.parametrize("signals", [[0, 15, 0, 0], [0, 15, 15, 15], [15, 15, 0, 15]])
def test_who_waited_for_a_rank_that_was_ended_has_not_died(
    signals: list[int], tmp_path: Path
) -> None:
    synthetic = lacking()
    synthetic.signal = signals
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert text.startswith("Ranks 0, 2-3 waited in alltoall at app.py:5 main")
    assert "Rank 1 had not arrived" in text and "died" not in text and DOUBT in text


def test_a_rank_that_exits_is_named_if_the_waiting_rank_noted_nothing(tmp_path: Path) -> None:
    synthetic = lacking()
    synthetic.signal = [0, 0, 15, 15]
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,)) and "Rank 1 died" in text


def test_a_noted_signal_is_blamed_though_others_note_nothing(tmp_path: Path) -> None:
    synthetic = lacking()
    synthetic.signal = [0, 11, 15, 0]
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,)) and "SIGSEGV" in text


def test_who_died_where_nobody_was_lacked_is_blamed(tmp_path: Path) -> None:
    synthetic = job(3)
    for rank in range(3):
        call(synthetic, rank, "allreduce", site=HERE)
    synthetic.signal = [15, 0, 15]
    verdict, text = conclude(synthetic, tmp_path, gone(3))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,))
    assert "Rank 1 died before MPI_Finalize in allreduce at app.py:5 main" in text


@pytest.mark.parametrize("signals", [[15, 0, 15, 15], [0, 0, 15, 0], [15, 11, 15, 15]])
def test_a_wait_cycle_precedes_a_dead_rank(signals: list[int], tmp_path: Path) -> None:
    """No correct program has a circle, and no death causes one."""
    synthetic = job(4)
    for name in ("row", "column"):
        synthetic.add_communicator(name, list(range(4)))
    for rank in range(4):
        name, site = ("column", THERE) if rank == 2 else ("row", HERE)
        call(synthetic, rank, "allreduce", communicator=name, sequence=0, site=site)
    synthetic.signal = signals
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("order", (2,))
    assert "circle" in text and "No process of the job is left" in text


def test_what_only_lasted_is_no_circle_beside_a_death(tmp_path: Path) -> None:
    """A root that sends waits for no rank; it was in the call for a moment when rank 2 died."""
    synthetic = job(3)
    synthetic.add_communicator("other", [0, 1])
    call(synthetic, 0, "bcast", communicator="other", sequence=0, root=0)
    call(synthetic, 1, "barrier")
    synthetic.signal = [15, 15, 11]
    verdict, _ = conclude(synthetic, tmp_path, gone(3))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (2,))


def test_an_early_exit_precedes_a_dead_rank(tmp_path: Path) -> None:
    synthetic = job(4)
    for rank in (1, 3):
        call(synthetic, rank, "bcast", root=1, site=HERE)
    call(synthetic, 2, "finalize", site=THERE)
    synthetic.inside[0] = 1
    synthetic.signal = [15, 0, 0, 15]
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks, verdict.reason) == ("missing", (2,), "finished")
    assert "Rank 2 could not come: it had called MPI_Finalize." in text


def test_who_waited_for_a_message_has_not_died(tmp_path: Path) -> None:
    """Only SIGKILL ends it there without a note; the other ranks record SIGTERM."""
    synthetic = lacking()
    synthetic.inside[1] = 1
    synthetic.signal = [15, 0, 15, 15]
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("point_to_point", (1,))
    assert "waited in a point-to-point call" in text and f"{DOUBT} rank 1" in text
    synthetic.signal = [15, 11, 15, 15]
    assert conclude(synthetic, tmp_path / "noted", gone(4))[0].kind == "dead"


def test_all_that_waited_for_messages(tmp_path: Path) -> None:
    synthetic = job(3)
    synthetic.inside = [1, 1, 2]
    synthetic.signal = [15, 0, 15]
    verdict, _ = conclude(synthetic, tmp_path, gone(3))
    assert (verdict.kind, verdict.odd_ranks) == ("point_to_point", (0, 1, 2))


def test_verdict_and_table_agree_on_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic = job(3)
    for rank in range(3):
        call(synthetic, rank, "allreduce", site=HERE)
    synthetic.signal = [15, 11, 15]
    verdict, reported = conclude(synthetic, tmp_path, gone(3))
    trace = mpiprof.open(tmp_path / "t")
    monkeypatch.setattr(status, "find_alive", lambda _: gone(3).alive)
    text = status.status_text(trace, *rank_state.find(trace), verdict)
    assert "died of SIGSEGV before MPI_Finalize in allreduce" in reported
    assert "died inside" in text and "after allreduce" not in text


def test_while_the_launcher_is_at_it(tmp_path: Path) -> None:
    """A rank that waits for a rank with a recorded SIGTERM has not died."""
    synthetic = lacking()
    synthetic.signal = [0, 15, 15, 15]
    some = JobProcesses(10_000, {0: False, 1: True, 2: True, 3: True})
    verdict, _ = conclude(synthetic, tmp_path, some)
    assert verdict.kind != "dead"


def test_who_notes_nothing_in_a_summary_has_perhaps_not_died(tmp_path: Path) -> None:
    """Its log does not show if other ranks waited for it, as in a hang that a user ended."""
    synthetic = job(4)
    synthetic.meta["record"] = "summary"
    synthetic.records = [[] for _ in range(4)]
    synthetic.signal = [15, 0, 15, 15]
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", ()) and f"{DOUBT} rank 1: it left" in text
    assert text.startswith("The job ended before MPI_Finalize; calls are not logged, so ")
    assert "died" not in text
    synthetic.signal = [0, 0, 0, 0]
    some = JobProcesses(10_000, {0: True, 1: False, 2: True, 3: True})
    assert conclude(synthetic, tmp_path / "alive", some)[0].odd_ranks == (1,)
    synthetic.signal = [15, 11, 15, 0]
    assert conclude(synthetic, tmp_path / "noted", gone(4))[0].odd_ranks == (1,)


ITSELF, PARENT, GRANDPARENT, ELSEWHERE = (sender << 8 for sender in (1, 2, 3, 255))


@pytest.mark.parametrize(
    "signals",
    [
        [15 | PARENT, 15 | ITSELF, 15 | PARENT, 15 | PARENT],
        [15 | PARENT, 15 | ELSEWHERE, 15 | PARENT, 15 | PARENT],
        [15 | GRANDPARENT, 15 | ELSEWHERE, 15 | GRANDPARENT, 0],
        [0, 15 | ELSEWHERE, 0, 0],
    ],
)
def test_a_rank_that_received_sigterm_alone_is_dead(signals: list[int], tmp_path: Path) -> None:
    synthetic = lacking()
    synthetic.signal = signals
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,)), text
    assert text.startswith("Rank 1 died of SIGTERM before MPI_Finalize")


@pytest.mark.parametrize(
    "signals",
    [
        [15 | PARENT] * 4,
        [15 | GRANDPARENT] * 4,
        [15 | ELSEWHERE] * 4,
        [15 | ELSEWHERE, 0, 0, 0],  # the launcher killed the others before they noted the signal
    ],
)
def test_sigterm_to_all_ranks_of_a_hang_is_no_death(signals: list[int], tmp_path: Path) -> None:
    synthetic = lacking()
    synthetic.signal = signals
    verdict, _ = conclude(synthetic, tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) != ("dead", (0,))
    assert verdict.kind in ("missing", "dead") and verdict.odd_ranks == (1,)


def test_sigterm_after_the_report_of_a_hang_is_no_death(tmp_path: Path) -> None:
    """`--on-hang abort` ends one rank, and MPICH's launcher then kills the others."""
    synthetic = lacking()
    synthetic.signal = [0, 15 | ELSEWHERE, 0, 0]
    (tmp_path / "t").mkdir()
    hang_threshold.store_limit(tmp_path / "t", 2.0)
    verdict, text = conclude(synthetic, tmp_path, gone(4))
    assert "SIGTERM" not in text and verdict.odd_ranks == (1,)


def test_a_dead_rank_beside_living_ranks(tmp_path: Path) -> None:
    synthetic = lacking()
    synthetic.signal = [0, 15 | ELSEWHERE, 0, 0]
    some = JobProcesses(10_000, {0: True, 1: False, 2: True, 3: True})
    verdict, text = conclude(synthetic, tmp_path, some)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,)) and "SIGTERM" in text


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize(("first", "kind", "odd"), [(1, "dead", (1,)), (0, "undecided", ())])
def test_the_rank_that_ended_first(
    first: int, kind: str, odd: tuple[int, ...], sure: bool, tmp_path: Path
) -> None:
    """MPICH's launcher kills the other ranks; a user who kills all ranks may begin with any."""
    (tmp_path / "t").mkdir()
    stored = {"rank": first, "sure": sure, "at_ns": 10**11}
    (tmp_path / "t" / first_end.FILE).write_text(json.dumps(stored))
    verdict, text = conclude(lacking(), tmp_path, gone(4))
    assert (verdict.kind, verdict.odd_ranks) == (kind, odd), text


@pytest.mark.parametrize("sure", [False, True])
def test_an_unsure_first_end_accuses_no_rank_that_nobody_waits_for(
    sure: bool, tmp_path: Path
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / first_end.FILE).write_text(json.dumps({"rank": 2, "sure": sure}))
    verdict, text = conclude(job(4), tmp_path, gone(4))
    assert (2 in verdict.odd_ranks) == sure, text


@pytest.mark.heavy
@pytest.mark.parametrize("hang_reported", [False, True])
def test_a_pack_has_the_rank_that_ended_first(hang_reported: bool, tmp_path: Path) -> None:
    """The pack and meta.json alone lead to the verdict of the trace."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / first_end.FILE).write_text(json.dumps({"rank": 1, "sure": True}))
    if hang_reported:
        hang_threshold.store_limit(folder, 2.0)
    known = conclude(lacking(), tmp_path, gone(4))
    assert known[0].kind == ("undecided" if hang_reported else "dead")
    for path in folder.iterdir():
        os.utime(path, (OLD_S, OLD_S))
    assert run_verb("pack", folder)[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == ["meta.json", "trace.pack"]
    trace = mpiprof.open(folder)
    positions, pending = rank_state.find(trace)
    verdict = job_verdict.conclude(trace, positions, pending, gone(4))
    assert (verdict, verdict_text.format_verdict(trace, positions, verdict)) == known
    expected = hang_threshold.make_threshold(2.0)
    assert (hang_threshold.read_threshold(folder) == expected) == hang_reported


EXCEPTION = "A Python exception may be the reason: look at its standard error."


@pytest.mark.parametrize("site", ["app.py:5:main", "app.c:5:main"])
def test_a_rank_without_a_signal_may_have_raised_an_exception(site: str, tmp_path: Path) -> None:
    synthetic = job(3)
    call(synthetic, 1, "bcast", root=1, site=site, ends=9_500)
    for rank in (0, 2):
        call(synthetic, rank, "bcast", root=1, site=site, ends=9_500)
        call(synthetic, rank, "barrier", sequence=4, site=site)
    synthetic.signal = [15, 0, 15]
    verdict, text = conclude(synthetic, tmp_path, gone(3))
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (1,))
    assert (EXCEPTION in text) == site.startswith("app.py"), text


@pytest.mark.parametrize("site", ["at exit (mpi4py):0:", "app.py:9:main"])
def test_mpi_finalize_at_exit_may_follow_an_exception(site: str, tmp_path: Path) -> None:
    synthetic = lacking(3)
    call(synthetic, 1, "finalize", site=site)
    alive = JobProcesses(10_000, dict.fromkeys(range(3), True))
    verdict, text = conclude(synthetic, tmp_path, alive)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert (EXCEPTION in text) == site.startswith("at exit"), text
    assert " at at " not in text
