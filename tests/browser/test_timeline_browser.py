"""The timeline in a real browser: gestures, keys, links, hostile names."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import LOOK_MS, View, view
from support.dashboard_traces import MS, hostile, of_size, plain
from support.timeline_page import AXIS, GUTTER, LENGTH, Page

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api").expect


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Serve a plain trace, one with another algorithm, one of 300 ranks, and a hostile one."""
    base = tmp_path_factory.mktemp("traces")
    (secret := base / "secret").mkdir()
    switched(plain(base / "switched"))
    (base / "switched" / "switches.txt").write_text("SwitchName=leaf7 Nodes=n[0-1]\n")
    of_size(base / "large", 300, 40)
    hostile(base / "hostile", secret)
    folders = [plain(base / "plain"), base / "switched", base / "large", base / "hostile"]
    with view(folders) as started:
        yield started


def switched(folder: Path) -> None:
    """Change the algorithm of a trace's allreduces to recursive doubling."""
    for path in folder.glob("*.tables"):
        lines = path.read_text().splitlines()
        for i, line in enumerate(lines):
            if '"operation": "allreduce"' in line:
                lines[i] = line.replace('"native"', '"recursive_doubling"')
        path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def tab(chrome: Any, shown: View) -> Page:
    """Return one logged-in page for all tests."""
    return Page(chrome.new_context(viewport={"width": 1280, "height": 900}).new_page(), shown)


@pytest.fixture
def page(tab: Page, shown: View) -> Iterator[Page]:
    """Return this page; its console must stay empty and all requests local."""
    tab.complaints.clear()
    yield tab
    assert tab.complaints == []
    assert tab.hosts == {shown.base.removeprefix("http://")}


def drag_right(page: Page, by: float, key: str) -> None:
    """Drag to the right by some pixels with a key held."""
    box = page.box()
    page.page.keyboard.down(key)
    page.page.mouse.move(box["x"] + GUTTER + 200, box["y"] + 100)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + GUTTER + 200 + by, box["y"] + 100, steps=4)
    page.page.mouse.up()
    page.page.keyboard.up(key)


def test_the_wheel_moves_and_with_ctrl_zooms_at_the_pointer(page: Page) -> None:
    page.timeline()
    kind, low, high = page.drawn()
    assert (kind, low) == ("events", 0)
    assert abs(high - LENGTH) < 10
    box = page.box()
    wide = box["width"] - GUTTER
    page.page.mouse.move(box["x"] + GUTTER + wide / 4, box["y"] + 100)
    page.page.mouse.wheel(0, 100)
    expect(page.page.locator(".tl-status")).to_contain_text("Ctrl + wheel")
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -250)
    page.page.keyboard.up("Control")
    _, low, high = page.drawn()
    assert (high - low) == pytest.approx(LENGTH / 2, rel=0.01)
    assert low + (high - low) / 4 == pytest.approx(LENGTH / 4, rel=0.01)
    assert page.query["from"] == str(low)
    page.page.mouse.wheel(0, wide / 10)
    _, moved, _ = page.drawn()
    assert moved - low == pytest.approx((high - low) / 10, rel=0.02)
    drag_right(page, wide / 10, "Shift")
    _, back, _ = page.drawn()
    assert back == pytest.approx(low, abs=(high - low) / 500)
    drag_right(page, 100, "Control")
    _, a, b = page.drawn()
    assert b - a == pytest.approx((high - low) * 100 / wide, rel=0.03)


def test_strip_brings_the_window_where_it_is_pressed(page: Page) -> None:
    page.timeline("?from=0&to=20000000")
    box = page.box(".tl-strip")
    half = box["x"] + GUTTER + (box["width"] - GUTTER) / 2
    page.page.mouse.click(half, box["y"] + 20)
    _, low, high = page.drawn()
    assert (low + high) / 2 == pytest.approx(LENGTH / 2, rel=0.01)
    page.page.mouse.move(half, box["y"] + 20)
    page.page.mouse.down()
    page.page.mouse.move(half + 114, box["y"] + 20, steps=3)
    page.page.mouse.up()
    _, moved, _ = page.drawn()
    assert moved - low == pytest.approx(LENGTH * 114 / (box["width"] - GUTTER), rel=0.02)


