"""Picture of the arrivals at a call site: ranks x instances, around the median of the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiprof.interface import svg
from mpiprof.interface.format_units import format_count, format_time
from mpiprof.interface.svg import choose_ticks
from mpiprof.reports.pictures.cells import draw_cells
from mpiprof.reports.pictures.rank_rows import RankRows, make_row_ticks

MAX_ROWS, MAX_COLUMNS = 64, 120
LEFT, TOP, BOTTOM = 76.0, 6.0, 40.0
TALLEST_PX = 30.0  # of a row
EMPTY = 0.08  # share of the strongest lateness, below which a cell is empty
CLIPPING_QUANTILE = 0.99  # at which the colours end, so that outliers do not flatten them


@dataclass(frozen=True)
class ArrivalCells:
    """Lateness in ns by row of ranks and run of instances, NaN if unknown.

    hosts: host of each member of `rows`. late_rank: the consistently late rank, or None.
    instances: their number. site: the call site as text.
    """

    late_ns: Any
    rows: RankRows
    hosts: Sequence[str]
    late_rank: int | None
    instances: int
    site: str

    @property
    def limit_ns(self) -> float:
        """Lateness from which cells are opaque."""
        known = np.abs(self.late_ns[~np.isnan(self.late_ns)])
        return max(float(np.quantile(known, CLIPPING_QUANTILE)) if len(known) else 0.0, 1.0)

    @property
    def sentence(self) -> str:
        """Content of the picture, for readers who do not see it."""
        who = "no rank is late consistently"
        if self.late_rank is not None:
            who = f"rank {self.late_rank} arrives late"
        return f"Arrivals at {self.site} in {format_count(self.instances)} instances: {who}."


def draw_arrival_pattern(cells: ArrivalCells, width: float = 1232) -> str:
    """Return the picture; later ranks are orange if one rank is late consistently, else grey."""
    rows = cells.rows.edges
    scale = min(TALLEST_PX * (len(rows) - 1) / rows[-1], 1.0)
    edges = (rows * scale + TOP).tolist()
    bottom, wide = edges[-1], width - LEFT - 8
    scaled = cells.late_ns / cells.limit_ns
    colour = "ink3" if cells.late_rank is None else "late"
    parts = [
        svg.make_rectangle(LEFT, TOP, wide, bottom - TOP, svg.fill("sunken")),
        *draw_cells(scaled, colour, edges, LEFT, wide, above=EMPTY),
        *draw_cells(-scaled, "link", edges, LEFT, wide, above=EMPTY),
        svg.make_rectangle(LEFT, TOP, wide, bottom - TOP, svg.stroke("line2")),
    ]
    for y, text in zip(*make_row_ticks(cells.rows, list(cells.hosts)), strict=True):
        is_late = text.startswith("<b>")
        name = re.sub(r"</?b>", "", text)
        ink = "late-text" if is_late else "ink2"
        parts.append(
            svg.make_text(LEFT - 8, TOP + y * scale + 4, name, ink, anchor="end", bold=is_late)
        )
    for tick in choose_ticks(0, cells.instances - 1, 8):
        if tick == int(tick):
            x = LEFT + wide * (tick + 0.5) / cells.instances
            parts.append(svg.make_line(x, bottom, x, bottom + 4, svg.stroke("line2")))
            parts.append(svg.make_text(x, bottom + 17, f"{tick:.0f}", anchor="middle"))
    key = f"strongest colour: {format_time(cells.limit_ns)} and more"
    parts.append(svg.make_text(LEFT, bottom + 34, "instance"))
    parts.append(svg.make_text(width - 8, bottom + 34, key, anchor="end"))
    return svg.make_picture(width, bottom + BOTTOM, cells.sentence, parts)
