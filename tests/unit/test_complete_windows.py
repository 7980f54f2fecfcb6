"""The windows in which all ranks recorded every message call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.program import Program

import mpiprof
from mpiprof.reports.words import trace_sentences
from mpiprof.trace.complete_windows import intersect_stretches, pair_marks


def test_the_first_and_the_last_stretch_reach_to_the_ends_of_the_run() -> None:
    marks = [(True, 10), (False, 30), (True, 50)]
    assert pair_marks(marks, 0, 80) == [(0, 30), (50, 80)]
    assert pair_marks(marks[::-1], 0, 80) == [(0, 30), (50, 80)]
    assert pair_marks([(True, 10)], 0, 80) == [(0, 80)]


def test_marks_that_make_no_sense_are_ignored() -> None:
    assert pair_marks([(False, 5), (True, 10), (True, 20), (False, 30)], 0, 80) == [(0, 30)]
    assert pair_marks([(True, 10), (False, 9)], 10, 80) == [(10, 80)]
    assert pair_marks([], 0, 80) == []


def test_windows_are_complete_on_all_ranks() -> None:
    nested = [[(0, 100)], [(0, 10), (40, 50), (80, 90)], [(5, 10), (80, 95)]]
    assert intersect_stretches(nested) == [(5, 10), (80, 90)]
    assert intersect_stretches([[(0, 10)], [(10, 20)]]) == []
    assert intersect_stretches([[(0, 10), (10, 20)], [(0, 20)]]) == [(0, 10), (10, 20)]
    assert intersect_stretches([]) == []


def write_trace(folder: Path, marks: dict[int, list[tuple[str, int]]]) -> mpiprof.Trace:
    program = Program(2)
    program.message(0, 1)
    program.collective("barrier")
    program.write(folder)
    for rank, lines in marks.items():
        with (folder / f"rank-{rank:06d}.tables").open("a") as file:
            for name, time_ns in lines:
                file.write(json.dumps({"rank": rank, "complete": {name: time_ns}}) + "\n")
    return mpiprof.open(folder)


def test_a_trace_says_which_share_is_complete(tmp_path: Path) -> None:
    first = write_trace(tmp_path / "a", {})
    assert first.complete_windows is None and first.complete_share is None
    begin, end = first.run_start_ns, first.run_start_ns + first.run_ns
    half = begin + first.run_ns // 2
    marks = {0: [("begin_ns", begin)], 1: [("begin_ns", begin), ("end_ns", half)]}
    trace = write_trace(tmp_path / "b", marks)
    assert trace.complete_windows == [(begin, half)]
    assert trace.complete_share == pytest.approx(0.5, abs=0.01)
    whole = write_trace(tmp_path / "c", {rank: [("begin_ns", begin)] for rank in (0, 1)})
    assert whole.complete_windows == [(begin, end)] and whole.complete_share == 1
    assert trace_sentences.message_record(whole) == ""
