"""Plots as plain SVG, for pages that need nothing but themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0b6fa4", "#d1495b", "#2e7d32", "#e08e0b", "#6a4c93", "#00838f", "#8d6e63", "#455a64")
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 34, 48


@dataclass(frozen=True)
class Series:
    """One line: its name, its points, and where known the interval around each y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Axis:
    """What an axis shows: its title, and how a value is written."""

    title: str
    text: Callable[[float], str]
    log: bool = True


def _place(values: Sequence[float], log: bool) -> tuple[float, float]:
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(shown), max(shown)
    if log:
        low, high = math.log10(low), math.log10(high)
    else:
        low = min(low, 0.0)
    return (low - 0.5, high + 0.5) if high - low < 1e-9 else (low, high)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        steps = (1, 2, 5) if high - low < 3 else (1,)
        powers = range(math.floor(low), math.ceil(high) + 1)
        values = [m * 10.0**k for k in powers for m in steps]
        inside = [v for v in values if low - 1e-9 <= math.log10(v) <= high + 1e-9]
        return inside if len(inside) > 1 else [10**low, 10**high]
    size = 10 ** math.floor(math.log10(max(high - low, 1e-12)))
    while (high - low) / size < 4:
        size /= 2
    return [size * k for k in range(math.ceil(low / size), math.floor(high / size) + 1)]


class _Scale:
    """From a value to a place on the page."""

    def __init__(self, values: Sequence[float], axis: Axis, begin: float, end: float) -> None:
        self.axis, self.begin, self.end = axis, begin, end
        self.low, self.high = _place(values, axis.log)

    def __call__(self, value: float) -> float:
        if self.axis.log:
            value = math.log10(max(value, 1e-300))
        part = min(max((value - self.low) / (self.high - self.low), 0), 1)
        return self.begin + part * (self.end - self.begin)

    def ticks(self) -> list[float]:
        return _ticks(self.low, self.high, self.axis.log)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _frame(x: _Scale, y: _Scale, title: str) -> list[str]:
    parts = [_text(WIDTH / 2, 18, title, "middle", 'font-weight="bold"')]
    for tick in x.ticks():
        place = x(tick)
        parts.append(f'<path d="M{place:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(place, HEIGHT - BOTTOM + 16, x.axis.text(tick), "middle"))
    for tick in y.ticks():
        place = y(tick)
        parts.append(f'<path d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, place + 4, y.axis.text(tick), "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.axis.title, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle:.0f})"'
    parts.append(_text(14, middle, y.axis.title, "middle", turned))
    return parts


def _line(series: Series, colour: str, x: _Scale, y: _Scale) -> list[str]:
    points = [(x(a), y(b)) for a, b in zip(series.x, series.y, strict=True)]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
    parts += [
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}">'
        f"<title>{escape(series.name)}: {escape(x.axis.text(u))}, {escape(y.axis.text(v))}</title>"
        "</circle>"
        for (a, b), u, v in zip(points, series.x, series.y, strict=True)
    ]
    parts += [
        f'<path d="M{x(a):.1f} {y(low):.1f}V{y(high):.1f}" stroke="{colour}"/>'
        for a, low, high in zip(series.x, series.low, series.high, strict=False)
    ]
    return parts


def lines(title: str, series: Sequence[Series], across: Axis, up: Axis) -> str:
    """Return a plot of lines with a legend below it."""
    every = [v for s in series for v in (*s.y, *s.low, *s.high)]
    x = _Scale([v for s in series for v in s.x], across, LEFT, WIDTH - RIGHT)
    y = _Scale(every, up, HEIGHT - BOTTOM, TOP)
    parts = _frame(x, y, title)
    below = HEIGHT
    for i, one in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        parts += _line(one, colour, x, y)
        left, below = LEFT + i % 2 * 280, HEIGHT + 16 + i // 2 * 18
        parts.append(f'<path d="M{left} {below - 4}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(left + 24, below, one.name, "start"))
    return (
        f'<svg viewBox="0 0 {WIDTH} {below + 12}" width="{WIDTH}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def map_of(title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a map: which name stands where, each name in a colour of its own."""
    names = sorted({cell for _, cells in rows for cell in cells})
    wide, high, left = 64, 20, 90
    width = left + wide * len(columns) + 10
    parts = [_text(width / 2, 16, title, "middle", 'font-weight="bold"')]
    parts += [
        _text(left + wide * (i + 0.5), 36, column, "middle") for i, column in enumerate(columns)
    ]
    for r, (label, cells) in enumerate(rows):
        top = 42 + high * r
        parts.append(_text(left - 6, top + 14, label, "end"))
        for i, cell in enumerate(cells):
            colour = COLOURS[names.index(cell) % len(COLOURS)]
            parts.append(
                f'<rect x="{left + wide * i}" y="{top}" width="{wide - 1}" height="{high - 1}" '
                f'fill="{colour}"><title>{escape(label)}, {escape(columns[i])}: {escape(cell)}'
                "</title></rect>"
            )
    bottom = 42 + high * len(rows) + 20
    for i, name in enumerate(names):
        place = bottom + 18 * i
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<rect x="{left}" y="{place - 10}" width="14" height="12" fill="{colour}"/>')
        parts.append(_text(left + 20, place, name, "start"))
    return (
        f'<svg viewBox="0 0 {width} {bottom + 18 * len(names)}" width="{width}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
