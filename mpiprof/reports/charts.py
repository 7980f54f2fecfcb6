"""Charts for a self-contained page: SVG, with embedded PNG for pictures of many cells.

Texts use the page's text colour, so they are readable on light and dark backgrounds. Colours are by
Okabe and Ito, and cividis, which are safe for colour blindness. Every text is escaped.
"""

from __future__ import annotations

import base64
import itertools
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiprof.interface import svg
from mpiprof.reports.colours import operation_colour

# Cividis (Nuñez, Anderton and Renslow 2018) at equal distances.
CIVIDIS_ANCHORS = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102))
CIVIDIS_END = (254, 232, 56)
LEVELS = 63
STEPS = 6  # resolution of a timeline cell, in pixels
PALE_SHARE = 0.38  # opacity of waiting; the colour is the operation's
TOOLTIP_CELLS = (20, 60)  # tooltips of the timeline: along ranks, along time

GRID = 'class="grid"'

Text = Callable[[float], str]
Colour = tuple[int, int, int, int]  # red, green, blue, opacity


# ---- kinds of pictures


def stacked_bar(parts: Sequence[tuple[str, float, str]], text: Text) -> str:
    """Return one stacked bar of (name, value, colour) with a legend below it."""
    whole, width = sum(value for _, value, _ in parts) or 1.0, 760.0
    elements, x = [], 0.0
    for name, value, colour in parts:
        wide = width * value / whole
        note = f"{name}: {text(value)}, {value / whole:.0%}"
        elements.append(svg.make_box(x, 0, wide, 26, colour, note))
        x += wide
    for i, (name, value, colour) in enumerate(parts):
        y = 50 + 20 * i
        elements.append(svg.make_box(0, y - 10, 12, 12, colour))
        elements.append(svg.make_label(20, y, f"{name}: {value / whole:.0%}, {text(value)}"))
    return svg.make_drawing(width, 50 + 20 * len(parts), "where the time went", elements)


def bar_chart(rows: Sequence[tuple[str, float, str]], colour: str, title: str) -> str:
    """Return horizontal bars of (name, value, label)."""
    largest = max((value for _, value, _ in rows), default=0.0) or 1.0
    elements, left, right, width = [], 84, 190, 480
    for i, (name, value, says) in enumerate(rows):
        y = 20 * i
        elements.append(svg.make_label(left - 6, y + 14, name, "end"))
        wide = (width - left - right) * value / largest
        elements.append(svg.make_box(left, y + 3, max(wide, 0.5), 14, colour, f"{name}: {says}"))
        elements.append(svg.make_label(left + wide + 6, y + 14, says))
    return svg.make_drawing(width, 20 * len(rows) + 4, title, elements)


def line_chart(values: Any, across: Text, up: Text, title: str) -> str:
    """Return a line chart of values over a baseline of 0; NaN leaves a gap."""
    width, height, left, ground = 560, 150, 64, 130
    high, elements = _highest(values), []
    for tick in svg.choose_ticks(0, high, 4):
        y = ground - (ground - 8) * tick / high
        elements.append(svg.make_path(f"M{left} {y:.1f}H{width}", GRID))
        elements.append(svg.make_label(left - 6, y + 4, up(tick) if tick else "0", "end"))
    for x, text in _axis_ends(len(values), across, left, width):
        elements.append(svg.make_label(x, height - 4, text, "start" if x == left else "end"))
    elements.append(_line_path(values, high, left, width, ground))
    return svg.make_drawing(width, height, title, elements)


def sparkline(values: Any, title: str) -> str:
    """Return values as a sparkline."""
    return svg.make_drawing(110, 24, title, [_line_path(values, _highest(values), 1, 109, 23)])


def _highest(values: Any) -> float:
    finite = values[~np.isnan(values)]
    return (float(finite.max()) if len(finite) else 1.0) or 1.0


def _line_path(values: Any, high: float, left: float, right: float, ground: float) -> str:
    step = (right - left) / max(len(values) - 1, 1)
    course, pen = "", "M"
    for i, value in enumerate(values.tolist()):
        if math.isnan(value):
            pen = "M"
            continue
        course += f"{pen}{left + step * i:.1f} {ground - (ground - 8) * value / high:.1f}"
        course += "h.1" if pen == "M" else ""  # makes a single point visible
        pen = "L"
    return svg.make_path(course, f'fill="none" stroke="{svg.BLUE}" stroke-width="1.5"')


