"""Speed of the timeline in a browser, from the input to the painted picture.

Chromium opens the timeline of a prepared trace. The wheel moves and, with Ctrl, zooms at random. A
time ends when the browser has painted the frame with the new picture, so it includes the delay of
the script after an input, the request and the drawing. As in a user's hands, the wheel turns some
time after the pointer has moved, and Ctrl stays pressed until the picture is painted: Chromium
defers answers after a key event until the next frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from support.dashboard_server import chromium, view

MOVES = 300
SIZE = {"width": 1400, "height": 900}  # pixels of the window
PAUSE_MS = 60  # maximum pause before the wheel turns, as of a fast user
DEEPEST = 14  # times the window is halved, at most
# The goals: first picture (s), median and 99th percentile of a move (s).
LIMITS = (2.0, 0.060, 0.150)

# Stores the times in ms from inputs to the next frame, and from inputs to the new picture. The
# message to itself arrives after the frame in which the timeline has drawn.
RECORDER = """
window.measured = { frames: [], pictures: [] };
{
  let began = 0;
  const afterPaint = (then) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => then(performance.now());
    channel.port2.postMessage(0);
  });
  addEventListener("wheel", (event) => {
    const at = event.timeStamp;
    began = at;
    afterPaint((now) => measured.frames.push(now - at));
  }, { capture: true, passive: true });
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const at = began, isDrawn = /^(cells|events) /.test(target.dataset.shown || "");
      if (isDrawn) afterPaint((now) => measured.pictures.push(now - at));
    }
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-shown"] });
}
"""
STATE = "document.querySelector('#timeline')?.dataset.shown || ''"


@dataclass(frozen=True)
class Painted:
    """Times in s: first picture, and for each input, its picture and the next frame."""

    first: float
    pictures: list[float]
    frames: list[float]


class Timeline:
    """The timeline of a trace in Chromium."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        page.set_default_timeout(120_000)
        page.add_init_script(RECORDER)
        page.goto(address)
        self.first_ms = self.wait_for_picture(0)

    def wait_for_picture(self, known: int) -> float:
        """Wait until there are more pictures than `known`, and return the ms until the last one."""
        while self.page.evaluate("measured.pictures.length") <= known:
            self.page.wait_for_timeout(10)
        return float(self.page.evaluate("measured.pictures.at(-1)"))

    @property
    def window(self) -> tuple[float, float]:
        """The begin and the end of the shown window in ns."""
        _, begin, end = str(self.page.evaluate(STATE)).split()
        return float(begin), float(end)

    def act(self, random: np.random.Generator, box: dict[str, float]) -> float:
        """Zoom at a random point, or move, by the wheel; return the ms until painted."""
        known = self.page.evaluate("measured.pictures.length")
        begin, end = self.window
        depth = np.log2(self.length / max(end - begin, 1.0))
        x = box["x"] + random.uniform(0.2, 0.95) * box["width"]
        self.page.mouse.move(x, box["y"] + random.uniform(0.2, 0.8) * box["height"])
        self.page.wait_for_timeout(random.uniform(0, PAUSE_MS))
        if random.random() < 0.3 and depth > 0.5:
            share = 0.2 if random.random() * self.length > begin else -0.2
            self.page.mouse.wheel(0, share * box["width"])
        else:
            wished = random.uniform(0, DEEPEST)
            by = float(np.clip((depth - wished) * 250, -400, 400))
            self.page.keyboard.down("Control")
            self.page.mouse.wheel(0, by)
        spent = self.wait_for_picture(known)
        self.page.keyboard.up("Control")
        return spent

    def move(self, moves: int) -> list[float]:
        """Return the s from each of some random inputs to its picture."""
        self.length = self.window[1]
        random = np.random.default_rng(2)
        box = self.page.locator(".tl-canvas").bounding_box()
        return [self.act(random, box) / 1e3 for _ in range(moves)]


def measure(folder: Path, moves: int = MOVES) -> Painted:
    """Open the timeline of a prepared trace in a browser, and zoom and move."""
    with view([folder]) as served, chromium() as chrome:
        page = chrome.new_context(viewport=SIZE).new_page()
        # Another page takes the token, so that the first time is that of the timeline alone.
        page.goto(f"{served.base}/compare?token={served.token}")
        shown = Timeline(page, f"{served.base}/timeline")
        pictures = shown.move(moves)
        frames = [ms / 1e3 for ms in page.evaluate("measured.frames")]
        return Painted(shown.first_ms / 1e3, pictures, frames)


def make_rows(found: Painted, *, limited: bool) -> list[tuple[str, float, str, float]]:
    """Return name, measurement, unit and limit (0 if there is none) of each result."""
    first, median, high = LIMITS if limited else (0.0, 0.0, 0.0)
    pictures, frames = (np.array(times) * 1e3 for times in (found.pictures, found.frames))
    return [
        ("browser: first picture", found.first, "s", first),
        ("browser: zoom or move, median", float(np.median(pictures)), "ms", median * 1e3),
        (
            "browser: zoom or move, 99th percentile",
            float(np.quantile(pictures, 0.99)),
            "ms",
            high * 1e3,
        ),
        ("browser: next frame, 99th percentile", float(np.quantile(frames, 0.99)), "ms", 0.0),
    ]
