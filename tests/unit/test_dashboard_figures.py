"""Figures of the dashboard, without a server: their content, and their bounded size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from mpiprof.dashboard import theme
from mpiprof.dashboard.figures import algorithms, axes, callsite, compare, distribution, overview

from mpiprof.interface.format_units import unit_of
from mpiprof.model import problem_spec
from mpiprof.model.simulate import simulate
from mpiprof.operations import OPERATIONS
from mpiprof.reports import colours

MS = 1e6
NO_PHASES = pd.DataFrame(columns=["first_instance", "last_instance"])
NO_SWITCHES = pd.DataFrame(columns=["number", "algorithm"])


def instances(count: int) -> pd.DataFrame:
    """Return instances with a factor that grows with their number."""
    number = np.arange(count)
    worst = 1.0 + number
    table = {"number": number, "worst_factor": worst, "average_factor": worst / 2}
    return pd.DataFrame(table | {"worst_imbalance_ns": worst * 1000})


def test_the_time_bar_adds_up_to_all() -> None:
    parts = pd.DataFrame({"part": ["outside", "work", "waiting"], "ns": [50.0, 30.0, 20.0]})
    figure = overview.draw_time_bar(parts)
    assert [bar.x[0] for bar in figure.data] == pytest.approx([50, 30, 20])
    assert figure.data[2].marker.color == colours.WAITING


def test_ranks_are_aggregated_to_visible_rows() -> None:
    ranks = np.arange(4096)
    table = pd.DataFrame({"rank": ranks, "where": "n", "total_wait_ns": ranks * MS, "caused_ns": 0})
    bar = overview.draw_ranks(table).data[0]
    assert len(bar.x) == axes.MAX_ROWS
    assert bar.x[0] == "0-15"
    scale = unit_of(4095 * MS)[1]
    assert bar.y[0] * scale == pytest.approx(15 * MS)  # the maximum of 0 to 15 ms
    assert bar.customdata[0][1] == 15


def test_one_late_rank_among_many_is_as_late_as_among_few() -> None:
    """Rank 5 is last in all instances, by 1 ms, however many ranks share its row."""
    for ranks in (16, 4096):
        rank = np.arange(ranks)
        late = 40 * MS * (rank == 5)
        table = pd.DataFrame({"rank": rank, "where": "n", "last": 0, "lateness_ns": late})
        table["last"] = 40 * (rank == 5)
        last, mean = callsite.draw_late_ranks(table, 40).data
        assert max(last.y) == 100
        assert max(mean.y) == pytest.approx(1.0)
        assert mean.customdata[int(np.argmax(mean.y))][1] == 5


def test_factors_preserve_the_peaks_of_many_instances() -> None:
    table = instances(100_000)
    table.loc[54_321, "worst_factor"] = 1e9
    figure = callsite.draw_factors(table, NO_PHASES, NO_SWITCHES)
    line = figure.data[0]
    assert len(line.x) <= callsite.MAX_POINTS
    assert line.y.max() == 1e9
    assert int(line.x[line.y.argmax()]) == 54_321  # a click on the peak opens that instance


def test_phases_are_bands_and_switches_marks() -> None:
    phases = pd.DataFrame({"first_instance": [0, 4], "last_instance": [3, 9]})
    switches = pd.DataFrame({"number": [6], "algorithm": ["ring"]})
    figure = callsite.draw_factors(instances(10), phases, switches)
    bands = [s for s in figure.layout.shapes if s.type == "rect"]
    assert [(b.x0, b.x1) for b in bands] == [(-0.5, 3.5), (3.5, 9.5)]
    mark = figure.data[-1]
    assert (mark.x[0], mark.customdata[0]) == (6, "ring")


def test_without_message_times_the_imbalance_itself_is_drawn() -> None:
    table = instances(5).assign(worst_factor=np.nan, average_factor=np.nan)
    figure = callsite.draw_factors(table, NO_PHASES, NO_SWITCHES)
    assert list(figure.data[0].y) == [1000, 2000, 3000, 4000, 5000]


def test_the_heat_map_shows_lateness_by_rank_and_instance() -> None:
    late = np.array([[0, 0, 0], [1, 2, 3]]) * MS
    drawn = callsite.draw_heat_map(late, np.array([4, 9]), np.array([0, 1, 2])).data[0]
    assert drawn.y == ("4", "9")
    assert np.allclose(drawn.z, [[0, 0, 0], [1, 2, 3]])
    assert drawn.colorbar.title.text == "ms"


def test_one_instance_is_the_papers_figure_1() -> None:
    table = pd.DataFrame(
        {
            "rank": [0, 1, 2],
            "where": ["a", "a", "b"],
            "arrival_ns": [100, 400, 1100],
            "exit_ns": [1200, 1200, 1200],
            "wait_ns": [1000, 700, 0],
        }
    )
    figure = callsite.draw_instance(table, message_ns=100)
    waits, rest, arrivals = figure.data
    assert list(arrivals.x) == [0, 0.3, 1.0]  # µs after the first
    assert np.allclose(waits.base, arrivals.x)
    assert np.allclose(waits.x, [1.0, 0.7, 0])
    assert np.allclose(rest.base + rest.x, 1.1)
    mean = next(s for s in figure.layout.shapes if s.line.dash == "dash")
    assert mean.x0 == pytest.approx((0 + 0.3 + 1.0) / 3)
    assert any(a.text == "ω = 1.00 µs = 10.0 T" for a in figure.layout.annotations)


def test_of_very_many_ranks_the_last_is_drawn() -> None:
    arrival = np.arange(5000)
    arrival[1234] = 9999
    table = pd.DataFrame(
        {
            "rank": np.arange(5000),
            "where": "",
            "arrival_ns": arrival,
            "exit_ns": 10_000,
            "wait_ns": 0,
        }
    )
    figure = callsite.draw_instance(table)
    assert len(figure.data[0].y) <= axes.MAX_ROWS
    assert "1234" in figure.data[0].y


def test_the_distribution_has_the_papers_ranges() -> None:
    factors = np.array([0.5, 0.9, 1.0, 7.0, 40.0, 5000.0, np.nan])
    balanced, imbalanced = distribution.draw_distribution(factors).data
    assert balanced.y[0] == pytest.approx(100 * 2 / 6)
    assert imbalanced.customdata.tolist() == [2, 0, 1, 0, 1]


def test_shares_carry_their_confidence() -> None:
    table = pd.DataFrame({"name": ["a"], "value": [0.5], "low": [0.4], "high": [0.7]})
    bar = distribution.draw_shares(table).data[0]
    assert bar.x[0] == 50
    assert (bar.error_x.arrayminus[0], bar.error_x.array[0]) == pytest.approx((10, 20))


def test_a_schedule_is_drawn_message_by_message() -> None:
    ring = problem_spec.find_algorithm("allgather", "ring", groups=False)
    problem = problem_spec.make_problem("allgather", problem_spec.ProblemSpec(4, bytes=1024))
    timing = simulate(ring, problem, trace=True)
    figure = algorithms.draw_space_time(timing, ["0", "1", "2", "3"])
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    drawn = sum(1 for line in lines for x in line.x if x is None)
    assert drawn == len(timing.messages) == 4 * 3


def test_predictions_are_ordered_and_mark_the_current_algorithm() -> None:
    table = pd.DataFrame(
        {
            "algorithm": ["fast", "slow", "native"],
            "score_ns": [1 * MS, 2 * MS, 1.5 * MS],
            "is_now": [False, False, True],
        }
    )
    figure = algorithms.draw_scores(table)
    assert list(figure.data[0].y) == ["fast", "slow"]
    assert figure.layout.shapes[0].x0 == pytest.approx(1.5)
    assert "1.50 ms" in figure.layout.annotations[0].text


def test_history_covers_all_instances() -> None:
    choices = pd.DataFrame(
        {"instance": [0, 20, 60], "algorithm": ["native", "ring", "native"], "why": ["", "", ""]}
    )
    bars = algorithms.draw_history(choices, 100).data
    assert [(b.base[0], b.x[0]) for b in bars] == [(0, 0), (0, 20), (20, 40), (60, 40)]


def test_comparisons_share_a_scale() -> None:
    table = pd.DataFrame({"place": ["a", "a"], "wait_ns": [1 * MS, 2 * MS]})
    table["other_wait_ns"] = [3 * MS, np.nan]
    first, other = compare.draw_callsites(table, "wait_ns", "waiting", ("A", "B")).data
    assert list(first.x) == [1, 2]
    assert other.x[0] == 3
    assert len(set(first.y)) == 2  # equal names in two rows remain distinct


def test_empty_tables_give_a_figure_with_a_message() -> None:
    nothing = pd.DataFrame(columns=["rank", "where", "total_wait_ns", "caused_ns"])
    assert overview.draw_ranks(nothing).layout.annotations[0].text
    assert distribution.draw_distribution(np.array([np.nan])).layout.annotations[0].text
    assert callsite.draw_heat_map(np.zeros((0, 0)), np.zeros(0), np.zeros(0)).layout.annotations


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as defined by WCAG."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_an_operation_has_the_same_colour_everywhere() -> None:
    """The timeline once gave an operation another colour beside a variant of it."""
    names = list(OPERATIONS)
    for some in (names, names[::-1], ["allgatherv", "allgather"], ["comm_split", "barrier"]):
        painted = theme.state_colours("operation", some)
        assert painted == [colours.operation_colour(name) for name in some]
    assert colours.operation_colour("comm_split") != colours.operation_colour("barrier")


def test_colours_differ_without_hue() -> None:
    assert contrast(colours.WAITING, theme.OUTSIDE) > 1.4
    assert contrast(colours.WORK, theme.OUTSIDE) > 1.4
    operations = ("allreduce", "alltoall", "allgather", "bcast", "barrier", "gather")
    assert len({colours.operation_colour(name) for name in operations}) == len(operations)


@pytest.mark.parametrize("name", ["iallreduce", "allreduce_init", "allreduce"])
def test_an_operation_has_one_colour_in_all_its_forms(name: str) -> None:
    assert colours.operation_colour(name) == colours.operation_colour("allreduce")


@pytest.mark.parametrize("ranks", [16, 256, 4096, 65536])
def test_a_late_rank_is_found_within_two_clicks(ranks: int) -> None:
    """Click the first row, then the first row among the ranks of that row."""
    random, culprit = np.random.default_rng(ranks), ranks * 5 // 7
    members, numbers = np.arange(ranks), np.arange(12)
    for _ in range(2):
        late = random.random((len(members), 12)) * 1e5 + 2e6 * (members == culprit)[:, None]
        shown = np.fmax.reduceat(late, axes.run_starts(len(members), axes.MAX_ROWS))
        drawn = callsite.draw_heat_map(shown, members, numbers, latest_first=True).data[0]
        first, _, last = str(drawn.y[0]).partition("-")
        if not last:
            break
        members = np.arange(int(first), int(last) + 1)
    assert int(first) == culprit and not last


def test_the_heat_map_states_the_size_of_a_cell_and_the_range_of_colours() -> None:
    late = np.full((2, 400), 1000.0)
    assert (
        callsite.heat_map_note(late, np.arange(2), np.arange(400)) == "A click shows the instance."
    )
    late[0, 0] = 5_000_000.0
    reported = callsite.heat_map_note(late, np.arange(8), np.arange(800))
    assert "greatest lateness of up to 4 ranks by 2 instances." in reported
    assert "Colours end at 1.00 µs; the greatest lateness is 5.00 ms." in reported
    assert reported.endswith("shows the instance and opens the ranks of the row.")


def test_the_histogram_counts_every_instance_once() -> None:
    values = np.array([0.0, 5, 5, 999, 1e6, np.nan])
    bar = distribution.draw_spread(values, (900, 2000)).data[0]
    assert sum(bar.y) == 5
    ends = np.array(bar.customdata)
    assert (ends[1:, 0] == ends[:-1, 1]).all() and ends[0, 0] == 1 and ends[-1, 1] > 1e6
    grey = np.array(bar.marker.color) == colours.GREY
    assert not grey[(ends[:, 0] <= 999) & (ends[:, 1] > 999)].any()
    assert grey[(ends[:, 1] <= 900) | (ends[:, 0] >= 2000)].all()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(900, 9e3, ["1 µs", "2 µs", "5 µs"]), (1e3, 1e9, ["1 µs", "10 µs", "100 µs", "1 ms", "1 s"])],
)
def test_log_axes_have_times_as_ticks(low: float, high: float, expected: list[str]) -> None:
    axis = axes.make_log_axis(np.array([low, high, np.nan, 0]), axes.format_tick_time)
    assert set(expected) <= set(axis["ticktext"])
    assert min(axis["tickvals"]) <= low and len(axis["tickvals"]) <= 13


def test_instances_that_are_left_out_are_not_drawn_over() -> None:
    late = np.array([[0.0, 0, 0], [1e6, 2e6, 3e6]])
    heat = callsite.draw_heat_map(late, np.arange(2), np.array([3, 9, 40])).data[0]
    assert list(heat.x) == ["3", "9", "40"]
    table = instances(50).iloc[[3, 9, 40]]
    line = callsite.draw_factors(table, NO_PHASES, NO_SWITCHES).data[0]
    assert (line.mode, list(line.x)) == ("markers", [3, 9, 40])


@pytest.mark.parametrize("count", [1, 255, 256, 257, 600, 4096, 65_537])
def test_labels_name_the_ranks_that_are_in_a_row(count: int) -> None:
    """Lateness puts rank i of `count` into row i * rows // count."""
    rows = min(count, axes.MAX_ROWS)
    expected = [np.flatnonzero(np.arange(count) * rows // count == row) for row in range(rows)]
    labels = axes.label_runs(np.arange(count), axes.MAX_ROWS)
    reported = [f"{of[0]}" if len(of) == 1 else f"{of[0]}-{of[-1]}" for of in expected]
    assert labels == reported
