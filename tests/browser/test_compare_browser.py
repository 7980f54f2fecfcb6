"""Compare page: same sentences as in the terminal, and no overflow at any screen width."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import Browser, view
from support.synthetic import Synthetic

from mpiprof.__main__ import main
from mpiprof.interface.format_units import format_time

pytestmark = pytest.mark.slow

MS = 1_000_000


def recorded(folder: Path, late_ms: int) -> Path:
    """Record 40 instances of an allreduce on 8 ranks in which rank 3 is late by `late_ms`."""
    synthetic, random = Synthetic(8), np.random.default_rng(late_ms)
    late = random.integers(0, MS // 10, (40, 8)) + late_ms * MS * (np.arange(8) == 3)
    arrivals = np.arange(1, 41)[:, None] * 20 * MS + late
    exits = arrivals.max(1, keepdims=True) + 9_000 + 0 * arrivals
    synthetic.add_collective("allreduce", arrivals, exits, site="solver.py:93:force")
    synthetic.started_ns, synthetic.ended_ns = 0, 900 * MS
    return synthetic.write(folder)


def runs(folder: Path) -> tuple[list[Path], list[Path]]:
    """Record three runs, and two further runs in which rank 3 is about 2 ms later."""
    before = [recorded(folder / f"before-{i}", 1 + i % 2) for i in range(3)]
    return before, [recorded(folder / f"after-{i}", 3 + i) for i in range(2)]


def test_several_runs_are_compared_as_the_command_does(
    page: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = runs(tmp_path)
    assert main(["compare", *map(str, before), "--to", *map(str, after), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    (verdict,), (row,) = output["verdicts"], output["callsites"]
    assert "means over 3 and 2 runs" in " ".join(verdict["text"])
    with view([*before, *after]) as running:
        query = "trace=before-0&and=before-1&and=before-2&with=after-0&with=after-1"
        browser = Browser(page, running, f"/compare?{query}")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            browser.settled()
            page.wait_for_selector(".verdict p")
            shown = page.locator(".verdict p").all_inner_texts()
            assert shown == [text.replace("`", "") for text in verdict["text"]]
            page.evaluate("document.querySelector('#compare > details').open = true")
            waits = [format_time(row["wait_ns"]), format_time(row["other_wait_ns"])]
            assert " → ".join(waits) in page.locator(".unfolding").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth") == width
            browser.shot(f"compare-runs-{width}")
            assert not browser.complaints


def test_runs_are_chosen_on_the_page(page: Any, tmp_path: Path) -> None:
    before, after = runs(tmp_path)
    with view([*before, *after]) as running:
        browser = Browser(page, running, "/compare")
        for form, name, query in (
            ("also", "before-2", "?and=before-2"),
            ("to", "after-1", "?and=before-2&with=before-1&with=after-1"),
        ):
            page.click(f"#compare-{form}-chosen")
            page.click(f"#compare-{form} >> text={name}")
            browser.reached("/compare" + query)
        # A run cannot be on both sides.
        offered = page.locator("#compare-to a").all_text_contents()
        assert set(offered) == {"before-1", "after-0", "after-1"}
        assert "means over 2 and 2 runs" in page.locator(".verdict").inner_text()
        browser.open("/compare?and=elsewhere")
        printed = page.locator("#page").inner_text()
        assert "elsewhere: not one of the traces of this view" in printed


def test_the_verdict_is_that_of_the_terminal(
    page: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "mpiprof-coupled-solver.py-20261121-121616", "mpiprof-coupled-solver.py-20261122-091500"
    traces = [recorded(tmp_path / name, late) for name, late in zip(names, (1, 3), strict=True)]
    assert main(["compare", *map(str, traces), "--json"]) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert verdict["outcome"] == "slower"
    assert verdict["effect_ns"] == pytest.approx(40 * 7 * 2 * MS, rel=0.05)
    with view(traces) as running:
        browser = Browser(page, running, "/compare")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            browser.settled()
            page.wait_for_selector(".verdict p")
            shown = page.locator(".verdict p").all_inner_texts()
            assert shown == [text.replace("`", "") for text in verdict["text"]]
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.evaluate("document.querySelector('#compare > details').open = true")
            # The table fits into the page instead of being cut off at the right.
            table = "document.querySelector('.unfolding').getBoundingClientRect().right"
            assert page.evaluate(table) <= width
            browser.shot(f"compare-{width}")
            assert not browser.complaints
        page.set_viewport_size({"width": 1280, "height": 900})
        browser.open("/timeline?rank=2-4&from=300000000&to=400000000")
        page.click("summary[title='Align with another run']")
        page.click(f".tl-entries button:text-is('{names[1]}')")
        page.wait_for_url(f"**/compare?rank=2-4&with={names[1]}&from=300000000&to=400000000**")
        browser.settled()
        printed = page.inner_text("#aligned")
        assert "100 ms, aligned at the end of instance 14 of allreduce" in printed
        assert "3 of 8 ranks" in printed
        for side, name in zip("AB", names, strict=True):
            # The middle of a long name is left out: the dates at the end differ.
            drawn = printed.replace(f"{side}, {name}", ""), page.inner_text(".run-dots")
            assert all(f"{side} {name[:8]}" in text and name[-8:] in text for text in drawn)
        page.click(f"#aligned >> text=A, {names[0]}")
        browser.reached("/timeline?trace=" + names[0] + "&rank=2-4&from=300000000&to=400000000")
        assert not browser.complaints
