"""Colours and fonts: safe for colour blindness (Okabe and Ito), on light and dark alike."""

from __future__ import annotations

import plotly.graph_objects as go

# Okabe and Ito, reordered so that neighbours differ in brightness too.
CYCLE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#7F7F7F")
WAITING, WORK, OUTSIDE, MESSAGES = "#D55E00", "#0072B2", "#9AA5B1", "#56B4E9"
SEQUENTIAL = "Cividis"  # made for colour blindness; from dark blue to yellow
FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def template(*, dark: bool) -> go.layout.Template:
    """Return the Plotly template of a theme."""
    ink, grid = ("#d6dbe1", "#343b45") if dark else ("#2b3440", "#e3e7ec")
    axis = {"gridcolor": grid, "linecolor": grid, "zerolinecolor": grid, "automargin": True}
    return go.layout.Template(
        layout={
            "colorway": CYCLE,
            "font": {"family": FONT, "size": 12, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"font": {"family": FONT, "size": 12}},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        }
    )
