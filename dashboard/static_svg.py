"""SVG of a figure, for output without scripts: exported notebooks, mails, paper.

Supported are the elements of this package's figures: bars, lines, points and heat maps, on linear,
logarithmic and category axes, with marks and annotations. Texts are escaped.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mpiprof.interface import svg
from mpiprof.reports import png
from mpiprof.trace.types import Float

from . import theme

WIDTH = 860
LEVELS = 200  # number of colours of a heat map
GRID = 'stroke="#e3e7ec"'
MOST_LABELS = 24


class Axis:
    """Maps the values of one axis to positions from `low` to `high` (px)."""

    def __init__(self, wanted: Any, values: Sequence[Any], low: float, high: float) -> None:
        self.title = str(wanted.title.text or "")
        texts = [v for v in values if isinstance(v, str)]
        self.names = list(dict.fromkeys(texts))
        self.log = wanted.type == "log"
        ends = [0.0, 1.0]
        if self.names:
            ends = [-0.5, len(self.names) - 0.5]
        elif known := [v for v in (self.number(v) for v in values) if math.isfinite(v)]:
            ends = [min(known), max(known)]
        if wanted.range is not None and not self.names:
            ends = [float(v) for v in wanted.range]
        if wanted.autorange == "reversed":
            ends.reverse()
        self.first, self.last = ends if ends[0] != ends[1] else (ends[0], ends[0] + 1)
        self.low, self.high = low, high
        self.visible = wanted.visible is not False
        given = zip(wanted.tickvals or (), wanted.ticktext or (), strict=False)
        self.given = [(float(v), str(t)) for v, t in given]

    def number(self, value: Any) -> float:
        """Return a value as a number along the axis, or NaN if it is not on the axis."""
        if self.names:
            return float(self.names.index(str(value))) if str(value) in self.names else math.nan
        number = math.nan if value is None else float(value)
        if not self.log:
            return number
        return math.log10(number) if number > 0 else math.nan

    def at(self, value: Any) -> float:
        """Return the position of a value in px."""
        return self.along(self.number(value))

    def along(self, number: float) -> float:
        """Return the position in px of a number along the axis."""
        share = (number - self.first) / (self.last - self.first)
        return self.low + share * (self.high - self.low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return the positions of ticks in px, with their texts."""
        if self.names:
            every = -(-len(self.names) // min(most, MOST_LABELS))
            return [
                (self.along(i), name.rstrip("\u200b"))
                for i, name in enumerate(self.names)
                if i % every == 0
            ]
        least, greatest = sorted((self.first, self.last))
        given = [(self.at(value), text) for value, text in self.given]
        low, high = sorted((self.low, self.high))
        if given:
            return [(at, text) for at, text in given if low - 1 <= at <= high + 1]
        found = svg.ticks(least, greatest, most)
        return [(self.along(v), f"{v:.6g}" if not self.log else f"{10**v:.3g}") for v in found]


def picture(figure: go.Figure) -> str:
    """Return a figure as an SVG document."""
    bare = figure.layout.xaxis.visible is False and figure.layout.yaxis.visible is False
    bars = [one for one in figure.data if one.type == "bar"]
    placed = _stacked(figure, bars)
    xs, ys = _values(figure, placed)
    names = [text for text in ys if isinstance(text, str)]
    left = 8 if bare else min(30 + 7 * max(map(len, names), default=7), 240)
    legend = [one for one in figure.data if one.name and one.showlegend is not False]
    shown = bool(legend) and (figure.layout.showlegend is not False or (bare and len(legend) > 1))
    top = 34 if shown else 14
    height = int(figure.layout.height or 300) + (top if bare else 0)
    x = Axis(figure.layout.xaxis, xs, left, WIDTH - 80)
    y = Axis(figure.layout.yaxis, ys, height - (4 if bare else 48), top)
    made = [svg.box(0, 0, WIDTH, height, "#ffffff"), *_axes(x, y, height)]
    for one in figure.data:
        if one.type == "heatmap":
            made += _heat(one, x, y)
    for bar, begin, length, across in placed:
        made += _bar(bar, begin, length, across, x, y)
    made += _shapes(figure, x, y)
    for one in figure.data:
        if one.type == "scatter":
            other = figure.layout[f"yaxis{(one.yaxis or 'y')[1:]}"]
            mine = y if one.yaxis in (None, "y") else Axis(other, [0, *_flat(one.y)], y.low, y.high)
            made += _second(mine) if mine is not y else []
            made += _line(one, x, mine)
    made += _notes(figure, x, y)
    made += _legend(legend, left) if shown else []
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" '
        f'style="font: 12px {escape(theme.FONT, quote=True)}" fill="#2b3440">{"".join(made)}</svg>'
    )


