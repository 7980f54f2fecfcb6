"""Messages that ranks waited for on the timeline, and the chain from a wait to its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import view
from support.dashboard_traces import MS
from support.neighbours import make_ring
from support.program import Program
from support.synthetic import Synthetic
from support.timeline_page import Page

pytestmark = pytest.mark.slow

RANKS, LATE = 8, 3
# A pixel of the canvas; reading it from the canvas itself makes Chromium complain.
CORNER = """(() => {
    const c = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    c.drawImage(document.querySelector(".tl-canvas"), 2, 2, 1, 1, 0, 0, 1, 1);
    return c.getImageData(0, 0, 1, 1);
})()"""
WINDOW = "from=10000000&to=16000000"


def halo(folder: Path) -> Path:
    """Write a halo exchange of a ring before each allreduce; one rank works 2 ms longer."""
    program = Program(RANKS)
    work = np.full(RANKS, MS // 10) + 2 * MS * (np.arange(RANKS) == LATE)
    for _ in range(20):
        program.halo(make_ring(RANKS), own_ns=work, bytes_=4096)
        program.collective("allreduce")
    return program.write(folder)


def assert_filter_keeps_waits(page: Page, found: Any, rank: int) -> None:
    """Check the waits, legend and list of a rank that is shown alone; a row opens its wait."""
    alone = f"&rank={rank}"
    page.timeline(f"?{WINDOW}{alone}")
    of_rank = page.page.evaluate(
        f"fetch('/timeline-data?what=waited&{WINDOW}{alone}&px=1000').then((a) => a.json())"
    )
    assert of_rank["waits"] == [wait for wait in found["waits"] if wait["rank"] == rank]
    page.until("document.querySelectorAll('.tl-waits tbody tr').length > 5")
    assert f"Longest waits of rank {rank}" in page.page.inner_text(".tl-waits")
    text = page.page.inner_text(".tl-legend")
    assert "waits for a message" in text and "…" not in text
    # The numbers are those of the whole trace. The list stands below the low picture.
    assert f"calls on messages on all {RANKS} ranks; shown: 1 rank" in page.page.inner_text(
        ".tl-status"
    )
    boxes = (page.page.locator(name).bounding_box() for name in (".tl-canvas", ".tl-waits"))
    picture, listed = boxes
    assert picture is not None and listed is not None
    assert listed["y"] > picture["y"] + picture["height"]
    page.page.locator(".tl-waits tbody button").first.click()
    page.until("document.querySelector('.tl-status').textContent.startsWith('The wait began')")
    _, low, high = page.drawn()
    assert page.page.inner_text(".tl-status").startswith("The wait began")
    assert high - low < 10 * MS


def test_messages_and_the_chain_to_the_cause_are_shown(chrome: Any, tmp_path: Path) -> None:
    """The neighbours of the late rank wait for its messages, the other ranks for the neighbours.

    On paper, the dark theme is light.
    """
    with view([halo(tmp_path / "halo")]) as started:
        context = chrome.new_context(viewport={"width": 1280, "height": 900})
        page = Page(context.new_page(), started)
        page.timeline(f"?{WINDOW}")
        found = page.page.evaluate(
            f"fetch('/timeline-data?what=waited&{WINDOW}&px=1000').then((a) => a.json())"
        )
        waits = found["waits"]
        neighbours = {LATE - 1, LATE + 1}
        assert {w["rank"] for w in waits if w["awaited"] == LATE} >= neighbours
        longest = next(w for w in waits if w["awaited"] == LATE and w["begin"] > 10_000_000)
        x, y = page.at((longest["begin"] + longest["until"]) / 2, longest["rank"])
        page.point(x, y)
        tip = page.page.inner_text(".tl-tip")
        assert f"rank {longest['rank']}" in tip and f"for rank {LATE}" in tip
        page.page.mouse.click(x, y)
        page.drawn()
        page.until("document.querySelector('.tl-status').textContent.startsWith('The wait began')")
        assert f"on rank {LATE}, which waited for no other rank" in page.page.inner_text(
            ".tl-status"
        )
        assert "outside of MPI calls for 2.00 ms" in page.page.inner_text(".tl-status")
        page.shot("timeline-waits")
        assert_filter_keeps_waits(page, found, longest["rank"])
        page.timeline(f"?{WINDOW}&colour=waiting")
        legend = page.page.inner_text(".tl-legend")  # messages are a part of both states
        assert "in calls, not waiting" in legend and "of waiting, for messages" in legend
        page.timeline(f"?{WINDOW}")
        page.choose_theme("dark")
        for media, is_light in (("screen", False), ("print", True), ("screen", False)):
            page.page.emulate_media(media=media)
            page.until(f"({CORNER}.data[0] > 127) === {str(is_light).lower()}")
        assert page.complaints == []
        context.close()


def test_the_ground_between_calls_has_its_length(chrome: Any, tmp_path: Path) -> None:
    """Two ranks make no call for 98 ms between two barriers."""
    trace = Synthetic(2)
    arrivals = np.array([[10 * MS] * 2, [110 * MS] * 2])
    trace.add_collective("barrier", arrivals, arrivals + 2 * MS)
    trace.started_ns, trace.ended_ns = 0, 150 * MS
    with view([trace.write(tmp_path / "gap")]) as started:
        context = chrome.new_context(viewport={"width": 1280, "height": 900})
        page = Page(context.new_page(), started)
        page.timeline("")
        for time_ms, length in ((50, "98.0 ms"), (95, "98.0 ms")):
            page.point(*page.at(time_ms * MS, 1))
            tip = page.page.inner_text(".tl-tip")
            assert f"in no call that is drawn for {length}" in tip and "rank 1" in tip
        page.timeline(f"?from={20 * MS}&to={60 * MS}")
        page.point(*page.at(40 * MS, 0))
        assert "for at least 40.0 ms" in page.page.inner_text(".tl-tip")
        context.close()


def test_the_inspector_names_the_root_for_which_ranks_wait(chrome: Any, tmp_path: Path) -> None:
    """Ranks 1 and 2 wait 3 ms for root 0; rank 3 comes last, and no rank waits for it."""
    synthetic = Synthetic(4)
    arrivals = 10 * MS + np.array([[4, 1, 1, 9]]) * MS
    exits = np.array([[4, 4, 4, 9]]) * MS + 10 * MS + MS // 10
    synthetic.add_collective("bcast", arrivals, exits, root=0, site="io.py:7:read")
    synthetic.ended_ns = 30 * MS
    with view([synthetic.write(tmp_path / "rooted")]) as started:
        page = Page(chrome.new_context(viewport={"width": 1280, "height": 900}).new_page(), started)
        page.timeline()
        page.key(".")
        text = page.page.inner_text(".tl-sentence")
    assert text == (
        "The others waited for the root, rank 0, which came 3.00 ms after the median. "
        "2 ranks waited 6.00 ms together. Rank 3 came last."
    )
