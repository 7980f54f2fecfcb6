"""The verdict on ranks with several threads: a thread may still call, or only poll."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from support.hang_traces import HERE, THERE, call, job, now
from support.wait_until import wait_until

import mpiprof
from mpiprof.hang import hang_threshold, job_verdict, rank_state
from mpiprof.hang.processes import JobProcesses, read_stat, read_stat_without
from mpiprof.hang.rank_state import Position
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text as words
from mpiprof.trace import Trace
from mpiprof.trace.types import CALL
from mpiprof.trace.writer import RECORD_TYPE, make_chunks


def crossed(folder: Path, signals: tuple[int, int, int] = (0, 0, 0)) -> Trace:
    """Return a trace of 3 ranks: 0 and 1 wait for 2, which waits for 1 on another communicator."""
    synthetic = job(3)
    synthetic.signal = list(signals)
    synthetic.add_communicator("other", [0, 1, 2])
    for rank in (0, 1):
        call(synthetic, rank, "barrier", site=HERE)
    for rank in (0, 2):
        call(synthetic, rank, "barrier", communicator="other", sequence=0, site=THERE)
    for rank in range(3):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    return mpiprof.open(synthetic.write(folder / "t", finished=False))


def judge(
    trace: Trace, states: list[Position], pending: list[rank_state.Pending], processes: JobProcesses
) -> tuple[HangVerdict, str]:
    """Return the verdict and its text."""
    verdict = job_verdict.conclude(trace, states, pending, processes)
    return verdict, words.format_verdict(trace, states, verdict)


def test_a_circle_that_a_spare_thread_may_open_is_undecided(tmp_path: Path) -> None:
    """A circle of 1 and 2, both with a spare thread: no rank is accused."""
    trace = crossed(tmp_path)
    states, pending = rank_state.find(trace)
    assert judge(trace, states, pending, now(0, 1, 2, after=20))[0].kind == "order"
    states[1].free = states[2].free = 1
    still = now(0, 1, 2, after=20, still=frozenset([1, 2]))
    verdict, text = judge(trace, states, pending, still)
    assert (verdict.kind, verdict.odd_ranks, verdict.may_still_arrive) == ("undecided", (), (1, 2))
    assert "None of these threads computes. Nothing tells which of them keeps" in text
    verdict, text = judge(trace, states, pending, now(0, 1, 2, after=20))
    assert verdict.kind == "undecided" and "computes" not in text
    assert judge(trace, states, pending, now(0, 1, 2, after=9))[0].kind == "none"


def test_a_spare_thread_that_computes_may_come(tmp_path: Path) -> None:
    trace = crossed(tmp_path)
    states, pending = rank_state.find(trace)
    states[1].free = states[2].free = 1
    states[1].tasks, states[2].tasks = [101], []
    assert hang_threshold.find_suspects(states, pending, now(after=20).now_ns) == [
        1
    ]  # 2 cannot be inspected
    busy = now(0, 1, 2, after=20, busy=frozenset([1]), still=frozenset([2]))
    verdict, _ = judge(trace, states, pending, busy)
    assert (verdict.kind, verdict.odd_ranks) == ("stalled", (1,))


def test_no_rank_is_called_dead_that_waited_in_an_open_circle(tmp_path: Path) -> None:
    """A user ends it: 1 and 2 record SIGTERM, 0 nothing."""
    trace = crossed(tmp_path, (0, 15, 15))
    states, pending = rank_state.find(trace)
    states[1].free = states[2].free = 1
    gone = JobProcesses(10_000, dict.fromkeys(range(3), False))
    verdict, text = judge(trace, states, pending, gone)
    assert (verdict.kind, verdict.odd_ranks, verdict.ended) == ("undecided", (), True)
    assert "died" not in text


def used(inside: list[int]) -> list[int]:
    """Return the ticks that this process has used, and the ticks without some of its threads."""
    found = [read_stat_without(os.getpid(), threads) for threads in ((), inside)]
    return [one[1] for one in found if one is not None]


@pytest.mark.heavy
def test_what_a_thread_in_mpi_uses_is_not_its_process_s() -> None:
    """One thread of this process polls; without it, the process uses no processor."""
    over, polls = threading.Event(), []

    def poll() -> None:
        polls.append(threading.get_native_id())
        while not over.is_set():
            pass

    other = threading.Thread(target=poll)
    other.start()
    try:
        wait_until(lambda: polls, "the thread polls")
        before = used(polls)
        # Until it has used half a second of a processor, however long that takes.
        wait_until(lambda: used(polls)[0] >= before[0] + 50, "the thread has used a processor")
        after = used(polls)
    finally:
        over.set()
        other.join()
    whole, without = (b - a for a, b in zip(before, after, strict=True))
    assert whole >= 50 and without < whole / 2
    assert read_stat_without(1 << 30, [5]) is None and read_stat(1 << 30) is None


def test_where_a_rank_was_last_seen_is_its_thread_s(tmp_path: Path) -> None:
    """Rank 1's second thread was on `other`; its first thread called on the world later."""
    synthetic = job(2)
    synthetic.add_communicator("other", [0, 1])
    synthetic.add(0, synthetic.add_shape(0, "barrier", "other", site=THERE), 0, 2500, 2600)
    call(synthetic, 0, "barrier", communicator="other", sequence=1, site=THERE)
    second = np.zeros(1, RECORD_TYPE)
    second["shape"] = synthetic.add_shape(1, "barrier", "other", site=THERE)
    second["enter_ns"], second["exit_ns"], second["kind"], second["thread"] = 2500, 2600, CALL, 1
    for rank in range(2):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    folder = synthetic.write(tmp_path / "t", finished=False)
    with (folder / "rank-000001.log").open("ab") as log:
        log.write(make_chunks(second, 1, 1, 0, window=True))
    trace = mpiprof.open(folder)
    states, pending = rank_state.find(trace)
    assert states[1].last is not None and states[1].last.operation == "barrier"
    still = now(0, 1, after=20, still=frozenset([1]))
    verdict, text = judge(trace, states, pending, still)
    assert (verdict.kind, verdict.odd_ranks) == ("missing", (1,))
    assert "Rank 1 has not arrived, last seen after barrier at app.py:9 step." in text