def _flat(values: Any) -> list[Any]:
    return [] if values is None else list(np.asarray(values, object).reshape(-1))


def _values(figure: go.Figure, bars: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return all values of both axes."""
    xs: list[Any] = []
    ys: list[Any] = []
    for one in figure.data:
        if one.type == "bar":
            continue
        xs += _flat(one.x)
        if one.type == "heatmap" or one.yaxis in (None, "y"):
            ys += _flat(one.y)
    for bar, begin, length, _ in bars:
        along, across = (xs, ys) if bar.orientation == "h" else (ys, xs)
        along += [*begin.tolist(), *(begin + length).tolist()]
        across += _flat(bar.y if bar.orientation == "h" else bar.x)
    return xs, ys


def _stacked(figure: go.Figure, bars: Sequence[Any]) -> list[tuple[Any, Float, Float, Any]]:
    """Return the starts, the lengths and (shift, width) of the bars of each bar trace."""
    mode = figure.layout.barmode or "group"
    gap = figure.layout.bargap if figure.layout.bargap is not None else 0.15
    side = len(bars) if mode == "group" else 1
    sums: dict[tuple[str, bool], float] = {}
    found = []
    for i, bar in enumerate(bars):
        lengths, places = (bar.x, bar.y) if bar.orientation == "h" else (bar.y, bar.x)
        length = np.nan_to_num(np.asarray(lengths, np.float64))
        begin = np.zeros(len(length))
        if bar.base is not None:
            begin = np.broadcast_to(np.asarray(bar.base, np.float64), length.shape).copy()
        elif mode in ("stack", "relative"):
            for at, (place, value) in enumerate(zip(places, length.tolist(), strict=True)):
                key = (str(place), value < 0)
                begin[at] = sums.get(key, 0.0)
                sums[key] = begin[at] + value
        wide = (1 - gap) / side
        found.append((bar, begin, length, ((i - (side - 1) / 2) * wide if side > 1 else 0, wide)))
    return found


def _bar(bar: Any, begin: Float, length: Float, across: Any, x: Axis, y: Axis) -> list[str]:
    shift, wide = across
    flat = bar.orientation == "h"
    along, other = (x, y) if flat else (y, x)
    places = _flat(bar.y if flat else bar.x)
    made = []
    widths = _each(bar.width, len(places))
    colours = _each(bar.marker.color, len(places))
    texts = _each(bar.text if bar.textposition != "none" else None, len(places))
    for i, (place, a, b) in enumerate(zip(places, begin, begin + length, strict=True)):
        if other.names:
            centre = other.number(place) + shift
            sides = [other.along(centre + half) for half in (-wide / 2, wide / 2)]
        else:
            half = float(widths[i] or wide) / 2
            sides = [other.at(float(place) - half), other.at(float(place) + half)]
        p, q = sorted((along.along(float(a)), along.along(float(b))))
        r, s = sorted(sides)
        if not q > p or not math.isfinite(r + s):
            continue
        box = (p, r, q - p, s - r) if flat else (r, p, s - r, q - p)
        made.append(svg.box(*box, str(colours[i] or svg.GREY)))
        if texts[i] and box[2] > 7 * len(str(texts[i])):
            at = box[0] + box[2] / 2, box[1] + box[3] / 2 + 4
            made.append(svg.label(*at, str(texts[i]), "middle", 'fill="#ffffff"'))
    return made


def _each(value: Any, count: int) -> list[Any]:
    """Return an attribute per bar; a single value applies to all bars."""
    single = value is None or isinstance(value, str) or np.ndim(value) == 0
    return [value] * count if single else list(value)


def _line(one: Any, x: Axis, y: Axis) -> list[str]:
    mode = str(one.mode or "lines")
    colour = str((one.line.color if "lines" in mode else None) or one.marker.color or svg.BLUE)
    course, pen, dots = "", "M", []
    for value, height in zip(_flat(one.x), _flat(one.y), strict=False):
        p, q = (axis.at(v) for axis, v in ((x, value), (y, height)))
        if not (math.isfinite(p) and math.isfinite(q)):
            pen = "M"
            continue
        course, pen = course + f"{pen}{p:.1f} {q:.1f}", "L"
        dots.append(f'<circle cx="{p:.1f}" cy="{q:.1f}" r="2.5" fill="{escape(colour)}"/>')
    stroke = f'fill="none" stroke="{escape(colour)}" stroke-width="1.4"'
    made = [svg.path(course, stroke)] if course and "lines" in mode else []
    return made + (dots if "markers" in mode else [])


def _heat(one: Any, x: Axis, y: Axis) -> list[str]:
    cells = np.asarray(one.z, np.float64)
    low = float(one.zmin if one.zmin is not None else np.nanmin(cells))
    high = float(one.zmax if one.zmax is not None else np.nanmax(cells))
    palette = _palette(one.colorscale)
    level = np.clip((cells - low) / ((high - low) or 1.0), 0, 1) * (LEVELS - 1)
    pixels = np.where(np.isnan(cells), LEVELS, np.nan_to_num(level).round()).astype(np.uint8)
    if y.along(0) > y.along(1):
        pixels = pixels[::-1]
    left, right = _ends(x, one.x)
    top, bottom = _ends(y, one.y)
    address = png.address(png.encode(pixels, [*palette, (0, 0, 0, 0)]))
    made = [svg.picture(left, top, right - left, bottom - top, address)]
    if one.showscale is not False:
        scale = np.arange(LEVELS - 1, -1, -1, dtype=np.uint8)[:, None]
        strip = png.address(png.encode(scale, palette))
        made.append(svg.picture(x.high + 12, y.high, 12, y.low - y.high, strip))
        unit = str(one.colorbar.title.text or "")
        made.append(svg.label(x.high + 28, y.high + 10, f"{high:.3g} {unit}"))
        made.append(svg.label(x.high + 28, y.low, f"{low:.3g}"))
    return made


def _ends(axis: Axis, places: Any) -> tuple[float, float]:
    """Return the range of an axis's cells in px: half a cell beyond the outer values."""
    numbers = [axis.number(v) for v in _flat(places)]
    half = (numbers[-1] - numbers[0]) / (len(numbers) - 1) / 2 if len(numbers) > 1 else 0.5
    low, high = sorted((axis.low, axis.high))
    ends = sorted(axis.along(v) for v in (numbers[0] - half, numbers[-1] + half))
    return max(ends[0], low), min(ends[1], high)


def _palette(scale: Any) -> list[png.Colour]:
    at = np.array([float(where) for where, _ in scale])
    colours = np.array([_rgb(str(colour)) for _, colour in scale], np.float64)
    wanted = np.linspace(0, 1, LEVELS)
    found = [np.interp(wanted, at, colours[:, i]).round().astype(int) for i in range(3)]
    return [(int(r), int(g), int(b), 255) for r, g, b in zip(*found, strict=True)]


def _rgb(colour: str) -> list[int]:
    if colour.startswith("#"):
        return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return [int(float(part)) for part in re.findall(r"[\d.]+", colour)[:3]]


def _axes(x: Axis, y: Axis, height: int) -> list[str]:
    made = []
    for at, text in x.ticks(8) if x.visible else []:
        made.append(svg.segment(at, y.low, at, y.high, GRID))
        made.append(svg.label(at, y.low + 16, text, "middle"))
    for at, text in y.ticks(max(int((y.low - y.high) / 24), 2)) if y.visible else []:
        made.append(svg.segment(x.low, at, x.high, at, GRID))
        made.append(svg.label(x.low - 6, at + 4, text[:34], "end"))
    made.append(svg.label((x.low + x.high) / 2, height - 8, x.title, "middle"))
    middle = (y.low + y.high) / 2
    turned = f'transform="rotate(-90 12 {middle:.0f})"'
    return [*made, svg.label(12, middle, y.title, "middle", turned)]


def _second(axis: Axis) -> list[str]:
    """Return the axis at the right."""
    made = [svg.label(WIDTH - 76, at + 4, text) for at, text in axis.ticks(5)]
    middle = (axis.low + axis.high) / 2
    turned = f'transform="rotate(-90 {WIDTH - 8} {middle:.0f})"'
    return [*made, svg.label(WIDTH - 8, middle, axis.title, "middle", turned)]


def _in(axis: Axis, ref: Any, value: Any) -> float:
    """Return the position of a mark in px; "paper" and "domain" coordinates are from 0 to 1."""
    if ref and ("paper" in str(ref) or "domain" in str(ref)):
        return axis.low + float(value) * (axis.high - axis.low)
    return axis.at(value)


def _shapes(figure: go.Figure, x: Axis, y: Axis) -> list[str]:
    made = []
    for one in figure.layout.shapes:
        p, q = (_in(x, one.xref, v) for v in (one.x0, one.x1))
        r, s = (_in(y, one.yref, v) for v in (one.y0, one.y1))
        if not all(map(math.isfinite, (p, q, r, s))):
            continue
        if one.type == "rect":
            opacity = f'fill-opacity="{one.opacity if one.opacity is not None else 1}"'
            a, b = min(p, q), min(r, s)
            colour = str(one.fillcolor or svg.GREY)
            made.append(svg.box(a, b, abs(q - p), abs(s - r), colour, more=opacity))
            continue
        dash = "" if one.line.dash in (None, "solid") else ' stroke-dasharray="5 3"'
        stroke = f'stroke="{escape(str(one.line.color or svg.GREY))}"{dash}'
        made.append(svg.segment(p, r, q, s, f'{stroke} stroke-width="{one.line.width or 1}"'))
    return made


def _notes(figure: go.Figure, x: Axis, y: Axis) -> list[str]:
    made = []
    anchors = {"left": "start", "right": "end"}
    for one in figure.layout.annotations:
        # On a logarithmic axis, the coordinate of an annotation is a logarithm.
        p = x.along(float(one.x)) if x.log and one.xref == "x" else _in(x, one.xref, one.x)
        q = y.along(float(one.y)) if y.log and one.yref == "y" else _in(y, one.yref, one.y)
        text = re.sub("<[^>]*>", " ", str(one.text or ""))
        anchor = anchors.get(str(one.xanchor), "middle")
        if anchor == "start" and p + 6.6 * len(text) > WIDTH:
            p, anchor = WIDTH - 4.0, "end"
        if math.isfinite(p) and math.isfinite(q):
            made.append(svg.label(p, q - 3, text, anchor))
    return made


def _legend(traces: Sequence[Any], left: float) -> list[str]:
    made, at = [], left
    for one in traces:
        colour = one.marker.color or (one.line.color if one.type == "scatter" else None)
        if one.type == "heatmap" or at > WIDTH - 60:
            continue
        made.append(svg.box(at, 10, 10, 10, str(colour or svg.GREY)))
        made.append(svg.label(at + 15, 19, str(one.name)[:40]))
        at += 34 + 6.6 * min(len(str(one.name)), 40)
    return made


class Picture(go.Figure):  # type: ignore[misc]
    """A figure that is interactive in a notebook, and an SVG where no script runs."""

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()
        if not bundle:  # a terminal: the figure opens in a browser
            super()._ipython_display_()
            return
        # Every notebook that calls this method has IPython, so this package need not depend on it.
        importlib.import_module("IPython.display").display(bundle, raw=True)

    def _repr_mimebundle_(self, *arguments: Any, **more: Any) -> dict[str, Any]:
        """Return the representations of the figure that a notebook stores."""
        bundle = dict(super()._repr_mimebundle_(*arguments, **more) or {})
        if "application/vnd.plotly.v1+json" in bundle:
            # Exporters prefer HTML to SVG, and Plotly's HTML shows nothing without scripts.
            bundle.pop("text/html", None)
            bundle["image/svg+xml"] = picture(self)
        return bundle
