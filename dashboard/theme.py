"""Colours and fonts, safe for colour blindness (Okabe and Ito) on light and dark pages."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import plotly.graph_objects as go

from mpiprof.metrics.library_algorithms import is_native
from mpiprof.reports.colours import CYCLE, GREEN, GREY, WAITING, WORK, operation_colour

OUTSIDE = "#9AA5B1"
BALANCED = GREEN
SEQUENTIAL = "Cividis"  # suited to colour blindness; from dark blue to yellow
FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def algorithm_colour(algorithm: str) -> str:
    """Return the colour of an algorithm, equal on all pages; grey for native algorithms."""
    if is_native(algorithm):
        return GREY
    return CYCLE[zlib.crc32(algorithm.split(":")[0].encode()) % (len(CYCLE) - 1)]


def state_colours(kind: str, names: Sequence[str]) -> list[str]:
    """Return a colour per state of a timeline coloured by operation, algorithm or waiting."""
    if kind == "waiting":
        return [WAITING, WORK]
    if kind == "operation":
        return [operation_colour(name) for name in names]
    return distinct_colours([algorithm_colour(name) for name in names])


def distinct_colours(wanted: Sequence[str]) -> list[str]:
    """Return the colours, with repeated colours replaced by unused colours while any remain."""
    free = [c for c in CYCLE if c not in wanted]
    chosen: list[str] = []
    for colour in wanted:
        chosen.append(free.pop(0) if colour in chosen and free else colour)
    return chosen


def make_template(*, dark: bool) -> go.layout.Template:
    """Return the Plotly template of a theme."""
    ink, grid = ("#d6dbe1", "#343b45") if dark else ("#2b3440", "#e3e7ec")
    ground = "#262c34" if dark else "#ffffff"
    axis = {"gridcolor": grid, "linecolor": grid, "zerolinecolor": grid, "automargin": True}
    return go.layout.Template(
        layout={
            "colorway": CYCLE,
            "font": {"family": FONT, "size": 12, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"font": {"family": FONT, "size": 12, "color": ink}, "bgcolor": ground},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "bargap": 0.15,
        }
    )
