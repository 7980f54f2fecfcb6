"""Pages look like their reviewed pictures; `make screenshots` renews these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import Browser, View, view
from support.dashboard_traces import empty
from support.page_pictures import REVIEWED, compare_picture
from support.page_traces import write_traces

pytestmark = pytest.mark.slow

DESK, PHONE = (1280, 900), (390, 844)
# Page, theme and size of each picture.
PICTURES = {
    "overview": ("/?trace=sixty-four", "light", DESK),
    "overview-dark": ("/?trace=sixty-four", "dark", DESK),
    "overview-phone": ("/?trace=sixty-four", "light", PHONE),
    "overview-empty": ("/?trace=empty", "light", DESK),
    "overview-damaged": ("/?trace=damaged", "light", DESK),
    "callsites": ("/callsites?trace=sixty-four", "light", DESK),
    "callsite": ("/callsites?callsite=0&trace=sixty-four", "light", DESK),
    "timeline": ("/timeline?trace=sixty-four", "light", DESK),
    "timeline-dark": ("/timeline?trace=sixty-four", "dark", DESK),
    "timeline-thousand": ("/timeline?trace=thousand", "light", DESK),
    "timeline-summary": ("/timeline?trace=summary", "light", DESK),
    "messages": ("/messages?trace=sixty-four", "light", DESK),
    "compare": ("/compare?trace=sixty-four&with=second", "light", DESK),
    "live-hung": ("/live?trace=hung", "light", DESK),
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve the traces and an empty one."""
    folder = tmp_path_factory.mktemp("traces")
    with write_traces(folder) as made, view([*made, empty(folder / "empty")]) as started:
        yield started


@pytest.fixture(scope="module")
def browser(chrome: Any, shown: View) -> Browser:
    """Return a logged-in browser."""
    width, height = DESK
    context = chrome.new_context(viewport={"width": width, "height": height})
    return Browser(context.new_page(), shown)


def test_pages_look_like_their_pictures(browser: Browser, request: pytest.FixtureRequest) -> None:
    """Without a reviewed picture, a page is taken only by `make screenshots`."""
    renew = request.config.getoption("--renew-pictures")
    faults = []
    for name, (path, theme, (width, height)) in PICTURES.items():
        if renew or (REVIEWED / f"{name}.png").exists():
            browser.page.set_viewport_size({"width": width, "height": height})
            browser.choose_theme(theme)
            browser.go(path)
            taken = browser.page.screenshot(animations="disabled")
            faults.append(compare_picture(taken, name, renew=renew))
    assert not any(faults), "\n".join(filter(None, faults))


def test_each_picture_belongs_to_a_page() -> None:
    assert {Path(path).stem for path in REVIEWED.glob("*.png")} <= set(PICTURES)
