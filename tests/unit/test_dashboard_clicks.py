"""A click on the heat map opens the instance that determines the cell's colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.dashboard_traces import lateness

pytest.importorskip("dash")
from mpiprof.dashboard import callsite_arrivals, trace_figures
from mpiprof.dashboard.figures import axes
from mpiprof.dashboard.trace_data import TraceData
from mpiprof.dashboard.url_state import PageState

from mpiprof.account.variance_components import subtract_median_of_others


@pytest.mark.parametrize(("columns", "rows"), [(7, 3), (40, 12), (1000, 256)])
def test_a_cell_leads_to_the_instance_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, rows: int
) -> None:
    monkeypatch.setattr(axes, "MAX_COLUMNS", columns)
    monkeypatch.setattr(callsite_arrivals, "MAX_ROWS", rows)
    late = np.random.default_rng(3).integers(1, 1_000_000, (40, 12))
    late -= late.min(1, keepdims=True)
    data = TraceData("t", lateness(late).write(tmp_path / "t"))
    shown = callsite_arrivals.read_arrivals(data, PageState(), 0)
    heat = next(
        t for t in trace_figures.draw_arrivals(data, PageState(), 0).data if t.type == "heatmap"
    )
    late_ns = shown.arrivals.late_ns
    assert late_ns.shape == (len(heat.y) - 1, min(columns, 40))
    x = np.array(heat.x, np.float64)
    x = x if len(x) == late_ns.shape[1] else (x[1:] + x[:-1]) / 2
    after_others = subtract_median_of_others(late.T.astype(np.float64))
    for i, y in enumerate(shown.rows.centres.tolist()):
        for j in range(0, late_ns.shape[1], 3):
            number, label = callsite_arrivals.find_latest_in_cell(data, shown, x[j], y)
            ranks = shown.rows.ranks_of(i)
            assert label == (f"{ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else "")
            assert after_others[ranks, number].max() == pytest.approx(late_ns[i, j], abs=0.5)
