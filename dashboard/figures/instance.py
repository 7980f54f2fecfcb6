"""Figure of one instance: histogram of all imbalances above the arrivals of its ranks.

It shares the vertical axes of the figure of the call site, beside which it stands.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.account.variance_components import lateness_after_others
from mpiprof.interface.format_units import format_count, format_factor, format_time, unit_of
from mpiprof.interface.tokens import get_colour
from mpiprof.reports.pictures.rank_rows import HEIGHT_PX
from mpiprof.trace.types import Array, Float

from . import axes
from .callsite import (
    BALANCED,
    HEIGHT,
    LOWER,
    MARGIN,
    CallsiteArrivals,
    draw_balanced,
    make_imbalance_axis,
    make_rank_axis,
)

BINS = 48
SPARSE_ROWS = 100  # more lines of waiting are paler
BAND_DIGITS = 6  # decimals of a band's limits in the URL


def draw_instance(
    arrivals: CallsiteArrivals,
    table: pd.DataFrame,
    band: tuple[float, float] | None = None,
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw the histogram of imbalances, and one instance.

    table: rank, where, arrival_ns, exit_ns (0 if open) and wait_ns of each rank of the instance.
    band: the selected imbalances. Of the ranks of a row the latest is drawn.
    """
    figure = go.Figure()
    _draw_histogram(figure, arrivals, band, dark=dark)
    highest = max([1, *(int(max(bars.x)) for bars in figure.data if len(bars.x))])
    unit = _draw_arrivals(figure, arrivals, table, dark=dark)
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 12, "r": 12, **MARGIN},
        showlegend=False,
        hovermode="closest",
        barmode="overlay",
        bargap=0,
        dragmode="select",
        selectdirection="v",
        xaxis={"domain": [0, 1], "anchor": "y", "fixedrange": True, "rangemode": "tozero"}
        | {"showgrid": False, "tickvals": [0, highest], "ticktext": ["0", format_count(highest)]},
        xaxis2={"anchor": "y2", "zeroline": False, "fixedrange": True, "nticks": 6}
        | {"ticksuffix": f" {unit}", "showticksuffix": "last"},
        yaxis=make_imbalance_axis(arrivals) | {"showticklabels": False},
        yaxis2=make_rank_axis(arrivals, dark=dark) | {"showticklabels": False, "fixedrange": True},
    )
    return figure


def choose_bins(low: float, high: float, *, integer: bool) -> Float:
    """Return the edges of at most BINS bins from low to high, equally wide on a logarithmic axis.

    whole: the edges are whole numbers, as for times in ns.
    """
    digits = 0 if integer else BAND_DIGITS
    return np.asarray(np.unique(np.round(np.geomspace(low, high, BINS + 1), digits)))


def _draw_histogram(
    figure: go.Figure, arrivals: CallsiteArrivals, band: tuple[float, float] | None, *, dark: bool
) -> None:
    values = arrivals.every_imbalance[arrivals.every_imbalance > 0]
    if len(values):
        colour = get_colour("ink2" if arrivals.late is None else "late", dark=dark)
        _add_bars(figure, arrivals, values, (colour, get_colour("q2", dark=dark)), band=band)
    after_arrival = arrivals.rest[arrivals.rest > 0]
    if arrivals.late is not None and band is None and len(after_arrival):
        grey = get_colour("q3", dark=dark)
        prefix = f"without rank {arrivals.late.rank}: "
        _add_bars(figure, arrivals, after_arrival, (grey, grey), prefix=prefix)
    if not arrivals.has_factors:
        return
    balanced = int((arrivals.every_imbalance < BALANCED).sum())
    judged = int(arrivals.every["worst_factor"].notna().sum())
    draw_balanced(figure, f"{format_count(balanced)} of {format_count(judged)}", dark=dark)


def _add_bars(
    figure: go.Figure,
    arrivals: CallsiteArrivals,
    values: Float,
    colours: tuple[str, str],
    *,
    band: tuple[float, float] | None = None,
    prefix: str = "",
) -> None:
    """Add the bars of a histogram. colours: inside and outside the band."""
    ends = make_imbalance_axis(arrivals)["range"]
    edges = choose_bins(10 ** ends[0], 10 ** ends[1], integer=not arrivals.has_factors)
    counts = np.histogram(values, edges)[0]
    low, high = edges[:-1], edges[1:]
    chosen = np.ones(len(counts), np.bool_) if band is None else (low < band[1]) & (high > band[0])
    text = format_factor if arrivals.has_factors else format_time
    digits = BAND_DIGITS if arrivals.has_factors else 0
    figure.add_bar(
        x=counts,
        y=(low + high) / 2,
        width=high - low,
        orientation="h",
        marker={"color": [colours[not inside] for inside in chosen.tolist()], "line": {"width": 0}},
        # A list in place of a typed array, because the browser sends it back.
        customdata=[
            [f"{a:.{digits}f}", f"{b:.{digits}f}"]
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ],
        text=[
            f"{prefix}{text(a)} to {text(b)}: {format_count(n)} instance{'s' * (n != 1)}"
            for a, b, n in zip(low.tolist(), high.tolist(), counts.tolist(), strict=True)
        ],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
    )


