"""Histogram of imbalances, in which the user can select a band."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from mpiprof.interface.format_units import format_count, format_time
from mpiprof.reports import colours
from mpiprof.trace.types import Float

from . import axes

BINS = 40
MIN_NS = 1.0  # smaller values are drawn here, because a logarithmic axis has no 0


def choose_bins(values: Float) -> Float:
    """Return the edges of at most BINS bins in whole ns, equally wide on a logarithmic axis."""
    known = np.maximum(values, MIN_NS)
    low, high = float(np.floor(known.min())), float(np.ceil(known.max())) + 1
    edges: Float = np.unique(np.rint(np.geomspace(low, high, BINS + 1)))
    return edges


def draw_spread(imbalance_ns: Float, band: tuple[int, int] | None) -> go.Figure:
    """Draw the number of instances over ω in ns; instances outside the band are grey.

    The customdata of each bar is its interval in ns, upper end excluded.
    """
    known = imbalance_ns[~np.isnan(imbalance_ns)]
    if not len(known):
        return axes.empty_figure("no complete instance")
    edges = choose_bins(known)
    counts = np.histogram(np.maximum(known, MIN_NS), edges)[0]
    low, high = edges[:-1], edges[1:]
    chosen = np.ones(len(counts), np.bool_) if band is None else (low < band[1]) & (high > band[0])
    figure = go.Figure(
        go.Bar(
            x=(low + high) / 2,
            y=counts,
            width=high - low,
            marker={
                "color": np.where(chosen, colours.RED, colours.GREY).tolist(),
                "line": {"width": 0},
            },
            customdata=np.stack([low, high], 1)
            .astype(np.int64)
            .tolist(),  # a list instead of a typed array: the browser sends it back
            text=[
                f"{format_time(a)} to {format_time(b)}: {format_count(n)} instance{'s' * (n != 1)}"
                for a, b, n in zip(low, high, counts.tolist(), strict=True)
            ],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    )
    figure.update_layout(
        height=220,
        dragmode="select",
        selectdirection="h",
        xaxis={
            "title": "ω, last minus first arrival",
            **axes.make_log_axis(edges, axes.format_tick_time),
            "range": np.log10([edges[0], edges[-1]]).tolist(),
        },
        yaxis={"title": "instances", "rangemode": "tozero"},
        bargap=0,
    )
    return figure
