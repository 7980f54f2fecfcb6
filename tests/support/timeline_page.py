"""The timeline's page in a browser, for tests that read it and press its keys."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from support import ROOT
from support.dashboard_server import Browser


def _painted(name: str) -> int:
    """Return a constant of the geometry script."""
    script = (ROOT / "dashboard" / "assets" / "timeline" / "geometry.mjs").read_text()
    (digits,) = re.findall(rf"^export const .*\b{name} = (\d+)", script, re.MULTILINE)
    return int(digits)


GUTTER, AXIS = _painted("GUTTER"), _painted("AXIS")
LENGTH = 609_999_001  # ns of `dashboard_traces.plain`, from its start to its end


class Page(Browser):
    """The timeline page."""

    def timeline(self, query: str = "") -> None:
        """Open the timeline and wait until it is drawn."""
        self.page.goto(self.view.base + "/timeline" + query)
        self.drawn()

    def drawn(self) -> tuple[str, int, int]:
        """Wait until the drawing matches the address; return its kind and window."""
        self.frames()  # the script sets aria-busy when it handles the input
        ready = "#timeline[aria-busy=false][data-shown]:not([data-shown=''])"
        shown = self.page.wait_for_selector(ready)
        kind, *window = str(shown.get_attribute("data-shown")).split()
        return kind, *map(int, window)  # type: ignore[return-value]

    def box(self, selector: str = ".tl-canvas") -> dict[str, float]:
        """Return the bounding box of an element."""
        box: dict[str, float] = self.page.locator(selector).bounding_box()
        return box

    def key(self, name: str) -> tuple[str, int, int]:
        """Press a key and wait."""
        self.page.keyboard.press(name)
        return self.drawn()

    @property
    def query(self) -> dict[str, str]:
        """Return the query of the address."""
        return {k: v[0] for k, v in parse_qs(urlsplit(self.page.url).query).items()}

    def at(self, time: float, row: int) -> tuple[float, float]:
        """Return the page coordinates of a time (ns) in a row of the drawing."""
        _, low, high = self.drawn()
        box = self.box()
        tops = str(self.page.locator(".tl-canvas").get_attribute("data-rows")).split()
        x = GUTTER + (time - low) / (high - low) * (box["width"] - GUTTER)
        return box["x"] + x, box["y"] + (2 * int(tops[row]) + int(tops[row + 1])) / 3
