"""Findings of a run in windows: those of the run in one piece."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import Program
from support.random_work import MS, Noise
from support.small_chunks import write_small_chunks
from support.spec_files import find_spec

import mpiprof
from mpiprof.account import analysis_memory, run_windows
from mpiprof.causes import delay_findings, window_delays
from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import make_verdict
from mpiprof.causes.lazy_tables import DERIVED
from mpiprof.reports.words import conclusion
from mpiprof.trace import Trace
from mpiprof.trace.types import END_NS, START_NS

RANKS, STEPS, WINDOWS = 8, 90, 3
FIELDS = ("cause", "ranks", "node", "period", "callsites", "first_instance", "last_instance")
EVIDENCE = (
    "spans",
    "offsets",
    "step",
    "levels",
    "grows",
    "late_instances",
    "instances",
    "recorded",
)
# Cases of specifications whose ranks meet at the end of each step, where the run is cut.
MEETING = (
    *(("late_rank_messages", "Ring", 1), ("late_ranks", "Two to four ranks", 4)),
    *(("late_ranks", "Hot centre", 2), ("late_ranks", "Slow node", 0)),
    *(("delay_steps", "Onset", 2), ("delay_steps", "Growing", 2)),
    *(("delay_steps", "Periodic", 2), ("delay_steps", "Moving", 4)),
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_chunks(monkeypatch)


def open_windows(path: Path, monkeypatch: pytest.MonkeyPatch, count: int = WINDOWS) -> Trace:
    """Return a trace, opened as if its records did not fit in memory."""
    monkeypatch.setattr(analysis_memory, "memory_limit_bytes", lambda: 1)
    monkeypatch.setattr(run_windows, "count_windows", lambda _: count)
    trace = mpiprof.open(path)
    assert len(run_windows.divide_run(trace)) == count
    return trace


def test_three_passes_over_the_windows_find_all_causes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = find_spec("late_ranks", "Two to four ranks").make_case(1, seed=0)
    path = case.build(**case.planted).write(tmp_path / "t")
    opened: list[Any] = []
    open_window = window_delays._open_window

    def open_and_count(*arguments: Any) -> Any:
        opened.append(arguments)
        return open_window(*arguments)

    monkeypatch.setattr(window_delays, "_open_window", open_and_count)
    trace = open_windows(path, monkeypatch)
    assert trace.findings()
    assert len(opened) == 3 * WINDOWS


def describe(finding: Finding) -> dict[str, Any]:
    """Return the properties of a finding that windows must not change."""
    known = {name: getattr(finding, name) for name in FIELDS}
    known |= {name: getattr(finding.evidence, name, None) for name in EVIDENCE}
    work = next(iter(finding.evidence.work), None)
    known |= {name: getattr(work, name, None) for name in ("before", "after", "rank")}
    reason = getattr(finding.evidence, "reason", None)
    return known | {
        "reason": getattr(reason, "reason", None),
        "waits_at": [w.callsite for w in finding.waits_at],
    }


def compare_findings(
    program: Program, path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Finding]:
    """Compare the findings of windows with those of the run in one piece, and return them."""
    whole = mpiprof.open(program.write(path))
    known = whole.findings()
    found = open_windows(whole.path, monkeypatch).findings()
    assert [describe(one) for one in found] == [describe(one) for one in known]
    for one, of_run in zip(found, known, strict=True):
        assert one.cost_ns == pytest.approx(of_run.cost_ns, rel=1e-9, abs=1)
        assert one.certainty == pytest.approx(of_run.certainty, rel=1e-9)
        assert one.saved_ns == pytest.approx(of_run.saved_ns, rel=0.01)
    return found


def build_case(file: str, title: str, case: int = 0) -> Program:
    """Return the program of a specification with its cause."""
    made = find_spec(file, title).make_case(case, steps=60)
    return made.build(**made.planted)


@pytest.mark.parametrize(("file", "title", "case"), MEETING, ids=[title for _, title, _ in MEETING])
def test_windows_do_not_change_findings(
    file: str, title: str, case: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_findings(build_case(file, title, case), tmp_path / "t", monkeypatch)


def late_steps(lateness: Callable[[int], float], steps: int = STEPS) -> Program:
    """Return steps with allreduces before which rank 3 is late by some times of 4 ms."""
    program, noise = Program(RANKS), Noise(RANKS)
    for step in range(steps):
        own = noise.work(spread=0.1)
        own[3] += int(4 * MS * lateness(step))
        program.collective("allreduce", "app.py:11:main", own)
    return program


@pytest.mark.parametrize("onset", range(38, 43))
def test_an_onset_beside_the_begin_of_a_window_is_exact(
    onset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mpiprof.open(late_steps(lambda step: step >= onset).write(tmp_path / "t"))
    meetings = np.sort(whole.instances["last_arrival_ns"].to_numpy(np.int64))
    cut_ns = int(meetings[39])  # step 40 begins
    cuts = [(START_NS, cut_ns), (cut_ns, END_NS)]
    monkeypatch.setitem(DERIVED, "run_windows", lambda _: cuts)
    found = open_windows(whole.path, monkeypatch).findings()[0]
    assert (found.cause, found.ranks, found.first_instance) == ("rank", (3,), onset)
    assert found.habit.spans == ((onset, STEPS - 1),)


def test_a_period_longer_than_a_window_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lateness(step: int) -> float:
        return step % 40 == 7

    whole = mpiprof.open(late_steps(lateness, 240).write(tmp_path / "t"))
    known = whole.findings()[0]
    assert (known.cause, known.ranks, known.period) == ("periodic", (3,), 40)
    trace = open_windows(whole.path, monkeypatch, 12)
    ends = [end for _, end in run_windows.divide_run(trace)[:-1]]
    meetings = np.sort(whole.instances["last_arrival_ns"].to_numpy(np.int64))
    assert np.diff(np.searchsorted(meetings, ends)).max() < 40
    assert describe(trace.findings()[0]) == describe(known)


def test_work_with_too_many_intervals_to_be_compared_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build_case("delay_steps", "In each third exchange", 3).write(tmp_path / "t")
    assert not getattr(mpiprof.open(path).findings()[-1].evidence, "omitted", ())
    monkeypatch.setattr(delay_findings, "MAX_PAIR_INTERVALS", 100)
    trace = open_windows(path, monkeypatch)
    findings = trace.findings()
    assert [finding.cause for finding in findings] == ["noise"]
    sentence = conclusion.verdict_lines(trace, make_verdict(trace, findings))[1]
    assert "is not known, because the work between waitall at " in sentence
    assert " has too many intervals to be compared" in sentence
    assert "no rank consistently causes" not in sentence


def test_growth_that_begins_in_the_middle_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lateness(step: int) -> float:
        return max(step - STEPS // 2, 0) / 20

    found = compare_findings(late_steps(lateness), tmp_path / "t", monkeypatch)[0]
    assert (found.cause, found.ranks) == ("rank", (3,)) and found.habit.grows
    assert found.first_instance is not None
    assert abs(found.first_instance - STEPS // 2) <= 3
