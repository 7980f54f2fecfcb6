"""Figures of a call site: aligned rows, the lens of the late rank, and bounded size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from mpiprof.dashboard.figures import algorithms, axes, callsite, instance
from mpiprof.dashboard.figures.callsite import CallsiteArrivals

from mpiprof.account.arrival_pattern import ArrivalPattern
from mpiprof.causes.arrival_statistics import LateRank
from mpiprof.interface.tokens import get_colour
from mpiprof.reports.pictures.rank_rows import HEIGHT_PX, MAX_ROWS, make_rank_rows, make_row_ticks

MS = 1e6
NO_PHASES = pd.DataFrame(columns=["first_instance", "last_instance"])
NO_CHANGES = pd.DataFrame(columns=["number", "algorithm"])


def shown(
    ranks: int, count: int, late_rank: int | None = None, late_ms: float = 5.0, **more: Any
) -> CallsiteArrivals:
    """Return instances whose factor grows from 2; the late rank is late by `late_ms`."""
    number = np.arange(count)
    worst = 2.0 + number
    table = pd.DataFrame(
        {"number": number, "worst_factor": worst, "worst_imbalance_ns": worst * 1000}
    )
    table["message_time_ns"] = 1000.0
    table = table.assign(**more)
    known = bool(table["worst_factor"].notna().any())
    rows = make_rank_rows(np.arange(ranks), late_rank)
    late_ns = np.zeros((len(rows.starts), min(count, axes.MAX_COLUMNS)), np.float32)
    late = None
    if late_rank is not None:
        late_ns[rows.late_row] = late_ms * MS
        late = LateRank(late_rank, late_ms * MS, 1.0, 0.0, late_ms * MS, 0.0, 0, count)
    arrivals = ArrivalPattern(late_ns, np.full(count, 500.0))
    column = "worst_factor" if known else "worst_imbalance_ns"
    hosts = [f"n{rank // 64}" for rank in range(ranks)]
    return CallsiteArrivals(table, table, column, arrivals, rows, hosts, late)


def draw(given: CallsiteArrivals, chosen: int = 0, **more: Any) -> Any:
    """Return the figure of the instances."""
    tables = {"phases": NO_PHASES, "changes": NO_CHANGES} | more
    return callsite.draw_pattern(given, chosen=chosen, **tables)


def one_instance(ranks: int, late_rank: int) -> pd.DataFrame:
    """Return an instance in which all ranks but one arrive at 1000 ns, and that one at 6000 ns."""
    arrival = np.full(ranks, 1000)
    arrival[late_rank] = 6000
    wait = arrival.max() - arrival
    columns = {"rank": np.arange(ranks), "where": "n0", "arrival_ns": arrival, "wait_ns": wait}
    return pd.DataFrame({**columns, "exit_ns": 7000})


@pytest.mark.parametrize("ranks", [1, 4, 64, 257, 1024, 65_536])
def test_the_late_rank_has_a_row_of_12_px_at_any_scale(ranks: int) -> None:
    late = ranks * 5 // 7
    rows = make_rank_rows(np.arange(ranks), late)
    assert rows.late_row is not None and rows.ranks_of(rows.late_row).tolist() == [late]
    heights = np.diff(rows.edges)
    assert heights[rows.late_row] >= 12 and (heights > 0).all()
    assert rows.edges[[0, -1]].tolist() == pytest.approx([0, HEIGHT_PX])
    assert len(rows.starts) <= MAX_ROWS + 2 and rows.counts.sum() == ranks
    every = np.concatenate([rows.ranks_of(row) for row in range(len(rows.starts))])
    assert np.array_equal(every, np.arange(ranks))
    found = [rows.find_row(y) for y in rows.centres.tolist()]
    assert found == list(range(len(rows.starts)))
    assert np.array_equal(rows.rows_of(rows.members[rows.starts]), np.arange(len(rows.starts)))


def test_rows_without_a_late_rank_are_equal() -> None:
    heights = np.diff(make_rank_rows(np.arange(300), None).edges)
    assert len(heights) == MAX_ROWS and np.ptp(heights) < 1e-6


def test_the_axis_names_the_late_rank_and_hosts() -> None:
    rows = make_rank_rows(np.arange(256), 21)
    _, labels = make_row_ticks(rows, [f"n{rank // 64}" for rank in range(256)])
    assert set(labels) == {"n0", "n1", "n2", "n3", "<b>rank 21</b>"}
    _, labels = make_row_ticks(make_rank_rows(np.arange(4), 2), ["n0"] * 4)
    assert labels == ["rank 0", "rank 1", "<b>rank 2</b>", "rank 3"]


def test_both_figures_share_their_vertical_axes() -> None:
    given = shown(1024, 40, 700)
    left = draw(given, 7).layout
    right = instance.draw_instance(given, one_instance(1024, 700)).layout
    for name in ("yaxis", "yaxis2"):
        assert left[name].range == right[name].range and left[name].domain == right[name].domain
    assert left.height == right.height
    assert (left.margin.t, left.margin.b) == (right.margin.t, right.margin.b)
    line, frame = left.shapes[:2]  # the marks of the chosen instance
    assert (line.x0, frame.x0, frame.x1) == (7, 6.5, 7.5)


def test_the_heat_map_is_around_the_median() -> None:
    given = shown(64, 40, 21)
    heat = next(t for t in draw(given).data if t.type == "heatmap")
    assert heat.zmin == -heat.zmax and np.array(heat.z).max() >= heat.zmax
    scale = dict(reversed(heat.colorscale))
    assert scale[0.5].endswith(",0)") and scale[1.0].endswith(",1)")
    assert np.array_equal(np.array(heat.customdata)[:, 0], np.arange(64))


def test_only_a_late_rank_has_the_accent() -> None:
    late, early = get_colour("late"), get_colour("ink2")
    lines = draw(shown(16, 20, 3)).data
    assert lines[0].line.color == late and "without rank 3" in lines[1].name
    lines = draw(shown(16, 20)).data
    assert [t.line.color for t in lines if t.type == "scatter"] == [early]
    bars = instance.draw_instance(shown(16, 20), one_instance(16, 3)).data
    assert set(bars[0].marker.color) == {early}


def test_factors_preserve_the_peaks_of_many_instances() -> None:
    given = shown(4, 100_000)
    given.instances.loc[54_321, "worst_factor"] = 1e9
    line = draw(given).data[0]
    assert len(line.x) <= callsite.MAX_POINTS and line.y.max() == 1e9
    assert int(line.x[line.y.argmax()]) == 54_321  # a click on the peak opens that instance


def test_without_message_times_the_imbalance_itself_is_drawn() -> None:
    given = shown(4, 5, worst_factor=np.nan)
    assert list(draw(given).data[0].y) == [2000, 3000, 4000, 5000, 6000]
    bars = instance.draw_instance(given, one_instance(4, 1)).data[0]
    assert sum(bars.x) == 5 and all("." not in low for low, _ in bars.customdata)


def test_phases_and_changes_of_the_algorithm_are_marked() -> None:
    phases = pd.DataFrame({"first_instance": [0, 4], "last_instance": [3, 9]})
    changes = pd.DataFrame({"number": [6], "algorithm": ["ring"]})
    figure = draw(shown(4, 10), phases=phases, changes=changes)
    texts = [a.text for a in figure.layout.annotations]
    assert {"phase 0", "phase 1", "ring"} <= set(texts)
    assert any(s.type == "line" and s.x0 == 6 for s in figure.layout.shapes)


def test_instances_that_are_left_out_leave_no_gap() -> None:
    given = shown(2, 50)
    some = given.instances.iloc[[3, 9, 40]]
    pattern = ArrivalPattern(np.zeros((2, 3)), np.zeros(3))
    kept = CallsiteArrivals(some, given.every, given.column, pattern, given.rows, given.hosts, None)
    figure = draw(kept, 9)
    assert list(figure.data[0].x) == [0, 1, 2] and figure.data[0].mode == "markers"
    assert list(figure.layout.xaxis.ticktext) == ["3", "9", "40"]
    assert figure.layout.shapes[0].x0 == 1


def test_the_histogram_counts_every_instance_once_and_marks_the_band() -> None:
    given = shown(4, 400)
    bar = instance.draw_instance(given, one_instance(4, 1), (50.0, 100.0)).data[0]
    assert sum(bar.x) == 400
    ends = np.array(bar.customdata, np.float64)
    assert np.array_equal(ends[1:, 0], ends[:-1, 1])
    assert ends[0, 0] <= 2 and ends[-1, 1] > 401
    grey = np.array(bar.marker.color) == get_colour("q2")
    assert np.array_equal(grey, (ends[:, 1] <= 50) | (ends[:, 0] >= 100))


def test_one_instance_shows_arrivals_from_the_median_of_the_others() -> None:
    given = shown(1024, 10, 700)
    figure = instance.draw_instance(given, one_instance(1024, 700))
    waits, arrivals = (t for t in figure.data if t.type == "scatter")
    assert len(arrivals.x) == len(given.rows.starts)  # one dot for each row
    row = given.rows.late_row
    assert arrivals.x[row] == pytest.approx(5.0)  # µs
    assert np.allclose(np.delete(arrivals.x, row), 0)
    assert arrivals.y[row] == pytest.approx(given.rows.centres[row])
    assert waits.x[:2].tolist() == [0, 5] and np.isnan(waits.x[2])
    texts = [a.text for a in figure.layout.annotations]
    assert "<b>rank 700, +5.00 µs</b>" in texts
    assert "wait 5.12 ms together" in texts  # 1023 ranks, 5 µs each


def test_predictions_are_dots_with_the_waiting_as_reference() -> None:
    table = pd.DataFrame(
        {
            "algorithm": ["fast", "native", "slow"],
            "score_ns": [1 * MS, 1.5 * MS, 2 * MS],
            "is_now": [False, True, False],
        }
    )
    figure = algorithms.draw_scores(table, 36 * MS)
    dots = figure.data[0]
    assert list(dots.y) == ["fast", "<b>native now</b>", "slow"]
    assert dots.marker.color[1] == get_colour("ink") != dots.marker.color[0]
    assert figure.layout.xaxis.type == "log" and figure.layout.shapes[0].x0 == 36 * MS
    assert "36.0 ms" in figure.layout.annotations[0].text
    assert not algorithms.draw_scores(table, float("nan")).layout.shapes
