"""Figure of the wait time per rank."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import unit_of
from mpiprof.reports.pictures.rank_rows import MAX_ROWS
from mpiprof.reports.tokens import get_colour

from . import axes


def draw_ranks(table: pd.DataFrame, *, dark: bool = False) -> go.Figure:
    """Draw per rank its own wait time (up) and the wait time that it causes (down).

    From columns rank, where, total_wait_ns, caused_ns. If there are too many ranks, the maximum of
    each run of ranks is drawn, because a mean would hide the late rank.
    """
    if not len(table):
        return axes.empty_figure("no rank passes the filters")
    names = axes.label_runs(table["rank"].to_numpy(), MAX_ROWS)
    times = {c: table[c].to_numpy(np.float64) for c in ("total_wait_ns", "caused_ns")}
    unit, scale = unit_of(max(float(values.max()) for values in times.values()))
    figure = go.Figure()
    for column, sign, name, colour in (
        ("total_wait_ns", 1, "waits", "q3"),
        ("caused_ns", -1, "is waited for", "late"),
    ):
        at = axes.run_peaks(times[column], MAX_ROWS)
        values = times[column][at]
        members = [table[name].to_numpy()[at] for name in ("rank", "where")]
        figure.add_bar(
            x=names,
            y=sign * values / scale,
            name=name,
            marker={"color": get_colour(colour, dark=dark), "line": {"width": 0}},
            customdata=np.stack([axes.format_durations(values), *members], 1),
            hovertemplate=f"rank %{{customdata[1]}} on %{{customdata[2]}}<br>{name} "
            "%{customdata[0]}<extra></extra>",
        )
    run = " (the greatest of each run)" if len(names) < len(table) else ""
    figure.update_layout(
        barmode="relative",
        height=260,
        xaxis={"title": f"rank{run}", "type": "category", "nticks": 20},
        yaxis={"title": f"time ({unit})", "tickformat": "~s" if scale == 1 else None},
        bargap=0.1 if len(names) < 100 else 0,
    )
    return figure
