"""Figure of one call site over its instances: imbalance above the arrivals of each rank.

The figure of one instance (figures/instance.py) stands beside it and shares its vertical axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.account.arrival_pattern import ArrivalPattern
from mpiprof.causes.arrival_statistics import LateRank
from mpiprof.interface.format_units import format_factor, format_time, unit_of
from mpiprof.interface.tokens import get_colour
from mpiprof.reports.pictures.rank_rows import HEIGHT_PX, RankRows, make_row_ticks, run_starts
from mpiprof.trace.types import Float, Int

from . import axes

IMBALANCE_PX, GAP_PX = 130, 46  # heights of the upper picture, and between both pictures
MARGIN = {"t": 6, "b": 34}
HEIGHT = MARGIN["t"] + IMBALANCE_PX + GAP_PX + HEIGHT_PX + MARGIN["b"]
PLOT_PX = IMBALANCE_PX + GAP_PX + HEIGHT_PX
UPPER, LOWER = [1 - IMBALANCE_PX / PLOT_PX, 1.0], [0.0, HEIGHT_PX / PLOT_PX]  # domains
MAX_POINTS = 1500
MAX_BANDS = 40  # limit of marked phases and algorithm changes; more would hide the figure
# Quantile at which the colour scale ends, so that outliers do not flatten it.
CLIPPING_QUANTILE = 0.995
LATE_SCALES = 4.0  # the colour scale ends at least at this part of the late rank's lateness
PALE_SCALE = 1.6  # end of the colour scale without a late rank, as a multiple of that quantile
COLOUR_STEPS = 6
MAX_TICKS = 8  # of instances
MAX_FINE_DECADES = 2  # of an axis with ticks at 1, 2 and 5
BALANCED = 1.0  # ω/T below which an instance is balanced


@dataclass(frozen=True)
class CallsiteArrivals:
    """Input of the figures of a call site.

    instances: those that pass all filters, with their number. every: those that pass all filters
    but the band. column: of their imbalance, worst_factor if it is known, else worst_imbalance_ns.
    hosts: host of each member of `rows`. late: None if no rank is late consistently.
    """

    instances: pd.DataFrame
    every: pd.DataFrame
    column: str
    arrivals: ArrivalPattern
    rows: RankRows
    hosts: list[str]
    late: LateRank | None

    @property
    def numbers(self) -> Int:
        """Return the numbers of the instances."""
        return self.instances["number"].to_numpy(np.int64)

    @property
    def places(self) -> Int:
        """Return the place of each instance on the axis, without gaps for missing instances."""
        numbers = self.numbers
        has_gaps = len(numbers) > 1 and bool((np.diff(numbers) > 1).any())
        return np.arange(len(numbers)) if has_gaps else numbers

    def find_place(self, number: int) -> int:
        """Return the place of an instance on the axis."""
        at = min(int(np.searchsorted(self.numbers, number)), len(self.numbers) - 1)
        return int(self.places[at])

    @property
    def has_factors(self) -> bool:
        """Return whether imbalance is in message times T; otherwise it is in ns."""
        return self.column == "worst_factor"

    @property
    def imbalance(self) -> Float:
        """Return the imbalance of each instance."""
        return self.instances[self.column].to_numpy(np.float64)

    @property
    def every_imbalance(self) -> Float:
        """Return the imbalance of each instance, also of those outside the band."""
        return self.every[self.column].to_numpy(np.float64)

    @property
    def rest(self) -> Float:
        """Return the imbalance of each instance without the late rank."""
        if not self.has_factors:
            return self.arrivals.rest_ns
        return self.arrivals.rest_ns / self.instances["message_time_ns"].to_numpy(np.float64)


def make_imbalance_axis(arrivals: CallsiteArrivals) -> dict[str, Any]:
    """Return the axis of imbalances, which the figures of instances and of one instance share."""
    has_factors = arrivals.has_factors
    values = np.concatenate([arrivals.every_imbalance, arrivals.rest])
    values = values[values > 0]
    low = float(values.min()) if len(values) else BALANCED
    high = float(values.max()) if len(values) else BALANCED
    if has_factors:
        low, high = min(low, BALANCED / 2), max(high, 2 * BALANCED)
    text = axes.format_tick_number if has_factors else axes.format_tick_time
    fine = high / low < 10**MAX_FINE_DECADES
    return {
        **axes.make_log_axis(np.array([low, high]), text, fine=fine),
        "range": [math.log10(low / 1.6), math.log10(high * 1.8)],
        "domain": UPPER,
        "fixedrange": True,
        "title": None,
    }


def make_rank_axis(arrivals: CallsiteArrivals, *, dark: bool) -> dict[str, Any]:
    """Return the axis of ranks, in px from the top, which both figures share."""
    places, labels = make_row_ticks(arrivals.rows, arrivals.hosts)
    accent = get_colour("late-text", dark=dark)
    labels = [
        f'<span style="color:{accent}">{text}</span>' if text.startswith("<b>") else text
        for text in labels
    ]
    return {
        "domain": LOWER,
        "range": [HEIGHT_PX, 0],
        "tickvals": places,
        "ticktext": labels,
        "showgrid": False,
        "zeroline": False,
    }


def draw_pattern(
    arrivals: CallsiteArrivals,
    phases: pd.DataFrame,
    changes: pd.DataFrame,
    chosen: int,
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw imbalance and arrivals over the instances; `chosen` is the marked instance.

    phases: first_instance, last_instance. changes of the algorithm: number, algorithm. Of many
    instances the largest imbalances are drawn.
    """
    figure = go.Figure()
    figure.update_layout(shapes=make_cursor(arrivals, chosen, dark=dark))
    _draw_imbalance(figure, arrivals, dark=dark)
    _draw_lateness(figure, arrivals, dark=dark)
    if len(arrivals.instances) == len(arrivals.every):
        _draw_phases(figure, phases, dark=dark)
        _draw_changes(figure, changes, dark=dark)
    _draw_probes(figure, arrivals, dark=dark)
    places = arrivals.places
    axis: dict[str, Any] = {"range": [places[0] - 0.5, places[-1] + 0.5], "anchor": "y2"}
    if int(places[-1]) != int(arrivals.numbers[-1]) or len(places) <= MAX_TICKS:
        at = np.unique(np.linspace(0, len(places) - 1, min(MAX_TICKS, len(places))).astype(int))
        axis |= {"tickvals": places[at], "ticktext": arrivals.numbers[at].astype(str).tolist()}
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 76, "r": 8, **MARGIN},
        showlegend=False,
        hovermode="closest",
        dragmode="zoom",
        xaxis={"showgrid": False, "zeroline": False, "tickformat": "d", **axis},
        yaxis=make_imbalance_axis(arrivals) | {"automargin": False},
        yaxis2=make_rank_axis(arrivals, dark=dark) | {"automargin": False},
    )
    return figure


