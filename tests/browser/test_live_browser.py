"""Live page of a hung job: verdict and pictures, and a refresh that replaces only what changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.dashboard_server import Browser, chromium, view
from support.page_traces import write_traces

pytestmark = pytest.mark.slow

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


def test_a_refresh_keeps_nodes_focus_scroll_and_open_details(tmp_path: Path) -> None:
    with write_traces(tmp_path, ["hung"]) as traces, view(traces) as running, chromium() as started:
        browser = Browser(started.new_page(), running, "/live")
        page = browser.page
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
