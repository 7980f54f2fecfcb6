"""Stretches of a run without any call: their times, and the fact in the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.program import Program

import mpiprof
from mpiprof.causes.findings import find_call_free_stretch, make_verdict
from mpiprof.reports.words.conclusion import verdict_lines
from mpiprof.trace import Trace

RANKS, STEPS, MS = 3, 10, 1_000_000


def run(folder: Path, long_ms: tuple[int, ...], at: int = 5) -> Trace:
    """Return a trace of steps of 5 ms, in one of which each rank works for its own time."""
    program = Program(RANKS, intervals=True)
    for step in range(STEPS):
        own_ms = np.array(long_ms) if step == at else np.full(RANKS, 5)
        program.collective("barrier", own_ns=own_ms * MS)
    return mpiprof.open(program.write(folder))


def test_a_stretch_lasts_from_the_last_begin_of_work_to_the_first_call(tmp_path: Path) -> None:
    trace = run(tmp_path / "trace", (30, 40, 50))
    stretch = find_call_free_stretch(trace)
    assert stretch is not None
    table = trace.intervals
    long = table[table["end_ns"] - table["begin_ns"] >= 30 * MS]
    assert len(long) == RANKS
    assert stretch.begin_ns == long["begin_ns"].max() - trace.run_start_ns
    assert stretch.end_ns == long["end_ns"].min() - trace.run_start_ns
    assert stretch.share == pytest.approx((stretch.end_ns - stretch.begin_ns) / trace.run_ns)
    lines = verdict_lines(trace, make_verdict(trace, trace.findings()))
    assert any(line.startswith("No rank calls MPI from ") for line in lines)


@pytest.mark.parametrize("long_ms", [(5, 5, 5), (5, 40, 40)], ids=["none", "one rank calls"])
def test_no_stretch_if_a_rank_calls(long_ms: tuple[int, ...], tmp_path: Path) -> None:
    trace = run(tmp_path / "trace", long_ms)
    assert find_call_free_stretch(trace) is None
    lines = verdict_lines(trace, make_verdict(trace, trace.findings()))
    assert not any("No rank calls MPI" in line for line in lines)
