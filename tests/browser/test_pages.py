"""Every page of eight traces, in both themes and at three widths; accessibility of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mpiprof.dashboard.pages import list_pages, list_unlisted
from support.accessibility import find_violations, walk_by_tab
from support.dashboard_server import Browser, View, view
from support.dashboard_traces import empty
from support.page_traces import TRACES, write_traces

PATHS = (
    *(page.PATH for page in list_pages()), "/callsites?callsite=0", "/compare?with=second",
)  # fmt: skip
# They simulate for seconds and are opened for one trace.
UNLISTED = tuple(page.PATH for page in list_unlisted())
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


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve the traces."""
    folder = tmp_path_factory.mktemp("traces")
    with write_traces(folder) as made, view([*made, empty(folder / "empty")]) as started:
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
