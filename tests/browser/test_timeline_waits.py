"""Messages that ranks waited for on the timeline, and the chain from a wait to its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import view
from support.dashboard_traces import MS
from support.timeline_page import Page

from mpiprof.testing.neighbours import make_ring
from mpiprof.testing.program import Program

pytestmark = pytest.mark.slow

RANKS, LATE = 8, 3
WINDOW = "from=10000000&to=16000000"


def halo(folder: Path) -> Path:
    """Write a halo exchange of a ring before each allreduce; one rank works 2 ms longer."""
    program = Program(RANKS)
    work = np.full(RANKS, MS // 10) + 2 * MS * (np.arange(RANKS) == LATE)
    for _ in range(20):
        program.halo(make_ring(RANKS), own_ns=work, bytes_=4096)
        program.collective("allreduce")
    return program.write(folder)


def test_messages_and_the_chain_to_the_cause_are_shown(chrome: Any, tmp_path: Path) -> None:
    """The neighbours of the late rank wait for its messages, the other ranks for the neighbours."""
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
        page.shot("timeline-waits")
        assert page.complaints == []
        context.close()
