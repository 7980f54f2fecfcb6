"""Matrix of ranks: who waits for whom, or who sends to whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.interface import svg
from mpiprof.interface.format_units import format_count, format_size, format_time
from mpiprof.reports.pictures.cells import draw_cells

MAX_ROWS = 64
LEFT, TOP, BOTTOM = 64.0, 22.0, 40.0
SIDE, MAX_CELL = 290.0, 40.0  # px of the matrix, and maximum px of a cell
MAX_TICKS = 8


@dataclass(frozen=True)
class MatrixQuantity:
    """A quantity: its text, its colour, the titles of its axes and its title.

    sentence: text of a cell with its ranks {down} and {across} and its {amount}.
    """

    format: Callable[[float], str]
    colour: str
    down: str
    across: str
    title: str
    sentence: str


QUANTITIES = {
    "wait": MatrixQuantity(
        format_time,
        "late",
        "waits",
        "is waited for",
        "Who waits for whom",
        "rank {down} waits {amount} for rank {across}",
    ),
    "bytes": MatrixQuantity(
        format_size,
        "ink2",
        "sends",
        "receives",
        "Who sends to whom",
        "rank {down} sends {amount} to rank {across}",
    ),
    "messages": MatrixQuantity(
        format_count,
        "ink2",
        "sends",
        "receives",
        "Who sends to whom",
        "rank {down} sends {amount} messages to rank {across}",
    ),
}


def draw_matrix(ranks: Sequence[tuple[int, int]], cells: Any, quantity: str) -> str:
    """Return the matrix; quantity: of QUANTITIES. The rank waited for most is named above.

    ranks: first and last rank of each row and column.
    """
    of, count = QUANTITIES[quantity], len(ranks)
    side = min(SIDE, MAX_CELL * count)
    edges = (TOP + side * np.arange(count + 1) / count).tolist()
    largest = max(float(cells.max()), 1.0)
    names = [str(a) if a == b else f"{a}-{b}" for a, b in ranks]
    parts = [
        svg.make_rectangle(LEFT, TOP, side, side, svg.fill("sunken")),
        *draw_cells(cells / largest, of.colour, edges, LEFT, side),
        svg.make_rectangle(LEFT, TOP, side, side, svg.stroke("line2")),
    ]
    for i in np.unique(np.linspace(0, count - 1, min(MAX_TICKS, count)).astype(int)).tolist():
        at = side * (i + 0.5) / count
        parts.append(svg.make_text(LEFT - 6, TOP + at + 4, names[i], anchor="end"))
        parts.append(svg.make_text(LEFT + at, TOP + side + 14, names[i], anchor="middle"))
    note = f"down: {of.down}; across: {of.across}; strongest colour: {of.format(largest)}"
    parts.append(svg.make_text(0, TOP + side + 34, note))
    worst = int(cells.sum(0).argmax())
    name = f"rank{'s' * ('-' in names[worst])} {names[worst]}"
    if quantity == "wait":
        x = min(max(LEFT + side * (worst + 0.5) / count, 50.0), LEFT + side - 20)
        text = f"for {name}"
        parts.append(svg.make_text(x, TOP - 8, text, "late-text", anchor="middle", bold=True))
    label = f"{of.title}: at most {of.format(largest)} between two ranks, most with {name}."
    width = max(LEFT + side + 8, svg.measure_text(note) + 4)
    return svg.make_picture(width, TOP + side + BOTTOM, label, parts, scales=False)
