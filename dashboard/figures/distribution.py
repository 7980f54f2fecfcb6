"""Figures of the distribution of imbalance factors and of shares at a call site."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import format_share
from mpiprof.metrics.aggregate import FACTOR_RANGES, RANGE_NAMES
from mpiprof.reports import colours
from mpiprof.trace.types import Float, Int

from .. import theme
from . import axes


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
