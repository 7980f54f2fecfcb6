"""Pages of the documentation that contain generated text between two markers."""

from __future__ import annotations

from pathlib import Path


def replace_between(path: Path, begin: str, end: str, content: str) -> None:
    """Replace the text between two markers of a page; raises SystemExit without markers."""
    before, first, rest = path.read_text("utf-8").partition(begin)
    _, second, after = rest.partition(end)
    if not (first and second):
        raise SystemExit(f"{path} has no markers: add {begin} and {end}")
    path.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}", "utf-8")
