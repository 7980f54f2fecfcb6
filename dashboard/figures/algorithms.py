"""Figures of algorithms: space-time diagrams, predicted scores and the selector's history."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mpiprof.collectives.simulate import Timing
from mpiprof.interface.format_units import format_size, format_time, unit_of
from mpiprof.interface.tokens import OPERATIONS, get_colour

from .. import theme
from . import axes

MAX_MESSAGES = 4000
ROUND_COLOURS = ("op-allreduce", "op-alltoallv", "op-bcast")  # of successive rounds
MAX_FINE = 50  # ratio of an axis of scores with ticks at 1, 2 and 5


def draw_space_time(timing: Timing, names: Sequence[str], *, dark: bool = False) -> go.Figure:
    """Draw each message as a line from sender to receiver: time to the right, processes downwards.

    Neighbouring rounds differ in colour. Each process is a line from its arrival to its end.
    """
    messages = sorted(timing.messages, key=lambda m: (m.round, m.start))[:MAX_MESSAGES]
    unit, scale = unit_of(float(timing.finish.max()))
    grey = get_colour("q3", dark=dark)
    figure = go.Figure()
    for i in range(len(names)):
        begin, end = float(timing.arrivals[i]) / scale, float(timing.finish[i]) / scale
        figure.add_scatter(
            x=[begin, end], y=[i, i], mode="lines+markers", showlegend=False,
            line={"color": grey, "width": 3},
            marker={"symbol": ["line-ns-open", "square"], "size": [10, 6], "color": grey,
                    "line": {"width": 2}},
            hovertemplate=f"process {names[i]}: from {format_time(begin * scale)} to "
            f"{format_time(end * scale)}<extra></extra>",
        )  # fmt: skip
    for i, token in enumerate(ROUND_COLOURS):
        chosen = [m for m in messages if m.round % len(ROUND_COLOURS) == i]
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
            line={"color": get_colour(token, dark=dark), "width": 1.4},
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


def draw_scores(table: pd.DataFrame, wait_ns: float, *, dark: bool = False) -> go.Figure:
    """Draw the algorithms by score as dots on a logarithmic axis, the fastest above.

    table: algorithm, score_ns, is_now (the recorded algorithm, whose score is measured). wait_ns:
    mean wait of a rank in an instance, drawn as the reference; NaN or 0 if there is none.
    """
    scored = table[table["score_ns"] > 0]
    if scored["is_now"].all():
        return axes.empty_figure("no algorithm could be simulated within the time limit")
    scores = scored["score_ns"].to_numpy(np.float64)
    has_wait = wait_ns > 0
    ends = [min(scores.min(), wait_ns) if has_wait else scores.min(), scores.max()]
    ends[1] = max(ends[1], wait_ns) if has_wait else ends[1]
    fine = ends[1] / ends[0] < MAX_FINE
    axis = axes.make_log_axis(np.array(ends), axes.format_tick_time, fine=fine)
    names = [
        f"<b>{_shorten(text)} now</b>" if is_now else _shorten(text)
        for text, is_now in zip(scored["algorithm"], scored["is_now"], strict=True)
    ]
    ink, dot = (get_colour(name, dark=dark) for name in ("ink", "op-allreduce"))
    figure = go.Figure()
    figure.add_scatter(
        x=scores,
        y=names,
        mode="markers+text",
        marker={"size": 8, "color": [ink if now else dot for now in scored["is_now"]]},
        text=[format_time(ns) for ns in scores.tolist()],
        textposition="middle right",
        textfont={"size": 11},
        cliponaxis=False,
        customdata=[str(text)[:200] for text in scored["algorithm"]],
        hovertemplate="%{customdata}<br>%{text}<extra></extra>",
    )
    if has_wait:
        _draw_wait(figure, wait_ns, ends, dark=dark)
    figure.update_layout(
        height=64 + 22 * len(names),
        margin={"t": 22, "r": 64},
        xaxis={**axis, "range": [np.log10(ends[0] / 1.5), np.log10(ends[1] * 2.2)]},
        yaxis={"autorange": "reversed", "showgrid": False, "type": "category"},
        showlegend=False,
    )
    return figure


def _draw_wait(figure: go.Figure, wait_ns: float, ends: list[float], *, dark: bool) -> None:
    """Draw the waiting now as a vertical line with a label inside the figure."""
    is_right = wait_ns > (ends[0] * ends[1]) ** 0.5
    figure.add_vline(
        x=wait_ns, line={"color": get_colour("late", dark=dark), "dash": "dash", "width": 1.2}
    )
    figure.add_annotation(
        text=f"<b>waiting now: {format_time(wait_ns)}</b>", x=np.log10(wait_ns), y=1, yref="paper",
        xanchor="right" if is_right else "left", yanchor="bottom", showarrow=False,
        font={"color": get_colour("late-text", dark=dark), "size": 11},
    )  # fmt: skip


def draw_scores_over_sizes(table: pd.DataFrame, *, dark: bool = False) -> go.Figure:
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
            line={
                "color": get_colour(OPERATIONS[i % len(OPERATIONS)], dark=dark),
                "dash": theme.DASHES[i // len(OPERATIONS) % len(theme.DASHES)],
            },
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


def draw_history(choices: pd.DataFrame, instances: int, *, dark: bool = False) -> go.Figure:
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
    distinct = list(dict.fromkeys(names))
    tokens = dict(zip(distinct, theme.state_tokens("algorithm", distinct), strict=True))
    figure = go.Figure()
    for name, begin, end, why in zip(names, begins, ends, ordered["why"], strict=True):
        figure.add_bar(
            y=[name], x=[end - begin], base=[begin], orientation="h", showlegend=False,
            marker={"color": get_colour(tokens[name], dark=dark), "line": {"width": 0}},
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
