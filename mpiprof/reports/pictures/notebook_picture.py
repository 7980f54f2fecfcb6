"""A picture as an object that notebooks show, and that can be saved."""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path

from mpiprof.interface.tokens import resolve_colours


class NotebookPicture:
    """A server-made picture in light colours; notebooks show it, `save` writes it as SVG.

    note: how to read it, below the picture. width: in px, for pictures of a fixed size.
    """

    def __init__(self, svg: str, note: str = "", width: float = 0.0) -> None:
        if width:
            svg = re.sub(r'width="\d+" height="\d+"', f'width="{width:.0f}"', svg, count=1)
        self.svg, self.note = resolve_colours(svg), note

    def __repr__(self) -> str:
        label = re.search(r'aria-label="([^"]*)"', self.svg)
        return f"<picture: {label[1] if label else ''}>"

    def _repr_svg_(self) -> str:
        """Return the picture as SVG."""
        return self.svg

    def _repr_html_(self) -> str:
        """Return the picture with its note as HTML, on a light ground in any theme."""
        style = resolve_colours(
            "background:var(--surface);color:var(--ink3);font:12px var(--font);padding:8px;"
            "max-width:1232px"
        )
        note = f"<div>{escape(self.note)}</div>" if self.note else ""
        return f'<div style="{style}">{self.svg}{note}</div>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")
