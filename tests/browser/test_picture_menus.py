"""Every picture of every page, and of the HTML report, has its explanation and its menu."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import Browser, view
from support.page_traces import write_traces

from mpiprof.__main__ import main

pytestmark = pytest.mark.slow

MESSAGES = "/callsites?callsite=waitall:"  # the link of the overview adds the site
PATHS = {
    "sixty-four": (
        *(MESSAGES, "/", "/callsites?callsite=0&sizes=1", "/messages", "/functions", "/live"),
        *("/compare?with=second", "/algorithms"),
    ),
    "hung": ("/live",),
    "second": (),
}
FORMATS = {"svg", "png", "csv", "link"}
# Names of the pictures without an explanation or without a menu. Pictures in rows of tables are
# explained by the heading of their column. Two widths of a picture share one menu.
FAULTS = """(formats) => {
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


def test_every_picture_of_a_page_has_its_explanation_and_its_menu(
    tmp_path: Path, chrome: Any
) -> None:
    with write_traces(tmp_path, list(PATHS)) as traces, view(traces) as running:
        browser = Browser(chrome.new_context().new_page(), running)
        faults = []
        for trace, paths in PATHS.items():
            browser.go(f"/?trace={trace}")
            for path in paths:
                if path == MESSAGES:
                    link = browser.page.locator("a[href*='waitall%3A'], a[href*='waitall:']").first
                    path = str(link.get_attribute("href")).partition("&trace")[0]
                browser.go(f"{path}{'&' if '?' in path else '?'}trace={trace}")
                count, of_page = browser.page.evaluate(FAULTS, sorted(FORMATS))
                faults += [f"{path} of {trace}: {fault}" for fault in of_page]
                if not count:
                    faults.append(f"{path} of {trace}: no picture")
        assert not faults, "\n".join(faults)


def test_every_picture_of_the_html_report_is_explained(tmp_path: Path) -> None:
    with write_traces(tmp_path, ["sixty-four"]) as (trace,):
        target = tmp_path / "report.html"
        assert main(["report", str(trace), "-o", str(target)]) == 0
    page = re.sub(r"(?s)<table.*?</table>", "", target.read_text())
    sections = [text for text in re.split(r"<section", page) if 'role="img"' in text]
    assert len(sections) >= 3
    assert [text[:200] for text in sections if "How to read" not in text] == []
