"""The late rank of a call site: who is called late, the stages, the sentence and the picture."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.dashboard_traces import MS, lateness
from support.headline_situations import ROW, late_rank
from support.program import Program

import mpiprof
from mpiprof.causes.arrival_statistics import LateRank, find_late_rank
from mpiprof.reports.callsite_stages import Stage, draw_stages, list_values, shorten_place
from mpiprof.reports.words.callsite_sentences import callsite_headline


@pytest.mark.parametrize("ranks", [2, 4, 64, 1024])
def test_a_planted_rank_is_found_with_its_lateness(tmp_path: Path, ranks: int) -> None:
    late = np.zeros((12, ranks), np.int64)
    late[:, ranks // 2] = 3 * MS
    trace = mpiprof.open(lateness(late).write(tmp_path / "trace"))
    found = find_late_rank(trace, 0)
    assert found is not None and (found.rank, found.similar) == (ranks // 2, 0)
    assert found.late_ns == pytest.approx(3 * MS) and found.last_share == 1
    assert found.instances == 12


def test_the_stages_add_up_to_the_lateness(tmp_path: Path) -> None:
    """Rank 1 computes 5 ms longer before a barrier that all ranks leave together."""
    program = Program(4)
    for _ in range(20):
        program.collective("alltoall", "fft.c:7:fft", 1 * MS, 64)
        work = np.array([2, 7, 2, 2]) * MS
        program.collective("allreduce", "app.c:9:dot", work)
    trace = mpiprof.open(program.write(tmp_path / "trace"))
    callsite = trace.callsite("allreduce")
    found = find_late_rank(trace, callsite)
    assert found is not None and found.rank == 1 and found.main_stage == "outside"
    assert sum(found.stages_ns.values()) == pytest.approx(found.late_ns)
    assert found.outside_ns == pytest.approx(5 * MS, rel=0.05)
    assert trace.arrival_statistics(callsite).previous_callsite == trace.callsite("alltoall")


def test_random_lateness_has_no_late_rank(tmp_path: Path) -> None:
    late = np.random.default_rng(3).integers(0, 2 * MS, (60, 16))
    trace = mpiprof.open(lateness(late).write(tmp_path / "trace"))
    assert find_late_rank(trace, 0) is None


def test_ranks_that_are_late_together_are_counted(tmp_path: Path) -> None:
    late = np.zeros((12, 16), np.int64)
    late[:, [3, 9, 10]] = np.array([3, 2, 2]) * MS
    found = find_late_rank(mpiprof.open(lateness(late).write(tmp_path / "trace")), 0)
    assert found is not None and (found.rank, found.similar) == (3, 2)


@pytest.mark.parametrize("late", [late_rank(), None])
def test_only_a_late_rank_is_marked(late: LateRank | None) -> None:
    phrases = callsite_headline(ROW, late, 0.0)
    assert [text for text, style in phrases if style == "late"] == ["Rank 5"] * (late is not None)


@pytest.mark.parametrize("tall", [False, True])
def test_the_picture_of_the_stages_frames_the_largest(tall: bool) -> None:
    stages = [
        Stage("Previous exit", "alltoall at a<b>.c:7", 0.2 * MS),
        Stage("Own time", "outside MPI", 9.9 * MS),
        Stage("Messages", "point-to-point", -0.1 * MS),
    ]
    arrival = Stage("Arrival", "allreduce at app.c:9", 10 * MS)
    text = draw_stages(stages, arrival, "Lateness of rank 5.", tall=tall)
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img" and root.get("aria-label") == "Lateness of rank 5."
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "alltoall at a<b>.c:7" in words
    assert {"+200 µs", "+9.90 ms", "−100 µs", "+10.0 ms", "99 %"} <= set(words)
    assert len(re.findall(r'<rect[^>]*stroke="var\(--late,', text)) == 1
    assert (float(root.get("height", 0)) > 300) == tall
    assert list_values(stages, arrival)[-1] == ("Arrival", "allreduce at app.c:9", 10 * MS)


def test_a_long_place_loses_its_operation_and_not_its_line() -> None:
    assert shorten_place("bcast at a.py:3 f") == "bcast at a.py:3 f"
    assert shorten_place("alltoallv at particles 0x1366") == "particles 0x1366"
    long = shorten_place("reduce at a/very/long/path/to/the/file.py:123 main")
    assert len(long) == 27 and long.startswith("…") and long.endswith("file.py:123 main")
