"""The dashboard in a real browser: pages, links, filters, keys, attacks; build/screenshots."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import Browser, View, view
from support.dashboard_traces import MS, SCRIPT, empty, hostile, of_size, plain
from support.synthetic import Synthetic

from mpiprof.interface.format_units import (
    format_count,
    format_estimate,
    format_share,
    format_size,
    format_time,
)

pytestmark = pytest.mark.slow

PAGES = ("/", "/callsites", "/timeline", "/algorithms", "/compare", "/live")
TRACES = ("plain", "faster", "empty", "one-rank", "one-instance", "many-ranks", "hostile")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve all traces and a folder of sources."""
    folder = tmp_path_factory.mktemp("traces")
    sources = folder / "sources"
    sources.mkdir()
    (sources / "solver.py").write_text("".join(f"line_{i} = {i}\n" for i in range(1, 40)))
    secret = folder / "secret.py"
    secret.write_text("TOPSECRET\n")
    made = [
        plain(folder / "plain"),
        plain(folder / "faster", 10),
        empty(folder / "empty"),
        of_size(folder / "one-rank", 1, 12),
        of_size(folder / "one-instance", 4, 1),
        of_size(folder / "many-ranks", 600, 6),
        hostile(folder / "hostile", secret),
    ]
    with view(made, "--source", str(sources)) as running:
        yield running


def open_overview(chrome: Any, shown: View, **options: Any) -> tuple[Any, Browser]:
    """Return a context and a logged-in browser."""
    context = chrome.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
    return context, Browser(context.new_page(), shown)


@pytest.fixture(scope="module")
def opened(chrome: Any, shown: View) -> Browser:
    """Return a logged-in browser, shared by the tests so that its cache is shared."""
    return open_overview(chrome, shown)[1]


@pytest.fixture
def browser(opened: Browser, shown: View) -> Iterator[Browser]:
    """Open the overview; after the test, require an empty console and no external requests."""
    opened.complaints.clear()
    opened.open("/")
    yield opened
    assert not opened.complaints
    assert opened.hosts == {shown.base.removeprefix("http://")}, "something from another host"


def test_a_changed_theme_persists(chrome: Any, shown: View) -> None:
    context, browser = open_overview(chrome, shown)
    page = browser.page
    scheme = "document.documentElement.dataset.theme"
    assert page.evaluate(scheme) == "light"
    page.keyboard.press("t")
    browser.until(f"{scheme} === 'dark'")
    browser.open("/")
    assert page.evaluate(scheme) == "dark"
    axis = page.locator("#overview-time text:text-is('computing')").first
    assert axis.evaluate("e => getComputedStyle(e).fill") == "rgb(180, 189, 197)"
    context.close()


def test_the_overview_links_to_the_most_costly_call_site(browser: Browser) -> None:
    text = browser.text()
    assert "8 ranks on 2 nodes" in text
    assert "Rank 5 delayed the other ranks" in text
    browser.page.locator(".sites-table a").first.click()
    browser.page.wait_for_selector("#callsite-pattern .main-svg")
    assert re.search(r"Rank 5 is last in every instance, 2\.0\d ms after", browser.text())
    assert "line_12 = 12" in browser.page.inner_text(".source .meant")


def test_a_link_restores_the_view(chrome: Any, shown: View, browser: Browser) -> None:
    page = browser.page
    browser.open("/callsites")
    page.locator(".ag-row[row-id='1']").first.click()
    page.wait_for_selector("#callsite-pattern .main-svg")
    page.click("text=next ›")
    browser.until("location.search.includes('instance=')")
    page.click("#filters > summary")
    page.fill("#filter-ranks", "0-5")
    page.keyboard.press("Enter")
    browser.until("location.search.includes('rank=0-5')")
    browser.settled()
    link = page.url.removeprefix(shown.base)
    reported = page.inner_text("#callsite-instance .instance-note")
    assert "token" not in link and "callsite=1" in link
    context, other = open_overview(chrome, shown)
    other.open(link)
    assert other.page.inner_text("#callsite-instance .instance-note") == reported
    assert other.page.input_value("#filter-ranks") == "0-5"
    assert "io.py:7 read" in other.page.inner_text(".crumb")
    context.close()
    page.go_back()
    browser.until("!location.search.includes('rank=')")


def test_filters_persist_from_page_to_page(browser: Browser) -> None:
    page = browser.page
    assert page.inner_text("#filters > summary") == "All ranks"
    page.click("#filters > summary")
    page.click("#filter-operations-chosen")
    page.click("#filter-operations >> text=bcast")
    browser.until("location.search === '?operation=bcast'")
    page.keyboard.press("Escape")
    browser.until("document.querySelector('#filter-names').innerText === 'bcast'")
    for link, path in (("Call sites", "/callsites"), ("Compare", "/compare")):
        page.click(f"nav >> text={link}")
        browser.until(f"location.pathname === '{path}'")
        browser.settled()
        assert page.evaluate("location.search") == "?operation=bcast"
        browser.until("document.querySelector('#page').innerText.includes('io.py:7')")
        assert "solver.py:12" not in page.inner_text("#page")
    browser.open("/?operation=bcast&node=n1")
    assert page.evaluate("location.search") == "?operation=bcast&node=n1"
    page.click("#filter-clear")
    browser.until("location.search === ''")
    browser.until("document.querySelector('#filter-names').innerText === 'All ranks'")
    browser.open("/?operation=bcast")
    page.keyboard.press("Escape")
    browser.until("location.search === ''")


