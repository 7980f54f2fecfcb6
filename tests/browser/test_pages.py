"""Every page of eight traces, in both themes and at three widths, beside reviewed pictures.

`make screenshots` renews the pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mpiprof.dashboard.pages import list_pages, list_unlisted
from support.accessibility import find_violations, walk_by_tab
from support.dashboard_server import Browser, View, view
from support.dashboard_traces import empty
from support.page_pictures import OUTLINE, REVIEWED, compare_picture
from support.page_traces import TRACES, write_traces

PATHS = (
    *(page.PATH for page in list_pages()), "/callsites?callsite=0", "/compare?with=second",
)  # fmt: skip
# They do not depend on the trace, and are opened for one.
UNLISTED = (*(page.PATH for page in list_unlisted()), "/runs", "/history")
WIDTHS = (390, 1920, 1280)
# One trace in one theme is enough before a change lands; the rest runs in continuous integration.
ALWAYS = ("sixty-four", "light")
VISITS = [
    pytest.param(name, theme, marks=() if (name, theme) == ALWAYS else pytest.mark.slow)
    for theme in ("light", "dark")
    for name in (*TRACES, "empty")
]
# Sentence on the state of a trace that all its pages show.
STATES = {
    "empty": "No MPI call was recorded",
    "hung": "Ranks wait for each other in a circle",
    "damaged": "Trace is incomplete",
    "summary": "This trace has only totals",
}
CHECKED_BY_AXE = ("sixty-four", "hung", "damaged")
LARGEST_SUM = 2_000_000  # bytes of the reviewed pictures
DESK, PHONE = (1280, 900), (390, 844)
# Page, theme and size of each reviewed picture.
PICTURES = {
    "overview": ("/?trace=sixty-four", "light", DESK),
    "overview-dark": ("/?trace=sixty-four", "dark", DESK),
    "overview-phone": ("/?trace=sixty-four", "light", PHONE),
    "overview-empty": ("/?trace=empty", "light", DESK),
    "overview-damaged": ("/?trace=damaged", "light", DESK),
    "overview-hung": ("/?trace=hung", "light", DESK),
    "overview-thousand": ("/?trace=thousand", "light", DESK),
    "callsites": ("/callsites?trace=sixty-four", "light", DESK),
    "callsite": ("/callsites?callsite=0&trace=sixty-four", "light", DESK),
    "timeline": ("/timeline?trace=sixty-four", "light", DESK),
    "timeline-dark": ("/timeline?trace=sixty-four", "dark", DESK),
    "timeline-thousand": ("/timeline?trace=thousand", "light", DESK),
    "timeline-summary": ("/timeline?trace=summary", "light", DESK),
    "messages": ("/messages?trace=sixty-four", "light", DESK),
    "messages-summary": ("/messages?trace=summary", "light", DESK),
    "compare": ("/compare?trace=sixty-four&with=second", "light", DESK),
    "live-hung": ("/live?trace=hung", "light", DESK),
    "algorithms": ("/algorithms?of=bcast&name=chain&p=6", "light", DESK),
    "functions": ("/functions?trace=sixty-four", "light", DESK),
    "runs": ("/runs", "light", DESK),
    "history": ("/history?program=cfd3d+on+64+ranks", "light", DESK),
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve the folder of the traces and an empty one."""
    folder = tmp_path_factory.mktemp("traces")
    with write_traces(folder):
        empty(folder / "empty")
        with view([folder]) as started:
            yield started


@pytest.fixture(scope="module")
def browser(chrome: Any, shown: View) -> Browser:
    """Return a logged-in browser."""
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    return Browser(context.new_page(), shown)


def open_page(browser: Browser, path: str, name: str) -> None:
    """Open a page of a trace."""
    browser.go(f"{path}{'&' if '?' in path else '?'}trace={name}")


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "theme"), VISITS)
def test_pages_fit_and_have_content(browser: Browser, name: str, theme: str) -> None:
    """No page complains on the console, fails to load a file, scrolls sideways or is blank."""
    browser.complaints.clear()
    browser.choose_theme(theme)
    faults = []
    for path in (*PATHS, *UNLISTED * (name == "sixty-four")):
        open_page(browser, path, name)
        beyond = [browser.overflow(width) for width in WIDTHS]
        text = browser.page.inner_text("main")
        of_page = [f"scrolls sideways, {elements}" for elements in beyond if elements]
        if "This failed" in text or len(text) < 20:
            of_page.append(f"shows {text[:200]!r}")
        if STATES.get(name, "") not in browser.text():
            of_page.append("does not report the state of the trace")
        if name in CHECKED_BY_AXE:
            of_page += find_violations(browser)
        faults += [f"{path}: {fault}" for fault in (*of_page, *browser.complaints)]
        browser.complaints.clear()
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_the_keyboard_reaches_everything_with_visible_focus(browser: Browser) -> None:
    faults = []
    for path in (*PATHS, *UNLISTED):
        open_page(browser, path, "sixty-four")
        faults += [f"{path}: {fault}" for fault in walk_by_tab(browser)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_pages_look_like_their_pictures(browser: Browser, request: pytest.FixtureRequest) -> None:
    renew = request.config.getoption("--renew-pictures")
    faults = []
    for name, (path, theme, (width, height)) in PICTURES.items():
        browser.page.set_viewport_size({"width": width, "height": height})
        browser.choose_theme(theme)
        browser.go(path)
        if name == "runs":
            browser.until("!document.querySelector('#runs-progress').innerText")
        if name == "history":
            browser.page.wait_for_selector(".history-picture")
        taken = browser.page.screenshot(animations="disabled")
        faults.append(compare_picture(taken, name, renew=renew))
    assert not any(faults), "\n".join(filter(None, faults))


def test_each_page_has_a_picture_and_each_picture_a_page() -> None:
    paths = {page.PATH for page in (*list_pages(of_folder=True), *list_unlisted())}
    assert paths == {urlsplit(path).path for path, _, _ in PICTURES.values()}
    assert {Path(path).stem for path in REVIEWED.glob("*.png")} == {*PICTURES, OUTLINE}
    assert sum(path.stat().st_size for path in REVIEWED.glob("*.png")) <= LARGEST_SUM
