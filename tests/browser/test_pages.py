"""Every page of eight traces, in both themes and at three widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mpiprof.dashboard.pages import list_pages
from support.dashboard_server import Browser, View, view
from support.page_traces import TRACES, eight_traces

PATHS = tuple(page.PATH for page in list_pages())
WIDTHS = (390, 1280, 1920)
# One trace in one theme is enough before a change lands; the rest runs in continuous integration.
ALWAYS = ("sixty-four", "light")
VISITS = [
    pytest.param(name, theme, marks=() if (name, theme) == ALWAYS else pytest.mark.slow)
    for theme in ("light", "dark")
    for name in TRACES
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve the traces."""
    with eight_traces(tmp_path_factory.mktemp("traces")) as traces, view(traces) as started:
        yield started


@pytest.fixture(scope="module")
def browser(chrome: Any, shown: View) -> Browser:
    """Return a logged-in browser."""
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    return Browser(context.new_page(), shown)


@pytest.mark.parametrize(("name", "theme"), VISITS)
def test_pages_fit_and_have_content(browser: Browser, name: str, theme: str) -> None:
    """No page writes to the console, fails to load a file, scrolls sideways or is blank."""
    browser.complaints.clear()
    browser.choose_theme(theme)
    faults = []
    for path in (*PATHS, "/callsites?callsite=0", "/compare?with=second"):
        browser.go(f"{path}{'&' if '?' in path else '?'}trace={name}")
        for width in WIDTHS:
            if beyond := browser.overflow(width):
                faults.append(f"{path} scrolls sideways, {beyond}")
        text = browser.page.inner_text("main")
        if "This failed" in text or len(text) < 20:
            faults.append(f"{path} shows {text[:200]!r}")
        faults += [f"{path}: {complaint}" for complaint in browser.complaints]
        browser.complaints.clear()
    assert not faults, "\n".join(faults)
