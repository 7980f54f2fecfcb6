"""Theme of the pages: graphs and the grid change their colours and keep their nodes and zoom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import Browser, View, view
from support.page_traces import write_traces

pytestmark = pytest.mark.slow

GRAPHS = (
    *("/callsites?callsite=0", "/messages", "/messages?cell=47:48", "/functions"),
    "/algorithms?of=bcast&name=chain&p=6",
)
PLOTS = "[...document.querySelectorAll('#page .js-plotly-plot')]"
MARK = f"{PLOTS}.forEach((plot) => {{ plot.marked = true; }})"
# All texts of the figures of a page, among them its colours.
TEXTS = f"""(() => {{
    const texts = (node) => typeof node === "string" ? [node]
        : Array.isArray(node) ? node.flatMap(texts)
        : node?.constructor === Object
        ? Object.keys(node).sort().flatMap((key) => texts(node[key])) : [];
    return {PLOTS}.map((plot) => [...texts(plot.data), ...texts(plot.layout)]);
}})()"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve a trace of 64 ranks with samples."""
    folder = tmp_path_factory.mktemp("traces")
    with write_traces(folder, ["sixty-four"]) as traces, view(traces) as started:
        yield started


@pytest.fixture(scope="module")
def browser(chrome: Any, shown: View) -> Browser:
    """Return a logged-in browser."""
    return Browser(chrome.new_context(viewport={"width": 1280, "height": 900}).new_page(), shown)


@pytest.mark.parametrize("path", GRAPHS)
def test_graphs_change_theme_as_if_the_page_had_been_opened_in_it(
    browser: Browser, path: str
) -> None:
    browser.complaints.clear()
    browser.choose_theme("dark")
    browser.open(path)
    wanted = browser.page.evaluate(TEXTS)
    browser.choose_theme("light")
    browser.open(path)
    light = browser.page.evaluate(TEXTS)
    assert light != wanted and all(light)
    browser.page.evaluate(MARK)
    browser.choose_theme("dark")
    assert browser.page.evaluate(TEXTS) == wanted
    browser.choose_theme("light")
    assert browser.page.evaluate(TEXTS) == light
    assert browser.page.evaluate(f"{PLOTS}.every((plot) => plot.marked)")
    assert not browser.complaints


def test_a_change_of_theme_keeps_zoom_and_grid(browser: Browser) -> None:
    browser.choose_theme("light")
    browser.open("/messages")
    browser.page.evaluate(f"window.Plotly.relayout({PLOTS}[0], {{'xaxis.range': [10, 20]}})")
    browser.choose_theme("dark")
    assert browser.page.evaluate(f"{PLOTS}[0]._fullLayout.xaxis.range") == [10, 20]
    browser.open("/callsites")
    browser.page.evaluate("document.querySelector('.ag-row').marked = true")
    browser.choose_theme("light")
    browser.until("document.querySelector('#callsite-grid.ag-theme-quartz') !== null")
    assert browser.page.evaluate("document.querySelector('.ag-row').marked")


def test_a_removed_trace_is_reported_on_all_pages(tmp_path: Path, chrome: Any) -> None:
    with write_traces(tmp_path, ["four"]) as traces, view(traces) as running:
        browser = Browser(chrome.new_context().new_page(), running)
        traces[0].rename(tmp_path / "elsewhere")
        for path in ("/live", "/callsites", "/"):
            browser.go(f"{path}?trace=four")
            browser.page.wait_for_selector("#live-strip .notice")
            assert "was removed, moved or renamed" in browser.page.inner_text("#live-strip")
        browser.go("/live?trace=four")
        text = browser.page.inner_text("main")
        assert "state of the job is unknown" in text and "Put the trace back" in text
        assert not browser.complaints, json.dumps(browser.complaints)
