"""Figures of algorithms: space-time diagrams, predicted scores and the selector's history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.interface.format_units import format_size, format_time, unit_of
from mpiprof.model.simulate import Timing
from mpiprof.reports import colours

from .. import theme
from . import axes

MAX_MESSAGES = 4000
# A measured score above this multiple of the slowest candidate is drawn at the edge.
FAR_FACTOR = 3.0


def draw_space_time(timing: Timing, names: Sequence[str]) -> go.Figure:
    """Draw each message as a line from sender to receiver: time to the right, processes downwards.

    Neighbouring rounds differ in colour. Each process is a line from its arrival to its end.
    """
    messages = sorted(timing.messages, key=lambda m: (m.round, m.start))[:MAX_MESSAGES]
    unit, scale = unit_of(float(timing.finish.max()))
    figure = go.Figure()
    for i in range(len(names)):
        begin, end = float(timing.arrivals[i]) / scale, float(timing.finish[i]) / scale
        figure.add_scatter(
            x=[begin, end], y=[i, i], mode="lines+markers", showlegend=False,
            line={"color": colours.GREY, "width": 3},
            marker={"symbol": ["line-ns-open", "square"], "size": [10, 6], "color": colours.GREY,
                    "line": {"width": 2}},
            hovertemplate=f"process {names[i]}: from {format_time(begin * scale)} to "
            f"{format_time(end * scale)}<extra></extra>",
        )  # fmt: skip
    for colour in range(len(colours.CYCLE) - 1):
        chosen = [m for m in messages if m.round % (len(colours.CYCLE) - 1) == colour]
        if not chosen:
            continue
        x = [v for m in chosen for v in (m.start / scale, m.end / scale, None)]
        y = [v for m in chosen for v in (m.source, m.target, None)]
        hover_text = [
            f"round {m.round}: {names[m.source]} to {names[m.target]}, {format_size(m.bytes)}, "
            f"{format_time(m.start)} to {format_time(m.end)}"
            for m in chosen
        ]
        figure.add_scatter(
            x=x, y=y, mode="lines", showlegend=False, hoverinfo="text",
            line={"color": colours.CYCLE[colour], "width": 1.4},
            text=[t for text in hover_text for t in (text, text, "")],
        )  # fmt: skip
    figure.update_layout(
        height=int(min(max(120 + 26 * len(names), 200), 620)),
        xaxis={"title": f"time ({unit})", "rangemode": "tozero"},
        yaxis={
            "title": "process", "autorange": "reversed", "tickvals": list(range(len(names))),
            "ticktext": list(names), "showgrid": False, "zeroline": False,
        },
    )  # fmt: skip
    return figure


def draw_scores(table: pd.DataFrame) -> go.Figure:
    """Draw the candidates by score, fastest first, from columns algorithm, score_ns, is_now.

    The measured score (is_now) is a vertical line. A score far above all candidates is only printed
    at the edge, because its scale would make all bars look equal.
    """
    known = table[table["score_ns"].notna()]
    others, now = known[~known["is_now"]], known[known["is_now"]]
    if not len(others):
        return axes.empty_figure("no algorithm could be simulated within the time limit")
    largest = float(others["score_ns"].max())
    unit, scale = unit_of(largest)
    names = [_shorten(text) for text in others["algorithm"]]
    figure = go.Figure()
    figure.add_bar(
        y=names,
        x=others["score_ns"] / scale,
        orientation="h",
        name="simulated",
        marker={"color": colours.BLUE, "line": {"width": 0}},
        text=[format_time(v) for v in others["score_ns"]],
        textposition="auto",
        customdata=[str(text)[:200] for text in others["algorithm"]],
        hovertemplate="%{customdata}<br>%{text}<extra></extra>",
    )
    for name, measured in zip(now["algorithm"], now["score_ns"], strict=True):
        beyond = measured > FAR_FACTOR * largest
        at = largest * 1.15 if beyond else measured
        figure.add_vline(
            x=at / scale,
            line={"color": colours.RED, "width": 2, "dash": "dot" if beyond else "solid"},
            annotation={
                "text": f"{_shorten(name)} now, measured: {format_time(measured)}" + " →" * beyond,
                "xanchor": "right" if beyond else "auto",
            },
            annotation_position="top",
        )
    figure.update_layout(
        height=100 + 26 * len(others),
        xaxis={"title": f"score ({unit})", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "categoryorder": "array", "categoryarray": names},
    )
    return figure


def draw_scores_over_sizes(table: pd.DataFrame) -> go.Figure:
    """Draw scores over numbers of processes, from columns processes, algorithm, score_ns.

    Each algorithm appears with its best parameters. Both axes are logarithmic.
    """
    if not len(table):
        return axes.empty_figure("no algorithm could be simulated within the time limit")
    base = table["algorithm"].astype(str).str.partition(":")[0]
    best = table.assign(name=base).groupby(["name", "processes"], sort=False)["score_ns"].min()
    figure = go.Figure()
    for i, (name, part) in enumerate(best.reset_index().groupby("name", sort=False)):
        unit_text = axes.format_durations(part["score_ns"])
        figure.add_scatter(
            x=part["processes"],
            y=part["score_ns"],
            mode="lines+markers",
            name=str(name),
            line={"color": colours.CYCLE[i % 8], "dash": theme.DASHES[i // 8 % len(theme.DASHES)]},
            customdata=unit_text,
            hovertemplate=f"{name} on %{{x}} processes<br>%{{customdata}}<extra></extra>",
        )
    ticks = sorted(set(table["processes"]))
    figure.update_layout(
        height=360,
        xaxis={"title": "processes", "type": "log", "tickvals": ticks, "ticktext": ticks},
        yaxis={
            "title": "score",
            **axes.make_log_axis(table["score_ns"].to_numpy(), axes.format_tick_time),
        },
    )
    return figure


def draw_history(choices: pd.DataFrame, instances: int) -> go.Figure:
    """Draw the algorithms chosen for a key, from columns instance, algorithm, why."""
    if not len(choices):
        return axes.empty_figure("the selector made no choice here")
    first = pd.DataFrame(
        [{"instance": 0, "algorithm": "native", "why": "no choice has been made yet"}]
    )
    ordered = pd.concat([first, choices[list(first)]]).sort_values("instance", kind="stable")
    names = [_shorten(text) for text in ordered["algorithm"]]
    begins = ordered["instance"].to_numpy(np.int64)
    ends = np.append(begins[1:], max(instances, int(begins[-1]) + 1))
    figure = go.Figure()
    for name, begin, end, why in zip(names, begins, ends, ordered["why"], strict=True):
        figure.add_bar(
            y=[name], x=[end - begin], base=[begin], orientation="h", showlegend=False,
            marker={"color": theme.algorithm_colour(name), "line": {"width": 0}},
            hovertemplate=f"{name}<br>from instance {begin}: {str(why)[:100]}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        height=90 + 30 * len(set(names)),
        barmode="overlay",
        xaxis={"title": "instance"},
        yaxis={"autorange": "reversed"},
    )
    return figure


def _shorten(text: str) -> str:
    return text if len(text) <= 42 else text[:41] + "…"
