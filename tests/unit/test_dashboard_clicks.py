"""A click on the heat map opens the instance that determines the cell's colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.dashboard_traces import lateness

pytest.importorskip("dash")
from mpiprof.dashboard import trace_figures
from mpiprof.dashboard.figures import axes
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState


@pytest.mark.parametrize(("columns", "rows"), [(7, 3), (40, 12), (1000, 256)])
def test_a_cell_leads_to_the_instance_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, rows: int
) -> None:
    monkeypatch.setattr(axes, "MAX_COLUMNS", columns)
    monkeypatch.setattr(axes, "MAX_ROWS", rows)
    late = np.random.default_rng(3).integers(1, 1_000_000, (40, 12))
    late -= late.min(1, keepdims=True)
    data = TraceData("t", lateness(late).write(tmp_path / "t"))
    shown, ranks, numbers = trace_figures.heat_map_lateness(data, PageState(), 0)
    heat = trace_figures.draw_arrivals(data, PageState(), 0).data[0]
    assert shown.shape == (min(rows, 12), min(columns, 40)) == (len(heat.y), len(heat.x))
    for i in range(0, shown.shape[0]):
        for j in range(0, shown.shape[1], 3):
            first = int(heat.x[j])
            number = trace_figures.find_latest_in_cell(data, PageState(), 0, first, str(heat.y[i]))
            low, _, high = str(heat.y[i]).partition("-")
            row = late[number, int(low) : int(high or low) + 1]
            assert row.max() == pytest.approx(shown[i, j], abs=0.5)
    assert len(ranks) == 12 and len(numbers) == 40
