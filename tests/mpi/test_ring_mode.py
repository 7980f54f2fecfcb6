"""The ring: the last events of every rank in bounded space, and the totals of all calls."""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.jobs import descendants
from support.compilation import compiled
from support.jobs import end, run_mpi, run_verb, start
from support.mpis import Mpi
from support.prepared_runs import prepare_run
from support.wait_until import wait_until

import mpiprof
from mpiprof.hang import job_verdict, rank_state

CHUNK = 1 << 16
RECORDS = (CHUNK - 64) // 32  # records per chunk
SMALL = 1 << 17  # the smallest ring: one chunk besides the window


def words(folder: Path, size: str, *program: str | Path) -> list[str]:
    """Return the command line that records a program's ranks as rings."""
    return prepare_run(["--record", f"ring:{size}", "-q", "-o", folder], program)


def check_recorded(trace: mpiprof.Trace, calls: int | None, most: float = 0) -> None:
    """Check the allreduces of a ring, the only calls on their communicator.

    Their sequence numbers are consecutive up to the last. most: tolerance of a number, if a kill
    came between a call and its totals, or if the program makes calls while the trace is read.
    """
    table: Any = trace.callsites.set_index("operation")
    site = int(table.loc["allreduce", "callsite"])
    instances: Any = trace.instances[trace.instances["callsite"] == site]
    sequence = np.sort(instances["sequence"].to_numpy(np.int64))
    assert (np.diff(sequence) == 1).all()
    numbers = trace.series(site)[site]["number"].to_numpy(np.int64)
    assert abs(int(numbers[0]) - int(sequence[0])) <= most
    assert (np.diff(numbers) == 1).all()
    if calls is not None:
        assert int(sequence[-1]) == calls - 1
        assert instances["complete"].all()


