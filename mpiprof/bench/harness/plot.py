"""Plots as plain SVG, for self-contained pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mpiprof.interface.svg import CYCLE, box, drawing, label, path, titled

GRID = 'stroke="#ddd"'
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 34, 48


@dataclass(frozen=True)
class Series:
    """One line: its name, its points, and optionally the interval of each y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Axis:
    """An axis: its title, and the text of a value."""

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
    """Maps a value to a coordinate on the page."""

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


def _frame(x: _Scale, y: _Scale, title: str) -> list[str]:
    parts = [label(WIDTH / 2, 18, title, "middle", 'font-weight="bold"')]
    for tick in x.ticks():
        place = x(tick)
        parts.append(path(f"M{place:.1f} {TOP}V{HEIGHT - BOTTOM}", GRID))
        parts.append(label(place, HEIGHT - BOTTOM + 16, x.axis.text(tick), "middle"))
    for tick in y.ticks():
        place = y(tick)
        parts.append(path(f"M{LEFT} {place:.1f}H{WIDTH - RIGHT}", GRID))
        parts.append(label(LEFT - 6, place + 4, y.axis.text(tick), "end"))
    parts.append(label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.axis.title, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle:.0f})"'
    parts.append(label(14, middle, y.axis.title, "middle", turned))
    return parts


def _line(series: Series, colour: str, x: _Scale, y: _Scale) -> list[str]:
    points = [(x(a), y(b)) for a, b in zip(series.x, series.y, strict=True)]
    course = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts = [f'<polyline points="{course}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
    parts += [
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}">'
        + titled(f"{series.name}: {x.axis.text(u)}, {y.axis.text(v)}")
        + "</circle>"
        for (a, b), u, v in zip(points, series.x, series.y, strict=True)
    ]
    parts += [
        path(f"M{x(a):.1f} {y(low):.1f}V{y(high):.1f}", f'stroke="{colour}"')
        for a, low, high in zip(series.x, series.low, series.high, strict=False)
    ]
    return parts


def lines(title: str, series: Sequence[Series], across: Axis, up: Axis) -> str:
    """Return a line plot with a legend below it."""
    every = [v for s in series for v in (*s.y, *s.low, *s.high)]
    x = _Scale([v for s in series for v in s.x], across, LEFT, WIDTH - RIGHT)
    y = _Scale(every, up, HEIGHT - BOTTOM, TOP)
    parts = _frame(x, y, title)
    below = HEIGHT
    for i, one in enumerate(series):
        colour = CYCLE[i % len(CYCLE)]
        parts += _line(one, colour, x, y)
        left, below = LEFT + i % 2 * 280, HEIGHT + 16 + i // 2 * 18
        parts.append(path(f"M{left} {below - 4}h18", f'stroke="{colour}" stroke-width="3"'))
        parts.append(label(left + 24, below, one.name, "start"))
    return drawing(WIDTH, below + 12, title, parts)


def bars(title: str, groups: Sequence[str], series: Mapping[str, Sequence[float]], up: Axis) -> str:
    """Return a bar chart: in each group, one bar for each named series."""
    y = _Scale([0.0, *(v for values in series.values() for v in values)], up, HEIGHT - BOTTOM, TOP)
    parts = [label(WIDTH / 2, 18, title, "middle", 'font-weight="bold"')]
    for tick in y.ticks():
        parts.append(path(f"M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}", GRID))
        parts.append(label(LEFT - 6, y(tick) + 4, up.text(tick), "end"))
    each = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    wide = 0.8 * each / max(len(series), 1)
    for g, group in enumerate(groups):
        left = LEFT + each * (g + 0.1)
        parts.append(label(left + 0.4 * each, HEIGHT - BOTTOM + 16, group, "middle"))
        for i, (name, values) in enumerate(series.items()):
            note = f"{name}, {group}: {up.text(values[g])}"
            top, colour = y(values[g]), CYCLE[i % len(CYCLE)]
            parts.append(box(left + i * wide, top, wide - 1, HEIGHT - BOTTOM - top, colour, note))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle:.0f})"'
    parts.append(label(14, middle, up.title, "middle", turned))
    for i, name in enumerate(series):
        parts.append(box(LEFT + i * 140, HEIGHT - 14, 14, 12, CYCLE[i % len(CYCLE)]))
        parts.append(label(LEFT + i * 140 + 20, HEIGHT - 4, name))
    return drawing(WIDTH, HEIGHT + 6, title, parts)


def map_of(title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a map of names in rows and columns, with one colour for each name."""
    names = sorted({cell for _, cells in rows for cell in cells})
    wide, high, left = 64, 20, 90
    width = left + wide * len(columns) + 10
    parts = [label(width / 2, 16, title, "middle", 'font-weight="bold"')]
    parts += [
        label(left + wide * (i + 0.5), 36, column, "middle") for i, column in enumerate(columns)
    ]
    for r, (head, cells) in enumerate(rows):
        top = 42 + high * r
        parts.append(label(left - 6, top + 14, head, "end"))
        for i, cell in enumerate(cells):
            colour = CYCLE[names.index(cell) % len(CYCLE)]
            note = f"{head}, {columns[i]}: {cell}"
            parts.append(box(left + wide * i, top, wide - 1, high - 1, colour, note))
    bottom = 42 + high * len(rows) + 20
    for i, name in enumerate(names):
        place = bottom + 18 * i
        parts.append(box(left, place - 10, 14, 12, CYCLE[i % len(CYCLE)]))
        parts.append(label(left + 20, place, name))
    return drawing(width, bottom + 18 * len(names), title, parts)
