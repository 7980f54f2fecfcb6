"""The pages Runs and History of a folder of traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.accessibility import find_violations
from support.dashboard_server import Browser, view
from support.run_folders import write_runs

WIDTHS = (390, 1920, 1280)
READ = "document.querySelector('#runs-progress')?.textContent === ''"
DRAWN = "!!document.querySelector('.history-picture svg')"


@pytest.mark.heavy
def test_a_folder_opens_as_a_list(page: Any, tmp_path: Path) -> None:
    folder = write_runs(tmp_path, 12, 7)
    with view([folder]) as shown:
        browser = Browser(page, shown)
        browser.until(READ)
        browser.settled()
        faults = []
        for path, ready in (("/", READ), ("/history", DRAWN)):
            browser.go(path)
            browser.until(ready)
            for theme in ("light", "dark"):
                browser.choose_theme(theme)
                faults += [*find_violations(browser), *map(browser.overflow, WIDTHS)]
        assert not any(faults), faults
        assert "The lost time rose" in page.inner_text("main")
        browser.go("/")
        page.fill("#runs-find", "rank 2 03-09")
        browser.until("location.search.includes('find=')")
        browser.until("document.querySelectorAll('.runs-list tbody tr').length === 1")
        page.click(".runs-list tbody a")
        browser.until("location.search.startsWith('?trace=mpiprof-solver.py')")
        browser.settled()
        assert "rank 2" in page.inner_text("main").lower()
        assert not browser.complaints
