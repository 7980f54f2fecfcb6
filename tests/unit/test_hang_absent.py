"""The verdict on ranks that do not arrive: late, dead, stopped, ended, or waiting for messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.hang_traces import HERE, SECOND, THERE, call, conclude, job, now, places
from support.synthetic import Synthetic

import mpiprof
from mpiprof.facts.datatypes import DATATYPES, may_agree
from mpiprof.hang import job_verdict, processes, rank_state, status
from mpiprof.hang.processes import JobProcesses
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text as words
from mpiprof.trace.types import SUMMARY
from mpiprof.trace.writer import RECORD_TYPE, make_chunks


def barrier_without_the_last(ranks: int = 3) -> Synthetic:
    """Return a job with a barrier at which the last rank has not arrived."""
    synthetic = job(ranks)
    for rank in range(ranks - 1):
        call(synthetic, rank, "barrier", site=HERE)
    return synthetic


def test_a_late_rank_is_none_until_it_lasts(tmp_path: Path) -> None:
    synthetic = barrier_without_the_last()
    for seconds, kind in ((0, "none"), (9, "none"), (11, "missing")):
        verdict, _ = conclude(synthetic, tmp_path, now(0, 1, 2, after=seconds))
        assert verdict.kind == kind


def test_ten_times_its_usual_time(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.add_collective("barrier", [[2000, 2000]], [[2000 + 3 * SECOND] * 2], site=HERE)
    synthetic.add(0, synthetic.add_shape(0, "barrier", "world", site=HERE), 1, 4 * SECOND, 0)
    for seconds, kind in ((25, "none"), (31, "missing")):
        processes = JobProcesses((4 + seconds) * SECOND, {0: True, 1: True})
        assert conclude(synthetic, tmp_path, processes)[0].kind == kind


def test_what_the_missing_rank_does(tmp_path: Path) -> None:
    synthetic = barrier_without_the_last()
    busy = now(0, 1, 2, after=20, busy=frozenset([2]))
    still = now(0, 1, 2, after=20, still=frozenset([2]))
    verdict, text = conclude(synthetic, tmp_path, busy)
    assert (verdict.kind, verdict.odd_ranks) == ("stalled", (2,)) and "computes" in text
    look = r"See its stack: process (\d+) on n\d+ \(`gdb -p \1`, `py-spy dump -p \1`\)\.$"
    assert re.search(look, text), text
    verdict, text = conclude(synthetic, tmp_path, still)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (2,)) and "no processor" in text
    synthetic.inside[2] = 1
    verdict, text = conclude(synthetic, tmp_path, still)
    assert (verdict.kind, verdict.odd_ranks) == ("point_to_point", (2,))
    assert "point-to-point call" in text


def test_whoever_waits_for_another_is_not_the_odd_one(tmp_path: Path) -> None:
    """Rank 0 waits for 1, which waits for 2 on another communicator; 2 is the missing rank."""
    synthetic = job(3)
    synthetic.add_communicator("pair", [1, 2])
    call(synthetic, 0, "barrier")
    call(synthetic, 1, "barrier", communicator="pair", sequence=0)
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, 2, after=20, still=frozenset([2])))
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (2,))


def test_a_rank_that_has_finished_never_comes(tmp_path: Path) -> None:
    verdict, text = conclude(barrier_without_the_last(), tmp_path, now(0, 1, 2), finished=[2])
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (2,))
    assert "MPI_Finalize" in text


def test_one_barrier_too_many(tmp_path: Path) -> None:
    synthetic = job(4)
    call(synthetic, 1, "barrier", site=HERE)
    for rank in (0, 2, 3):
        call(synthetic, rank, "finalize", site=THERE)
    verdict, _ = conclude(synthetic, tmp_path, now(*range(4)))
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert places(verdict, tmp_path) == [5, 9]


def test_dead_rank(tmp_path: Path) -> None:
    processes = JobProcesses(10_000, {0: True, 1: True, 2: False})
    verdict, text = conclude(barrier_without_the_last(), tmp_path, processes)
    assert (verdict.kind, verdict.odd_ranks) == ("dead", (2,)) and "Rank 2 died" in text


@pytest.mark.parametrize(
    ("signals", "odd", "printed"),
    [
        ([15, 15, 11], (2,), "Rank 2 died of SIGSEGV"),  # the launcher ended the others
        ([15, 15, 0], (2,), "Rank 2 died before"),  # by a signal that cannot be caught
        ([15, 15, 15], (2,), "Rank 2 had not arrived"),  # a user ended a hung job
        ([0, 0, 0], (), "duration of this wait is unknown"),  # by signals that cannot be caught
    ],
)
def test_who_died_first(
    signals: list[int], odd: tuple[int, ...], printed: str, tmp_path: Path
) -> None:
    synthetic = barrier_without_the_last()
    synthetic.signal = signals
    gone = JobProcesses(10_000, dict.fromkeys(range(3), False))
    verdict, text = conclude(synthetic, tmp_path, gone)
    kinds = {"Rank 2 died": "dead", "Rank 2 had ": "missing", "duration of": "dead"}
    assert verdict.kind == kinds[printed[:11]]
    assert verdict.odd_ranks == odd and printed in text
    assert "No process of the job is left" in text


def test_who_was_ended_by_the_launcher_did_not_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic = barrier_without_the_last()
    synthetic.signal = [15, 15, 11]
    gone = JobProcesses(10_000, dict.fromkeys(range(3), False))
    verdict, _ = conclude(synthetic, tmp_path, gone)
    trace = mpiprof.open(tmp_path / "t")
    monkeypatch.setattr(status, "find_alive", lambda _: gone.alive)
    text = status.status_text(trace, *rank_state.find(trace), verdict)
    assert "· rank 2 died before MPI_Finalize" in text
    states = {line.split()[0]: line.split()[1] for line in text.splitlines() if "side " in line}
    assert states == {"0-1": "ended", "2": "died"}


def test_all_wait_for_messages(tmp_path: Path) -> None:
    synthetic = job(2)
    synthetic.inside = [1, 2]
    assert conclude(synthetic, tmp_path, now(0, 1))[0].kind == "none"
    verdict, _ = conclude(synthetic, tmp_path, now(0, 1, after=20, still=frozenset([0, 1])))
    assert (verdict.kind, verdict.odd_ranks) == ("point_to_point", (0, 1))


def test_all_have_arrived_and_nothing_differs(tmp_path: Path) -> None:
    synthetic = job(2)
    for rank in range(2):
        call(synthetic, rank, "alltoallv")
    assert conclude(synthetic, tmp_path, now(0, 1))[0].kind == "none"
    assert conclude(synthetic, tmp_path, now(0, 1, after=20))[0].kind == "undecided"


def test_a_job_elsewhere_is_not_judged_by_time(tmp_path: Path) -> None:
    assert conclude(barrier_without_the_last(), tmp_path, JobProcesses())[0].kind == "none"


def test_datatypes_that_may_agree() -> None:
    for name in DATATYPES:
        assert may_agree(name, name) and may_agree(name, "MPI_BYTE") and may_agree("", name)
    assert may_agree("MPI_INT", "MPI_INTEGER") and may_agree("MPI_DOUBLE", "MPI_DOUBLE_PRECISION")
    assert may_agree("MPI_LONG", "MPI_UINT64_T")
    assert not may_agree("MPI_INT", "MPI_FLOAT") and not may_agree("MPI_INT", "MPI_LONG")
    assert not may_agree("MPI_REAL", "MPI_DOUBLE_PRECISION")


def test_ranks_that_leave_while_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank was in MPI_Finalize when it was read, and gone when its process was inspected.

    A rank writes an end before it waits there for other ranks, so this end does not prove that it
    left.
    """
    trace = mpiprof.open(job(3).write(tmp_path / "t"))
    assert set(trace.tables.ends) == {0, 1, 2}
    monkeypatch.setattr(processes, "find_alive", lambda _: dict.fromkeys(range(3), False))
    for rank in (0, 2):
        end = {"at_ns": 10**13, "reason": "finalize", "dropped": 0, "recorder_ns": 0, "chunks": 1}
        path = next(iter((tmp_path / "t").glob(f"*{rank}.tables")))
        with path.open("a") as file:
            file.write(json.dumps({"rank": rank, "end": end}) + "\n")
    assert processes.sample_processes(trace, []).ended == {0, 2}


