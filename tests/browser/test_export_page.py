"""The HTML report in the browser: no request, no message, no fault of accessibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.accessibility import FIND_VIOLATIONS, read_axe
from support.export_trace import HOSTILE, export, mixed

from mpiprof.interface.tokens import DARK, LIGHT

pytestmark = pytest.mark.slow


def test_the_page_in_a_browser(chrome: Any, tmp_path: Path) -> None:
    """Opened as a file, in both themes, on a phone and printed."""
    folder = mixed(tmp_path / "trace")
    done = export(folder, "--to", "html", "-o", tmp_path / "t.html")
    assert (done.returncode, done.stderr) == (0, "")
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        page = chrome.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        requested: list[Any] = []
        printed: list[Any] = []
        page.on("request", lambda one, to=requested: to.append(one))
        page.on("console", lambda one, to=printed: to.append(one))
        page.goto((tmp_path / "t.html").as_uri())
        assert [r.url for r in requested] == [page.url] and printed == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        colour = (DARK if scheme == "dark" else LIGHT)["bg"]
        assert ground == f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"
        assert HOSTILE in page.inner_text("main")
        page.evaluate(read_axe())
        assert page.evaluate(FIND_VIOLATIONS) == []
        assert page.pdf(format="A4").startswith(b"%PDF")
        page.close()
