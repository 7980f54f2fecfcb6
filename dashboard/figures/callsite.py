"""Figures of one call site: over instances, over ranks, and one instance in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import format_factor, format_time, unit_of
from mpiprof.reports import colours
from mpiprof.trace.types import Float, Int

from .. import theme
from . import axes

MARGIN = {"l": 80, "r": 70}  # equal in figures below each other, so that instances line up
MAX_POINTS = 1500
MAX_BANDS = 40  # limit of marked phases and algorithm changes; more would hide the figure


def draw_factors(instances: pd.DataFrame, phases: pd.DataFrame, changes: pd.DataFrame) -> go.Figure:
    """Draw both imbalance factors over the instances, phases as bands, algorithm changes as marks.

    instances: number, average_factor, worst_factor, worst_imbalance_ns. If there are many, the
    largest are drawn. phases: first_instance, last_instance. switches: number, algorithm.
    """
    known = bool(instances["worst_factor"].notna().any())
    columns = [("worst_imbalance_ns", "ω", colours.RED)]
    if known:
        average = ("average_factor", "average δ/T", colours.BLUE)
        columns = [("worst_factor", "worst ω/T", colours.RED), average]
    numbers = instances["number"].to_numpy(np.int64)
    apart = len(numbers) > 1 and bool((np.diff(numbers) > 1).any())  # no lines across gaps
    mode = "markers" if apart else "lines+markers" if len(numbers) < 200 else "lines"
    figure = go.Figure()
    for column, name, colour in columns:
        at = axes.run_peaks(instances[column].to_numpy(np.float64), MAX_POINTS)
        values = instances[column].to_numpy(np.float64)[at]
        figure.add_scatter(
            x=numbers[at],
            y=np.where(values > 0, values, np.nan),
            mode=mode,
            name=name,
            line={"color": colour, "width": 1.2},
            marker={"size": 4},
            customdata=[format_factor(v) if known else format_time(v) for v in values.tolist()],
            hovertemplate=f"instance %{{x}}<br>{name} %{{customdata}}<extra></extra>",
        )
    if known:
        figure.add_hline(y=1, line={"color": theme.BALANCED, "dash": "dash", "width": 1.5})
        figure.add_annotation(  # on a logarithmic axis, y is the logarithm of the value
            text="balanced below", x=1, xref="paper", xanchor="right", y=0, yanchor="bottom",
            showarrow=False, font={"size": 11},
        )  # fmt: skip
    _draw_phases(figure, phases)
    _draw_algorithm_changes(figure, changes)
    _draw_probes(figure, instances, columns[-1][0])
    figure.update_layout(
        height=300,
        margin=MARGIN,
        xaxis={"title": "instance", **_instance_range(numbers)},
        yaxis={
            "title": "imbalance factor" if known else "imbalance",
            **axes.make_log_axis(
                instances[[column for column, _, _ in columns]].to_numpy(np.float64),
                axes.format_tick_number if known else axes.format_tick_time,
            ),
        },
        hovermode="closest",
    )
    return figure


def _instance_range(numbers: Int) -> dict[str, Any]:
    return {"range": [numbers[0] - 0.5, numbers[-1] + 0.5]}


def _draw_phases(figure: go.Figure, phases: pd.DataFrame) -> None:
    if len(phases) < 2:
        return
    for i, row in enumerate(phases.head(MAX_BANDS).to_dict("records")):
        figure.add_vrect(
            x0=row["first_instance"] - 0.5,
            x1=row["last_instance"] + 0.5,
            fillcolor=colours.GREY,
            opacity=0.14 if i % 2 else 0.04,
            line_width=0,
            annotation={"text": f"phase {i + 1}", "font": {"size": 11}},
            annotation_position="top left",
        )


def _draw_algorithm_changes(figure: go.Figure, changes: pd.DataFrame) -> None:
    for row in changes.head(MAX_BANDS).to_dict("records"):
        figure.add_vline(
            x=row["number"], line={"color": colours.GREEN, "width": 1.2, "dash": "dot"}
        )
    if not len(changes):
        return
    figure.add_scatter(
        x=changes["number"],
        y=[1] * len(changes),
        mode="markers",
        name="algorithm changes",
        marker={"symbol": "diamond", "size": 9, "color": colours.GREEN},
        customdata=[str(text)[:200] for text in changes["algorithm"]],
        hovertemplate="from instance %{x} on<br>%{customdata}<extra></extra>",
    )


def _draw_probes(figure: go.Figure, instances: pd.DataFrame, column: str) -> None:
    """Mark at the bottom the instances in which the selector probed an algorithm."""
    probed = instances[instances["choice"] == "probe"] if "choice" in instances else instances[:0]
    values = instances[column].to_numpy(np.float64)
    if not len(probed) or not (values > 0).any():
        return
    shown = probed.iloc[axes.run_starts(len(probed), MAX_POINTS)]
    figure.add_scatter(
        x=shown["number"],
        y=np.full(len(shown), values[values > 0].min()),
        mode="markers",
        name="probes",
        marker={"symbol": "triangle-up", "size": 6, "color": colours.GREEN},
        customdata=[str(text)[:200] for text in shown["algorithm"]],
        hovertemplate="instance %{x} probes<br>%{customdata}<extra></extra>",
    )


# Quantile at which the colour scale ends, so that outliers do not flatten it.
CLIPPING_QUANTILE = 0.995


def draw_heat_map(
    late: Float, ranks: Int, numbers: Int, *, latest_first: bool = False
) -> go.Figure:
    """Draw the lateness in ns of each rank (down) in each instance (across); NaN is absent.

    `ranks` and `numbers` list all ranks and instances in order. Fewer rows or columns are runs of
    ranks or instances. latest_first: sort rows by their mean lateness.
    """
    if not late.size or np.isnan(late).all():
        return axes.empty_figure("no rank has arrived yet")
    rows = axes.label_runs(ranks, late.shape[0])
    if latest_first:
        known = ~np.isnan(late)
        means = np.where(known, late, 0.0).sum(1) / np.maximum(known.sum(1), 1)
        order = np.argsort(-means, kind="stable")
        late, rows = late[order], [rows[i] for i in order.tolist()]
    starts = numbers[axes.run_starts(len(numbers), late.shape[1])]
    # If instances in between are excluded, the remaining columns are drawn side by side.
    apart = late.shape[1] == len(numbers) and bool((np.diff(numbers) > 1).any())
    largest = float(np.nanmax(late))
    unit, scale = unit_of(largest)
    high = float(np.nanquantile(late, CLIPPING_QUANTILE)) or largest
    figure = go.Figure()
    figure.add_heatmap(
        z=(late / scale).astype(np.float32),
        x=starts.astype(str) if apart else starts,
        y=rows,
        colorscale=theme.SEQUENTIAL,
        zmin=0,
        zmax=max(high / scale, 1e-9),
        colorbar={"title": {"text": unit}, "thickness": 12},
        hovertemplate=f"rank %{{y}}, instance %{{x}}<br>%{{z:.3~g}} {unit} after the first"
        "<extra></extra>",
    )
    xaxis: dict[str, Any] = {"title": "instance", "showgrid": False}
    xaxis |= {"type": "category", "nticks": 20} if apart else _instance_range(numbers)
    figure.update_layout(
        height=int(min(max(120 + 14 * len(rows), 220), 460)),
        margin=MARGIN,
        xaxis=xaxis,
        yaxis={**axes.RANK_ROWS, "nticks": 20},
    )
    return figure


def heat_map_note(late: Float, ranks: Int, numbers: Int) -> str:
    """Return a note on the aggregation of ranks and instances and on the clipping of colours."""
    if not late.size or np.isnan(late).all():
        return ""
    per_cell = [-(-len(ranks) // late.shape[0]), -(-len(numbers) // late.shape[1])]
    of = [f"{n} {name}" for n, name in zip(per_cell, ("ranks", "instances"), strict=True) if n > 1]
    note = f"A cell is the greatest lateness of up to {' by '.join(of)}. " if of else ""
    high, largest = float(np.nanquantile(late, CLIPPING_QUANTILE)), float(np.nanmax(late))
    if 0 < high < largest:
        note += (
            f"Colours end at {format_time(high)}; the greatest lateness is {format_time(largest)}. "
        )
    opened = " and opens the ranks of the row" if per_cell[0] > 1 else ""
    return f"{note}A click shows the instance{opened}."


def draw_instance(table: pd.DataFrame, *, message_ns: float = float("nan")) -> go.Figure:
    """Draw one instance as the paper's Figure 1: arrival, time in the call and wait of each rank.

    From columns rank, where, arrival_ns, exit_ns (0 if open), wait_ns; times count from the first
    arrival. `message_ns` is the message time T, drawn beside ω for comparison.
    """
    if not len(table):
        return axes.empty_figure("no rank of this instance passes the filters")
    shown = table if len(table) <= axes.MAX_ROWS else _thin_ranks(table)
    arrival = table["arrival_ns"].to_numpy(np.int64)
    begin = int(arrival.min())
    late = (shown["arrival_ns"].to_numpy(np.int64) - begin).astype(np.float64)
    end = np.where(shown["exit_ns"] > 0, shown["exit_ns"] - begin, np.nan).astype(np.float64)
    wait = shown["wait_ns"].to_numpy(np.float64)
    unit, scale = unit_of(float(np.nanmax([*end.tolist(), late.max(), 1.0])))
    names = [str(rank) for rank in shown["rank"]]
    figure = go.Figure()
    inside = np.where(np.isnan(end), late.max() - late, end - late)
    for name, base, length, colour in (
        ("waits for others", late, wait, colours.WAITING),
        ("the rest of the call", late + wait, inside - wait, colours.WORK),
    ):
        times = [axes.format_durations(values) for values in (late, end, length)]
        figure.add_bar(
            y=names,
            x=length / scale,
            base=base / scale,
            orientation="h",
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            customdata=np.stack([*times, shown["where"].to_numpy()], 1),
            hovertemplate="rank %{y} on %{customdata[3]}<br>arrives at %{customdata[0]}, "
            f"leaves at %{{customdata[1]}}<br>{name}: %{{customdata[2]}}<extra></extra>",
        )
    figure.add_scatter(
        x=late / scale, y=names, mode="markers", name="arrival",
        marker={"symbol": "line-ns-open", "size": 11, "color": colours.ORANGE,
                "line": {"width": 3}},
        hoverinfo="skip",
    )  # fmt: skip
    _draw_figure_one_marks(figure, (arrival - begin).astype(np.float64), scale, message_ns)
    figure.update_layout(
        barmode="overlay",
        height=int(min(max(170 + 22 * len(names), 240), 620)),
        xaxis={"title": f"time since the first arrival ({unit})", "rangemode": "tozero"},
        yaxis={"title": "rank", "type": "category", "autorange": "reversed", "nticks": 40},
        bargap=0.25 if len(names) < 60 else 0,
        margin={"t": 66},
        legend={"y": 0.99, "yanchor": "top", "yref": "container", "x": 0},
    )
    return figure


def _draw_figure_one_marks(figure: go.Figure, late: Float, scale: float, message_ns: float) -> None:
    """Mark the mean arrival, and ω as a bracket above the ranks."""
    mean, last = float(late.mean()), float(late.max())
    figure.add_vline(
        x=mean / scale, line={"dash": "dash", "width": 1.2, "color": colours.GREY},
        annotation={"text": "ā", "font": {"size": 13}}, annotation_position="bottom right",
    )  # fmt: skip
    text = f"ω = {format_time(last)}"
    if message_ns > 0:
        text += f" = {format_factor(last / message_ns)} T"
    figure.add_shape(
        type="line", x0=0, x1=last / scale, y0=1.03, y1=1.03, yref="paper",
        line={"width": 2, "color": colours.ORANGE},
    )  # fmt: skip
    figure.add_annotation(
        text=text,
        x=last / scale,
        y=1.03,
        yref="paper",
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        xshift=-4,
    )


def _thin_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Return a subset of many ranks, evenly spaced in order of arrival, including the last."""
    ordered = table.sort_values("arrival_ns", kind="stable")
    at = np.unique(np.linspace(0, len(ordered) - 1, axes.MAX_ROWS).astype(int))
    return ordered.iloc[at]


