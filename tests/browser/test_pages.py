"""Every page of eight traces, in both themes and at three widths, beside reviewed pictures.

Every picture of a page, and of the HTML report, has its explanation and its menu.

`make screenshots` renews the pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mpiprof.dashboard.pages import list_pages, list_unlisted
from support.accessibility import find_violations, walk_by_tab
from support.dashboard_server import Browser, view
from support.dashboard_traces import empty
from support.page_pictures import OUTLINE, REVIEWED, compare_picture
from support.page_traces import TRACES, write_traces

from mpiprof.__main__ import main

PATHS = (
    *(page.PATH for page in list_pages()), "/callsites?callsite=0", "/compare?with=second",
)  # fmt: skip
# They do not depend on the trace, and are opened for one.
UNLISTED = (*(page.PATH for page in list_unlisted()), "/runs", "/history")
WIDTHS = (390, 1920, 1280)
# One trace is enough before a change lands; the rest runs in continuous integration.
ALWAYS = "sixty-four"
VISITS = [
    pytest.param(name, marks=() if name == ALWAYS else pytest.mark.slow)
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
MESSAGES = "/callsites?callsite=waitall:"  # the link of the overview adds the site
PICTURED = {
    "sixty-four": (
        *(MESSAGES, "/", "/callsites?callsite=0&sizes=1", "/messages", "/functions", "/live"),
        *("/compare?with=second", "/algorithms"),
    ),
    "hung": ("/live",),
}
FORMATS = {"svg", "png", "csv", "link"}
# Names of the pictures without an explanation or without a menu. Pictures in rows of tables are
# explained by the heading of their column. Two widths of a picture share one menu.
PICTURE_FAULTS = """(formats) => {
    const pictures = [...document.querySelectorAll("#page svg[role=img], #page .js-plotly-plot")]
        .filter((one) => !one.closest("table, [role=grid], .js-plotly-plot .js-plotly-plot"));
    const has = (picture, found) => {
        for (let at = picture.parentElement; at && at.id !== "page"; at = at.parentElement) {
            if (found(at)) return true;
            if (at.matches("section, .card")) return false;
        }
        return false;
    };
    const menus = (at) => [...at.querySelectorAll(".picture-menu")].some((menu) =>
        formats.every((name) => menu.querySelector(`button[value=${name}]`)));
    const explains = (at) => at.querySelector(".how-to-read p")?.textContent.length > 40;
    const name = (one) => one.getAttribute("aria-label") || one.parentElement.id;
    return [pictures.length, pictures.flatMap((one) => [
        ...(has(one, menus) ? [] : [`${name(one)}: no menu`]),
        ...(has(one, explains) ? [] : [`${name(one)}: no explanation`])])];
}"""
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
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder of the traces and an empty one."""
    folder = tmp_path_factory.mktemp("traces")
    with write_traces(folder):
        empty(folder / "empty")
        yield folder


@pytest.fixture(scope="module")
def browser(chrome: Any, traces: Path) -> Iterator[Browser]:
    """Serve the traces, and return a logged-in browser."""
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    with view([traces]) as shown:
        yield Browser(context.new_page(), shown)
    context.close()


def open_page(browser: Browser, path: str, name: str) -> None:
    """Open a page of a trace."""
    browser.go(f"{path}{'&' if '?' in path else '?'}trace={name}")


def find_faults(browser: Browser, name: str, widths: Sequence[int]) -> list[str]:
    """Return the faults of the open page of a trace at some widths."""
    beyond = map(browser.overflow, widths)
    faults = [f"scrolls sideways, {elements}" for elements in beyond if elements]
    text = browser.page.inner_text("main")
    if "This failed" in text or len(text) < 20:
        faults.append(f"shows {text[:200]!r}")
    if STATES.get(name, "") not in browser.text():
        faults.append("does not report the state of the trace")
    if name in CHECKED_BY_AXE:
        faults += find_violations(browser)
    faults += browser.complaints
    browser.complaints.clear()
    return faults


@pytest.mark.heavy
@pytest.mark.parametrize("name", VISITS)
def test_pages_fit_and_have_content(browser: Browser, name: str) -> None:
    """No page complains on the console, fails to load a file, scrolls sideways or is blank.

    Every second page is opened in the dark theme. Each then changes to the other theme, in which
    it has the same layout, so that one width is enough.
    """
    browser.complaints.clear()
    faults, themes = [], ["light", "dark"]
    browser.choose_theme(themes[0])
    for path in (*PATHS, *UNLISTED * (name == "sixty-four")):
        open_page(browser, path, name)
        for theme, widths in zip(themes, (WIDTHS, WIDTHS[-1:]), strict=True):
            browser.choose_theme(theme)
            faults += [f"{path}, {theme}: {text}" for text in find_faults(browser, name, widths)]
        themes.reverse()
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_every_picture_has_its_explanation_and_its_menu(browser: Browser) -> None:
    faults = []
    for name, paths in PICTURED.items():
        browser.go(f"/?trace={name}")
        for path in paths:
            if path == MESSAGES:
                link = browser.page.locator("a[href*='waitall%3A'], a[href*='waitall:']").first
                path = str(link.get_attribute("href")).partition("&trace")[0]
            open_page(browser, path, name)
            count, of_page = browser.page.evaluate(PICTURE_FAULTS, sorted(FORMATS))
            faults += [f"{path} of {name}: {fault}" for fault in of_page]
            if not count:
                faults.append(f"{path} of {name}: no picture")
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_every_picture_of_the_html_report_is_explained(traces: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert main(["report", str(traces / "sixty-four"), "-o", str(target)]) == 0
    page = re.sub(r"(?s)<table.*?</table>", "", target.read_text())
    sections = [text for text in re.split(r"<section", page) if 'role="img"' in text]
    assert len(sections) >= 3
    assert [text[:200] for text in sections if "How to read" not in text] == []


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