def test_arrow_keys_choose_a_call_site(browser: Browser) -> None:
    page = browser.page
    browser.open("/callsites")
    page.locator(".ag-row[row-id='2'] .ag-cell").first.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    browser.until("location.search.includes('callsite=2')")
    page.wait_for_selector("#callsite-pattern .main-svg")


def test_clicking_an_instance_shows_it(browser: Browser) -> None:
    browser.open("/callsites?callsite=0&instance=3")
    assert browser.page.inner_text("#callsite-instance .instance-note").startswith("instance 3 at ")
    plot = browser.page.locator("#callsite-pattern .nsewdrag[data-subplot='xy2']")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    browser.page.mouse.click(box["x"] + box["width"] * 20.5 / 30, box["y"] + box["height"] / 2)
    browser.until("location.search.includes('instance=20')")
    browser.until(
        "document.querySelector('#callsite-instance .instance-note')?.innerText.startsWith("
        "'instance 20 at ')"
    )
    # The marks move with it, and the rows in view are the same at both sides.
    shapes = "document.querySelector('#callsite-pattern .js-plotly-plot').layout.shapes"
    browser.until(f"{shapes}[0].x0 === 20")
    browser.page.evaluate(
        "Plotly.relayout(document.querySelector('#callsite-pattern .js-plotly-plot'),"
        "{'yaxis2.range[0]': 200, 'yaxis2.range[1]': 100})"
    )
    ends = "document.querySelector('#callsite-instance-figure .js-plotly-plot').layout.yaxis2.range"
    browser.until(f"JSON.stringify({ends}) === '[200,100]'")


# Call sites in the order of the grid, which moves rows some time after the request.
ORDER = """JSON.stringify([...document.querySelectorAll('.ag-pinned-left-cols-container .ag-row')]
    .sort((a, b) => a.getAttribute('row-index') - b.getAttribute('row-index'))
    .map((row) => row.getAttribute('row-id')))"""


def test_the_grid_sorts_and_filters(chrome: Any, shown: View, browser: Browser) -> None:
    browser.open("/callsites")
    page = browser.page
    browser.until(f"JSON.parse({ORDER}).length === 3")
    costliest = json.loads(page.evaluate(ORDER))
    up, down = (
        f"{ORDER} === '{json.dumps(o, separators=(',', ':'))}'"
        for o in (costliest[::-1], costliest)
    )
    page.click(".ag-header-cell[col-id='total_wait_ns']")
    browser.until("location.search.includes('sort=-total_wait_ns')")
    browser.until(down)
    page.click(".ag-header-cell[col-id='total_wait_ns']")
    browser.until("location.search.includes('sort=total_wait_ns')")
    browser.until(up)
    _, other = open_overview(chrome, shown)
    other.open(page.url.removeprefix(shown.base))
    other.until(up)

    menu = ".ag-header-cell[col-id='total_wait_ns'] .ag-header-cell-filter-button"
    page.hover(".ag-header-cell[col-id='total_wait_ns']")
    page.click(menu)
    page.locator(".ag-filter input[type=text]").first.fill("100ms")
    browser.until("document.querySelectorAll('.ag-row').length === 2")  # a row and its pinned part
    assert "solver.py:12" in page.inner_text(".ag-pinned-left-cols-container")
    browser.until("location.search.includes('where=')")
    other.open(page.url.removeprefix(shown.base))
    other.until("document.querySelectorAll('.ag-row').length === 2")
    other.page.context.close()


def test_columns_fit_and_further_columns_can_be_shown(browser: Browser) -> None:
    browser.open("/callsites")
    page = browser.page
    ends = "[...document.querySelectorAll('.ag-header-cell')].map((e) => e.getBoundingClientRect())"
    browser.until(f"{ends}.length > 6")
    assert page.evaluate(f"Math.max(...{ends}.map((box) => box.right))") <= 1280
    hidden = ".ag-header-cell[col-id='total_elapsed_ns']"
    assert not page.locator(hidden).count()
    page.click("#column-list-chosen")
    page.click("#column-list a:has(b:text-is('time'))")
    page.wait_for_selector(hidden, state="attached")
    browser.until("location.search.includes('total_elapsed_ns')")
    link = page.url.removeprefix(browser.view.base)
    browser.open("/")
    browser.open(link)
    page.wait_for_selector(hidden, state="attached")


