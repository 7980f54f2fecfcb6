"""Time until the overview of a large trace answers: `python -m benchmarks.first_answer`.

The benchmark writes a trace to a temporary folder and opens it in Chromium, twice: without a cache
beside the trace, and with it. It measures from the navigation, with the browser's cache empty:
until the outline of the page is painted, until the share lost appears, and until its cause appears.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from support.dashboard_server import TIMEOUT_MS, chromium, view

from benchmarks.checks import Row, store
from benchmarks.reading import write
from benchmarks.view import number

# Milliseconds of the first appearance of each selector.
OBSERVE = """(() => {
    const wanted = ["#skeleton", "#overview-share .share", ".answer"];
    window.seen = {};
    new MutationObserver(() => {
        for (const one of wanted) {
            if (!(one in window.seen) && document.querySelector(one)) {
                window.seen[one] = performance.now();
            }
        }
    }).observe(document, { childList: true, subtree: true });
})()"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
PROMISED = 10**6  # calls, for which the limits apply
OUTLINE_MS, ANSWER_MS = 300, 1000


def measure(folder: Path) -> dict[str, float]:
    """Return the milliseconds of each step of the first page."""
    with view([folder]) as running, chromium() as started:
        page = started.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(OBSERVE)
        page.goto(running.address, wait_until="commit")
        page.wait_for_selector(".answer")
        seen = page.evaluate("window.seen")
        painted = page.evaluate(PAINTED)
    share = seen.get("#overview-share .share", seen[".answer"])
    return {"outline": painted, "share lost": min(share, seen[".answer"]), "cause": seen[".answer"]}


def report(title: str, found: dict[str, float], calls: int) -> None:
    """Print and store the measurements beside their limits."""
    print(title)
    for name, value in found.items():
        limit = OUTLINE_MS if name == "outline" else ANSWER_MS
        goal = f"< {limit} ms" if calls <= PROMISED else ""
        print(f"  {name:12}{value:10.0f} ms   {goal}")
        store(Row(f"{title}: {name}", goal, f"{value:.0f} ms", not goal or value < limit))


def main() -> None:
    """Write a trace, and open it without and with its cache."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=number, default=PROMISED)
    parser.add_argument("--ranks", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as name:
        folder = Path(name)
        calls = write(folder, options.calls, options.ranks)
        print(f"{calls:,} calls on {options.ranks} ranks")
        report("first page without a cache", measure(folder), calls)
        report("first page with a cache", measure(folder), calls)


if __name__ == "__main__":
    main()