def _draw_arrivals(
    figure: go.Figure, arrivals: CallsiteArrivals, table: pd.DataFrame, *, dark: bool
) -> str:
    """Draw arrivals and waits in rows of ranks; returns the unit of their axis."""
    table = table[table["rank"].isin(arrivals.rows.members)]
    if not len(table):
        return ""
    arrival = table["arrival_ns"].to_numpy(np.float64)
    last = int(arrival.argmax())
    late_ns = lateness_after_others(arrival, last)
    arrival -= arrival[last] - late_ns  # relative to the median of the others
    unit, scale = unit_of(max(late_ns, float(-arrival.min()), 1.0))
    row = arrivals.rows.rows_of(table["rank"].to_numpy(np.int64))
    order = np.lexsort([arrival, row])
    latest = order[np.append(np.diff(row[order]) > 0, True)]  # the latest rank of each row
    y = arrivals.rows.centres[row]
    wait = table["wait_ns"].to_numpy(np.float64)
    figure.add_scatter(
        x=_with_gaps(arrival[latest] / scale, (arrival + wait)[latest] / scale),
        y=_with_gaps(y[latest], y[latest]),
        mode="lines",
        line={
            "color": get_colour("line2" if len(latest) <= SPARSE_ROWS else "line", dark=dark),
            "width": 1,
        },
        xaxis="x2",
        yaxis="y2",
        hoverinfo="skip",
    )
    is_late = arrivals.late is not None and table["rank"].iloc[last] == arrivals.late.rank
    accent = "late" if is_late else "ink"
    figure.add_scatter(
        x=arrival[latest] / scale,
        y=y[latest],
        mode="markers",
        marker={
            "color": [get_colour(accent if i == last else "ink2", dark=dark) for i in latest],
            "size": [9 if i == last else 4 for i in latest],
        },
        xaxis="x2",
        yaxis="y2",
        customdata=_describe_ranks(table.iloc[latest], arrival[latest]),
        hovertemplate="rank %{customdata[0]} on %{customdata[1]}<br>arrives %{customdata[2]} from "
        "the median<br>waits %{customdata[3]}<extra></extra>",
    )
    _draw_marks(figure, table, last, late_ns / scale, y[last], accent, dark=dark)
    return unit


def _describe_ranks(table: pd.DataFrame, arrival: Float) -> Array:
    signed = [f"{'+' if ns >= 0 else '-'}{format_time(abs(ns))}" for ns in arrival.tolist()]
    wait = axes.format_durations(table["wait_ns"])
    return np.stack([table["rank"].astype(str), table["where"].astype(str), signed, wait], 1)


def _draw_marks(
    figure: go.Figure,
    table: pd.DataFrame,
    last: int,
    late: float,
    y: float,
    accent: str,
    *,
    dark: bool,
) -> None:
    """Mark the median, the last arrival and the sum of the waits."""
    for x, colour, dash in ((0.0, "ink3", "dot"), (late, accent, "solid")):
        figure.add_shape(
            type="line", x0=x, x1=x, xref="x2", y0=0, y1=LOWER[1], yref="paper",
            line={"color": get_colour(colour, dark=dark), "width": 1, "dash": dash},
        )  # fmt: skip
    late_ns = lateness_after_others(table["arrival_ns"].to_numpy(np.float64), last)
    name = "late-text" if accent == "late" else "ink"
    surface = get_colour("surface", dark=dark)
    figure.add_annotation(
        text=f"<b>rank {table['rank'].iloc[last]}, +{format_time(late_ns)}</b>", x=late, y=y,
        xref="x2", yref="y2", xanchor="right", xshift=-8, showarrow=False, bgcolor=surface,
        borderpad=1, font={"size": 12, "color": get_colour(name, dark=dark)},
    )  # fmt: skip
    wait = float(table["wait_ns"].sum())
    if wait > 0:
        at = 0.1 if y < HEIGHT_PX / 2 else 0.9  # not over the label of the last rank
        figure.add_annotation(
            text=f"wait {format_time(wait)} together", x=late / 2, y=at * LOWER[1], xref="x2",
            yref="paper", showarrow=False, bgcolor=surface, borderpad=4,
            font={"size": 12, "color": get_colour("ink", dark=dark)},
        )  # fmt: skip


def _with_gaps(begin: Float, end: Float) -> Float:
    """Return begin and end of each line, with NaN between lines."""
    return np.stack([begin, end, np.full(len(begin), np.nan)], 1).ravel()
