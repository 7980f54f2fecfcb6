"""Comparison of causes: new, gone and changed waiting, its interval, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import Program

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.cause_changes import CauseChange, compare_causes
from mpiprof.trace import Trace

MS = 1_000_000
RANKS, STEPS, LATE = 4, 60, 3
WORK_MS = 5.0


def _simulate(
    folder: Path,
    seed: int,
    late_ms: float = 0.0,
    stop_ms: int = 0,
    line: int = 12,
    started: int = 0,
    **options: Any,
) -> Trace:
    """Return a run whose work varies by 2 %; rank LATE works longer, and rank 1 stops once."""
    program, random = Program(RANKS, **options), np.random.default_rng(seed)
    program.synthetic.meta["started"] = f"2026-03-01T{started:02d}:00:00Z"
    for step in range(STEPS):
        own_ns = WORK_MS * MS * (1 + 0.02 * random.standard_normal(RANKS))
        own_ns[LATE] += late_ms * MS
        own_ns[1] += stop_ms * MS * (step == STEPS // 2)
        program.collective("allreduce", f"md.py:{line}:step", own_ns=own_ns.astype(np.int64))
        program.collective("bcast", "md.py:20:step", own_ns=MS)
    return mpiprof.open(program.write(folder))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the folders of a run without a late rank, and of one with it."""
    folder = tmp_path_factory.mktemp("pair")
    runs = [_simulate(folder / "a", 1), _simulate(folder / "b", 2, 2.0)]
    return [str(trace.path) for trace in runs]


def _find_certain(before: list[Trace], after: list[Trace]) -> list[CauseChange]:
    return [change for change in compare_causes(before, after) if change.is_certain]


def _expect_wait(late_ms: float) -> float:
    return late_ms * MS * (RANKS - 1) * STEPS


@pytest.mark.parametrize("runs", [1, 3])
def test_a_new_cause_has_its_waiting_and_saving(runs: int, tmp_path: Path) -> None:
    before = [_simulate(tmp_path / f"a{i}", i) for i in range(runs)]
    after = [_simulate(tmp_path / f"b{i}", 10 + i, 2.0) for i in range(runs)]
    (change,) = _find_certain(before, after)
    assert (change.finding.cause, change.finding.ranks) == ("rank", (LATE,))
    assert (change.before_ns, change.before_saved_ns) == (0, 0)
    assert change.after_ns == pytest.approx(_expect_wait(2.0), rel=0.1)
    assert change.after_saved_ns == pytest.approx(2.0 * MS * STEPS, rel=0.1)
    costs = [trace.findings()[0].cost_ns for trace in after]
    assert change.after_ns == pytest.approx(np.mean(costs))
    (gone,) = _find_certain(after, before)
    assert (gone.before_ns, gone.after_ns) == (change.after_ns, 0)


def test_a_cause_that_grows_is_the_same_after_lines_have_moved(tmp_path: Path) -> None:
    before = _simulate(tmp_path / "a", 1, 1.0)
    after = _simulate(tmp_path / "b", 2, 3.0, line=15)
    (change,) = _find_certain([before], [after])
    assert change.before_ns == pytest.approx(_expect_wait(1.0), rel=0.15)
    assert change.change_ns == pytest.approx(_expect_wait(2.0), rel=0.1)
    assert 0 < change.interval_ns < change.change_ns


def test_another_rank_is_another_cause(tmp_path: Path) -> None:
    before = _simulate(tmp_path / "a", 1, 2.0)
    after = _simulate(tmp_path / "b", 2, stop_ms=100)
    changes = _find_certain([before], [after])
    assert {(change.finding.rank, change.change_ns > 0) for change in changes} == {
        (LATE, False),
        (1, True),
    }


def test_equal_runs_rarely_differ_in_a_cause(tmp_path: Path) -> None:
    traces = [_simulate(tmp_path / str(i), i, 1.0) for i in range(20)]
    pairs = zip(traces[::2], traces[1::2], strict=True)
    assert not any(_find_certain([first], [other]) for first, other in pairs)


def test_compare_names_the_new_cause(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    names = ["compare", *pair]
    assert main(names) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "New in B: rank 3 works 1.96 ms longer" in text
    assert "with 332 ms of waiting. Look at what rank 3 does between these calls." in text
    assert "waiting of all ranks by cause" in text and "0 ns → 332 ms new* 0 ns → 112 ms" in text
    assert main([*names, "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    first = verdict["causes"][0]
    assert (first["cause"], first["ranks"], first["certain"]) == ("rank", [3], True)
    assert (first["before_ns"], first["time_change"]) == (0, None)
    assert first["added_ns"] == first["after_ns"] > first["after_saved_ns"] > 0
    assert main(["compare", *names[:0:-1]]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Gone in B: rank 3 works 1.96 ms longer" in text
    assert "Keep what was changed in B." in text


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("cause.added > 100ms and cause.certain == 1", 3),
        ("cause.cause == off_processor", 0),
        ("cause.after_saved > 1s", 0),
        ("place.kind == work and place.time_change > 5% and place.certain == 1", 3),
        ("place.added > 1s", 0),
        ("place.added > 1s or cause.added > 100ms", 3),
    ],
)
def test_fail_on_judges_places_and_causes(
    expression: str, code: int, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *pair, "--fail-on", expression]) == code
    printed = capsys.readouterr().err
    kind = "cause" if "cause.added" in expression else "place"
    assert (f"is met by 1 {kind}, first " in printed) == (code == 3)
    assert "is not known here" not in printed


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("place.kind == work and place.share > 40%", 3),
        ("place.time > 2s", 0),
        ("finding.cause == rank and finding.saved > 100ms", 3),
        ("finding.share > 50%", 0),
    ],
)
def test_fail_on_of_a_report_judges_places_and_findings(
    expression: str, code: int, pair: list[str]
) -> None:
    assert main(["report", pair[1], "--fail-on", expression]) == code


def test_runs_without_causes_are_not_compared(tmp_path: Path) -> None:
    trace = _simulate(tmp_path / "a", 1, 2.0)
    stretch = _simulate(tmp_path / "b", 1, 2.0, ring=50)
    assert stretch.findings() and compare_causes([trace], [stretch]) == []


def test_the_history_names_the_new_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        late_ms = 0.0 if number < 6 else 2.0
        _simulate(tmp_path / f"mpiprof-{number}", number, late_ms, started=number)
    assert main(["history", str(tmp_path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "New in the runs since: rank 3 works " in text
    assert main(["history", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["causes"][0]["certain"]