@pytest.mark.parametrize(
    ("inside", "seen", "printed"),
    [
        (1, "still", "Ranks 1-2 have not arrived, but wait in a point-to-point call"),
        (1, "still", "Look for the message that they wait for."),
        (0, "busy", "Ranks 1-2 have not arrived: they compute"),
        (0, "busy", "They are slow"),
        (0, "still", "They use no processor: they sleep, or wait outside MPI."),
        (0, "stopped", "They are stopped"),
    ],
)
def test_several_ranks_that_have_not_come(
    inside: int, seen: str, printed: str, tmp_path: Path
) -> None:
    synthetic = job(3)
    call(synthetic, 0, "barrier", site=HERE)
    if inside:
        synthetic.inside = [0, inside, inside]
    odd = frozenset([1, 2])
    how = {"still": odd, "stopped": odd} if seen == "stopped" else {seen: odd}
    _, text = conclude(synthetic, tmp_path, now(0, 1, 2, after=20, **how))
    assert printed in text


def test_each_missing_rank_has_its_last_call_site(tmp_path: Path) -> None:
    synthetic = job(3)
    call(synthetic, 0, "barrier", site=HERE, sequence=4)
    for rank, site in ((0, HERE), (1, HERE), (2, THERE)):
        call(synthetic, rank, "bcast", root=0, sent=8, received=8, site=site, ends=9_100)
    job_processes = now(0, 1, 2, after=20, still=frozenset([1, 2]))
    _, text = conclude(synthetic, tmp_path, job_processes)
    assert (
        "last seen after bcast at app.py:5 main (rank 1), after bcast at app.py:9 step (rank 2)"
        in text
    )