def test_keys_move_step_search_and_help(page: Page) -> None:
    page.timeline()
    _, low, high = page.key("w")
    assert high - low == pytest.approx(0.6 * LENGTH, rel=0.01)
    _, right, _ = page.key("d")
    assert right - low == pytest.approx(0.2 * (high - low), rel=0.01)
    assert page.key("a")[1] == pytest.approx(low, abs=5)
    _, a, b = page.key("s")
    assert b - a == pytest.approx(LENGTH, rel=0.01)
    page.key("w")
    assert page.key("f")[1:] == (0, page.drawn()[2])
    assert "from" not in page.query
    page.key(".")
    first = page.query["instance"]
    assert first.endswith(":0:0")
    assert page.page.inner_text(".tl-detail h2") == "allreduce"
    assert "rank 5" in page.page.inner_text(".tl-detail")
    page.key(".")
    assert page.page.inner_text(".tl-detail h2") == "alltoall"
    page.key(",")
    assert page.query["instance"] == first
    page.key("Escape")
    assert "instance" not in page.query
    page.page.keyboard.press("/")
    expect(page.page.locator(".tl-found")).to_be_visible()
    page.page.keyboard.press("Tab")
    expect(page.page.locator(".tl-stage")).to_be_focused()  # not on the list that is closed
    page.page.keyboard.press("/")
    page.page.keyboard.type("io.py")
    expect(page.page.locator(".tl-found li b")).to_have_text(["io.py:7 read"])
    page.key("Enter")
    assert page.query["callsite"] == "1"
    assert page.page.inner_text(".tl-detail h2") == "bcast"
    before = page.query["instance"]
    page.key(".")
    assert page.page.inner_text(".tl-detail h2") == "bcast"
    assert page.query["instance"] != before
    page.page.keyboard.press("?")
    assert page.page.locator(".tl-help").is_visible()
    page.page.keyboard.press("Escape")
    assert not page.page.locator(".tl-help").is_visible()
    page.shot("timeline-keys")
    page.timeline("?callsite=1")
    assert page.page.inner_text(".tl-chosen") == "call site: io.py:7 read ×"
    page.timeline(f"?instance={before}")
    _, low, high = page.drawn()
    assert page.page.inner_text(".tl-detail h2") == "bcast"
    assert high - low < LENGTH / 10  # the timeline zooms to the instance


def test_hover_and_click_show_all_fields_of_an_event(page: Page) -> None:
    page.timeline("?from=5000000&to=25000000")
    x, y = page.at(9_999_000 + MS, 2)  # rank 2 waits for rank 5, which is 2 ms late
    page.point(x, y)
    tip = page.page.locator(".tl-tip")
    assert tip.is_visible()
    printed = tip.inner_text()
    lines = ["rank 2, n0", "waits 2.03 ms of 2.13 ms in allreduce", "for rank 5"]
    shown_lines = [line for line in printed.splitlines() if line]
    assert shown_lines[:3] == lines
    for part in ("solver.py:12 step", "world", "1024 B", "native"):
        assert part in shown_lines[3]
    page.page.mouse.click(x, y)
    page.drawn()
    detail = page.page.inner_text(".tl-detail")
    assert "rank 5 came last, 2.02 ms after the median. 7 ranks waited 14.1 ms together." in detail
    assert page.page.locator(".tl-detail details tbody tr").count() == 8
    page.page.click(".tl-detail summary")
    assert "rank 5, 2.05 ms later" in page.page.inner_text(".tl-detail details")
    assert page.page.inner_text(".tl-detail tbody tr td") == "5"
    page.shot("timeline-instance")


def test_legend_switches_states_by_pointer_and_keyboard(page: Page) -> None:
    page.timeline()
    entry = page.page.locator(".tl-entry[data-state=alltoall]")
    assert "240 calls" in str(entry.get_attribute("aria-label"))
    entry.click()
    page.drawn()
    assert page.query["off"] == "alltoall"
    assert entry.get_attribute("aria-pressed") == "false"
    assert page.page.evaluate("document.activeElement.dataset.state") == "alltoall"
    page.key("Enter")
    assert "off" not in page.query
    assert entry.get_attribute("aria-pressed") == "true"


