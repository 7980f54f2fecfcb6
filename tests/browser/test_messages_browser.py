"""Call sites of messages in the grid, their detail view, and the matrix of messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from support.dashboard_server import Browser, View, view
from support.neighbours import make_ring
from support.program import Program

pytestmark = pytest.mark.slow

MS = 1_000_000
RANKS, LATE = 16, 5
MATRIX = "document.querySelector('#{} .js-plotly-plot').data[0]"


def halo(folder: Path, collectives: bool) -> Path:
    """Write a halo exchange of a ring; one rank works 2 ms longer in each step."""
    program = Program(RANKS)
    work = np.full(RANKS, MS // 10) + 2 * MS * (np.arange(RANKS) == LATE)
    for _ in range(20):
        program.halo(make_ring(RANKS), own_ns=work, bytes_=4096)
        if collectives:
            program.collective("allreduce")
    return program.write(folder, finalize=collectives)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve a trace with messages and collectives, and one with messages alone."""
    folder = tmp_path_factory.mktemp("messages")
    with view([halo(folder / "both", True), halo(folder / "alone", False)]) as running:
        yield running


@pytest.fixture
def browser(chrome: Any, shown: View) -> Iterator[Browser]:
    """Open the overview; after the test, require an empty console."""
    context = chrome.new_context(viewport={"width": 1440, "height": 900})
    opened = Browser(context.new_page(), shown)
    yield opened
    assert not opened.complaints
    context.close()


def headings(browser: Browser) -> list[str]:
    """Return the headings of the grid."""
    return [h.inner_text() for h in browser.page.query_selector_all(".ag-header-cell-text")]


def test_a_row_of_messages_opens_its_pairs(browser: Browser) -> None:
    browser.open("/callsites?trace=both")
    page = browser.page
    assert {"calls", "mostly for", "ω", "arrives last", "cause"} <= set(headings(browser))
    page.click("text=halo.py:13 exchange")
    browser.until("location.search.includes('callsite=waitall')")
    browser.settled()
    assert f"Rank {LATE} causes " in page.inner_text("h1.headline")
    label = page.get_attribute(".callsite-waits .picture.wide svg", "aria-label")
    assert label and label.startswith(f"Rank {LATE} causes ")
    matrix = MATRIX.format("message-pairs")
    page.wait_for_selector("#message-pairs .js-plotly-plot")
    assert page.evaluate(f"{matrix}.x.length") == RANKS
    waiting = page.evaluate(f"{matrix}.text[{LATE + 1}][{LATE}]")
    assert waiting.endswith(" ms")
    browser.shot("messages-callsite")


def test_the_matrix_lists_the_pairs_of_a_cell_and_opens_them(browser: Browser) -> None:
    browser.open("/messages?trace=both")
    page = browser.page
    page.wait_for_selector("#messages-matrix .js-plotly-plot")
    assert page.inner_text("#messages-sentence h1").startswith(f"Rank {LATE} causes ")
    assert f"for messages of rank {LATE}" in page.inner_text("#messages-sentence")
    plot = page.locator("#messages-matrix .nsewdrag")
    box = plot.bounding_box()
    place = {"x": box["width"] * (LATE + 0.5) / RANKS, "y": box["height"] * (LATE + 1.5) / RANKS}
    plot.hover(position=place)
    browser.until("document.querySelector('#messages-matrix .js-plotly-plot')._hoverdata")
    plot.click(position=place)
    browser.until(f"location.search.includes('cell={LATE + 1}%3A{LATE}')")
    browser.settled()
    assert page.locator(".messages-table tbody tr").count() == 1
    shapes = "document.querySelector('#messages-matrix .js-plotly-plot').layout.shapes"
    assert page.evaluate(f"{shapes}[0].x0") == LATE - 0.5
    browser.shot("messages-cell")
    page.click(".messages-table .number a")
    browser.until("location.pathname === '/timeline'")
    assert f"rank={LATE + 1}%2C+{LATE}" in page.url and "from=" in page.url
    browser.settled()
    browser.open("/messages?trace=both&pairs=bytes")
    text = f"{MATRIX.format('messages-matrix')}.text[{LATE}][{LATE + 1}]"
    assert page.evaluate(text) == "80.0 KB"
    page.click(".steps[role=group] >> text=messages >> nth=1")
    browser.until("location.search.includes('pairs=messages')")
    browser.settled()
    assert page.evaluate(text) == "20"


def test_the_answer_leads_to_a_delay_of_the_late_rank(browser: Browser) -> None:
    """The timeline opens at one delay of 2 ms, with the waits around it, not at the whole run."""
    browser.open("/?trace=both")
    browser.page.click(f"text=Show rank {LATE} in the timeline")
    browser.until("location.pathname === '/timeline'")
    browser.settled()
    query = parse_qs(urlsplit(browser.page.url).query)
    begin, end = int(query["from"][0]), int(query["to"][0])
    assert 2 * MS <= end - begin <= 10 * MS
    assert "late: the cause" in browser.text()


def test_a_run_with_messages_alone_has_all_pages(browser: Browser) -> None:
    browser.open("/?trace=alone")
    assert f"Rank {LATE} works 2.00 ms longer than the other ranks" in browser.text()
    assert "for messages" in browser.text()
    assert "halo.py:13 exchange" in browser.text()
    browser.open("/callsites?trace=alone")
    assert "calls" in headings(browser) and "ω" not in headings(browser)
    browser.shot("messages-alone")


def test_every_picture_has_downloads_and_a_link(browser: Browser) -> None:
    """A figure of Plotly and a picture of the server: the same menu, and no CSS variable left."""
    page = browser.page
    for path, picture in (
        ("/messages?trace=both", ".picture:has(#messages-matrix)"),
        ("/compare?trace=both&with=alone", ".picture:not(:has(.js-plotly-plot))"),
    ):
        browser.open(path)
        menu = page.locator(f"{picture} .picture-menu").first
        for name, beginning in (("svg", b"<svg"), ("png", b"\x89PNG"), ("csv", None)):
            menu.locator("summary").click()
            with page.expect_download() as download:
                menu.locator(f"button[value={name}]").click()
            content = Path(download.value.path()).read_bytes()
            rows = b"series,x,y,value" if "mess" in path else b"runs,run_time_ns"
            assert content.startswith(beginning or rows)
            assert b"var(--" not in content
            assert download.value.suggested_filename.endswith(f".{name}")
        menu.locator("summary").click()
        menu.locator("button[value=link]").click()
        assert menu.locator("button[value=link]").inner_text() == "Link copied"
        page.keyboard.press("Escape")
        assert not page.locator(".picture-menu[open]").count()