def test_ranks_that_died_of_different_signals(tmp_path: Path) -> None:
    synthetic = barrier_without_the_last(4)
    synthetic.signal = [15, 6, 15, 11]
    gone = JobProcesses(10_000, dict.fromkeys(range(4), False))
    _, text = conclude(synthetic, tmp_path, gone)
    assert "Ranks 1, 3 died of SIGABRT and SIGSEGV" in text


def test_one_rank_waits_for_a_message(tmp_path: Path) -> None:
    synthetic = job(1)
    synthetic.inside = [1]
    verdict, text = conclude(synthetic, tmp_path, now(0, after=20, still=frozenset([0])))
    assert verdict.kind == "point_to_point"
    assert text.startswith("Rank 0 waits in a point-to-point call, and does not move:")


def test_a_hang_in_finalize_that_was_ended(tmp_path: Path) -> None:
    """A rank that waits in MPI_Finalize has released the signals, so it records none."""
    synthetic = job(3)
    for rank in (0, 2):
        call(synthetic, rank, "finalize", site=THERE)
    synthetic.signal = [0, 15, 0]
    gone = JobProcesses(10_000, dict.fromkeys(range(3), False))
    verdict, text = conclude(synthetic, tmp_path, gone, finished=[0, 2])
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert "Ranks 0, 2 waited in finalize" in text and "Rank 1 had not arrived" in text


def test_the_window_of_totals_is_nobody_s_thread(tmp_path: Path) -> None:
    """A ring has such a window beside its threads' windows.

    A rank in a receive is detected anyway.
    """
    synthetic = barrier_without_the_last()
    synthetic.inside[2] = 1
    folder = synthetic.write(tmp_path / "t", finished=False)
    total = np.zeros(1, RECORD_TYPE)
    total["kind"], total["exit_ns"] = SUMMARY, 3
    for rank in range(3):
        with (folder / f"rank-{rank:06d}.log").open("ab") as log:
            log.write(make_chunks(total, rank, 1, 0, window=True))
    trace = mpiprof.open(folder)
    states, pending = rank_state.find(trace)
    assert [one.between for one in states] == ["", "", "point_to_point"]
    still = now(0, 1, 2, after=20, still=frozenset([2]))
    verdict = job_verdict.conclude(trace, states, pending, still)
    assert (verdict.kind, verdict.odd_ranks) == ("point_to_point", (2,))


