"""Heat map of a call site: one click finds a late rank among many ranks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.dashboard_server import Browser, chromium, view
from support.dashboard_traces import lateness

pytestmark = pytest.mark.slow

MS = 1_000_000


MANY = [pytest.param(ranks, marks=pytest.mark.everything) for ranks in (4096, 65536)]


@pytest.mark.parametrize("ranks", [pytest.param(600, marks=pytest.mark.slow), *MANY])
def test_a_click_on_the_first_row_opens_its_ranks(tmp_path: Path, ranks: int) -> None:
    planted = ranks * 2 // 3
    random = np.random.default_rng(1)
    late = random.integers(0, MS // 10, (8, ranks)) + 2 * MS * (np.arange(ranks) == planted)
    synthetic = lateness(late)
    with view([synthetic.write(tmp_path / "late")]) as running, chromium() as started:
        page = started.new_context(viewport={"width": 1280, "height": 900}).new_page()
        # The overview would first compute the findings of all call sites.
        browser = Browser(page, running, "/callsites?callsite=0")
        page.wait_for_selector("#callsite-heat .js-plotly-plot")
        assert f"greatest lateness of up to {-(-ranks // 256)} ranks" in browser.text()
        rows = "document.querySelector('#callsite-heat .js-plotly-plot')?.data?.[0]?.y"
        before = page.evaluate(f"{rows}[0]")
        page.click("nav.steps a:text-is('latest first')")
        browser.until(f"({rows}?.[0] ?? '{before}') !== '{before}'")
        browser.settled()  # parts that come later move the plot
        first = page.evaluate(f"{rows}[0]")
        low, high = map(int, first.split("-"))
        assert low <= planted <= high
        plot = page.locator("#callsite-heat .nsewdrag")
        # Centre the plot, so that the sticky page header does not cover it.
        page.evaluate("document.querySelector('#callsite-heat').scrollIntoView({block: 'center'})")
        box = plot.bounding_box()
        # Click the first whole pixel: rows are 1.5 px high, and the browser drops fractions.
        place = box["x"] + box["width"] / 2, math.floor(box["y"]) + 1
        browser.point(*place)
        browser.until("document.querySelector('#callsite-heat .js-plotly-plot')._hoverdata")
        for _ in range(20):  # a picture that is drawn again between hover and click loses the click
            page.mouse.click(*place)
            browser.settled()
            if page.evaluate(f"{rows}?.[0]") != first:
                break
        assert page.evaluate(f"[{rows}[0], {rows}.length]") == [str(planted), high - low + 1]
        assert f"rank={first}" in page.url and "order=late" in page.url
        browser.settled()
        browser.shot(f"heat-map-{ranks}")
        page.click("nav.steps a:text-is('all ranks')")
        browser.until(f"{rows}?.length === 256")
        assert not browser.complaints
