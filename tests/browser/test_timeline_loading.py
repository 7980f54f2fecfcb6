"""The timeline while its data are prepared: progress, and a button that cancels."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from support import dashboard_traces
from support.dashboard_server import LOOK_MS, view
from support.timeline_page import Page
from support.wait_until import HANG_S

pytestmark = pytest.mark.slow

BUTTON = ".tl-cover button"


def test_progress_is_shown_and_can_be_cancelled(page: Any, tmp_path: Path) -> None:
    """A route between page and server reports progress until the page cancels."""
    asked: list[str] = []
    busy = True

    def answer(route: Any) -> None:
        what = route.request.url.partition("what=")[2].partition("&")[0]
        asked.append(what)
        if what == "overview" and busy:
            share = min(len(asked) / 1000, 1)
            content = json.dumps({"progress": 0.41 + share, "what": "Reading the trace"})
            route.fulfill(status=202, content_type="application/json", body=content)
        else:
            route.continue_()

    with view([dashboard_traces.plain(tmp_path / "trace")]) as served:
        timeline = Page(page, served)
        page.route("**/timeline-data?*", answer)
        page.goto(served.base + "/timeline")
        page.wait_for_selector(".tl-cover progress")
        page.wait_for_function(
            "document.querySelector('.tl-cover p')?.textContent.match(/4[1-9] %/)"
        )
        page.locator(BUTTON).focus()
        page.wait_for_timeout(600)  # the button keeps the focus while the progress changes
        assert page.evaluate("document.activeElement.textContent") == "Cancel"
        page.keyboard.press("Enter")
        page.wait_for_selector(f"{BUTTON}:has-text('again')")
        assert "cancelled" in page.inner_text(".tl-cover")
        assert not page.is_visible(".tl-cover progress")
        end = time.monotonic() + HANG_S
        while "cancel" not in asked:  # the page may show the button before the route is called
            assert time.monotonic() < end, asked
            page.wait_for_timeout(LOOK_MS)
        known = len(asked)
        page.wait_for_timeout(600)
        assert len(asked) == known  # the page no longer asks
        busy = False
        page.click(BUTTON)
        timeline.drawn()
        assert not page.is_visible(".tl-cover")
        assert timeline.complaints == []
