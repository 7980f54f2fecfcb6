"""Heat map of a call site: a late rank is seen among many ranks, and a click opens a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import Browser, view
from support.dashboard_traces import lateness

pytestmark = pytest.mark.slow

MS = 1_000_000
PLOT = "document.querySelector('#callsite-pattern .js-plotly-plot')"
HEAT = f"{PLOT}?._fullData?.find((trace) => trace.type === 'heatmap')"
MANY = [pytest.param(ranks, marks=pytest.mark.everything) for ranks in (4096, 65536)]


@pytest.mark.parametrize("ranks", [600, *MANY])
def test_the_late_rank_has_a_row_and_a_click_opens_a_run(
    tmp_path: Path, ranks: int, page: Any
) -> None:
    planted = ranks * 2 // 3
    random = np.random.default_rng(1)
    late = random.integers(0, MS // 10, (8, ranks)) + 2 * MS * (np.arange(ranks) == planted)
    synthetic = lateness(late)
    with view([synthetic.write(tmp_path / "late")]) as running:
        # The overview would first compute the findings of all call sites.
        browser = Browser(page, running, "/callsites?callsite=0")
        browser.until(f"{HEAT}?.z.length >= 256")
        assert f"Rank {planted} is last in every instance" in browser.text()
        assert f"latest of up to {-(-ranks // 256)} ranks" in browser.text()
        edges = page.evaluate(f"Array.from({HEAT}.y)")
        rows = page.evaluate(f"{HEAT}.customdata.map((row) => row[0])")
        at = rows.index(planted)
        assert edges[at + 1] - edges[at] >= 12
        plot = page.locator("#callsite-pattern .nsewdrag[data-subplot='xy2']")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box["height"] == pytest.approx(edges[-1], abs=1)  # rows are in pixels
        browser.shot(f"heat-map-{ranks}")
        place = box["x"] + box["width"] / 2, box["y"] + (edges[9] + edges[10]) / 2
        browser.point(*place)
        browser.until(f"{PLOT}._hoverdata?.length")
        first = page.evaluate(f"{PLOT}._hoverdata[0].customdata")
        row = rows.index(first)
        assert abs(row - 9) <= 1  # a row has 1.2 px
        page.mouse.click(*place)
        browser.until("location.search.includes('rank=')")
        browser.settled()
        assert f"rank={first}-{rows[row + 1] - 1}" in page.url
        assert page.evaluate(f"{HEAT}.z.length") == rows[row + 1] - first
        page.click(".steps a:text-is('all ranks')")
        browser.until(f"{HEAT}?.z.length >= 256")
        assert not browser.complaints
