"""Figures of the dashboard, without a server: their content, and their bounded size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from mpiprof.dashboard import theme
from mpiprof.dashboard.figures import algorithms, axes

from mpiprof.collectives import problem_spec
from mpiprof.collectives.simulate import simulate
from mpiprof.facts.operations import OPERATIONS
from mpiprof.interface import tokens
from mpiprof.reports.pictures.rank_rows import MAX_ROWS

MS = 1e6


def test_a_run_of_values_shows_its_peak() -> None:
    peaks = axes.run_peaks(np.arange(4096) * MS, MAX_ROWS)
    assert len(peaks) == MAX_ROWS and peaks[0] == 15  # the greatest of 0 to 15


def test_a_schedule_is_drawn_message_by_message() -> None:
    ring = problem_spec.find_algorithm("allgather", "ring", groups=False)
    problem = problem_spec.make_problem("allgather", problem_spec.ProblemSpec(4, bytes=1024))
    timing = simulate(ring, problem, trace=True)
    figure = algorithms.draw_space_time(timing, ["0", "1", "2", "3"])
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    drawn = sum(1 for line in lines for x in line.x if x is None)
    assert drawn == len(timing.messages) == 4 * 3


def test_history_covers_all_instances() -> None:
    choices = pd.DataFrame(
        {"instance": [0, 20, 60], "algorithm": ["native", "ring", "native"], "why": ["", "", ""]}
    )
    bars = algorithms.draw_history(choices, 100).data
    assert [(b.base[0], b.x[0]) for b in bars] == [(0, 0), (0, 20), (20, 40), (60, 40)]


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
        assert painted == [tokens.operation_colour(name) for name in some]
    assert tokens.operation_colour("comm_split") != tokens.operation_colour("barrier")


def test_colours_differ_without_hue() -> None:
    assert contrast(tokens.WAITING, theme.OUTSIDE) > 1.4
    assert contrast(tokens.WORK, theme.OUTSIDE) > 1.4
    operations = ("allreduce", "alltoall", "allgather", "bcast", "barrier", "gather")
    assert len({tokens.operation_colour(name) for name in operations}) == len(operations)


@pytest.mark.parametrize("name", ["iallreduce", "allreduce_init", "allreduce"])
def test_an_operation_has_one_colour_in_all_its_forms(name: str) -> None:
    assert tokens.operation_colour(name) == tokens.operation_colour("allreduce")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(900, 9e3, ["1 µs", "2 µs", "5 µs"]), (1e3, 1e9, ["1 µs", "10 µs", "100 µs", "1 ms", "1 s"])],
)
def test_log_axes_have_times_as_ticks(low: float, high: float, expected: list[str]) -> None:
    axis = axes.make_log_axis(np.array([low, high, np.nan, 0]), axes.format_tick_time)
    assert set(expected) <= set(axis["ticktext"])
    assert min(axis["tickvals"]) <= low and len(axis["tickvals"]) <= 13
