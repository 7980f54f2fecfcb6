"""Intervals between calls have known ends and counters, and the program runs unchanged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.account.segments import read_work
from mpiprof.account.work_intervals import INSIDE

INTERVAL_NS = 200_000  # as in core/record/interval.h
# As in intervals_cases.c:
REPEATS, STEP_NS, PAGES, THREADS = 5, 20_000_000, 1000, 40


def record(
    mpi: Mpi, name: str, folder: Path, *options: str, ranks: int = 2, check: bool = True
) -> str:
    """Record one case of intervals_cases.c into folder / "trace", and return its output."""
    program = compiled(mpi, "intervals_cases.c", "-pthread")
    words = prepare_run(["-q", *options, "-o", folder / "trace"], [program, name])
    return run_mpi(mpi, ranks, words, check=check).stdout


def case(mpi: Mpi, name: str, folder: Path, *options: str, ranks: int = 2) -> mpiprof.Trace:
    """Record one case and return its trace, which must be complete."""
    record(mpi, name, folder, *options, ranks=ranks)
    trace = mpiprof.open(folder / "trace")
    assert trace.is_complete
    assert trace.problems == []
    return trace


def line_of(mark: str) -> int:
    """Return the line of intervals_cases.c with this comment."""
    lines = (PROGRAMS / "intervals_cases.c").read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if f"/* {mark} */" in line)
    return found


def between(trace: mpiprof.Trace, before: str, after: str, rank: int = 0) -> pd.DataFrame:
    """Return the intervals of a rank between two marked lines."""
    table = trace.intervals
    rows = table["rank"] == rank
    for side, mark in (("before", before), ("after", after)):
        rows &= table[f"{side}_site"].str.contains(f":{line_of(mark)} ", regex=False)
    found: pd.DataFrame = table[rows]
    return found


def count_between_barriers(table: pd.DataFrame) -> int:
    """Return the number of intervals between two barriers."""
    sides = table[["before_operation", "after_operation"]]
    return int((sides == "barrier").all(axis=1).sum())


def check_consistency(trace: mpiprof.Trace) -> None:
    """Check what holds for all intervals."""
    table = trace.intervals
    length = table["end_ns"] - table["begin_ns"]
    assert (length >= INTERVAL_NS).all()
    assert (table["processor_ns"] >= 0).all()
    assert (table["processor_ns"] <= length + table["gap_ns"] + STEP_NS / 100).all()
    assert (table["last_processor"] >= 0).all()
    for _, rows in table.groupby(["rank", "thread"]):
        assert (rows["begin_ns"].to_numpy()[1:] >= rows["end_ns"].to_numpy()[:-1]).all()


def test_counters_of_sleep_work_and_page_faults_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "activities", tmp_path)
    check_consistency(trace)
    for rank in (0, 1):
        sleeps = between(trace, "before sleep", "before compute", rank)
        assert len(sleeps) == REPEATS
        assert (sleeps["end_ns"] - sleeps["begin_ns"] >= STEP_NS).all()
        assert (sleeps["processor_ns"] - sleeps["gap_ns"] < STEP_NS / 2).all()
        assert (sleeps["voluntary"] >= 1).all()
        work = between(trace, "before compute", "before touch", rank)
        assert len(work) == REPEATS
        assert (work["processor_ns"] >= STEP_NS).all()
        touched = between(trace, "before touch", "before sleep", rank)
        assert len(touched) == REPEATS - 1
        assert (touched["minor_faults"] >= PAGES).all()
        assert (work["minor_faults"] < PAGES).all()
    assert set(trace.missing_counters) <= {"instructions", "pressure"}
    assert (trace.intervals["queue_ns"] >= 0).all()


def test_intervals_begin_and_end_with_calls_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "forms", tmp_path, "--messages", "all")
    check_consistency(trace)
    for before, after in (("isend", "waitall"), ("ibarrier", "wait"), ("wait", "sendrecv")):
        for rank in (0, 1):
            assert len(between(trace, before, after, rank)) == REPEATS
    table = trace.intervals
    calls = trace.message_calls
    ends = set(calls["exit_ns"]) | set(trace.events["exit_ns"].dropna())
    begins = set(calls["enter_ns"]) | set(trace.events["enter_ns"])
    waits = trace.events[trace.events["operation"] == "ibarrier"]
    begins |= set(waits["completion_enter_ns"])
    ends |= set(waits["completion_exit_ns"])
    started = table["before_site_id"] < 0
    assert started.sum() <= 2
    assert set(table["begin_ns"][~started]) <= ends
    assert set(table["end_ns"]) <= begins


def test_threads_leave_no_descriptors_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    output = record(mpi, "threads", tmp_path, ranks=1)
    assert output.split() == ["descriptors", "0"]
    trace = mpiprof.open(tmp_path / "trace")
    assert (trace.intervals["after_site"].str.contains("thread_run")).sum() == THREADS


def test_closed_descriptors_are_not_read_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    output = record(mpi, "closed", tmp_path, ranks=1)
    assert output.split() == ["moved", "0"]
    table = mpiprof.open(tmp_path / "trace").intervals
    last = table[table["after_site"].str.contains(" closed", regex=False)][-REPEATS:]
    assert len(last) == REPEATS
    assert (last["queue_ns"].to_numpy()[1:] == -1).all()
    assert (last["processor_ns"] >= 0).all()


def test_pauses_have_no_intervals_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    table = case(mpi, "paused", tmp_path, ranks=1).intervals
    assert count_between_barriers(table) == 1


def test_a_forked_child_is_not_recorded_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    table = case(mpi, "forked", tmp_path, ranks=1).intervals
    assert count_between_barriers(table) == 1


def test_a_killed_job_leaves_its_intervals_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    record(mpi, "killed", tmp_path, check=False)
    trace = mpiprof.open(tmp_path / "trace")
    assert not trace.is_complete
    assert not trace.logs.is_damaged
    for rank in (0, 1):
        rows = trace.intervals[trace.intervals["rank"] == rank]
        assert count_between_barriers(rows) >= 100


def test_a_sandbox_does_not_end_the_process_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    trace = case(mpi, "sandbox", tmp_path, ranks=1)
    assert trace.missing_counters["instructions"] == "a seccomp filter is active"
    assert (trace.intervals["instructions"] == -1).all()


@pytest.mark.parametrize(
    "options",
    [["--intervals", "off"], ["--record", "summary"], ["--record", "ring:128K"]],
    ids=["off", "summary", "ring"],
)
def test_no_intervals_on_1_rank(mpi: Mpi, tmp_path: Path, options: list[str]) -> None:
    record(mpi, "many", tmp_path, *options, ranks=1)
    trace = mpiprof.open(tmp_path / "trace")
    assert len(trace.intervals) == 0
    assert trace.missing_counters == {}


def test_intervals_take_half_of_the_log_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    record(mpi, "many", tmp_path, "--limit", "256K", ranks=1)
    trace = mpiprof.open(tmp_path / "trace")
    assert any("intervals have filled half of the log" in note for note in trace.notes)
    assert 1000 < len(trace.intervals) < 3000
    assert not trace.logs.is_damaged


def test_intervals_and_calls_have_the_same_sites_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """The start of a nonblocking collective, its completion, and a method of mpi4py on objects."""
    program = PROGRAMS / "intervals_sites.py"
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    run_mpi(mpi, 2, [*words, str(program)], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    work = read_work(trace)
    pairs = [pair for pair in trace.derive("delays_found").sites if pair[1] != INSIDE]
    assert set(pairs) <= set(work.places)
    lines = program.read_text().splitlines()
    calls = [
        tuple(lines[trace.tables.sites[site][0]["line"] - 1].split("(")[0].strip() for site in pair)
        for pair in pairs
        if pair[0] >= 0
    ]
    wait, bcast = "request.Wait", "world.bcast"
    assert {("request = world.Ibarrier", wait), (wait, bcast)} <= set(calls)
