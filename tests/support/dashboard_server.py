"""A dashboard as users run it: `view` in a separate process, and a browser that shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support import ROOT
from support.jobs import clean_environment
from support.wait_until import HANG_S

SCREENSHOTS = ROOT / "build" / "screenshots"
FONTS = Path(__file__).with_name("fonts.conf")
CHROMIUM = "/usr/bin/chromium-headless-shell"  # without a GUI, it computes a quarter less
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
]
TIMEOUT_MS = 1000 * HANG_S
QUIET = 5  # checks of LOOK_MS that find an idle page; then it is complete
LOOK_MS = 50
REDRAW_S = 60.0  # in which figures take the width of a page that has become narrower
# Resolves when the page has handled earlier input and has drawn the result.
FRAMES = """new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"""
# True while a callback of Dash is due or active, or the timeline draws; other pages have no store.
LOADING = """window.store?.getState().isLoading === true
    || document.querySelector("#timeline[aria-busy=true]") !== null"""
# True if the page is that of the address; a callback that has not begun shows the page before.
OF_ADDRESS = """(() => {
    const state = window.store?.getState();
    const path = state?.paths?.strs?.shown;
    const shown = path?.reduce((part, key) => part?.[key], state.layout)?.props?.data;
    if (!shown) return true;
    const traces = [shown[1], location.search].map((q) => new URLSearchParams(q).get("trace"));
    const same = traces.includes(null) || traces[0] === traces[1];
    return shown[0] === location.pathname && same;
})()"""
THEME = "document.documentElement.dataset.theme"
GO = """([pathname, search]) => {
    window.history.pushState(window.history.state, "", pathname + search);
    window.dash_clientside.set_props("url", { pathname, search, href: window.location.href });
}"""
WIDE = "document.documentElement.scrollWidth"
# Elements that reach beyond the right edge of the page.
OVERFLOWING = """[...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(-3)
    .map((e) => `${e.tagName} #${e.id} .${e.getAttribute("class")}`).join(", ")"""
# Chromium's complaints about this machine, not about the pages.
OF_THE_MACHINE = re.compile(r"GPU|GL Driver|WebGL|Task queue")


class View:
    """A running `view`: `base` is its address without path, `token` grants access."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        self.base, self.token = address.split("/?token=")


@contextmanager
def view(traces: Sequence[Path], *options: str, cwd: Path | None = None) -> Iterator[View]:
    """Run `view` on some traces, on a free port, and end it."""
    words = [sys.executable, "-m", "mpiprof", "view", *map(str, traces), "--no-browser"]
    process = subprocess.Popen(
        [*words, "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        cwd=cwd,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), f"view printed {address!r}"
        yield View(process, address)
    finally:
        process.terminate()
        process.wait(HANG_S)


class Browser:
    """Chromium on a path of a view, logged in; collects complaints of its console and requests."""

    def __init__(self, page: Any, shown: View, path: str = "/") -> None:
        self.page = page
        self.view = shown
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.under_way = 0
        page.set_default_timeout(TIMEOUT_MS)
        page.on("console", self._record_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._count_request)
        page.on("requestfinished", self._count_response)
        page.on("requestfailed", self._count_response)
        page.on("response", self._record_error)
        page.goto(f"{shown.base}{path}{'&' if '?' in path else '?'}token={shown.token}")
        self.settled()

    def _record_message(self, message: Any) -> None:
        if message.type in ("error", "warning") and not OF_THE_MACHINE.search(message.text):
            self.complaints.append(message.text)

    def _count_request(self, request: Any) -> None:
        self.under_way += 1
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(request.url.split("/")[2])

    def _count_response(self, _: Any) -> None:
        self.under_way -= 1

    def _record_error(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    def open(self, path: str) -> None:
        """Open a path with its query, and wait until everything on it is loaded."""
        self.under_way = 0
        self.page.goto(self.view.base + path)
        self.settled()

    def go(self, path: str) -> None:
        """Change to a path with its query as a link does, without a reload, and wait."""
        address, _, query = path.partition("?")
        self.page.evaluate(GO, [address, f"?{query}" if query else ""])
        self.reached(path)

    def overflow(self, width: int) -> str:
        """Set the width of the page; return the elements beyond it that make the page scroll."""
        self.page.set_viewport_size({"width": width, "height": 900})
        end = time.monotonic() + REDRAW_S
        while (wide := self.page.evaluate(WIDE)) > width:
            if time.monotonic() > end:
                return f"{wide} > {width} px: {self.page.evaluate(OVERFLOWING)}"
            self.page.wait_for_timeout(LOOK_MS)
        return ""

    def choose_theme(self, theme: str) -> None:
        """Choose "light" or "dark" by the page's button, and wait until the page is rebuilt."""
        if self.page.evaluate(THEME) != theme:
            self.page.evaluate("document.getElementById('theme-switch').click()")
            self.until(f"{THEME} === '{theme}'")
            self.settled()

    def settled(self) -> None:
        """Wait until the page is built, and no request or callback is active.

        A check ends with frames of the page, so checks take longer on a slow machine.
        """
        self.page.wait_for_selector("#page > *")
        quiet, end = 0, time.monotonic() + HANG_S
        while quiet < QUIET:
            assert time.monotonic() < end, "requests are still under way"
            self.page.wait_for_timeout(LOOK_MS)
            self.frames()
            idle = self.under_way <= 0 and not self.page.evaluate(LOADING)
            idle = idle and self.page.evaluate(OF_ADDRESS)
            quiet = quiet + 1 if idle else 0

    def frames(self) -> None:
        """Wait until the page has handled all input, and has drawn the result."""
        self.page.evaluate(FRAMES)

    def point(self, x: float, y: float) -> None:
        """Move the pointer, and wait until the page has handled the move."""
        self.page.mouse.move(x, y)
        self.frames()

    def reached(self, ending: str) -> None:
        """Wait until the address ends with `ending` and its page is built."""
        end = time.monotonic() + HANG_S
        while not self.page.url.endswith(ending):
            assert time.monotonic() < end, f"{self.page.url} never became {ending}"
            self.page.wait_for_timeout(LOOK_MS)
        self.settled()

    def until(self, expression: str) -> None:
        """Wait until an expression is true on the page.

        Playwright's own wait evaluates text on the page, which the dashboard's content security
        policy forbids.
        """
        end = time.monotonic() + HANG_S
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"never came true: {expression}"
            self.page.wait_for_timeout(LOOK_MS)

    def shot(self, name: str, *, whole: bool = True) -> None:
        """Store a screenshot of the page for people."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=whole)

    def text(self) -> str:
        """Return the text of the page."""
        return str(self.page.inner_text("body"))


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Debian's Chromium without a GUI; skips if it is not installed."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium-headless-shell")
    sync_api = pytest.importorskip("playwright.sync_api")
    sync_api.expect.set_options(timeout=TIMEOUT_MS)
    with sync_api.sync_playwright() as playwright:
        fonts = {**os.environ, "FONTCONFIG_FILE": str(FONTS)}
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, env=fonts)
        try:
            yield started
        finally:
            started.close()
