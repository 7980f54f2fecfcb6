"""Marks on the timeline: selections, rulers, notes, undo steps, and export of the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import View, view
from support.dashboard_traces import plain
from support.timeline_page import AXIS, GUTTER, LENGTH, Page

pytestmark = pytest.mark.slow

expect = pytest.importorskip("playwright.sync_api").expect
FIRST = 9_999_000  # arrival of rank 0 at the first allreduce of `plain`, in ns after the start
BURST = """([clientX, clientY]) => {
    const turn = { ctrlKey: true, deltaY: -60, clientX, clientY, cancelable: true };
    for (let i = 0; i < 4; i++)
        document.querySelector('.tl-canvas').dispatchEvent(new WheelEvent('wheel', turn));
}"""
SPAN = (9_000_000, 15_000_000)  # contains only this allreduce


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve a plain trace."""
    with view([plain(tmp_path_factory.mktemp("traces") / "plain")]) as started:
        yield started


@pytest.fixture
def page(chrome: Any, shown: View) -> Iterator[Page]:
    """Return a logged-in page; its console must stay empty and all requests local."""
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    found = Page(context.new_page(), shown)
    yield found
    assert found.complaints == []
    assert found.hosts == {shown.base.removeprefix("http://")}
    context.close()


def drag(page: Page, start: tuple[float, float], end: tuple[float, float], key: str = "") -> None:
    """Press at `start`, with a key held if given, move to `end`, and release."""
    mouse = page.page.mouse
    if key:
        page.page.keyboard.down(key)
    mouse.move(*start)
    mouse.down()
    mouse.move(*end, steps=5)
    mouse.up()
    if key:
        page.page.keyboard.up(key)
    page.drawn()