def picture(page: Page) -> str:
    """Return the canvas as a data URL."""
    return str(page.page.evaluate("document.querySelector('.tl-canvas').toDataURL()"))


def test_a_link_shows_a_colleague_the_same(chrome: Any, page: Page, shown: View) -> None:
    page.timeline()
    page.page.click(".tl-choice button[data-value=waiting]")
    page.page.click(".tl-choice button[data-value=late]")
    page.drawn()
    page.page.click(".tl-entry >> nth=1")
    page.key(".")
    page.key("w")
    page.key("w")
    page.point(5, 5)
    address, before = page.page.url, picture(page)
    assert {"from", "to", "colour", "sort", "off", "instance"} <= page.query.keys()
    other = chrome.new_context(viewport={"width": 1280, "height": 900})
    again = Page(other.new_page(), shown)
    again.page.goto(address)
    again.settled()
    again.drawn()
    assert again.query == page.query
    assert again.page.inner_text(".tl-detail h2") == page.page.inner_text(".tl-detail h2")
    again.point(5, 5)
    canvas = "document.querySelector('.tl-canvas').toDataURL()"
    again.until(f"{canvas} === {json.dumps(before)}")
    other.close()


def test_the_way_back_and_links_on_the_page_are_followed(page: Page) -> None:
    page.timeline("?from=0&to=100000000")
    page.page.evaluate(
        "dash_clientside.set_props('url', {search: '?from=200000000&to=300000000&colour=waiting'})"
    )
    pressed = page.page.locator(".tl-choice button[aria-pressed=true]")
    expect(pressed).to_have_text(["Waiting", "By rank"])
    assert page.drawn()[1:] == (200_000_000, 300_000_000)
    page.page.go_back()
    expect(pressed).to_have_text(["Operation", "By rank"])
    assert page.drawn()[1:] == (0, 100_000_000)


def test_a_filter_keeps_the_zoom_before_it(page: Page) -> None:
    """The rest of the page takes a new window late, but before its fields and links are used."""
    page.timeline("?trace=plain")
    page.key("w")
    window = page.query["from"], page.query["to"]
    page.page.click("#filters > summary")
    page.page.fill("#filter-ranks", "0-3")
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**rank=0-3**")
    page.settled()
    page.drawn()
    assert (page.query["from"], page.query["to"]) == window
    page.page.go_back()
    page.until("!location.search.includes('rank=')")
    page.settled()
    assert (page.query["from"], page.query["to"]) == window


def test_latest_ranks_come_first(page: Page) -> None:
    page.timeline("?sort=late")
    box = page.box()
    page.point(box["x"] + 40, box["y"] + AXIS + 8)
    printed = page.page.inner_text(".tl-tip")
    assert printed.startswith("rank 5")
    assert "after the mean arrival" in printed


def test_messages_of_a_switched_algorithm_are_drawn_as_modelled(page: Page) -> None:
    page.timeline("?trace=switched&from=9500000&to=12500000")
    page.key(".")
    page.drawn()
    detail = page.page.inner_text(".tl-detail")
    assert "recursive_doubling" in detail
    assert "24 modelled" in detail  # 3 rounds of 8 messages
    page.shot("timeline-messages")
    query = "trace=switched&what=messages&number=0"
    found = page.page.evaluate(f"fetch('/timeline-data?{query}').then((a) => a.json())")
    last = 10 * MS - 1_000 + 2 * MS + 50_000  # arrival of rank 5
    assert all(m[2] >= last for m in found["messages"] if m[0] == 5 or m[1] == 5)
    pairs = {(m[0], m[1]) for m in found["messages"]}
    assert pairs == {(r, r ^ d) for r in range(8) for d in (1, 2, 4)}
    query = "trace=plain&what=messages&number=0"
    found = page.page.evaluate(f"fetch('/timeline-data?{query}').then((a) => a.json())")
    assert "an algorithm of the library" in found["reason"]


