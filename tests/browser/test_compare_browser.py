"""The page that compares two traces: what the terminal says, at the width of any screen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.dashboard_server import Browser, chromium, view

from mpiprof.__main__ import main
from mpiprof.testing.synthetic import Synthetic

MS = 1_000_000


def recorded(folder: Path, late_ms: int) -> Path:
    """Write an allreduce of 8 ranks, 40 times, in which rank 3 is late."""
    made, random = Synthetic(8), np.random.default_rng(late_ms)
    late = random.integers(0, MS // 10, (40, 8)) + late_ms * MS * (np.arange(8) == 3)
    arrivals = np.arange(1, 41)[:, None] * 20 * MS + late
    exits = arrivals.max(1, keepdims=True) + 9_000 + 0 * arrivals
    made.collective("allreduce", arrivals, exits, site="solver.py:93:force")
    made.started_ns, made.ended_ns = 0, 900 * MS
    return made.write(folder)


def test_the_verdict_is_that_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "mpiprof-coupled-solver.py-20261121-121616", "mpiprof-coupled-solver.py-20261122-091500"
    traces = [recorded(tmp_path / name, late) for name, late in zip(names, (1, 3), strict=True)]
    assert main(["compare", *map(str, traces), "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert verdict["outcome"] == "slower"
    assert verdict["effect_ns"] == pytest.approx(40 * 7 * 2 * MS, rel=0.05)
    with view(traces) as running, chromium() as started:
        for width in (1280, 390):
            page = started.new_context(viewport={"width": width, "height": 900}).new_page()
            browser = Browser(page, running)
            browser.open("/compare")
            page.wait_for_selector(".verdict p")
            assert page.locator(".verdict p").all_inner_texts() == verdict["text"]
            assert page.evaluate("document.documentElement.scrollWidth") == width
            # The table fits, too: it is not cut off at the right.
            table = "document.querySelector('.unfolding').getBoundingClientRect().right"
            assert page.evaluate(table) <= width
            browser.shot(f"compare-{width}")
            assert not browser.complaints
