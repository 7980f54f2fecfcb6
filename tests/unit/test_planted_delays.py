"""Planted delays in programs with messages: the first finding names ranks, place, time and cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import planted_programs
from support.planted_programs import MS, PlantedProgram

import mpiprof
from mpiprof.diagnosis.verdict import make_verdict
from mpiprof.reports import conclusion, json, sentences
from mpiprof.trace import Trace

PROGRAMS = list(planted_programs.planted_programs())


@pytest.mark.heavy
@pytest.mark.parametrize("planted", PROGRAMS, ids=[one.name for one in PROGRAMS])
def test_a_planted_delay_comes_first(planted: PlantedProgram, tmp_path: Path) -> None:
    trace = mpiprof.open(planted.build().write(tmp_path / "t"))
    findings = trace.findings()
    first = findings[0]
    assert (first.cause, sorted(first.ranks)) == (planted.cause, list(planted.ranks))
    assert first.certainty > 0.99
    assert first.period == planted.period
    assert first.first_instance is not None
    assert abs(first.first_instance - planted.first) <= 3
    work = first.evidence["work"][0]
    assert (work["before"]["operation"], work["after"]["operation"]) == planted.sites
    if planted.cost_ms is not None:
        assert first.cost_ns == pytest.approx(planted.cost_ms * MS, rel=0.1)
    if planted.saved_ms is not None:
        assert first.saved_ns == pytest.approx(planted.saved_ms * MS, rel=0.1)
    check_sentences(trace, planted.ranks)


def check_sentences(trace: Trace, delayed: tuple[int, ...]) -> None:
    """Check that the sentences name only delayed ranks, and that the costs are possible."""
    findings = trace.findings()
    lines = conclusion.verdict_lines(trace, make_verdict(trace, findings))
    assert "waiting, " in lines[0] and " of it for messages." in lines[0]
    assert "less" not in " ".join(lines) and "more of the work" not in " ".join(lines)
    assert "varies too much" not in " ".join(lines)
    waits = trace.message_waits["wait_ns"].sum() + trace.callsites["total_wait_ns"].sum()
    assert sum(one.cost_ns for one in findings) <= waits * 1.001
    for one in findings:
        assert one.cause == "noise" or set(one.ranks) <= set(delayed)
        assert "None" not in sentences.finding_text(trace, one)
        assert json.finding_as_data(trace, one)["text"]


@pytest.mark.heavy
@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_random_work_accuses_nobody(spread: float, tmp_path: Path) -> None:
    accused = 0
    for seed in range(20):
        program = planted_programs.ring_without_delay(16, seed, spread)
        trace = mpiprof.open(program.write(tmp_path / str(seed)))
        accused += any(one.ranks for one in trace.findings())
    assert accused <= 1
