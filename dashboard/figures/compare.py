"""Figures of two traces side by side, on the same scale."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import unit_of
from mpiprof.reports import colours

from . import axes

FIRST_COLOUR, OTHER_COLOUR = colours.GREY, colours.BLUE
MAX_SITES = 15
# Column to draw, with its axis title: a total, so that one long finalize (a single instance) does
# not dwarf the wait time in the program's loops.
WAITING = ("total_wait_ns", "waiting of all ranks")


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
