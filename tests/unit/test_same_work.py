"""Late work that follows another call in some repetitions belongs to the same finding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.program import Program
from support.random_work import MS

import mpiprof
from mpiprof.account.work_intervals import INSIDE
from mpiprof.causes.repetition_matrix import list_same_work
from mpiprof.trace.trace import Trace

RANKS, ITERATIONS, EVERY, LATE = 4, 24, 8, 1
LATE_NS = 7 * MS


def is_after_meeting(iteration: int) -> bool:
    """Return whether the work of an iteration follows no receive."""
    return iteration % EVERY == 0


def record(folder: Path, late: list[int], seed: int = 1) -> Trace:
    """Return the trace of receivers that work before each message, and meet sometimes.

    late: iterations in which one receiver works longer.
    """
    program, random = Program(RANKS, intervals=True), np.random.default_rng(seed)
    even = np.arange(0, RANKS, 2)
    for iteration in range(ITERATIONS):
        work = 3 * MS * random.normal(1, 0.02, RANKS)
        work[LATE] += LATE_NS * (iteration in late)
        program.work(work.astype(np.int64))
        program.message(even, even + 1, synchronous=True)
        if is_after_meeting(iteration + 1):
            program.collective("allreduce")
    return mpiprof.open(program.write(folder))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_work_after_meetings_counts_as_the_work_between_receives(seed: int, tmp_path: Path) -> None:
    trace = record(tmp_path / "late", list(range(ITERATIONS)), seed)
    without = record(tmp_path / "usual", [], seed)
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (LATE,))
    assert first.habit.late_instances == first.habit.instances == ITERATIONS
    assert first.saved_ns == pytest.approx(trace.run_ns - without.run_ns, rel=0.03)
    waiting_ns = float(trace.run_times.total_wait.value - without.run_times.total_wait.value)
    assert first.cost_ns == pytest.approx(waiting_ns, rel=0.05)


def test_punctual_work_after_meetings_is_not_accused(tmp_path: Path) -> None:
    late = [of for of in range(ITERATIONS) if not is_after_meeting(of)]
    trace = record(tmp_path / "t", late)
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (LATE,))
    assert first.habit.late_instances == len(late)
    assert [place.share for place in first.habit.work] == [1.0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_late_stage_of_a_pipeline_bears_all_of_its_cost(seed: int, tmp_path: Path) -> None:
    """The last rank makes other calls around its work. It inherits the lateness of its waits."""
    ranks, steps, late = 6, 60, 3
    program, random = Program(ranks, intervals=True), np.random.default_rng(seed)
    for _ in range(steps):
        work = 2 * MS * random.normal(1, 0.02, ranks) + 4 * MS * (np.arange(ranks) == late)
        program.pipeline(work.astype(np.int64))
    program.collective("allreduce")
    trace = mpiprof.open(program.write(tmp_path / "t"))
    first = trace.findings()[0]
    assert (first.cause, first.ranks) == ("rank", (late,))
    assert first.cost_ns == pytest.approx((ranks - 1) * steps * 4 * MS, rel=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_late_rank_of_a_sweep_to_and_fro_is_named(seed: int, tmp_path: Path) -> None:
    """Between a receive and a send, the ranks at both ends work half as often and twice as long."""
    program, random = Program(RANKS, intervals=True), np.random.default_rng(seed)
    for step in range(24):
        work = 1.5 * MS * random.normal(1, 0.02, RANKS) + 4 * MS * (np.arange(RANKS) == LATE)
        program.pipeline(work.astype(np.int64), np.arange(RANKS)[:: -1 if step % 2 else 1])
    program.collective("allreduce")
    first = mpiprof.open(program.write(tmp_path / "t")).findings()[0]
    assert (first.cause, first.ranks) == ("rank", (LATE,))
    of_two_ranks, of_all = 4 * MS, 5.5 * MS - 3 * MS
    assert first.habit.late_ns == pytest.approx((of_two_ranks + of_all) / 2, rel=0.05)


def test_only_costly_pairs_with_the_same_call_after_them_are_compared() -> None:
    pair_ns = {(1, 1): 9.0, (0, 1): 2.0, (-1, 1): 3.0, (2, 1): 0.0, (1, 0): 4.0, (0, INSIDE): 5.0}
    assert list_same_work([(1, 1)], pair_ns) == [(-1, 1), (0, 1)]
    assert list_same_work([(2, INSIDE)], pair_ns) == []
