"""Outline of a page in plain HTML with inline style, shown before the server's next response.

A page lists the expected heights of its cards in `SKELETON` (px). shell.js removes the outline's
head when the frame appears, and the rest when the page is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from types import ModuleType


def make_outline(pages: Sequence[ModuleType], path: str) -> str:
    """Return the outline of the page at a path."""
    current = next((page for page in pages if path == page.PATH), None)
    names = "".join(
        f'<span class="here">{escape(page.TITLE)}</span>'
        if page is current
        else f"<span>{escape(page.TITLE)}</span>"
        for page in pages
    )
    cards = "".join(f'<i style="height:{high}px"></i>' for high in getattr(current, "SKELETON", ()))
    return (
        f"<style>{_style()}</style>"
        '<div id="skeleton" role="status" aria-label="The page is being made">'
        '<div class="skeleton-head" aria-hidden="true">'
        f'<span class="brand">mpi<b>prof</b></span><div>{names}</div></div>'
        f'<div class="skeleton-cards" aria-hidden="true">{cards}</div></div>'
    )


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text()