def _axis_ends(count: int, across: Text, left: float, right: float) -> list[tuple[float, str]]:
    return [(left, across(0)), (right, across(count - 1))] if count > 1 else [(left, across(0))]


# ---- pictures of many cells


def png(pixels: Any, palette: Sequence[Colour]) -> bytes:
    """Return a PNG; pixels (rows x columns) are indices into at most 256 colours."""
    rows, columns = pixels.shape
    lines = np.zeros((rows, columns + 1), np.uint8)  # each row begins with its filter type: none
    lines[:, 1:] = pixels
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(bytes(colour[:3]) for colour in palette)),
        (b"tRNS", bytes(colour[3] for colour in palette)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in parts:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        content += struct.pack(">I", len(data)) + kind + data + checksum
    return content


def png_address(content: bytes) -> str:
    """Return a PNG as a data URL."""
    return "data:image/png;base64," + base64.b64encode(content).decode()


def rank_axis(ranks: int, top: float, height: float, left: float) -> list[str]:
    """Return the rank numbers beside rows that represent all ranks, first on top."""
    marks = [t for t in svg.choose_ticks(0, ranks - 1, max(int(height / 24), 1)) if t == int(t)]
    heights = [top + height * (rank + 0.5) / ranks + 4 for rank in marks]
    labels = zip(heights, marks, strict=True)
    return [svg.make_label(left - 6, y, f"{rank:.0f}", "end") for y, rank in labels]


def heat_map(cells: Any, ranks: int, across: Text, text: Text, title: str) -> str:
    """Return a heat map of times (ns), rows x columns, on a square-root scale from 0.

    The square root makes small values visible. Rows are ranks. `across` returns the label of a
    column, and labels both ends of the axis.
    """
    left, width, height = 56, 500, max(24.0, min(260.0, 16.0 * len(cells)))
    largest = float(np.nanmax(cells)) if np.isfinite(cells).any() else 0.0
    level = np.sqrt(np.nan_to_num(cells) / (largest or 1.0)) * (LEVELS - 1)
    pixels = np.where(np.isnan(cells), LEVELS, level.round()).astype(np.uint8)
    palette = _cividis_palette()
    address = png_address(png(pixels, [*palette, (0, 0, 0, 0)]))
    elements = [*rank_axis(ranks, 4, height, left), svg.make_image(left, 4, width, height, address)]
    for x, instance in _axis_ends(cells.shape[1], across, left, left + width):
        elements.append(svg.make_label(x, height + 20, instance, "start" if x == left else "end"))
    scale = png_address(png(np.arange(LEVELS, dtype=np.uint8)[None], palette))
    elements.append(svg.make_image(left, height + 30, 160, 10, scale))
    for part in (0.0, 0.25, 1.0):
        x, label = left + 160 * part**0.5, text(largest * part) if part else "0"
        elements.append(svg.make_label(x, height + 54, label, "middle"))
    elements.append(svg.make_label(left + 200, height + 40, title))
    return svg.make_drawing(left + width + 30, height + 60, title, elements)


def _cividis_palette() -> list[Colour]:
    anchors = np.array([*CIVIDIS_ANCHORS, CIVIDIS_END], np.float64)
    at = np.linspace(0, len(anchors) - 1, LEVELS)
    channels = [np.interp(at, np.arange(len(anchors)), anchors[:, i]).round() for i in range(3)]
    return [(int(r), int(g), int(b), 255) for r, g, b in zip(*channels, strict=True)]


def timeline_chart(
    shares: Any, waiting: Any, operations: Sequence[str], ranks: int, span: float, text: Text
) -> str:
    """Return ranks x time, each cell filled from below by its operations, in proportion.

    shares: rows x columns x operations, as shares of the cell's time; the unfilled part is outside
    collectives. waiting: the waiting part of `shares`, drawn pale. span: the total time in ns.
    """
    left, width, height = 56, 1000, max(40.0, min(420.0, 18.0 * len(shares)))
    colours = [operation_colour(name) for name in operations]
    palette: list[Colour] = [(0, 0, 0, 0)]
    for c in colours:
        red, green, blue = (int(c[i : i + 2], 16) for i in (1, 3, 5))
        palette += [(red, green, blue, 255), (red, green, blue, round(255 * PALE_SHARE))]
    parts = np.stack([shares - waiting, waiting], axis=3).reshape(*shares.shape[:2], -1)
    pixels = fill_cells(parts)
    elements = rank_axis(ranks, 4, height, left)
    elements.append(svg.make_box(left, 4, width, height, more='class="ground"'))
    elements.append(svg.make_image(left, 4, width, height, png_address(png(pixels, palette))))
    elements += _tooltips(shares, waiting, operations, ranks, span, text, (left, 4, width, height))
    for tick in svg.choose_ticks(0, span, 10):
        x = left + width * tick / max(span, 1)
        elements.append(svg.make_path(f"M{x:.1f} {height + 4}v5", GRID))
        elements.append(svg.make_label(x, height + 24, text(tick) if tick else "0", "middle"))
    for i, (name, colour) in enumerate(zip(operations, colours, strict=True)):
        x, y = left + 340 * (i % 3), height + 40 + 18 * (i // 3)
        whole, waits = (float(part[:, :, i].mean()) for part in (shares, waiting))
        of_it = f", {waits / whole:.0%} of it waiting" if waits > 0 else ""
        elements.append(svg.make_box(x, y, 12 if not of_it else 6, 12, colour))
        if of_it:
            opacity = f'fill-opacity="{PALE_SHARE}"'
            elements.append(svg.make_box(x + 6, y, 6, 12, colour, more=opacity))
        elements.append(svg.make_label(x + 18, y + 10, f"{name} ({whole:.1%}{of_it})"))
    high = height + 48 + 18 * -(-len(operations) // 3)
    return svg.make_drawing(left + width + 40, high, "timeline of all ranks", elements)


def fill_cells(shares: Any) -> Any:
    """Return STEPS stacked pixels per cell, in the order of operations: 0, or 1 + the operation."""
    rows, columns, operations = shares.shape
    if not operations:
        return np.zeros((rows * STEPS, columns), np.uint8)
    heights = np.cumsum(shares, axis=2)
    levels = (np.arange(STEPS)[::-1] + 0.5) / STEPS
    at = (heights[:, None] <= levels[None, :, None, None]).sum(3)
    return np.where(at < operations, at + 1, 0).astype(np.uint8).reshape(rows * STEPS, columns)


def _tooltips(
    shares: Any,
    waiting: Any,
    operations: Sequence[str],
    ranks: int,
    span: float,
    text: Text,
    origin: tuple[float, float, float, float],
) -> list[str]:
    """Return the tooltips as invisible boxes."""
    left, top, width, height = origin
    counts = zip(shares.shape, TOOLTIP_CELLS, strict=False)
    cuts = [np.linspace(0, n, min(n, limit) + 1).astype(int) for n, limit in counts]
    elements = []
    for a, b in itertools.pairwise(cuts[0].tolist()):
        first, last = a * ranks // len(shares), b * ranks // len(shares) - 1
        rank_label = f"rank {first}" if first == last else f"ranks {first}-{last}"
        for c, d in itertools.pairwise(cuts[1].tolist()):
            mean, waits = (part[a:b, c:d].mean((0, 1)) for part in (shares, waiting))
            parts = [
                f"{operations[i]} {mean[i]:.0%}"
                + (f" ({waits[i] / mean[i]:.0%} of it waiting)" if waits[i] > 0 else "")
                for i in np.argsort(-mean)
                if mean[i] > 0.005
            ]
            if parts:
                begin, end = (text(span * edge / shares.shape[1]) for edge in (c, d))
                note = f"{rank_label}, {begin} to {end}: {', '.join(parts)}"
                x, wide = left + width * c / shares.shape[1], width * (d - c) / shares.shape[1]
                y, high = top + height * a / len(shares), height * (b - a) / len(shares)
                elements.append(svg.make_box(x, y, wide, high, note=note, more='fill-opacity="0"'))
    return elements