def table(page: Page, number: int) -> dict[str, list[str]]:
    """Return the rows of the selection's table `number`, by their first cell."""
    rows = page.page.locator(f".tl-selection table >> nth={number}").locator("tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return {first: rest for first, *rest in cells}


def test_statistics_of_a_selection_that_is_dragged(page: Page) -> None:
    page.timeline("?from=5000000&to=20000000")
    drag(page, page.at(SPAN[0], 1), page.at(SPAN[1], 3))
    expect(page.page.locator(".tl-selection table")).to_have_count(2)
    low, high = map(int, page.query["select"].split("-"))
    assert [low, high] == pytest.approx(SPAN, abs=20_000)
    # Rank r arrives 10 r us after rank 0, rank 5 another 2 ms later; all exit 0.1 ms after rank 5.
    assert table(page, 0) == {"allreduce": ["8", "14.9 ms", "14.1 ms", "95 %"]}
    ranks = table(page, 1)
    assert ranks["0"] == ["2.15 ms", "2.05 ms", "95 %"]
    assert ranks["5"] == ["100 \u00b5s", "0 ns", "0 %"]
    assert list(ranks) == ["0", "1", "2", "3", "4", "6", "7", "5"]
    printed = page.page.inner_text(".tl-selection p")
    assert printed.startswith(
        "31 % of the time of the shown ranks is in collectives, 29 % is waiting"
    )
    page.shot("timeline-selection")
    page.page.mouse.dblclick(*page.at(sum(SPAN) / 2, 2))
    assert page.drawn()[1:] == (low, high)
    page.key("Escape")  # the instance that was clicked
    page.key("Escape")  # the selection
    page.page.mouse.dblclick(*page.at(FIRST + 1_000_000, 2))  # the instance, and a margin
    _, begin, end = page.drawn()
    assert [begin, end] == pytest.approx([FIRST - 537_500, FIRST + 2_687_500], abs=2)


def test_a_link_stores_the_selection_and_keys_create_one(page: Page) -> None:
    page.timeline("?select=9000000-15000000")
    expect(page.page.locator(".tl-selection h2")).to_have_text("Selection of 6.00 ms")
    expect(page.page.locator(".tl-selection table")).to_have_count(2)
    page.page.click("text=Zoom to it")
    assert page.drawn()[1:] == SPAN
    page.key("Escape")
    assert "select" not in page.query
    assert not page.page.locator(".tl-selection").is_visible()
    page.key("x")
    assert page.query["select"] == "9000000-15000000"
    page.page.locator(".tl-selection input").first.fill("9.5 ms")
    page.key("Enter")
    assert page.query["select"] == "9500000-15000000"
    expect(page.page.locator(".tl-selection h2")).to_have_text("Selection of 5.50 ms")
    page.page.locator(".tl-selection input").first.fill("soon")
    page.key("Enter")
    assert page.query["select"] == "9500000-15000000"
    invalid = page.page.locator(".tl-selection input").first.get_attribute("aria-invalid")
    assert invalid == "true"


def test_the_ruler_snaps_to_where_calls_begin(page: Page) -> None:
    page.timeline("?from=9000000&to=15000000")
    x, y = page.at(FIRST, 0)
    z, w = page.at(FIRST + 2_050_000, 5)
    drag(page, (x + 3, y), (z - 3, w), "Alt")  # three pixels beside the arrivals
    assert page.query["ruler"] == f"{FIRST}@0-{FIRST + 2_050_000}@5"
    assert page.page.inner_text(".tl-ruler h2") == "Ruler: 2.05 ms"
    page.shot("timeline-ruler")
    page.key("Escape")
    assert "ruler" not in page.query
    page.key(".")
    page.key("m")  # measures the arrivals of this instance
    assert page.query["ruler"] == f"{FIRST}@0-{FIRST + 2_050_000}@5"
    page.timeline(f"?from=9000000&to=15000000&ruler={FIRST}@0-{FIRST + 100}@3")
    assert page.page.inner_text(".tl-ruler h2") == "Ruler: 100 ns"
    assert "on rank 3" in page.page.inner_text(".tl-ruler")


def shows(page: Page, window: tuple[int, int]) -> None:
    """Wait until the timeline shows a window."""
    page.until(
        f"document.querySelector('#timeline').dataset.shown.endsWith(' {window[0]} {window[1]}')"
    )


def test_back_and_forward_go_through_the_zooms(page: Page) -> None:
    page.timeline()
    windows = [page.drawn()[1:], *(page.key(key)[1:] for key in "www")]
    assert len(set(windows)) == 4
    windows[3] = page.key("d")[1:]  # a moved window replaces the step of its zoom
    for window in windows[2::-1]:
        page.page.go_back()
        shows(page, window)
    assert windows[0][0] == 0 and windows[0][1] == pytest.approx(LENGTH, abs=10)
    for window in windows[1:]:
        page.page.go_forward()
        shows(page, window)
    page.key("x")
    page.page.go_back()
    expect(page.page.locator(".tl-selection")).to_be_hidden()
    page.page.go_forward()
    expect(page.page.locator(".tl-selection h2")).to_be_visible()
    # A burst of wheel events is one step. Send it at once: a busy machine would split a slow one.
    box = page.box()
    before = page.drawn()[1:]
    page.page.evaluate(BURST, [box["x"] + GUTTER + 300, box["y"] + AXIS + 40])
    assert page.drawn()[1:] != before
    page.page.go_back()
    shows(page, before)


def test_a_link_with_a_note_opens_at_the_note_and_shows_it(page: Page) -> None:
    page.timeline("?select=9000000-15000000")
    page.key("b")
    page.page.keyboard.type("rank 5 | reads a file")
    page.key("Enter")
    assert page.query["notes"] == "9000000-15000000:rank 5 / reads a file"
    page.page.goto("about:blank")
    page.timeline("?notes=9000000-15000000:rank 5 reads a file")
    assert page.drawn()[1:] == SPAN
    note = page.page.locator(".tl-note button")
    expect(note.first).to_have_text("rank 5 reads a file")
    page.shot("timeline-note")
    page.key("f")
    note.first.press("Enter")
    assert page.drawn()[1:] == SPAN
    page.key("f")
    assert "notes" in page.query and page.query["from"] == "0"  # a link reproduces the view
    page.timeline("?" + "&".join(f"{k}={v}" for k, v in page.query.items()))
    assert page.drawn()[1] == 0 and page.drawn()[2] > LENGTH - 10
    note.nth(1).click()
    page.drawn()
    assert "notes" not in page.query


def test_notes_are_text(page: Page) -> None:
    script = "<img src=x onerror=window.hacked=1>"
    page.timeline(f"?notes=1000-2000000:{script}|5-4:back|nothing|7-9000:")
    expect(page.page.locator(".tl-note")).to_have_count(1)
    assert page.page.locator(".tl-note button").first.inner_text() == script
    assert page.page.evaluate("window.hacked") is None


def saved(page: Page, kind: str) -> Path:
    """Press the button that saves the picture as `kind`; return the file."""
    with page.page.expect_download() as download:
        page.page.click("summary:text-is('Export ▾')")
        page.page.click(f"button:text-is('Picture as {kind}')")
    assert download.value.suggested_filename == f"timeline.{kind.lower()}"
    return Path(download.value.path())


def test_the_picture_as_svg_has_every_bar_and_label(page: Page) -> None:
    page.timeline(
        f"?from=9000000&to=15000000&notes=9000000-15000000:slow%01%26<&select={SPAN[0]}-{SPAN[1]}"
    )
    root = ElementTree.fromstring(saved(page, "SVG").read_text())
    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in root.iter(f"{space}text")]
    printed = {"whole run", "rank", "allreduce", "6.00 ms", "slow &<", "hatched: waiting"}
    labels = {f"rank {rank}" if rank == 5 else f"{rank}" for rank in range(8)}  # 5 is the late one
    assert printed | labels <= set(texts)
    fills = [str(rect.get("fill")) for rect in root.iter(f"{space}rect")]
    colour = page.page.evaluate(
        "getComputedStyle(document.querySelector('.tl-swatch')).backgroundImage"
    )
    full = colour[colour.index("rgb(") : colour.index(")") + 1].replace(" ", "")
    bars = [f for f in fills if f.replace("rgba(", "rgb(").replace(",1)", ")") == full]
    assert len(bars) > 8  # the non-waiting bar of each rank, and the strip
    assert all("nan" not in value.casefold() for e in root.iter() for value in e.attrib.values())


def test_the_png_equals_the_displayed_picture(page: Page) -> None:
    page.timeline("?from=9000000&to=15000000")
    file = saved(page, "PNG").read_bytes()
    assert file.startswith(b"\x89PNG")
    wide, high = (int.from_bytes(file[at : at + 4], "big") for at in (16, 20))
    box = page.box()
    assert wide == pytest.approx(2 * box["width"], abs=2)
    assert high > 2 * box["height"]


def test_cells_are_an_image_in_the_svg(chrome: Any, tmp_path: Path) -> None:
    from support.dashboard_traces import of_size

    with view([of_size(tmp_path / "large", 300, 400)]) as started:
        context = chrome.new_context(viewport={"width": 1280, "height": 900})
        page = Page(context.new_page(), started)
        page.timeline()
        page.key("x")
        assert page.page.locator(".tl-selection tbody >> nth=1 >> tr").count() == 75
        assert page.page.inner_text(".tl-selection table >> nth=1").startswith("Who waits")
        root = ElementTree.fromstring(saved(page, "SVG").read_text())
        image = root.find(".//{http://www.w3.org/2000/svg}image")
        assert image is not None and str(image.get("href")).startswith("data:image/png;base64,")
        assert page.complaints == []
        context.close()
