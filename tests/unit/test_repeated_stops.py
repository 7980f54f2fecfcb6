"""Repeated stops of a rank: between calls, inside calls, and beside stops of other ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.program import Program

import mpiprof
from mpiprof.account import analysis_memory
from mpiprof.causes import delay_findings, fact_findings, search
from mpiprof.causes.cause import FoundCause
from mpiprof.causes.repeated_stops import RepeatedStops
from mpiprof.trace import Trace
from mpiprof.trace.stalled_calls import StalledCall
from mpiprof.trace.types import Int

MS = 1_000_000
RANKS, STEPS, STOP_MS = 8, 120, 30
REDUCE = "app.py:1:main"
STOPS = (20, 21, 25, 30, 36, 37, 41, 50)  # steps


def work_of(rank: int, milliseconds: int) -> Int:
    return np.where(np.arange(RANKS) == rank, milliseconds * MS, 0).astype(np.int64)


def make_steps(stops: dict[int, tuple[int, ...]], usual_off_ms: int = 0) -> Program:
    """Return steps with an allreduce. stops: steps in which each rank is stopped."""
    program = Program(RANKS, intervals=True, counters=True)
    for step in range(STEPS):
        program.work(4 * MS)
        program.lose(off_ns=work_of(6, usual_off_ms))
        for rank, steps in stops.items():
            program.lose(off_ns=work_of(rank, STOP_MS if step in steps else 0))
        program.collective("allreduce", REDUCE)
    return program


def list_stops(trace: Trace) -> list[FoundCause]:
    facts: list[FoundCause] = trace.derive("facts")
    return [fact for fact in facts if isinstance(fact.cause, RepeatedStops)]


def open_trace(program: Program, folder: Path) -> Trace:
    return mpiprof.open(program.write(folder / "trace"))


def test_the_stops_of_one_rank_are_a_cause(tmp_path: Path) -> None:
    (found,) = list_stops(open_trace(make_steps({3: STOPS}), tmp_path))
    cause = found.cause
    assert isinstance(cause, RepeatedStops)
    assert (cause.ranks, cause.count) == ((3,), len(STOPS))
    lost_ns = len(STOPS) * STOP_MS * MS
    assert cause.lost_ns == pytest.approx(lost_ns, rel=0.01)
    assert found.saving.run_ns == pytest.approx(lost_ns, rel=0.01)
    assert found.saving.waiting_ns == pytest.approx((RANKS - 1) * lost_ns, rel=0.01)


@pytest.mark.parametrize(
    ("stops", "ranks"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({3: STOPS[:2]}, [], id="single events"),
        pytest.param(dict.fromkeys(range(RANKS), STOPS), [], id="all ranks"),
        pytest.param({2: STOPS, 3: STOPS[:3], 4: STOPS[:1]}, [], id="none stands out"),
        pytest.param({2: STOPS, 5: STOPS[:3]}, [(2, 5)], id="two ranks"),
    ],
)
def test_only_ranks_that_stand_out_are_named(
    stops: dict[int, tuple[int, ...]], ranks: list[tuple[int, ...]], tmp_path: Path
) -> None:
    found = list_stops(open_trace(make_steps(stops), tmp_path))
    assert [fact.cause.ranks for fact in found] == ranks
    assert all(
        "ranks 2, 5 were off the processor up to 8 times each" in fact.cause.clause
        for fact in found
    )


def test_usual_sleep_is_no_stop(tmp_path: Path) -> None:
    """Rank 6 sleeps in each step, as for a file: the report states a habit, not each stop."""
    trace = open_trace(make_steps({}, usual_off_ms=10), tmp_path)
    assert [(one.cause, one.ranks, one.fact) for one in trace.findings()] == [("rank", (6,), None)]


@pytest.mark.parametrize("has_line", [False, True])
def test_stops_inside_calls_hold_the_other_ranks(has_line: bool, tmp_path: Path) -> None:
    """The tables name the rank that had no processor. The other ranks are as long in the call."""
    program = Program(RANKS, intervals=True, counters=True)
    usual = program.network
    for step in range(STEPS):
        program.work(4 * MS)
        latency_ns = usual.latency_ns + (STOP_MS * MS // 3 if step in STOPS else 0)
        program.network = replace(usual, latency_ns=latency_ns)
        program.collective("allreduce", REDUCE)
    trace = open_trace(program, tmp_path)
    calls = [call for call in read_long_calls(trace) if has_line]
    trace.tables.stalled_calls.extend(calls)
    found = list_stops(trace)
    assert [fact.cause.ranks for fact in found] == [(2,)] * has_line
    for fact in found:
        assert fact.saving.run_ns == pytest.approx(len(STOPS) * STOP_MS * MS, rel=0.05)
        assert fact.saving.calls_ns == pytest.approx(7 * fact.saving.run_ns, rel=0.05)


def read_long_calls(trace: Trace) -> list[StalledCall]:
    """Return a line of the tables on each long call of rank 2, on the clock of its node."""
    waits = trace.derive("collective_waits")
    of_rank = waits.call_rank == 2
    offset = trace.clock_of(2).offset_at(0)
    return [
        StalledCall(2, enter - offset, exit_ - offset, 0, exit_ - enter - 1000, 0)
        for enter, exit_ in zip(
            waits.enter_ns[of_rank].tolist(), waits.exit_ns[of_rank].tolist(), strict=True
        )
        if exit_ - enter > STOP_MS * MS // 2
    ]


def test_windows_have_the_stops_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_steps({3: STOPS}).write(tmp_path / "trace")
    (whole,) = list_stops(mpiprof.open(path))
    for module in (search, delay_findings, fact_findings, analysis_memory):
        monkeypatch.setattr(module, "fits_in_memory", lambda _: False)
    (parts,) = list_stops(mpiprof.open(path))
    assert parts.cause == whole.cause
    assert parts.saving.run_ns == pytest.approx(whole.saving.run_ns, rel=0.01)
