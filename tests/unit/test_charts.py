"""Figures of the self-contained page."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np

from mpiprof.interface.format_units import format_time
from mpiprof.reports import charts
from mpiprof.reports.colours import operation_colour
from mpiprof.trace.types import Array


def test_cells_are_filled_in_proportion() -> None:
    shares = np.array([[[0.5, 0.5], [0.5, 0.0], [0.0, 0.0], [0.0, 1.0]]])
    pixels = charts.fill_cells(shares)
    assert pixels.shape == (charts.STEPS, 4)
    for column, (first, second) in enumerate([(3, 3), (3, 0), (0, 0), (0, 6)]):
        upwards = pixels[::-1, column].tolist()
        assert upwards == [1] * first + [2] * second + [0] * (charts.STEPS - first - second)


def test_the_pointer_shows_the_shares_of_a_call_site() -> None:
    shares = np.zeros((2, 4, 2))
    shares[1, 2] = 0.25, 0.5
    waits = np.zeros_like(shares)
    waits[1, 2, 0] = 0.05
    drawn = charts.timeline_chart(shares, waits, ["allreduce", "bcast"], 8, 4e9, format_time)
    printed = "ranks 4-7, 2.00 s to 3.00 s: bcast 50%, allreduce 25% (20% of it waiting)"
    assert printed in drawn
    assert "allreduce (3.1%, 20% of it waiting)" in drawn and "bcast (6.2%)" in drawn
    assert drawn.count("ranks 0-3") == 0
    wide = np.full((300, 1000, 1), 0.5)
    assert len(charts.timeline_chart(wide, wide / 2, ["bcast"], 300, 1e9, format_time)) < 300_000


def test_waiting_is_drawn_pale_in_the_colour_of_its_operation() -> None:
    """A cell with an allreduce in half of it, half of that wait: pale above full colour."""
    shares, waits = np.full((1, 1, 1), 1.0), np.full((1, 1, 1), 0.5)
    drawn = charts.timeline_chart(shares, waits, ["allreduce"], 1, 1e9, format_time)
    palette, pixels = read(drawn)
    half = charts.STEPS // 2
    assert [palette[i] for i in pixels[:, 0]] == [palette[2]] * half + [palette[1]] * half
    colour = operation_colour("allreduce")
    rgb = tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    assert palette[1] == (*rgb, 255) and palette[2] == (*rgb, round(255 * charts.PALE_SHARE))


def read(drawn: str) -> tuple[list[tuple[int, ...]], Array]:
    """Return the palette and pixels of the first picture in a drawing."""
    match = re.search(r"data:image/png;base64,([^\"]+)", drawn)
    assert match is not None
    data, parts, at = base64.b64decode(match[1]), {}, 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        parts[data[at + 4 : at + 8]] = data[at + 8 : at + 8 + length]
        at += 12 + length
    columns, rows = (int.from_bytes(parts[b"IHDR"][i : i + 4], "big") for i in (0, 4))
    flat = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8)
    opaque = parts[b"tRNS"]
    colours = np.frombuffer(parts[b"PLTE"], np.uint8).reshape(-1, 3).tolist()
    palette = [(*rgb, opaque[i]) for i, rgb in enumerate(colours)]
    return palette, flat.reshape(rows, columns + 1)[:, 1:]
