"""The file by which `view` opens a browser leads to the pages, with access to them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import TIMEOUT_MS, view
from support.dashboard_traces import plain

from mpiprof.commands import view as view_verb

pytestmark = pytest.mark.slow


def test_the_file_opens_the_first_page(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with view([plain(tmp_path / "t")]) as shown, contextlib.ExitStack() as closing:
        view_verb.open_browser(shown.address, closing)
        page.goto(opened[0])
        page.wait_for_url(f"{shown.base}/**", timeout=TIMEOUT_MS)
        page.wait_for_selector("nav", timeout=TIMEOUT_MS)
        assert "token" not in page.url
        assert "403" not in page.inner_text("body")