def make_cursor(arrivals: CallsiteArrivals, chosen: int, *, dark: bool) -> list[dict[str, Any]]:
    """Return the shapes that mark an instance: a line above, and a frame around its arrivals."""
    place = arrivals.find_place(chosen)
    line = {"color": get_colour("ink", dark=dark), "width": 1}
    x0, x1 = place - 0.5, place + 0.5
    return [
        {"type": "line", "x0": place, "x1": place, "y0": UPPER[0], "y1": 1, "yref": "paper"}
        | {"line": line},
        {"type": "rect", "x0": x0, "x1": x1, "y0": 0, "y1": LOWER[1], "yref": "paper"}
        | {"line": line},
    ]


def _draw_imbalance(figure: go.Figure, arrivals: CallsiteArrivals, *, dark: bool) -> None:
    has_factors, late = arrivals.has_factors, arrivals.late
    name = "ω/T" if has_factors else "ω"
    lines = [(arrivals.imbalance, name, "ink2" if late is None else "late", 1.4)]
    if late is not None:
        lines.append((arrivals.rest, f"{name} without rank {late.rank}", "q3", 1.1))
    numbers, places = arrivals.numbers, arrivals.places
    is_line = len(numbers) > 1 and int(places[-1]) == int(numbers[-1])
    for values, text, colour, width in lines:
        at = axes.run_peaks(values, MAX_POINTS)
        peaks = values[at]
        formatted = [format_factor(v) if has_factors else format_time(v) for v in peaks.tolist()]
        figure.add_scatter(
            x=places[at],
            y=np.where(peaks > 0, peaks, np.nan),
            mode="lines" if is_line else "markers",
            line={"color": get_colour(colour, dark=dark), "width": width},
            marker={"color": get_colour(colour, dark=dark), "size": 5},
            name=text,
            customdata=np.stack([numbers[at].astype(str), np.array(formatted)], 1),
            hovertemplate="instance %{customdata[0]}<br>"
            f"{text}: %{{customdata[1]}}<extra></extra>",
        )
    if has_factors:
        draw_balanced(figure, "all arrive within one message time T", dark=dark)


def draw_balanced(figure: go.Figure, text: str, *, dark: bool) -> None:
    """Mark the balanced range of imbalance factors, with a text."""
    good = get_colour("good", dark=dark)
    figure.add_hrect(
        y0=1e-12, y1=BALANCED, fillcolor=good, opacity=0.12, line_width=0, layer="below"
    )
    figure.add_hline(y=BALANCED, line={"color": good, "dash": "dash", "width": 1})
    figure.add_annotation(
        text=f"balanced: {text}", x=1, xref="paper", xanchor="right", y=UPPER[0], yref="paper",
        yanchor="bottom", showarrow=False, font={"size": 11, "color": good},
    )  # fmt: skip


