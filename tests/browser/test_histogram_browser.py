"""Histogram of a call site: dragging over a band filters the other figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from support.dashboard_server import Browser, view
from support.dashboard_traces import lateness

pytestmark = pytest.mark.slow

MS = 1_000_000
T = 10_000  # time of a message in the machine table of the trace, in ns
SLOW = [7, 19, 33]  # instances in which rank 2 is late by 5 ms; in others rank 1, by about 0.1 ms


def test_a_band_filters_the_pictures(tmp_path: Path, page: Any) -> None:
    late = np.zeros((40, 4), np.int64)
    late[:, 1] = MS // 10 + 100 * np.arange(40)
    late[SLOW, 2] = 5 * MS
    synthetic = lateness(late)
    with view([synthetic.write(tmp_path / "late")]) as running:
        browser = Browser(page, running, "/callsites?callsite=0")
        page.wait_for_selector("#callsite-instance-figure .js-plotly-plot")
        plot = "document.querySelector('#callsite-pattern .js-plotly-plot')?._fullData"
        heat = f"{plot}?.find((trace) => trace.type === 'heatmap')"
        assert page.evaluate(f"{heat}.x.length") == 40
        plot = page.locator("#callsite-instance-figure .nsewdrag[data-subplot='xy']")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        browser.shot("histogram")
        page.mouse.move(box["x"] + 60, box["y"] + 2)
        page.mouse.down()
        page.mouse.move(box["x"] + 80, box["y"] + box["height"] * 0.35, steps=8)
        page.mouse.up()
        browser.until(f"{heat}?.x?.length === 3")
        low, high = map(float, parse_qs(urlsplit(page.url).query)["band"][0].split("-"))
        assert 0.1 * MS < low * T < 5 * MS < high * T
        ticks = "document.querySelector('#callsite-pattern .js-plotly-plot').layout.xaxis.ticktext"
        assert page.evaluate(ticks) == [str(number) for number in SLOW]
        browser.settled()
        assert "3 of 40 instances" in browser.text()
        browser.shot("histogram-band")
        page.click(".steps a:text-is('all instances')")
        browser.until(f"{heat}?.x?.length === 40")
        assert "band" not in page.url
        page.click(".steps a:text-is('the largest tenth')")
        browser.until(f"{heat}?.x?.length === 4")
        assert page.evaluate(ticks) == [*map(str, SLOW), "39"]
        assert not browser.complaints
