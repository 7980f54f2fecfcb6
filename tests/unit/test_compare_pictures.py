"""Data and pictures of the comparison: call sites before and after, and two runs on one axis."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from mpiprof.dashboard import aligned_runs, compare_sections
from mpiprof.dashboard.aligned_runs import AlignedRun, AlignedWindow, Bar, draw_aligned_runs
from mpiprof.dashboard.compare_sections import draw_run_dots
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState
from support.dashboard_traces import MS, lateness

from mpiprof.causes.compare import compare
from mpiprof.causes.compare_verdict import TIME, measure_site_changes
from mpiprof.reports import changes_chart
from mpiprof.reports.changes_chart import Dumbbell, draw_dumbbells

RANKS, INSTANCES, LATE = 8, 40, 3


def record(folder: Path, late_ms: float, seed: int = 0) -> TraceData:
    """Return 40 allreduces on 8 ranks in which rank 3 is late."""
    late = np.random.default_rng(seed).integers(0, 1000, (INSTANCES, RANKS))
    late[:, LATE] += int(late_ms * MS)
    trace = lateness(late)
    trace.started_ns, trace.ended_ns = 0, (INSTANCES + 2) * 10 * MS
    return TraceData(folder.name, trace.write(folder))


def test_site_changes_have_the_planted_wait_and_its_interval(tmp_path: Path) -> None:
    before = [record(tmp_path / f"a{i}", 4 + i / 10, i) for i in range(3)]
    after = [record(tmp_path / f"b{i}", 1 + i / 10, i) for i in range(3)]
    first, to = ([data.trace for data in side] for side in (before, after))
    table = compare(first, to)
    (change,) = measure_site_changes(table, first, to)
    assert change.outcome == "changed"
    # Seven of eight ranks wait for the late rank in each instance.
    per_ms = INSTANCES * 7 / 8 * MS
    assert change.before_ns == pytest.approx(4.1 * per_ms, rel=0.01)
    assert change.after_ns == pytest.approx(1.1 * per_ms, rel=0.01)
    # The interval of the mean of 3 values that differ by 0.1: 4.30 * 0.1 / sqrt(3).
    assert change.before_half_ns == pytest.approx(0.248 * per_ms, rel=0.02)
    assert change.interval_ns == pytest.approx(2.78 * 0.1 * np.sqrt(2 / 3) * per_ms, rel=0.02)
    (single,) = measure_site_changes(compare(first[:1], to[:1]), first[:1], to[:1], TIME)
    assert np.isnan(single.before_half_ns) and single.interval_ns > 0
    single_runs = compare(first[:1], to[:1])
    single_runs["other_wait_ns"] = np.nan  # as in a summary
    (unknown,) = measure_site_changes(single_runs, first[:1], to[:1])
    assert unknown.before_ns > 0 and np.isnan(unknown.after_ns)
    (same,) = measure_site_changes(compare(first[:1], first[:1]), first[:1], first[:1])
    assert (same.outcome, same.change_ns) == ("chance", 0)


def test_two_runs_are_aligned_at_the_same_instance(tmp_path: Path) -> None:
    runs = record(tmp_path / "a", 4), record(tmp_path / "b", 1)
    table = compare([runs[0].trace], [runs[1].trace]).assign(place="md.py:93 force")
    alignments = compare_sections.list_alignments(table, *runs)
    alignment = compare_sections.choose_alignment(alignments, PageState())
    assert alignment is not None and alignment.count == INSTANCES
    window = alignment.read_window(runs[0], PageState())
    assert window == AlignedWindow(INSTANCES // 2)
    later = alignment.move(runs[0], PageState(), "later")
    assert later.get("instance") == str(window.number + aligned_runs.INSTANCES)
    beyond = PageState().set_keys(instance=10**9)
    assert alignment.move(runs[0], beyond, "later").get("instance") == "38"
    drawn, length = aligned_runs.draw_runs(
        runs, alignment.callsites, window, ("A", "B"), PageState()
    )
    # In A, an instance ends 4 ms after its first arrival; instances begin every 10 ms.
    assert length == pytest.approx(1.02 * 50 * MS, rel=0.001)
    assert drawn.svg.count(">rank 3<") == 2
    assert drawn.svg.count('fill="var(--late,') == 2 * aligned_runs.INSTANCES
    assert ">20<" in drawn.svg and ">24<" in drawn.svg
    calls = {(row[0], row[1]) for row in drawn.values[1:]}
    assert calls == {(run, f"rank {rank}") for run in "AB" for rank in range(RANKS)}


def test_a_window_of_the_timeline_is_aligned_at_an_instance_in_it(tmp_path: Path) -> None:
    """Instance i of A begins 10 (i + 1) ms after the start and ends 4 ms later."""
    runs = record(tmp_path / "a", 4), record(tmp_path / "b", 1)
    table = compare([runs[0].trace], [runs[1].trace]).assign(place="md.py:93 force")
    (alignment,) = compare_sections.list_alignments(table, *runs)
    start = int(runs[0].trace.calls_start_ns)
    keys = {"from": 200 * MS - start, "to": 260 * MS - start}
    state = PageState(ranks="2-4").set_keys(**keys)
    window = alignment.read_window(runs[0], state)
    assert (window.number, window.length_ns) == (19, 60 * MS)
    assert window.before_ns == pytest.approx(4 * MS, abs=20_000)
    chosen = alignment.read_window(runs[0], state.set_keys(instance=21))
    assert chosen.number == 21
    assert chosen.before_ns - window.before_ns == pytest.approx(20 * MS, abs=20_000)
    # An instance outside of the window is shown instead of the window.
    assert alignment.read_window(runs[0], state.set_keys(instance=3)) == AlignedWindow(3)
    drawn, length = aligned_runs.draw_runs(runs, alignment.callsites, window, ("A", "B"), state)
    assert length == 60 * MS
    assert {row[1] for row in drawn.values[1:]} == {"rank 2", "rank 3", "rank 4"}
    late = [row for row in drawn.values[1:] if row[1] == "rank 3" and row[0] == "A"]
    assert late[0][2] == pytest.approx(4 * MS, abs=20_000)  # where the timeline shows it


def test_rows_of_many_ranks_contain_the_late_ranks() -> None:
    last = np.array([700] * 5 + [3])
    rows = aligned_runs.choose_rows(np.arange(1024), last)
    assert {3, 700} <= set(rows) and len(rows) <= aligned_runs.MAX_ROWS
    assert aligned_runs.choose_rows(np.arange(4), last) == [0, 1, 2, 3]


def test_the_difference_is_that_of_the_last_common_instance() -> None:
    bars = [Bar(0, 0, 10, 20, "op-bcast")]
    slow = AlignedRun("A", "", ["rank 0"], bars, [(5, 0.0), (6, 400e6), (7, 800e6)], [])
    fast = AlignedRun("B", "", ["rank 0"], bars, [(5, 0.0), (6, 300e6), (7, 600e6)], [])
    assert "7 ends 200 ms earlier in B" in draw_aligned_runs([slow, fast], 1e9, "two runs")
    assert "7 ends 200 ms later in B" in draw_aligned_runs([fast, slow], 1e9, "two runs")
    assert "ends" not in draw_aligned_runs([slow, slow], 1e9, "one run twice")


def test_dots_stand_at_their_values_on_an_axis_from_zero() -> None:
    row = Dumbbell("a.c:1", "bcast", "op-bcast", 8e9, 1e9, 2e9, np.nan, "-6 s", "", "better")
    unknown = Dumbbell("b.c:1", "bcast", "op-bcast", np.nan, np.nan, 1e9, np.nan, "", "only in B")
    svg = draw_dumbbells([row, unknown], "two < three")
    centres = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', svg)]
    zero, end = 350, 800  # 9 s, the upper end of the interval, is at the right end
    assert centres == [zero + (end - zero) * value / 9 for value in (8, 2, 1)]
    assert 'aria-label="two &lt; three"' in svg
    dots = draw_run_dots([("A", [3e9, 3e9], "ink2"), ("B", [3e9], "good")])
    assert dots.count("<circle") == 3
    data = changes_chart.list_values([row, unknown])
    assert data[1] == ("a.c:1", "bcast", 8e9, 1e9, 2e9, "", "-6 s", "")
    assert data[2][2] == ""  # an unknown time has an empty cell
