"""Change of the run time between groups of runs, and its interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.program import Program
from support.synthetic import Synthetic

import mpiprof
from mpiprof.causes.run_variation import compare_run_times, mean_interval
from mpiprof.causes.time_changes import measure_run_times
from mpiprof.reports.words.compare_sentences import run_time_sentence
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

MS = 1_000_000
STEPS = 120


def record(folder: Path, run_ms: int, finished: bool = True) -> Trace:
    """Return a trace of 2 ranks with the given run time."""
    trace = Synthetic(2)
    trace.started_ns, trace.ended_ns = 0, run_ms * MS
    return mpiprof.open(trace.write(folder, finished=finished))


def run_steps(folder: Path, work_ms: Float) -> Trace:
    """Return a trace of 4 ranks with steps of some work each, which noise changes by 15 %."""
    program = Program(4, intervals=True)
    random = np.random.default_rng(len(folder.name) + int(work_ms.sum()))
    for ms in work_ms.tolist():
        program.collective("allreduce", own_ns=random.normal(ms, 0.15 * ms, 4).clip(0) * MS)
    return mpiprof.open(program.write(folder))


def is_change_certain(before: Trace, after: Trace) -> bool:
    change = measure_run_times([before], [after])
    assert change is not None and change.is_assumed
    return change.is_certain


def test_a_disturbance_of_a_single_run_is_no_change(tmp_path: Path) -> None:
    usual, stopped, slowed = (np.full(STEPS, 3.0) for _ in range(3))
    stopped[70] += 200  # the machine stops once
    slowed[20:50] *= 2  # another program runs for a while
    before = run_steps(tmp_path / "a", usual)
    for name, work in (("stopped", stopped), ("slowed", slowed)):
        after = run_steps(tmp_path / name, work)
        assert after.run_ns > 1.15 * before.run_ns
        assert not is_change_certain(before, after) and not is_change_certain(after, before)


def test_a_change_of_all_steps_is_certain_in_a_program_with_phases(tmp_path: Path) -> None:
    phases = np.repeat([1.0, 6.0, 2.0], STEPS // 3)
    before = run_steps(tmp_path / "a", phases)
    assert not is_change_certain(before, run_steps(tmp_path / "same", phases))
    assert is_change_certain(before, run_steps(tmp_path / "b", 1.15 * phases))


def test_intervals_contain_the_true_values_in_95_of_100_experiments() -> None:
    random = np.random.default_rng(3)
    inside_mean = inside_change = 0
    for _ in range(1000):
        before, after = random.normal(100, 3, 5), random.normal(80, 1, 4)
        inside_mean += abs(before.mean() - 100) <= mean_interval(before)
        change = after.mean() - before.mean()
        inside_change += abs(change + 20) <= compare_run_times(before, after).interval_ns
    assert 930 <= inside_mean <= 970
    assert 930 <= inside_change <= 970
    assert np.isnan(mean_interval(np.ones(1)))


def test_the_sentence_has_the_change_and_its_interval(tmp_path: Path) -> None:
    before = [record(tmp_path / f"a{i}", t) for i, t in enumerate((384, 385, 383, 386, 384))]
    after = [record(tmp_path / f"b{i}", t) for i, t in enumerate((295, 294, 296, 295, 293))]
    change = measure_run_times(before, after)
    assert change is not None and change.is_certain and not change.is_assumed
    assert change.change_ns == pytest.approx(-89.8 * MS)
    words = "B is 89.8 ms faster than A: 384 ms → 295 ms, -23 % ± <1 %."
    assert run_time_sentence(before, after) == words
    assert run_time_sentence(after, before).startswith("B is 89.8 ms slower than A: 295 ms → 384")
    assert "differ by no more than chance" in run_time_sentence(before[:3], before[3:])
    single = run_time_sentence(before[:1], after[:1], "C")
    assert single.startswith("C is 89.0 ms faster than A: 384 ms → 295 ms, -23 % ± 5 % (95 %, with")


def test_the_run_time_of_a_run_that_did_not_end_is_not_compared(tmp_path: Path) -> None:
    ended, hung = record(tmp_path / "a", 10), record(tmp_path / "hung", 900, finished=False)
    assert measure_run_times([ended], [hung]) is None
    sentence = "hung did not end, so run times are not compared."
    assert run_time_sentence([ended], [hung]) == sentence
