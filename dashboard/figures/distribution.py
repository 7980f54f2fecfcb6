"""Figures of the distribution of imbalances, imbalance factors and shares at a call site."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.metrics.aggregate import FACTOR_RANGES, RANGE_NAMES
from mpiprof.reports import colours
from mpiprof.trace.types import Float, Int

from .. import theme
from . import axes

BINS = 40
MIN_NS = 1.0  # smaller values are drawn here, because a logarithmic axis has no 0


def draw_distribution(worst_factors: Float) -> go.Figure:
    """Draw the share of instances in each of the paper's ranges of ω/T (Figure 2)."""
    counts = count_in_ranges(worst_factors)
    known = int(counts.sum())
    if not known:
        return axes.empty_figure(
            "no message times, so no imbalance factors: measure them with `calibrate`"
        )
    names = [
        name.replace("-", " to ").replace(">=", "≥ ").replace("<", "< ") for name in RANGE_NAMES
    ]
    figure = go.Figure()
    for title, chosen, colour in (
        ("balanced", slice(0, 1), theme.BALANCED),
        ("imbalanced", slice(1, None), colours.RED),
    ):
        figure.add_bar(
            x=names[chosen],
            y=100 * counts[chosen] / known,
            name=title,
            marker={"color": colour, "line": {"width": 0}},
            customdata=counts[chosen],
            hovertemplate="ω/T %{x}<br>%{y:.3~g} % of instances (%{customdata})<extra></extra>",
        )
    figure.add_vline(x=0.5, line={"dash": "dash", "color": colours.GREY, "width": 1.2})
    figure.update_layout(
        height=280,
        xaxis={"title": "worst-case imbalance factor ω/T", "type": "category",
               "categoryorder": "array", "categoryarray": names},
        yaxis={"title": "% of instances", "range": [0, 100]},
    )  # fmt: skip
    return figure


def count_in_ranges(worst_factors: Float) -> Int:
    """Return the number of known factors in each of the paper's ranges."""
    known = worst_factors[~np.isnan(worst_factors)]
    return np.bincount(np.searchsorted(FACTOR_RANGES, known, "right"), minlength=len(RANGE_NAMES))


def draw_shares(table: pd.DataFrame) -> go.Figure:
    """Draw shares of a variance: columns name, value, and the limits low and high."""
    figure = go.Figure()
    for i, (name, value, low, high) in enumerate(table.itertuples(index=False)):
        figure.add_bar(
            y=[name],
            x=[100 * value],
            orientation="h",
            marker={"color": colours.CYCLE[i], "line": {"width": 0}},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [100 * (high - value)],
                "arrayminus": [100 * (value - low)],
                "thickness": 1.2,
            },
            hovertemplate=(
                f"{name}: {format_share(value)} ({format_share(low)} to "
                f"{format_share(high)})<extra></extra>"
            ),
        )
    figure.update_layout(
        height=50 + 34 * len(table),
        showlegend=False,
        margin={"t": 8},
        xaxis={"ticksuffix": " %"},
        yaxis={"autorange": "reversed"},
    )
    return figure


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
    bar_colours = np.where(chosen, colours.RED, colours.GREY).tolist()
    figure = go.Figure()
    figure.add_bar(
        x=(low + high) / 2,
        y=counts,
        width=high - low,
        marker={"color": bar_colours, "line": {"width": 0}},
        # A list in place of a typed array, because the browser sends it back.
        customdata=np.stack([low, high], 1).astype(np.int64).tolist(),
        text=[
            f"{format_time(a)} to {format_time(b)}: {format_count(n)} instance{'s' * (n != 1)}"
            for a, b, n in zip(low, high, counts.tolist(), strict=True)
        ],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
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