def test_algorithms_are_drawn_as_they_are_chosen(browser: Browser) -> None:
    page = browser.page
    browser.open("/callsites?callsite=0")
    page.wait_for_selector("#callsite-race .main-svg")
    page.click("text=Simulate larger jobs")
    page.wait_for_selector("#callsite-sizes .main-svg")
    page.click("text=Algorithms of allreduce in the catalogue")
    browser.until("location.pathname === '/algorithms'")
    browser.settled()
    assert page.inner_text("#catalogue-menus summary >> nth=0") == "allreduce"
    page.click("#catalogue-menus summary >> nth=0")
    page.get_by_role("link", name="alltoall", exact=True).click()
    browser.until("location.search.includes('of=alltoall')")
    browser.settled()
    assert "cost" in page.inner_text("#catalogue-entry")
    page.wait_for_selector("#catalogue-entry .main-svg")


def test_two_traces_stand_side_by_side(browser: Browser) -> None:
    browser.open("/compare?with=faster")
    assert browser.page.inner_text("#compare-to-chosen") == "faster"
    browser.page.get_by_text("All numbers of each call site").click()
    browser.settled()
    assert "30 → 10" in browser.text()


@pytest.mark.parametrize("name", TRACES[2:])
def test_strange_traces_look_intended(browser: Browser, name: str) -> None:
    look_at(browser, name, PAGES[:3])


@pytest.mark.everything
@pytest.mark.parametrize("name", TRACES[2:])
def test_strange_traces_look_intended_on_the_other_pages(browser: Browser, name: str) -> None:
    look_at(browser, name, PAGES[3:])


def look_at(browser: Browser, name: str, paths: Sequence[str]) -> None:
    """Open and check some pages of a trace."""
    for path in paths:
        browser.open(f"{path}?trace={name}" + ("&callsite=0" if path == "/callsites" else ""))
        assert "This failed" not in browser.text(), path
        wide = browser.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 1280, f"{path} scrolls sideways"
        browser.shot(f"{name}-{path.strip('/') or 'overview'}")
        assert name != "hostile" or path not in PAGES[:2] or SCRIPT in browser.text()
    if name == "hostile":
        assert browser.page.evaluate("window.hacked") is None
        assert "TOPSECRET" not in browser.page.content()


def test_without_the_cookie_the_browser_sees_nothing(chrome: Any, shown: View) -> None:
    context = chrome.new_context()
    page = context.new_page()
    for path in ("/", "/assets/style.css"):
        assert page.goto(shown.base + path).status == 403
    assert "mpiprof" not in page.content()
    context.close()


def test_a_growing_trace_is_followed(chrome: Any, tmp_path: Path) -> None:
    """Half of the records appear later; rank 1 arrives at the last barrier later still."""
    folder = tmp_path / "live"
    growing(5, late=True).write(folder, finished=False)
    with view([folder]) as running:
        context, browser = open_overview(chrome, running)
        browser.open("/live")
        browser.page.wait_for_selector("text=not arrived: 1")
        browser.shot("live")
        browser.open("/callsites?callsite=0")
        facts = "[...document.querySelectorAll('main .facts dd')].map((e) => e.innerText)"
        browser.until(f"{facts}.slice(1, 3).join() === '6,5'")  # instances, known ones
        later = tmp_path / "later"
        growing(11, late=False).write(later, finished=True)
        for file in later.iterdir():
            shutil.copy(file, folder / file.name)
        browser.until(f"{facts}[1] === '11'")
        browser.open("/live")
        assert "The job has ended" in browser.text()
        complaints = browser.complaints
        context.close()
    assert not complaints


def growing(instances: int, *, late: bool) -> Synthetic:
    """Return `instances` barriers of 2 ranks; with `late`, rank 0 enters one more barrier."""
    trace = Synthetic(2)
    begin = 10 * MS + np.arange(instances)[:, None] * MS + np.arange(2) * 1000
    trace.add_collective(
        "barrier", begin, begin + 10_000, sent=0, received=0, site="loop.py:5:main"
    )
    if late:
        last = int(begin[-1, 0]) + MS
        trace.add_collective(
            "barrier", [[last, -1]], [[0, 0]], sent=0, received=0, site="loop.py:5:main"
        )
    trace.ended_ns = 100 * MS
    return trace


def test_pages_write_numbers_as_the_terminal_does(browser: Browser) -> None:
    """The browser formats numbers of the grid and the timeline as the reports do."""
    times = [0, 1, 999, 1000, 9994, 9996, 99_940, 999_499, 999_500, 1e6, 2.5e9, 5.9999e11, 6e11]
    times += [3.7e12, 4.2e13, -1500.0, -7e11]
    sizes = [0, 1024, 4096, 9999, 10_000, 65_536, 1e6, 3e9, 5e12]
    shares = [0, 0.001, 0.004, 0.006, 0.094, 0.5, 1]
    counts = [0, 7, 999, 1000, 123_456, 1e9]
    for name, values, wanted in (
        ("duration", times, format_time),
        ("size", sizes, format_size),
        ("share", shares, format_share),
        ("count", counts, format_count),
    ):
        script = f"values => values.map(window.dashAgGridFunctions.{name})"
        assert browser.page.evaluate(script, values) == [wanted(value) for value in values]
    script = "values => values.map((v) => window.dashAgGridFunctions.counted(v.value, v))"
    cells = [{"value": 3950, "data": {"instances": of}} for of in (39, 3950)]
    assert browser.page.evaluate(script, cells) == [format_estimate(3950, of) for of in (39, 3950)]
