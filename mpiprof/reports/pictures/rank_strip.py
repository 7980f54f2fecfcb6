"""Strip of all ranks of a job: one cell per rank, grouped by host, with the state of the rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mpiprof.interface import svg
from mpiprof.interface.svg import TableRow

WIDTH = 1200.0
# Ranks up to which a row has so many cells, and their height in px.
ROWS = ((64, 64, 26.0), (1024, 128, 14.0), (1 << 62, 256, 6.0))
MAX_CELLS = 8192
HOST_GAP, NUMBER_WIDTH = 8.0, 19.0
MAX_HOST_LABELS = 16


@dataclass(frozen=True)
class RankCell:
    """A rank in the strip: state is late, waiting, running, ended or unknown.

    colour: name of the colour of the operation that a waiting rank is in.
    """

    rank: int
    host: str
    state: str
    colour: str = "q3"
    note: str = ""


def list_values(cells: Sequence[RankCell]) -> list[TableRow]:
    """Return the data of the picture: host, state and call of each rank."""
    rows = [(cell.rank, cell.host, cell.state, cell.note) for cell in cells]
    return [("rank", "host", "state", "note"), *rows]


def draw_rank_strip(cells: Sequence[RankCell], label: str) -> str:
    """Return the strip; above MAX_CELLS ranks, a cell shows the worst of several ranks."""
    shown = _merge_cells(cells)
    columns, height = next((n, h) for limit, n, h in ROWS if len(shown) <= limit)
    rows = [shown[i : i + columns] for i in range(0, len(shown), columns)]
    columns = min(columns, max(len(shown), 1))
    hosts = [len(list(run)) for _, run in groupby(rows[0] if rows else [], lambda c: c.host)]
    is_grouped = len(rows) == 1 and 1 < len(hosts) <= MAX_HOST_LABELS
    gaps = HOST_GAP * (len(hosts) - 1) if is_grouped else 0.0
    pitch = min((WIDTH - gaps) / columns, 60.0)
    parts: list[str] = []
    for number, row in enumerate(rows):
        y, x, host = 18 + number * (height + 2), 0.0, ""
        for cell in row:
            if cell.host != host:
                x += HOST_GAP if host and is_grouped else 0.0
                host = cell.host
                if is_grouped or not parts:
                    parts.append(svg.make_text(x, 12, f"{host[:24]}, from rank {cell.rank}"))
            parts.append(_draw_cell(cell, x, y, pitch, height))
            x += pitch
    return svg.make_picture(WIDTH, 20 + len(rows) * (height + 2), label, parts)


def _draw_cell(cell: RankCell, x: float, y: float, pitch: float, height: float) -> str:
    width = pitch - (2 if pitch > 8 else 1)
    grounds = {
        "late": svg.fill("late"),
        "waiting": svg.hatch(cell.colour, height),
        "running": svg.fill("q2"),
        "ended": svg.fill("q1"),
    }
    ground = grounds.get(cell.state, f'{svg.stroke("ink3")} stroke-dasharray="2 2"')
    box = svg.make_rectangle(x, y, width, height, ground, note=cell.note)
    if cell.state != "late" or pitch < NUMBER_WIDTH:
        return box
    number = svg.make_text(
        x + width / 2, y + height / 2 + 4, str(cell.rank), "surface", anchor="middle", bold=True
    )
    return box + number


def _merge_cells(cells: Sequence[RankCell]) -> Sequence[RankCell]:
    step = -(-len(cells) // MAX_CELLS) if cells else 1
    if step == 1:
        return cells
    order = ("late", "unknown", "waiting", "running", "ended")
    return [
        min(cells[i : i + step], key=lambda cell: order.index(cell.state))
        for i in range(0, len(cells), step)
    ]
