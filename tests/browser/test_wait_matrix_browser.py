"""Matrix of wait times between ranks, and its link to the timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import Browser, view
from support.dashboard_traces import lateness

pytestmark = pytest.mark.slow

MS = 1_000_000


def test_a_late_rank_is_found_and_shown_on_the_timeline(tmp_path: Path, page: Any) -> None:
    random = np.random.default_rng(1)
    late = random.integers(0, MS // 10, (40, 16)) + 2 * MS * (np.arange(16) == 5)
    synthetic = lateness(late)
    synthetic.started_ns, synthetic.ended_ns = 0, 420 * MS
    with view([synthetic.write(tmp_path / "late")]) as running:
        browser = Browser(page, running, "/messages")
        page.wait_for_selector("#messages-matrix .js-plotly-plot")
        columns = "document.querySelector('#messages-matrix .js-plotly-plot').data[0]"
        assert page.evaluate(f"{columns}.x.length") == 16
        browser.shot("whom")
        plot = page.locator("#messages-matrix .nsewdrag")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        place = {"x": box["width"] * 5.5 / 16, "y": box["height"] * 9.5 / 16}
        plot.hover(position=place)
        browser.until("document.querySelector('#messages-matrix .js-plotly-plot')._hoverdata")
        plot.click(position=place)
        browser.until("location.search.includes('cell=9%3A5')")
        browser.settled()
        page.click("text=show in the timeline")
        browser.until("location.pathname === '/timeline'")
        assert page.url.endswith("/timeline?rank=9%2C+5")
        browser.settled()
        browser.until("document.querySelector('#timeline')?.dataset.shown?.startsWith('events')")
        assert "2 ranks" in page.inner_text("#tl-status")
        assert not browser.complaints