def _draw_lateness(figure: go.Figure, arrivals: CallsiteArrivals, *, dark: bool) -> None:
    late = arrivals.arrivals.late_ns
    limit = colour_limit(arrivals)
    unit, scale = unit_of(limit)
    columns = late.shape[1]
    starts = run_starts(len(arrivals.places), columns)
    x = arrivals.places[starts].astype(np.float64)
    if columns < len(arrivals.places):  # a column covers several instances
        x = np.append(x, arrivals.places[-1] + 1.0) - 0.5
    ranks = arrivals.rows.members[arrivals.rows.starts]
    several = "" if len(ranks) == len(arrivals.rows.members) else " and following"
    figure.add_heatmap(
        z=(late / scale).astype(np.float32),
        x=x,
        y=arrivals.rows.edges,
        xaxis="x",
        yaxis="y2",
        colorscale=make_colour_scale(dark=dark),
        zmin=-limit / scale,
        zmax=limit / scale,
        showscale=False,
        customdata=np.broadcast_to(ranks[:, None], late.shape).astype(np.int32),
        hovertemplate=f"rank %{{customdata}}{several}, instance %{{x:.0f}}<br>"
        f"%{{z:+.3~g}} {unit} from the median<extra></extra>",
        hoverongaps=False,
    )


def colour_limit(arrivals: CallsiteArrivals) -> float:
    """Return the distance from the median in ns at which the colours end."""
    late = arrivals.arrivals.late_ns
    row = arrivals.rows.late_row
    other_rows = late if row is None else np.delete(late, row, 0)
    sizes = np.abs(other_rows[~np.isnan(other_rows)])
    limit = float(np.quantile(sizes, CLIPPING_QUANTILE)) if len(sizes) else 0.0
    if arrivals.late is None:  # pale: nobody is at fault
        return max(PALE_SCALE * limit, 1.0)
    return max(limit, arrivals.late.late_ns / LATE_SCALES, 1.0)


def make_colour_scale(*, dark: bool) -> list[tuple[float, str]]:
    """Return a scale from early over transparent at the median to late."""

    def mix(name: str, opacity: float) -> str:
        colour = get_colour(name, dark=dark)
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"

    distances = np.linspace(0, 1, COLOUR_STEPS).tolist()  # opacity grows with their square
    early = [((1 - d) / 2, mix("early", d * d)) for d in distances[::-1]]
    return [*early, *(((1 + d) / 2, mix("late", d * d)) for d in distances)]


def _draw_phases(figure: go.Figure, phases: pd.DataFrame, *, dark: bool) -> None:
    if len(phases) < 2:
        return
    ground = get_colour("q1", dark=dark)
    for i, row in enumerate(phases.head(MAX_BANDS).to_dict("records")):
        x0, x1 = row["first_instance"] - 0.5, row["last_instance"] + 0.5
        if i % 2:
            figure.add_shape(
                type="rect", x0=x0, x1=x1, y0=UPPER[0], y1=1, yref="paper", layer="below",
                fillcolor=ground, line_width=0,
            )  # fmt: skip
        figure.add_annotation(
            text=f"phase {i}", x=x0, y=1, yref="paper", xanchor="left", yanchor="top",
            showarrow=False, font={"size": 10},
        )  # fmt: skip


def _draw_changes(figure: go.Figure, changes: pd.DataFrame, *, dark: bool) -> None:
    colour = get_colour("link", dark=dark)
    for row in changes.head(MAX_BANDS).to_dict("records"):
        figure.add_shape(
            type="line", x0=row["number"], x1=row["number"], y0=UPPER[0], y1=1, yref="paper",
            line={"color": colour, "width": 1.2, "dash": "dot"},
        )  # fmt: skip
        figure.add_annotation(
            text=str(row["algorithm"])[:24], x=row["number"], y=1, yref="paper", xanchor="left",
            yanchor="top", showarrow=False, font={"size": 10, "color": colour},
            hovertext=f"from instance {row['number']} on: {str(row['algorithm'])[:200]}",
        )  # fmt: skip


def _draw_probes(figure: go.Figure, arrivals: CallsiteArrivals, *, dark: bool) -> None:
    """Mark the instances in which the selector probed an algorithm."""
    instances, values = arrivals.instances, arrivals.imbalance
    if "choice" not in instances or not (values > 0).any():
        return
    at = np.flatnonzero((instances["choice"] == "probe").to_numpy())
    at = at[run_starts(len(at), MAX_POINTS)]
    if not len(at):
        return
    figure.add_scatter(
        x=arrivals.places[at],
        y=np.full(len(at), values[values > 0].min()),
        mode="markers",
        name="probes",
        marker={"symbol": "triangle-up", "size": 6, "color": get_colour("link", dark=dark)},
        customdata=[str(text)[:200] for text in instances["algorithm"].iloc[at]],
        hovertemplate="instance %{x} probes<br>%{customdata}<extra></extra>",
    )
