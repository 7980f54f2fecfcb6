"""Elements of SVG pictures, in the colours, fonts and hatches of the design tokens.

`make_picture` joins elements and adds the hatches that they use. Positions and sizes are in px.
Texts are escaped.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mpiprof.interface.tokens import LIGHT, TOKENS, use_colour

# The data of a picture is a list of rows; the first row has the names of the columns.
TableRow = Sequence[str | float]
HATCH = TOKENS["hatch"]
CHARACTER_WIDTH = 0.56  # mean width of a character, as a share of the font size


@dataclass(frozen=True)
class DataPicture:
    """A picture as SVG, the data that it shows, and its title and explanation if it has any."""

    svg: str
    values: Sequence[TableRow]
    title: str = ""
    how_to_read: str = ""


# ---- plain elements


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


# ---- elements in the colours of the tokens


def fill(name: str, opacity: float = 1.0) -> str:
    """Return the attributes that fill an element in a colour of the tokens."""
    return f'fill="{use_colour(name)}"' + (f' fill-opacity="{opacity:g}"' if opacity < 1 else "")


def stroke(name: str, width: float = 1.0, dash: str = "") -> str:
    """Return the attributes that draw an outline in a colour of the tokens."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{use_colour(name)}" stroke-width="{width:g}"{dashed}'


def hatch(name: str, height: float = TOKENS["size"]["lens_row"]) -> str:
    """Return the attributes that hatch an element in a colour, as waiting is drawn.

    An element too low for a hatch gets a pale flat colour.
    """
    if height < HATCH["below_row_px"]:
        return fill(name, HATCH["then_flat_opacity"])
    return f'fill="url(#hatch-{name})"'


def make_rectangle(
    x: float, y: float, width: float, height: float, attributes: str, note: str = ""
) -> str:
    """Return a rectangle with the attributes of `fill` or `hatch`, and a tooltip."""
    return make_box(x, y, width, height, note=note, more=attributes)


def make_text(
    x: float,
    y: float,
    text: str,
    colour: str = "ink3",
    *,
    anchor: str = "start",
    size: float = TOKENS["type"]["axis"][0],
    bold: bool = False,
) -> str:
    """Return a text whose baseline is at y."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}"{weight} '
        f"{fill(colour)}>{escape(text)}</text>"
    )


def measure_text(text: str, size: float = TOKENS["type"]["axis"][0]) -> float:
    """Return the approximate width of a text."""
    return len(text) * size * CHARACTER_WIDTH


def make_dimension(x: float, to_x: float, y: float, text: str, colour: str = "late") -> str:
    """Return a dimension line with arrow heads, interrupted by its text where that fits."""
    size, label = 13, "late-text" if colour == "late" else colour
    half = measure_text(text, size) / 2 + 8
    middle, line = (x + to_x) / 2, stroke(colour)
    if to_x - x < 2 * half + 12:
        return make_text(to_x + 6, y + 4, text, label, size=size, bold=True) + make_line(
            x, y, to_x, y, line
        )
    return "".join(
        [
            make_line(x, y, middle - half, y, line),
            make_line(middle + half, y, to_x, y, line),
            make_path(f"M{x:.1f} {y:.1f}l6 -3v6z", fill(colour)),
            make_path(f"M{to_x:.1f} {y:.1f}l-6 -3v6z", fill(colour)),
            make_text(middle, y + 4, text, label, anchor="middle", size=size, bold=True),
        ]
    )


def make_picture(
    width: float, height: float, label: str, parts: Sequence[str], *, scales: bool = True
) -> str:
    """Return a picture of elements. `label` is a sentence that screen readers read.

    scales: the picture takes the width of its container; otherwise it has a fixed size.
    """
    drawn = "".join(parts)
    names = sorted(set(re.findall(r"url\(#hatch-([a-z0-9_-]+)\)", drawn)) & set(LIGHT))
    # Hatches of a hidden picture are not drawn, so that no picture uses those of another.
    own = f"{zlib.crc32(drawn.encode()):08x}"
    drawn = re.sub(r"url\(#hatch-([a-z0-9_-]+)\)", rf"url(#hatch-\1-{own})", drawn)
    hatches = "".join(_make_hatch(name, f"hatch-{name}-{own}") for name in names)
    hatches = f"<defs>{hatches}</defs>" if names else ""
    size = 'style="width:100%;height:auto"' if scales else f'height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" {size} role="img" aria-label="{escape(label)}" '
        f'font-family="var(--font)">{hatches}{drawn}</svg>'
    )


def _make_hatch(name: str, identity: str) -> str:
    pitch, colour = HATCH["pitch_px"], use_colour(name)
    return (
        f'<pattern id="{identity}" width="{pitch}" height="{pitch}" '
        f'patternUnits="userSpaceOnUse" patternTransform="rotate({HATCH["angle_deg"]})">'
        f'<rect width="{pitch}" height="{pitch}" fill="{colour}" '
        f'opacity="{HATCH["ground_opacity"]}"/>'
        f'<line x1="0" y1="0" x2="0" y2="{pitch}" stroke="{colour}" '
        f'stroke-width="{HATCH["line_px"]}" opacity="{HATCH["line_opacity"]}"/></pattern>'
    )