def draw_late_ranks(table: pd.DataFrame, instances: int) -> go.Figure:
    """Draw how often each rank arrives last, and its mean lateness.

    From columns rank, where, last (instances), lateness_ns (sum). Many ranks are drawn as
    runs: instances in which a rank of the run is last, and the latest rank's mean lateness.
    """
    if not len(table) or not instances:
        return axes.empty_figure("no complete instance")
    starts = axes.run_starts(len(table), axes.MAX_ROWS)
    names = axes.label_runs(table["rank"].to_numpy(), axes.MAX_ROWS)
    last = np.add.reduceat(table["last"].to_numpy(np.float64), starts) / instances * 100
    lateness = table["lateness_ns"].to_numpy(np.float64)
    latest = axes.run_peaks(lateness, axes.MAX_ROWS)
    mean = lateness[latest] / instances
    unit, scale = unit_of(float(mean.max(initial=0.0)))
    ranks, hosts = (table[name].to_numpy()[latest] for name in ("rank", "where"))
    run = " (runs, and the latest of each)" if len(names) < len(table) else ""
    figure = go.Figure()
    figure.add_bar(
        x=names, y=last, name="comes last in",
        marker={"color": colours.ORANGE, "line": {"width": 0}},
        hovertemplate="rank %{x}<br>last in %{y:.3~g} % of the instances<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=names, y=mean / scale, name="mean lateness", yaxis="y2", mode="markers",
        marker={"color": colours.BLUE, "size": 7 if len(names) < 100 else 4},
        customdata=np.stack([axes.format_durations(mean), ranks, hosts], 1),
        hovertemplate="rank %{customdata[1]} on %{customdata[2]}<br>mean lateness %{customdata[0]}"
        "<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        height=280,
        xaxis={"title": f"rank{run}", "type": "category", "nticks": 20},
        yaxis={"title": "last in (% of instances)", "rangemode": "tozero"},
        yaxis2={
            "title": f"mean lateness ({unit})", "overlaying": "y", "side": "right",
            "rangemode": "tozero", "showgrid": False, "tickmode": "auto",
        },
        bargap=0.15 if len(names) < 100 else 0,
    )  # fmt: skip
    return figure
