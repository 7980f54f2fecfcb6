"""Pages of hung and running jobs: a refresh replaces only what changed, and keeps the focus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import Browser, view
from support.dashboard_traces import MS
from support.page_traces import write_traces
from support.synthetic import Synthetic
from support.timeline_page import Page

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api").expect

# Marks the nodes of all sections, and counts the later changes outside of the state line.
WATCH = """() => {
    window.changes = [];
    for (const node of document.querySelectorAll("#live section > *")) node.marked = true;
    const options = { childList: true, subtree: true, characterData: true,
        attributeFilter: ["class", "style", "open"] };
    new MutationObserver((records) => {
        for (const { target, type } of records) {
            const element = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
            const section = element.closest("section")?.id;
            if (section !== "live-state") window.changes.push(`${section} ${type}`);
        }
    }).observe(document.getElementById("live"), options);
}"""
UNMARKED = """[...document.querySelectorAll("#live section:not(#live-state) > *")]
    .filter((node) => !node.marked).length"""


def test_a_refresh_keeps_nodes_focus_scroll_and_open_details(tmp_path: Path, page: Any) -> None:
    with write_traces(tmp_path, ["hung"]) as traces, view(traces) as running:
        browser = Browser(page, running, "/live")
        page.wait_for_selector("#live-graph svg")
        title = page.locator("#live-state h2")
        assert title.inner_text().startswith("Blocked in point-to-point, for ")
        sentence = page.locator("#live-verdict p").first.inner_text()
        assert "rank 5 waits in recv" in sentence and "for tag 7 from rank 2" in sentence
        assert page.locator("#live-graph svg [stroke^='var(--late']").count() >= 4
        summary = page.locator("#live-graph .how-to-read summary")
        summary.click()
        page.locator("#live-actions summary").click()
        summary.focus()
        page.evaluate("window.scrollTo(0, 240)")
        page.evaluate(WATCH)
        text = title.inner_text()
        for _ in range(2):
            browser.until(f"document.querySelector('#live-state h2').innerText !== {text!r}")
            text = title.inner_text()
        assert page.evaluate("window.changes") == []
        assert page.evaluate(UNMARKED) == 0
        assert page.evaluate("document.activeElement.innerText") == "How to read this"
        assert page.locator("#live details[open]").count() == 2
        assert page.evaluate("window.scrollY") == 240
        assert "kill " in page.locator("#live-actions details code").inner_text()
        assert not browser.complaints
        browser.shot("live-hung")


def growing(folder: Path, instances: int) -> None:
    """Write the trace of a running job."""
    trace = Synthetic(4)
    at = 10_000 + np.arange(instances)[:, None] * MS + np.arange(4) * 1000
    trace.add_collective("barrier", at, at.max(1, keepdims=True) + np.arange(1, 5) * 100, sent=0)
    trace.write(folder, finished=False)


def test_a_running_job_is_followed(page: Any, tmp_path: Path) -> None:
    growing(tmp_path / "job", 20)
    with view([tmp_path / "job"]) as started:
        timeline = Page(page, started)
        timeline.timeline()
        _, low, high = timeline.drawn()
        assert low == 0
        assert high == pytest.approx(20 * MS, rel=0.06)
        growing(tmp_path / "job", 50)
        expect(page.locator(".tl-status")).to_contain_text("50 instances")
        assert timeline.drawn()[2] > 45 * MS
        timeline.key("w")
        timeline.key(".")
        window = timeline.query["from"], timeline.query["to"]
        timeline.key("x")
        time_input = page.get_by_label("From", exact=True)
        time_input.fill("12")
        time_input.press("ArrowLeft")
        growing(tmp_path / "job", 80)
        expect(page.locator(".tl-status")).to_contain_text("80 instances")
        query = timeline.query
        assert (query["from"], query["to"]) == window  # growth moves no zoomed view
        page.keyboard.type(".5 ms ")
        expect(time_input).to_have_value("1.5 ms 2")  # growth takes neither focus nor text
        time_input.fill("1.5 ms")
        time_input.press("Enter")
        timeline.settled()
        assert timeline.query["select"].startswith("1500000-")
        assert page.locator(".tl-detail details tbody tr").count() == 4
        assert timeline.complaints == []
