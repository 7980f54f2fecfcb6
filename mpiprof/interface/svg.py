"""SVG elements for charts, plots and diagrams; texts are escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

# Okabe and Ito's colours, safe for colour blindness; the yellow is darker here.
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#e69f00", "#009e73", "#cc79a7"
SKY, RED, OLIVE, GREY = "#56b4e9", "#d55e00", "#a89b00", "#8a94a0"
CYCLE = (BLUE, ORANGE, GREEN, PINK, SKY, RED, OLIVE, GREY)


def make_drawing(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Return a picture; screen readers read its title."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def make_label(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    """Return a text at a position; `more`: attributes."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" '
        f'text-anchor="{anchor}"{_join_attributes(more)}>{escape(text)}</text>'
    )


def make_box(
    x: float,
    y: float,
    width: float,
    height: float,
    colour: str = "",
    note: str = "",
    more: str = "",
) -> str:
    """Return a rectangle with a tooltip."""
    fill = f' fill="{colour}"' if colour else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
        f"{fill}{_join_attributes(more)}>{make_tooltip(note)}</rect>"
    )


def make_line(x: float, y: float, to_x: float, to_y: float, more: str = "", note: str = "") -> str:
    """Return a straight line with a tooltip."""
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"{_join_attributes(more)}>'
        f"{make_tooltip(note)}</line>"
    )


def make_path(course: str, more: str = "") -> str:
    """Return a path with SVG path data."""
    return f'<path d="{course}"{_join_attributes(more)}/>'


def make_image(x: float, y: float, width: float, height: float, address: str) -> str:
    """Return an embedded image without smoothing of its pixels."""
    return (
        f'<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{address}"/>'
    )


def make_tooltip(note: str) -> str:
    """Return the tooltip of the surrounding element."""
    return f"<title>{escape(note)}</title>" if note else ""


def choose_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most so many round numbers between two numbers."""
    span = high - low
    if not span > 0:
        return [low]
    size = 10.0 ** math.floor(math.log10(span / most))
    step = next(size * k for k in (1, 2, 5, 10, 20) if span / (size * k) <= most)
    return [
        step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def _join_attributes(more: str) -> str:
    return f" {more}" if more else ""
