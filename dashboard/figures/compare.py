"""Figures of two traces side by side, on the same scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import format_share, unit_of
from mpiprof.metrics.aggregate import RANGE_NAMES
from mpiprof.reports import colours
from mpiprof.trace.types import Float

from . import axes
from .distribution import count_in_ranges
from .overview import TIME_PART_STYLES

FIRST_COLOUR, OTHER_COLOUR = colours.GREY, colours.BLUE
MAX_SITES = 15
# Columns to draw, with their axis titles. These are totals, so that one long finalize (a single
# instance) does not dwarf the wait time in the program's loops.
WAITING = ("total_wait_ns", "waiting of all ranks")
TIME = ("total_elapsed_ns", "time of all ranks in the call")


def draw_times(parts: pd.DataFrame) -> go.Figure:
    """Draw the composition of each trace's time: columns trace, part, ns; one bar per trace."""
    whole = parts.groupby("trace", sort=False)["ns"].sum()
    unit, scale = unit_of(float(whole.max()))
    figure = go.Figure()
    for composition, rows in parts.groupby("part", sort=False):
        if not (rows["ns"] > 0).any():
            continue
        title, colour = TIME_PART_STYLES[str(composition)]
        of_all = rows["ns"].to_numpy() / np.maximum(whole[rows["trace"]].to_numpy(), 1)
        figure.add_bar(
            y=rows["trace"],
            x=rows["ns"] / scale,
            orientation="h",
            name=title,
            marker={"color": colour, "line": {"width": 0}},
            text=[format_share(value) for value in of_all],
            textposition="inside",
            textangle=0,
            customdata=axes.format_durations(rows["ns"]),
            hovertemplate="%{y}<br>%{fullData.name}: %{customdata} (%{text})<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        height=110 + 44 * len(whole),
        xaxis={"title": f"time of all ranks ({unit})"},
        yaxis={"autorange": "reversed", "type": "category"},
        legend={"traceorder": "normal"},
    )
    return figure


def draw_callsites(
    table: pd.DataFrame, column: str, title: str, names: tuple[str, str]
) -> go.Figure:
    """Draw a column of call sites in both traces, from columns place, X and other_X (ns)."""
    shown = table.head(MAX_SITES)
    if not len(shown):
        return axes.empty_figure("no common call site")
    values = [shown[c].to_numpy(np.float64) for c in (column, f"other_{column}")]
    unit, scale = unit_of(float(np.nanmax([*np.concatenate(values), 0.0])))
    # The labels must differ, because Plotly merges rows with equal labels.
    labels = [text[:60] + "\u200b" * i for i, text in enumerate(shown["place"])]
    figure = go.Figure()
    for name, numbers, colour in zip(names, values, (FIRST_COLOUR, OTHER_COLOUR), strict=True):
        figure.add_bar(
            y=labels,
            x=numbers / scale,
            orientation="h",
            name=name[:60],
            marker={"color": colour, "line": {"width": 0}},
            customdata=axes.format_durations(np.nan_to_num(numbers)),
            hovertemplate="%{y}<br>%{fullData.name}: %{customdata}<extra></extra>",
        )
    figure.update_layout(
        barmode="group",
        bargroupgap=0.05,
        height=110 + 40 * len(shown),
        xaxis={"title": f"{title} ({unit})", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category"},
        legend={"traceorder": "normal"},
    )
    return figure


def draw_distributions(factors: tuple[Float, Float], names: tuple[str, str]) -> go.Figure:
    """Draw the shares of instances per range of ω/T (the paper's ranges) in both traces."""
    ranges = [name.replace("-", " to ").replace(">=", "≥ ") for name in RANGE_NAMES]
    every = [count_in_ranges(values) for values in factors]
    if not any(counts.sum() for counts in every):
        return axes.empty_figure(
            "no imbalance factors: the message time of these instances is unknown"
        )
    figure = go.Figure()
    for counts, name, colour in zip(every, names, (FIRST_COLOUR, OTHER_COLOUR), strict=True):
        if not counts.sum():
            name += ": no factors"
        figure.add_bar(
            x=ranges,
            y=100 * counts / max(int(counts.sum()), 1),
            name=name[:60],
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="ω/T %{x}<br>%{fullData.name}: %{y:.3~g} %<extra></extra>",
        )
    figure.update_layout(
        height=280,
        xaxis={"title": "worst-case imbalance factor ω/T", "type": "category"},
        yaxis={"title": "% of instances", "range": [0, 100]},
    )
    return figure
