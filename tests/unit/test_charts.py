"""Figures of the self-contained page."""

from __future__ import annotations

import numpy as np

from mpiprof.reports import charts
from mpiprof.units import duration


def test_cells_are_filled_in_proportion() -> None:
    shares = np.array([[[0.5, 0.5], [0.5, 0.0], [0.0, 0.0], [0.0, 1.0]]])
    pixels = charts.filled(shares)
    assert pixels.shape == (charts.STEPS, 4)
    for column, (first, second) in enumerate([(3, 3), (3, 0), (0, 0), (0, 6)]):
        upwards = pixels[::-1, column].tolist()
        assert upwards == [1] * first + [2] * second + [0] * (charts.STEPS - first - second)


def test_the_pointer_tells_the_shares_of_a_place() -> None:
    shares = np.zeros((2, 4, 2))
    shares[1, 2] = 0.25, 0.5
    drawn = charts.timeline(shares, ["allreduce", "bcast"], 8, 4e9, duration)
    assert "ranks 4-7, 2.00 s to 3.00 s: bcast 50%, allreduce 25%" in drawn
    assert drawn.count("ranks 0-3") == 0
    wide = charts.timeline(np.full((300, 1000, 1), 0.5), ["bcast"], 300, 1e9, duration)
    assert len(wide) < 300_000