def test_colours_are_changed_faster_than_answers_come(page: Page) -> None:
    """All ranks use native: one state by algorithm, two by waiting. No intermediate state fails."""
    page.timeline("?trace=plain&colour=algorithm&from=9500000&to=12500000")
    requests: list[Any] = []
    held = True

    def hold(route: Any) -> None:
        if held:
            requests.append(route)
        else:
            route.continue_()

    page.page.route("**/timeline-data?**", hold)
    page.page.locator(".tl-choice button[data-value=waiting]").click()
    page.page.mouse.wheel(0, 0)
    page.page.evaluate("window.dispatchEvent(new Event('resize'))")
    page.frames()
    while not requests:
        page.page.wait_for_timeout(LOOK_MS)
    held = False
    for request in requests:  # requests blocked until now
        request.continue_()
    page.drawn()
    page.page.unroute("**/timeline-data?**", hold)


def test_rows_by_switch_are_offered_if_switches_are_recorded(page: Page) -> None:
    choice = page.page.locator(".tl-choice button[data-value=switches]")
    page.timeline("?trace=plain")
    expect(choice).to_be_hidden()
    page.timeline("?trace=switched")
    choice.click()
    page.page.wait_for_url("**sort=switches**")
    page.drawn()
    expect(choice).to_have_attribute("aria-pressed", "true")
    box = page.box()
    page.point(box["x"] + 20, box["y"] + AXIS + 10)
    expect(page.page.locator(".tl-tip")).to_contain_text("leaf7")


def test_groups_of_ranks_open_when_pressed(page: Page) -> None:
    page.timeline("?trace=large")
    page.shot("timeline-groups")
    box = page.box()
    page.point(box["x"] + 40, box["y"] + AXIS + 2)
    assert page.page.inner_text(".tl-tip").startswith("rank 0–3")
    page.page.mouse.click(box["x"] + 40, box["y"] + AXIS + 2)
    expect(page.page.locator(".tl-status")).to_contain_text("4 ranks")
    assert page.drawn()[0] == "events"
    assert page.query["rank"] == "0-3"


def test_a_click_on_a_group_of_ranks_selects_the_event_under_the_pointer(page: Page) -> None:
    """300 ranks in 75 rows; an instance begins every 5 ms and takes 1.1 ms."""
    page.timeline("?trace=large")
    assert page.drawn()[0] == "events"  # of the latest rank of each row
    for number in (17, 3, 39):
        begin = 10 * MS + 5 * MS * number
        page.page.mouse.click(*page.at(begin + MS // 2, 30))
        page.drawn()
        assert page.query["instance"].split(":")[1:] == [str(number), "0"]
        assert "rank 299" in page.page.inner_text(".tl-detail")
    page.page.mouse.click(*page.at(10 * MS + 5 * MS * 20 + 3 * MS, 30))
    page.drawn()
    assert "instance" not in page.query  # no instance is at this position


def test_the_latest_rank_of_a_group_is_named(page: Page) -> None:
    page.timeline("?trace=large")
    x, y = page.at(0, 74)
    page.page.mouse.move(x - GUTTER + 20, y)
    printed = page.page.inner_text(".tl-tip").replace("\n", " ")
    assert printed.startswith("rank 296–299")
    assert "shows rank 299, the latest of 4" in printed and "after the mean arrival" in printed


def test_names_are_text_and_long_ones_stay_inside(page: Page) -> None:
    page.timeline("?trace=hostile")
    page.key(".")
    page.page.keyboard.press("/")
    page.page.wait_for_selector(".tl-found li")
    box = page.box()
    for x in range(int(box["x"]) + GUTTER, int(box["x"] + box["width"]) - 300, 25):
        page.page.mouse.move(x, box["y"] + AXIS + 10)
    page.shot("timeline-hostile")
    assert page.page.evaluate("window.hacked") is None
    assert "<script>" in page.text()
    wide = page.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280


def test_both_themes(page: Page) -> None:
    page.timeline("?from=5000000&to=60000000")
    page.point(5, 5)
    light = picture(page)
    page.page.evaluate("window.kept = document.querySelector('#timeline')")
    page.page.keyboard.press("t")
    page.settled()
    page.drawn()
    assert picture(page) != light
    assert page.page.evaluate("window.kept.isConnected")  # the timeline is not built again
    page.shot("timeline-dark")
    page.page.keyboard.press("t")
    page.settled()


def test_the_token_is_needed(shown: View) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{shown.base}/timeline-data?what=overview")
