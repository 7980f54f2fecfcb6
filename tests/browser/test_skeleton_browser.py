"""Outline of a page: visible before any script or style has loaded, until the page is complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.dashboard_server import TIMEOUT_MS, Browser, View, view
from support.dashboard_traces import plain
from support.page_pictures import OUTLINE, compare_picture

pytestmark = pytest.mark.slow

PAGES = {
    "Overview": "/",
    "Call sites": "/callsites",
    "Timeline": "/timeline",
    "Compare": "/compare",
    "Live": "/live",
}
FILE = re.compile(r"\.(m?js|css)(\?|$)")
ANSWER = re.compile(r"/(_dash-update-component|timeline-data)")
PAINTED = "performance.getEntriesByName('first-contentful-paint').length > 0"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve two traces."""
    base = tmp_path_factory.mktemp("traces")
    with view([plain(base / "first", 5), plain(base / "second", 5)]) as started:
        yield started


@pytest.fixture(scope="module")
def context(chrome: Any, shown: View) -> Any:
    """Return a logged-in browser context."""
    browser_context = chrome.new_context(viewport={"width": 1280, "height": 900})
    Browser(browser_context.new_page(), shown)
    return browser_context


class Held:
    """Requests that are blocked until they are released."""

    def __init__(self, page: Any, pattern: re.Pattern[str], containing: str = "") -> None:
        self.containing, self.open = containing, False
        self.routes: list[Any] = []
        page.route(pattern, self.keep)

    def keep(self, route: Any) -> None:
        """Block a matching request; pass it if it does not match or all are released."""
        if self.open or self.containing not in (route.request.post_data or ""):
            route.continue_()
        else:
            self.routes.append(route)

    def release(self) -> None:
        """Release all blocked and all later requests."""
        self.open = True
        while self.routes:
            self.routes.pop().continue_()


@pytest.mark.parametrize(("title", "path"), PAGES.items())
def test_a_page_has_an_outline_before_any_other_file_and_answer(
    context: Any, shown: View, title: str, path: str, request: pytest.FixtureRequest
) -> None:
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    files, answers = Held(page, FILE), Held(page, ANSWER)
    page.goto(shown.base + path, wait_until="commit")
    outline = page.locator("#skeleton")
    outline.wait_for()
    while not (page.evaluate(PAINTED) and files.routes):
        page.wait_for_timeout(50)
    assert not answers.routes
    assert outline.bounding_box()["height"] > 300
    assert page.locator("#skeleton .here").inner_text() == title
    assert outline.get_attribute("role") == "status"
    if title == "Timeline":
        renew = request.config.getoption("--renew-pictures")
        assert not compare_picture(page.screenshot(animations="disabled"), OUTLINE, renew=renew)
    files.release()
    # The frame exists but no data of the trace: the outline stays below the frame.
    page.locator("#navigation a").first.wait_for()
    page.locator(".skeleton-head").wait_for(state="detached")
    top = page.locator("#run-facts").bounding_box()["y"]
    assert outline.bounding_box()["y"] > top
    assert outline.bounding_box()["height"] > 300
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    answers.release()
    page.locator("#page > *").first.wait_for()
    assert outline.count() == 0
    page.close()


def test_parts_of_a_page_that_take_long_have_an_outline(context: Any, shown: View) -> None:
    """The facts of the run appear first, with outlines of the later figures."""
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    held = Held(page, ANSWER, "overview-time")
    page.goto(shown.base + "/")
    page.locator("#run-facts h1").wait_for()
    part = page.locator("#overview-time")
    while not held.routes:
        page.wait_for_timeout(50)
    assert part.bounding_box()["height"] >= 60
    assert part.evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"
    held.release()
    page.locator("#overview-time svg").first.wait_for()
    assert part.evaluate("e => getComputedStyle(e).backgroundColor") == "rgba(0, 0, 0, 0)"
    page.close()


def test_the_outline_follows_the_scheme_of_the_system(shown: View, context: Any) -> None:
    made = context.browser.new_context(color_scheme="dark", viewport={"width": 400, "height": 800})
    page = made.new_page()
    page.goto(shown.address)
    page.locator("#page > *").first.wait_for()
    files = Held(page, FILE)
    page.goto(shown.base + "/", wait_until="commit")
    page.locator("#skeleton").wait_for()
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(13, 16, 19)"
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    files.release()
    made.close()
