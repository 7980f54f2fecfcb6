"""Helpers of all figures: time axes, and reduction of many ranks or instances to few pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mpiprof.interface.format_units import UNKNOWN, format_time, unit_of
from mpiprof.reports.pictures.rank_rows import run_starts
from mpiprof.trace.types import Float, Int

MAX_FINE = 3e3  # highest ratio of axis limits at which an axis also has ticks at 2 and 5
MAX_COLUMNS = 1000  # limit of drawn columns; more are aggregated, as rows above MAX_ROWS
# The y axis of a heat map with one row per rank or run of ranks.
RANK_ROWS = {"title": "rank", "type": "category", "autorange": "reversed", "showgrid": False}


def format_durations(values: Any) -> list[str]:
    """Return times as formatted text, for hover texts."""
    return [UNKNOWN if v is None else format_time(float(v)) for v in np.asarray(values).tolist()]


def run_peaks(values: Float, max_runs: int) -> Int:
    """Return the index of the maximum of each of at most `max_runs` runs; NaN counts as -inf."""
    starts = run_starts(len(values), max_runs)
    parts = np.split(np.nan_to_num(values, nan=-np.inf), starts[1:])
    peaks: Int = starts + np.array([int(run.argmax()) for run in parts if len(run)], np.int64)
    return peaks


def format_tick_time(ns: float) -> str:
    """Return a tick's time as text: 20 µs instead of the 20.0 µs of `duration`."""
    unit, scale = unit_of(ns)
    return f"{ns / scale:g} {unit}"


def format_tick_number(value: float) -> str:
    """Return a tick's number as text: 0.5, 200, 20K."""
    for unit, scale in (("M", 1e6), ("K", 1e3)):
        if value >= scale:
            return f"{value / scale:g}{unit}"
    return f"{value:g}"


def make_log_axis(
    values: Float, text: Callable[[float], str], *, fine: bool = True
) -> dict[str, Any]:
    """Return a log axis over the positive values, with ticks at 1, 10, ... or 1, 2, 5, 10, ...

    fine: allow ticks at 2 and 5, for which a low or narrow figure has no room.
    """
    positive = values[values > 0]
    if not len(positive):
        return {"type": "log"}
    low, high = float(positive.min()), float(positive.max())
    steps = (1, 2, 5) if fine and high / low < MAX_FINE else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [text(tick) for tick in ticks]}


def empty_figure(text: str) -> go.Figure:
    """Return an empty figure with the reason as text."""
    figure = go.Figure()
    figure.add_annotation(
        text=text, showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper", font={"size": 13}
    )
    figure.update_layout(xaxis={"visible": False}, yaxis={"visible": False}, height=160)
    return figure
