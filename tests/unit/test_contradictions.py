"""Sentences of the verdict agree with each other, with the tables and with the verbs they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.message_traces import sums
from support.program import Program
from support.random_work import MS, Noise
from support.synthetic import MACHINE, Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.findings import make_verdict
from mpiprof.reports.words import conclusion
from mpiprof.trace import Trace


def verdict_of(trace: Trace) -> str:
    """Return the verdict on a trace in one text."""
    return " ".join(conclusion.verdict_lines(trace, make_verdict(trace, trace.findings())))


def busy_alltoall(folder: Path, late_ns: int, machine: Any) -> Path:
    """Write a trace of alltoall calls of 8 ms, which rank 2 reaches late."""
    synthetic, generator = Synthetic(4, machine=machine), np.random.default_rng(7)
    now = np.full(4, 10 * MS)
    for _ in range(60):
        came = now + generator.integers(0, 20_000, 4) + MS
        came[2] += late_ns
        now = np.full(4, came.max() + 8 * MS) + generator.integers(0, 50_000, 4)
        synthetic.add_collective("alltoall", came, now, site="md.py:6:swap")
    synthetic.ended_ns = int(now.max()) + MS
    return synthetic.write(folder)


def test_waiting_for_messages_is_no_part_of_the_time_in_collectives(tmp_path: Path) -> None:
    """Little waits in collectives, and more for messages than collectives take."""
    program = Program(4)
    for _ in range(40):
        program.work(10 * MS)
        program.collective("allreduce", "app.py:1:main")
    program.work([0, 200_000, 0, 0])
    program.message([1], [0])
    trace = mpiprof.open(program.write(tmp_path / "t"))
    verdict = make_verdict(trace, [])
    assert verdict.waiting_for_messages > 0
    times = trace.run_times
    rest = (times.collective.value - times.collective_wait.value) / times.whole_ns
    assert verdict.collective_without_waiting == pytest.approx(rest)
    line = conclusion.verdict_lines(trace, verdict)[1]
    assert "the collectives themselves take" in line and "-" not in line


@pytest.mark.heavy
@pytest.mark.parametrize("has_times", [True, False])
def test_tune_accepts_each_trace_for_which_it_is_recommended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_times: bool
) -> None:
    folder = busy_alltoall(tmp_path / "t", 0, MACHINE if has_times else None)
    recommended = "`tune`" in verdict_of(mpiprof.open(folder))
    assert recommended == has_times
    assert main(["tune", str(folder)]) == (0 if has_times else 2)
    if not has_times:
        assert "message times are not known: measure the machine" in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.parametrize("operation", ["exscan", "alltoallw", "neighbor_alltoall"])
def test_tune_is_not_recommended_without_algorithms(tmp_path: Path, operation: str) -> None:
    assert "`tune`" not in verdict_of_operation(tmp_path, operation)


def verdict_of_operation(folder: Path, operation: str) -> str:
    synthetic, now = Synthetic(4), np.full(4, 10 * MS)
    for _ in range(60):
        came = now + MS
        now = np.full(4, came.max() + 8 * MS)
        synthetic.add_collective(operation, came, now, site="md.py:6:swap")
    synthetic.ended_ns = int(now.max()) + MS
    return verdict_of(mpiprof.open(synthetic.write(folder / "t")))


@pytest.mark.heavy
def test_no_algorithm_helps_and_tune_looks_for_one_exclude_each_other(tmp_path: Path) -> None:
    text = verdict_of(mpiprof.open(busy_alltoall(tmp_path / "t", 4 * MS, MACHINE)))
    assert "rank 2 works" in text.lower()
    assert "`tune` looks for a faster algorithm" in text
    assert "No algorithm would help" not in text


def test_many_equal_receives_are_no_single_event(tmp_path: Path) -> None:
    """A ring of messages without collectives: the whole run is one step of many receives."""
    program, noise = Program(4), Noise(4)
    for _ in range(80):
        for rank in range(4):
            program.message([rank], [(rank + 1) % 4], bytes_=1 << 20, sites=("<run>:1:f",) * 2)
            program.work(noise.work())
    trace = mpiprof.open(program.write(tmp_path / "t", finalize=False))
    findings = trace.findings()
    assert findings
    assert "once" not in verdict_of(trace)
    assert all(one.rest.instances > 1 for one in findings if one.cause == "noise")


def test_a_killed_rank_that_polls_has_no_share_above_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 polls for 3 s after its last record, which only the sums show."""
    synthetic = Synthetic(2)
    shape = synthetic.add_shape(0, "iprobe", "world", site="a.c:1:poll", peer=1)
    synthetic.add_collective("barrier", [[MS, 2 * MS]], [[3 * MS, 3 * MS]])
    synthetic.spent = {0: [3_000 * MS, 0, 0, 0], 1: [0, 0, 0, 0]}
    synthetic.add_message_sums(0, sums(shape, 1_000_000, 3_000 * MS, 0, 0, 5 * MS))
    folder = synthetic.write(tmp_path / "t", finished=False)
    trace = mpiprof.open(folder)
    assert trace.run_ns >= 3_000 * MS
    assert trace.message_sums["total_ns"].sum() <= trace.process_time_ns
    assert main(["report", str(folder), "--all"]) == 0
    assert "in messages     50 %" in capsys.readouterr().out