@pytest.mark.parametrize("ranks", [2, 3])
def test_counts_and_numbers_are_those_of_the_run(ranks: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 and 3 ranks: rank 2 makes few calls, so its ring has all of them; the others' do not."""
    rounds = 6_000
    program = compiled(mpi, "ring_counts.c")
    run_mpi(mpi, ranks, words(tmp_path / "t", "128K", program, str(rounds)), check=True)
    trace = mpiprof.open(tmp_path / "t")
    assert trace.record == "ring"
    assert set(trace.wrapped_chunks) == {0, 1}
    assert trace.is_sound and not trace.is_complete
    check_recorded(trace, 3 * rounds)
    totals: Any = trace.summed_up.set_index("operation")
    assert totals["calls"].to_dict() == {
        "allreduce": 2 * 3 * rounds,
        "bcast": ranks * rounds // 10,
        "barrier": ranks,
        "comm_split": ranks,
        "finalize": ranks,
    }
    assert int(totals.loc["allreduce", "bytes"]) == 2 * 3 * rounds * 16
    recorded: Any = trace.instances
    assert recorded["complete"].all()
    assert set(recorded["operation"]) == {"allreduce", "bcast", "finalize"}
    # All records that fit are present: a chunk and a window, possibly a new one.
    count = recorded.groupby("operation").size()
    assert RECORDS - 2 <= count.sum() <= 2 * RECORDS
    bcasts: Any = recorded[recorded["operation"] == "bcast"]
    # These follow the barrier and the split. Only these count for the rank whose ring has all
    # calls.
    assert bcasts["sequence"].tolist() == list(
        range(2 + rounds // 10 - len(bcasts), 2 + rounds // 10)
    )
    site = int(bcasts["callsite"].iloc[0])
    assert trace.series(site)[site]["number"].tolist() == (bcasts["sequence"] - 2).tolist()
    found = trace.derive("coverage")
    assert found.total == 3 * rounds + rounds // 10 + 3
    assert found.instances == len(recorded)
    shares = trace.run_times.collective.value / trace.process_time_ns
    assert 0 < shares <= 1


def test_reports_state_the_recorded_span(
    openmpi: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 2 ranks: report, status, compare and the page state the recorded part of the run."""
    program = compiled(openmpi, "ring_counts.c")
    run_mpi(openmpi, 2, words(tmp_path / "t", "128K", program, "3000"), check=True)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def output_of(*verb: str) -> str:
        code, out, _ = run_verb(*verb)
        assert code == 0
        return out

    report = output_of("report", "--all", "t")
    assert "of 9 303 instances (--record ring)" in report
    assert "Totals of all calls" in report and "18 000" in report
    assert "INCOMPLETE" not in report
    assert "8999" in output_of("report", "t", "--all", "--site", "allreduce").split("Its ranks")[0]
    assert "the last calls of each rank are available" in output_of("status", "t")
    assert "the last " in output_of("compare", "t", "t").split("A → B")[0]
    output_of("export", "t", "--to", "html", "-o", "t.html")
    assert "of 9 303 instances (--record ring)" in (tmp_path / "t.html").read_text()
    code, _, error = run_verb("report", "t", "--fail-on", "run.wait_share > 1%")
    assert code == 1 and "incomplete" in error


def test_a_ring_that_has_not_turned_is_a_trace_of_events(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: a ring that has overwritten nothing is a complete trace of events."""
    program = compiled(openmpi, "ring_counts.c")
    run_mpi(openmpi, 2, words(tmp_path / "t", "1M", program, "100"), check=True)
    trace = mpiprof.open(tmp_path / "t")
    assert trace.is_complete and not trace.problems and trace.derive("coverage") is None
    assert trace.instances.groupby("operation").size().to_dict() == {
        "allreduce": 300, "bcast": 10, "barrier": 1, "comm_split": 1, "finalize": 1,
    }  # fmt: skip
    assert not len(trace.summed_up)


def test_a_million_calls_use_no_more_space(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, 10^6 calls each: the file has the ring, the header and windows of totals.

    Collectives and other calls, such as MPI_Comm_free, have a window of totals each. The file
    system may add a block for the list of a file's fragments, so only whole chunks count.
    """
    program = compiled(openmpi, "ring_counts.c")
    command = words(tmp_path / "t", "1M", program, "333334")
    run_mpi(openmpi, 2, command, check=True)
    for log in (tmp_path / "t").glob("*.log"):
        assert (1 << 20) // CHUNK <= log.stat().st_blocks * 512 // CHUNK <= (1 << 20) // CHUNK + 3
    trace = mpiprof.open(tmp_path / "t")
    check_recorded(trace, 1_000_002)
    assert len(trace.instances) >= 14 * RECORDS


def test_flushing_does_not_empty_a_ring(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks that call MPI_Pcontrol(2) constantly: as many calls remain as without it."""
    program = compiled(openmpi, "ring_counts.c")
    run_mpi(openmpi, 2, words(tmp_path / "t", "128K", program, "3000", "flush"), check=True)
    trace = mpiprof.open(tmp_path / "t")
    check_recorded(trace, 9000)
    assert len(trace.instances) >= RECORDS - 2


def test_two_ranks_share_a_log(openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks that write into one file: each has a separate ring."""
    program = compiled(openmpi, "ring_counts.c")
    command = words(tmp_path / "t", "128K", program, "3000")
    run_mpi(openmpi, 3, command, check=True, env={"MPIPROF_NODE_FILES_ABOVE": "2"})
    trace = mpiprof.open(tmp_path / "t")
    assert len(trace.logs.opened) == 1 and set(trace.wrapped_chunks) == {0, 1} and trace.is_sound
    check_recorded(trace, 9000)


@contextlib.contextmanager
def going_on(mpi: Mpi, folder: Path, ranks: int) -> Any:
    """Start a job with two ranks that run until the test ends them."""
    program = compiled(mpi, "ring_counts.c")
    command = [*mpi.mpiexec(ranks), *words(folder, "128K", program, "20", "hang")]
    job = start(command)
    try:
        wait_until(lambda: turned(folder) == {0, 1}, "two rings have turned", job)
        yield job
    finally:
        end(job)


def turned(folder: Path) -> set[int]:
    """Return the ranks with rings that have overwritten records, or none without a trace."""
    with contextlib.suppress(mpiprof.errors.TraceError):
        return set(mpiprof.open(folder).wrapped_chunks)
    return set()


def pids(folder: Path) -> list[int]:
    """Return the processes of a job's ranks."""
    return [process["pid"] for process in mpiprof.open(folder).tables.processes.values()]


def check_cut(folder: Path) -> None:
    """Check the files of a job that was ended at an arbitrary point."""
    trace = mpiprof.open(folder)
    check_recorded(trace, None, most=1)
    assert not trace.is_complete
    assert not trace.logs.is_damaged and not trace.logs.truncated
    instances: Any = trace.instances[trace.instances["operation"] == "allreduce"]
    assert len(instances) >= RECORDS - 2
    # Only the last instances may be open, or lack a rank that had not arrived.
    assert instances.sort_values("sequence")["complete"].iloc[:-2].all()
    calls = trace.summary[trace.summary["operation"] == "allreduce"].set_index("rank")["calls"]
    assert (abs(calls - int(instances["sequence"].max())) <= 2).all()


@pytest.mark.slow
def test_a_job_stopped_anywhere_leaves_sound_numbers(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, stopped at 20 random points: the files are as SIGKILL would leave them."""
    chance = random.Random(20261123)
    folder = tmp_path / "t"
    with going_on(openmpi, folder, 2):
        for number in range(20):
            time.sleep(0.02 * chance.random())
            for pid in pids(folder):
                os.kill(pid, signal.SIGSTOP)
            shutil.copytree(folder, tmp_path / f"copy{number}", symlinks=True)
            for pid in pids(folder):
                os.kill(pid, signal.SIGCONT)
            check_cut(tmp_path / f"copy{number}")


def test_a_killed_job_leaves_sound_numbers(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: three jobs, killed at random points."""
    chance = random.Random(1123)
    for number in range(3):
        folder = tmp_path / f"t{number}"
        with going_on(openmpi, folder, 2) as job:
            time.sleep(0.3 * chance.random())
            for pid in [*pids(folder), *descendants(job.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            job.wait()
        check_cut(folder)


@pytest.mark.slow
def test_who_came_long_ago_is_not_missing(openmpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: two have lost the record of their last common call; the third waits for them."""
    folder = tmp_path / "t"
    with going_on(openmpi, folder, 3) as job:

        def waiting() -> Any:
            trace = mpiprof.open(folder)
            states, pending = rank_state.find(trace)
            return [(trace, states, pending, p) for p in pending if p.operations == ["barrier"]]

        ((trace, states, pending, one),) = wait_until(waiting, "rank 2 waits in a barrier", job)
        assert (one.arrived, one.missing, one.sequence) == ([2], [0, 1], 4)
        world, before = one.communicator, (one.communicator, one.sequence - 1, 0)
        # For ranks 0 and 1 only the sums show the calls before it.
        events: Any = trace.events
        assert set(events.loc[events["operation"] == "bcast", "rank"]) == {2}
        for rank in (0, 1):
            assert trace.last_sequences[rank, world] == before[1]
            assert rank_state.LogTail(trace, rank).has_entered(before)
        assert not job_verdict.find_verdict(trace, states, pending).is_bad
        window = trace.thread_chunks(0)[0][-1]
        then = window.log.read_header(window.index)
        wait_until(  # reads the file, not the copy
            lambda: window.log.read_header(window.index)["serial"] != then["serial"],
            "rank 0 goes on",
            job,
        )
        for _ in range(10):  # records and totals differ in time by any amount
            check_recorded(mpiprof.open(folder), None, most=math.inf)


def test_damage_in_a_ring_is_reported(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: damage of a byte in a chunk, or of a chunk's header, is reported."""
    program = compiled(openmpi, "ring_counts.c")
    run_mpi(openmpi, 2, words(tmp_path / "t", "512K", program, "6000"), check=True)
    log = tmp_path / "t" / "rank-000000.log"
    whole = log.read_bytes()
    first = mpiprof.open(tmp_path / "t").logs.threads[0, 0][2].index * CHUNK
    for place in (first + 1000, first):  # a byte of a record; the magic number
        cut = bytearray(whole)
        cut[place] ^= 1
        log.write_bytes(cut)
        trace = mpiprof.open(tmp_path / "t")
        complete = trace.instances["complete"]
        assert not trace.is_sound
        assert any("chunk" in problem for problem in trace.problems)
        assert len(complete)