def test_a_poll_in_one_call_is_no_work_beside_a_window_of_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic = barrier_without_the_last()
    synthetic.inside[2] = 1
    folder = synthetic.write(tmp_path / "t", finished=False)
    total = np.zeros(1, RECORD_TYPE)
    total["kind"], total["exit_ns"] = SUMMARY, 3
    with (folder / "rank-000002.log").open("ab") as log:
        log.write(make_chunks(total, 2, 1, 0, window=True))
    ticks = iter(range(10**6))
    monkeypatch.setattr(processes, "find_alive", lambda _: dict.fromkeys(range(3), True))
    monkeypatch.setattr(processes, "read_stat", lambda _: ("R", next(ticks)))
    monkeypatch.setattr(processes, "SAMPLE_INTERVAL_S", 0.0)
    assert processes.sample_processes(mpiprof.open(folder), [2]).still == {2}


def test_stopped_and_sleeping_ranks_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = mpiprof.open(barrier_without_the_last().write(tmp_path / "t", finished=False))
    monkeypatch.setattr(processes, "find_alive", lambda _: dict.fromkeys(range(3), True))
    monkeypatch.setattr(processes, "SAMPLE_INTERVAL_S", 0.0)
    for state, stopped in (("T", {2}), ("t", {2}), ("S", set())):
        monkeypatch.setattr(processes, "read_stat", lambda _, state=state: (state, 1))
        seen = processes.sample_processes(trace, [2])
        assert seen.still == {2} and seen.stopped == stopped


def test_a_silent_death_may_be_the_launcher_s(tmp_path: Path) -> None:
    synthetic = barrier_without_the_last()
    synthetic.signal = [15, 15, 0]
    gone = JobProcesses(10_000, dict.fromkeys(range(3), False))
    assert "perhaps the launcher's." in conclude(synthetic, tmp_path, gone)[1]
    synthetic.signal = [15, 15, 11]
    assert "perhaps" not in conclude(synthetic, tmp_path / "noted", gone)[1]


def test_no_rank_is_reported_dead_without_evidence() -> None:
    assert words.verdict_title(HangVerdict("dead", (1,), ended=True)) == "DEAD RANK"
    assert words.verdict_title(HangVerdict("dead", (), ended=True)) == "JOB ENDED"


def test_who_is_in_a_call_that_is_not_logged_may_wait_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call outside the sample: the rank does not compute or sleep outside MPI."""
    synthetic = barrier_without_the_last()
    synthetic.inside[2] = 5
    still = now(0, 1, 2, after=20, still=frozenset([2]))
    verdict, text = conclude(synthetic, tmp_path, still)
    assert (verdict.kind, verdict.odd_ranks, verdict.reason) == ("undecided", (), "unlogged")
    assert "Rank 2 has not arrived. Those that are waited for are in collectives that" in text
    busy = now(0, 1, 2, after=20, busy=frozenset([2]))
    assert conclude(synthetic, tmp_path / "moves", busy)[0].kind == "undecided"
    trace = mpiprof.open(tmp_path / "t")
    states, pending = rank_state.find(trace)
    assert states[2].state == "inside"
    monkeypatch.setattr(status, "find_alive", lambda _: still.alive)
    reported = status.status_text(trace, states, pending, verdict)
    assert (
        "not logged, after barrier" in reported
        and "rank 2 is in a collective that is not" in reported
    )


def test_a_second_hang_beside_the_first_is_reported(tmp_path: Path) -> None:
    """Rank 1 sleeps and delays 0; rank 2 waits for a message and delays 3.

    Rank 4 waits for all ranks.
    """
    synthetic = job(5)
    for name, members in (("low", [0, 1]), ("high", [2, 3])):
        synthetic.add_communicator(name, members)
    call(synthetic, 0, "barrier", communicator="low", sequence=0, site=HERE)
    call(synthetic, 3, "barrier", communicator="high", sequence=0, site=THERE)
    call(synthetic, 4, "barrier", site=HERE)
    synthetic.inside[2] = 1
    still = now(*range(5), after=20, still=frozenset([1, 2]))
    verdict, text = conclude(synthetic, tmp_path, still)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert [(other.kind, other.odd_ranks) for other in verdict.further] == [
        ("point_to_point", (2,))
    ]
    besides = text.partition(" Besides, ")[2]
    assert re.match(r"rank 3 waits in barrier at app.py:9 step on split \w+\. Rank 2 has", besides)
    assert besides.count("gdb -p 102") == 1
    verdict, _ = conclude(synthetic, tmp_path / "soon", now(*range(5), after=9))
    assert verdict.further == ()
