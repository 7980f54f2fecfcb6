"""Matrix of ranks: who waits for whom, and who sends messages to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mpiprof.account.rank_pairs import WaitMatrix
from mpiprof.interface.format_units import unit_of
from mpiprof.interface.tokens import get_colour
from mpiprof.reports.pictures.pair_matrix import QUANTITIES
from mpiprof.reports.pictures.rank_rows import MAX_ROWS
from mpiprof.trace.types import Float, Int

from . import axes

FRAME = {"showline": True, "mirror": True, "zeroline": False}
FAINTEST = 0.08  # opacity of the smallest cell, so that it differs from an empty cell


def draw_wait_matrix(matrix: WaitMatrix, *, dark: bool = False) -> go.Figure:
    """Draw the matrix of wait times: waiting ranks (down) by awaited ranks (across)."""
    return draw_pair_matrix(matrix.ranks, matrix.total_wait_ns, "wait", dark=dark)


def draw_pair_matrix(
    ranks: Sequence[tuple[int, int]], cells: Float | Int, quantity: str, *, dark: bool = False
) -> go.Figure:
    """Draw a matrix of ranks; quantity: of QUANTITIES. Empty cells are transparent.

    The rank for which the others wait most is named above its column.
    """
    if not cells.any():
        return axes.empty_figure("nobody waits" if quantity == "wait" else "no messages")
    measure = QUANTITIES[quantity]
    names = [name_run(run) for run in ranks]
    largest = float(cells.max())
    unit, scale = unit_of(largest) if quantity == "wait" else ("", 1.0)
    text = np.full(cells.shape, "", object)
    text[cells > 0] = [measure.format(value) for value in cells[cells > 0].tolist()]
    sentence = measure.sentence.format(down="%{y}", amount="%{text}", across="%{x}")
    figure = go.Figure()
    figure.add_heatmap(
        z=(np.where(cells > 0, cells, np.nan) / scale).astype(np.float32),
        x=names,
        y=names,
        text=text,
        colorscale=_make_scale(measure.colour, dark=dark),
        zmin=0,
        zmax=largest / scale,
        xgap=1 if len(names) <= MAX_ROWS // 4 else 0,
        ygap=1 if len(names) <= MAX_ROWS // 4 else 0,
        colorbar={"title": {"text": unit or quantity}, "thickness": 12, "exponentformat": "SI"},
        hovertemplate=f"{sentence}<extra></extra>",
    )
    figure.update_layout(
        height=int(min(max(160 + 18 * len(names), 280), 560)),
        xaxis={
            "title": f"{measure.across}: rank",
            "type": "category",
            "nticks": 12 if names[-1].isdecimal() else 7,  # labels of runs are wide
            "showgrid": False,
            **FRAME,
        },
        yaxis={**axes.RANK_ROWS, "title": f"{measure.down}: rank", "nticks": 20, **FRAME},
        plot_bgcolor=get_colour("surface", dark=dark),
    )
    if quantity == "wait":
        figure.add_annotation(**_name_column(names, cells, dark=dark))
    return figure


def name_run(run: tuple[int, int]) -> str:
    """Return the label of a row: "7" or "8-15"."""
    return str(run[0]) if run[0] == run[1] else f"{run[0]}-{run[1]}"


def outline_cell(down: int, across: int, *, dark: bool = False) -> dict[str, Any]:
    """Return the shape that marks the selected cell, by its indices."""
    place = {"x0": across - 0.5, "x1": across + 0.5, "y0": down - 0.5, "y1": down + 0.5}
    line = {"color": get_colour("ink", dark=dark), "width": 2}
    return {"type": "rect", **place, "line": line}


def _name_column(names: Sequence[str], cells: Float | Int, *, dark: bool) -> dict[str, Any]:
    worst = int(cells.sum(0).argmax())
    word = "rank" if names[worst].isdecimal() else "ranks"
    return {
        "text": f"<b>for {word} {names[worst]}</b>",
        "x": worst,
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"color": get_colour("late-text", dark=dark)},
    }


def _make_scale(name: str, *, dark: bool) -> list[list[Any]]:
    colour = get_colour(name, dark=dark)
    channels = ",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return [[0, f"rgba({channels},{FAINTEST})"], [1, f"rgba({channels},1)"]]
