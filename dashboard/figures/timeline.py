"""A window of the run as a stand-alone figure: ranks downwards, time to the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mpiprof.interface.format_units import unit_of
from mpiprof.timeline.sums import NO_STATE
from mpiprof.trace.types import Array

from . import axes

HALF_OPACITY = 128  # wait share (of 255) of a cell's collective time, above which the cell is pale

HOW_TO_READ = (
    "A row is a rank, or the latest of a group of ranks. A column is a span of time in the colour "
    "of the collective that fills most of it, pale if the rank mostly waits there. Without a "
    "colour the rank is in no collective. Calls on messages are not drawn."
)


def draw_cells(
    head: Mapping[str, Any], cells: Mapping[str, Array], rows: Sequence[str], colours: Sequence[str]
) -> go.Figure:
    """Draw the result of `Timeline.cells`, given its row labels and state colours.

    A cell has the colour of its longest state, and is pale if the state is mostly waiting.
    """
    columns, width = head["columns"], 1 << head["level"]
    state, share, wait = (
        cells[name].reshape(len(rows), columns) for name in ("state", "share", "wait")
    )
    nothing = state == NO_STATE
    if not columns or nothing.all():
        return axes.empty_figure("no rank is in a collective here")
    scale_end = (head["first"] + columns) * width
    unit, scale = unit_of(float(scale_end))
    names = np.array([*head["states"], ""], object)[np.where(nothing, len(head["states"]), state)]
    hover_text = np.stack([names, np.rint(share / 2.55), np.rint(wait / 2.55)], 2)
    value = np.where(nothing, np.nan, 2.0 * state + (wait >= HALF_OPACITY))
    steps = [shade for colour in colours for shade in (colour, _pale_colour(colour))]
    count = len(steps)
    figure = go.Figure()
    figure.add_heatmap(
        z=value.astype(np.float32),
        x=(head["first"] + np.arange(columns) + 0.5) * width / scale,
        y=list(rows),
        zmin=-0.5,
        zmax=count - 0.5,
        colorscale=[[at, steps[i]] for i in range(count) for at in (i / count, (i + 1) / count)],
        showscale=False,
        customdata=hover_text,
        hovertemplate=f"rank %{{y}} at %{{x}} {unit}<br>mostly %{{customdata[0]}}<br>"
        "%{customdata[1]} % of the time in collectives, %{customdata[2]} % of that waiting"
        "<extra></extra>",
    )
    for name, colour in zip(head["states"], colours, strict=True):
        marker = {"color": colour, "symbol": "square", "size": 10}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker)
    figure.update_layout(
        height=int(min(max(130 + 22 * len(rows), 220), 620)),
        xaxis={"title": f"time since the start ({unit}); pale: mostly waiting", "showgrid": False},
        yaxis={**axes.RANK_ROWS, "nticks": 40},
    )
    return figure


def _pale_colour(colour: str) -> str:
    """Return the pale shade of a colour that marks waiting."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(0.38 * part + 0.62 * 255):02x}" for part in parts)
