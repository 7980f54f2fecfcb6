"""Comparison of ledgers: the place whose work changed, by how much, and how certain this is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.program import Program

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.time_changes import PlaceChange, compare_places
from mpiprof.trace import Trace

MS = 1_000_000
RANKS, STEPS = 4, 60
FORCES_MS, FIELD_MS = 2.0, 5.0


def _simulate(
    folder: Path,
    seed: int,
    forces: float = 1.0,
    lines: tuple[int, int] = (12, 20),
    started: int = 0,
) -> Trace:
    """Return a run with two stages of work that vary by 2 %; forces: factor of the first one."""
    program, random = Program(RANKS), np.random.default_rng(seed)
    program.synthetic.meta["started"] = f"2026-03-01T{started:02d}:00:00Z"
    for _ in range(STEPS):
        for line, work_ms in zip(lines, (FORCES_MS * forces, FIELD_MS), strict=True):
            own_ns = work_ms * MS * (1 + 0.02 * random.standard_normal(RANKS))
            program.collective("allreduce", f"md.py:{line}:step", own_ns=own_ns.astype(np.int64))
    return mpiprof.open(program.write(folder))


def _find_certain(before: list[Trace], after: list[Trace]) -> list[PlaceChange]:
    return [change for change in compare_places(before, after) if change.is_certain]


def _lines(change: PlaceChange) -> list[int]:
    return [int(call["line"]) for call in change.calls if call]


@pytest.mark.parametrize("runs", [1, 3])
def test_more_work_before_one_call_is_found_with_its_time(runs: int, tmp_path: Path) -> None:
    before = [_simulate(tmp_path / f"a{i}", i) for i in range(runs)]
    after = [_simulate(tmp_path / f"b{i}", 10 + i, 1.2) for i in range(runs)]
    (change,) = _find_certain(before, after)
    assert (change.kind, _lines(change)) == ("work", [20, 12])
    added_ns = 0.2 * FORCES_MS * MS * (STEPS - 1)  # the first step begins at the start of the run
    assert abs(change.change_ns - added_ns) < change.interval_ns < added_ns
    assert change.change_ns == pytest.approx(added_ns, rel=0.1)


def test_compare_names_the_place_and_its_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _simulate(tmp_path / "a", 1)
    _simulate(tmp_path / "b", 2, 1.2)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "nothing to do" not in text
    place = "between allreduce at md.py:20 step and allreduce at md.py:12 step"
    assert f"more work {place}: 1" in text
    assert f"Look at the work {place}." in text
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    first = verdict["places"][0]
    assert first["kind"] == "work" and first["certain"]
    assert [call["line"] for call in first["calls"]] == [20, 12]
    assert first["after_ns"] - first["before_ns"] == pytest.approx(23.6 * MS, rel=0.1)


def test_equal_runs_rarely_differ_at_a_place(tmp_path: Path) -> None:
    traces = [_simulate(tmp_path / str(i), i) for i in range(20)]
    alarms = [bool(_find_certain([a], [b])) for a, b in zip(traces[::2], traces[1::2], strict=True)]
    assert not any(alarms)


def test_moved_lines_are_the_same_place(tmp_path: Path) -> None:
    before = _simulate(tmp_path / "a", 1)
    after = _simulate(tmp_path / "b", 2, 1.2, lines=(15, 27))
    (change,) = _find_certain([before], [after])
    assert change.change_ns == pytest.approx(23.6 * MS, rel=0.1)


def test_a_new_call_is_a_place_of_its_own(tmp_path: Path) -> None:
    """A third call divides the work before the first one."""
    before = _simulate(tmp_path / "a", 1)
    program = Program(RANKS)
    for _ in range(STEPS):
        program.collective("barrier", "md.py:30:check", own_ns=MS)
        program.collective("allreduce", "md.py:12:step", own_ns=MS)
        program.collective("allreduce", "md.py:20:step", own_ns=5 * MS)
    changes = _find_certain([before], [mpiprof.open(program.write(tmp_path / "b"))])
    work = [change for change in changes if change.kind == "work"]
    assert [round(change.change_ns / MS / (STEPS - 1)) for change in work] == [-2, 1, 1]


def test_a_slow_call_is_found_by_its_site(tmp_path: Path) -> None:
    def write(name: str, transfer_ms: int) -> Trace:
        program = Program(2)
        for _ in range(STEPS):
            program.work(2 * MS)
            program.message(0, 1, bytes_=transfer_ms * 10 * MS)
        return mpiprof.open(program.write(tmp_path / name))

    changes = _find_certain([write("a", 1)], [write("b", 2)])
    assert {(change.kind, change.calls[0]["operation"]) for change in changes} == {
        ("calls", "send"),
        ("calls", "recv"),
    }
    assert all(change.change_ns == pytest.approx(STEPS * MS / 2, rel=0.05) for change in changes)


def test_traces_without_single_calls_have_no_places(tmp_path: Path) -> None:
    program = Program(2, sample=4)
    for _ in range(STEPS):
        program.collective("allreduce", own_ns=MS)
    trace = mpiprof.open(program.write(tmp_path / "t"))
    assert compare_places([trace], [trace]) == []


def test_the_history_names_the_work_that_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(10):
        folder = tmp_path / f"mpiprof-{number}"
        _simulate(folder, number, 1.0 if number < 6 else 1.5, started=number)
    assert main(["history", str(tmp_path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The run time rose from " in text and "medians of 6 and 4 runs" in text
    place = "between allreduce at md.py:20 step and allreduce at md.py:12 step"
    assert f"more work {place}: 1" in text and "Each run since has " in text
    assert main(["history", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["places"][0]["certain"]
