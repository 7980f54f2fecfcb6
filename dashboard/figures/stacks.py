"""Flame graph of sampled stacks: callers above, width is time, colour the excess of late ranks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from mpiprof.causes.sampled_code import StackTree
from mpiprof.interface.format_units import format_count, format_share, format_time
from mpiprof.interface.tokens import choose_ink, get_colour, mix_colours
from mpiprof.reports.pictures.flame_graph import (
    STEPS,
    choose_nodes,
    difference_steps,
    find_depths,
    label_share,
)
from mpiprof.reports.words.stack_sentences import name_function

ROW_PX, MIN_PX, MAX_PX = 24, 96, 900
MAX_TEXT = 120  # characters of a label
PALEST = 0.25  # opacity of the first step


def draw_stacks(
    tree: StackTree, *, compared: bool = False, dark: bool = False, box: str = ""
) -> go.Figure:
    """Draw the first group of a tree; `compared` colours its differences from the second group.

    box: the node that fills the width; without it, the root does.
    """
    nodes = choose_nodes(tree)
    callers = {int(tree.parents[node]) for node in nodes if node}
    width = tree.total_ns[nodes, 0]
    steps: list[int | None] = [None] * len(tree.parents)
    if compared:
        steps = list(difference_steps(tree).tolist())
        colours = choose_colours(steps, dark=dark)
    else:
        colours = [
            get_colour("q2" if depth % 2 else "q1", dark=dark) for depth in find_depths(tree)
        ]
    colours = [colours[node] for node in nodes]
    figure = go.Figure(
        go.Icicle(
            ids=[str(node) for node in nodes],
            labels=[escape(tree.functions[node][1][:MAX_TEXT]) for node in nodes],
            parents=[str(tree.parents[node]) if node else "" for node in nodes],
            values=width / 1e6,
            branchvalues="total",
            level=box if box in map(str, callers) else None,
            customdata=[
                [_describe(tree, node, compared=compared), int(tree.parents[node]), node in callers]
                for node in nodes.tolist()
            ],
            hovertemplate="%{customdata[0]}<extra></extra>",
            text=[label_share(tree, node, steps[node]) for node in nodes.tolist()],
            texttemplate="%{label}  %{text}",
            textposition="middle left",
            textfont={"color": [choose_ink(colour, dark=dark) for colour in colours], "size": 12},
            marker={
                "colors": colours,
                "line": {"color": get_colour("surface", dark=dark), "width": 1},
            },
            tiling={"orientation": "v", "pad": 1},
            pathbar={"visible": False},
            leaf={"opacity": 1},
            root={"color": get_colour("q1", dark=dark)},
        )
    )
    rows = int(find_depths(tree)[nodes].max(initial=0)) + 1
    figure.update_layout(
        height=int(np.clip(ROW_PX * rows + 8, MIN_PX, MAX_PX)),
        margin={"l": 0, "r": 0, "t": 4, "b": 4},
        uniformtext={"minsize": 12, "mode": "hide"},
    )
    return figure


def choose_colours(steps: Sequence[int | None], *, dark: bool = False) -> list[str]:
    """Return the colour of each step of a difference: late for more time, early for less."""
    colours = []
    for step in steps:
        part = PALEST + (1 - PALEST) * (abs(step or 0) - 1) / (STEPS - 1)
        name = "late" if (step or 0) > 0 else "early"
        grey = get_colour("q1", dark=dark)
        colours.append(mix_colours("surface", name, part, dark=dark) if step else grey)
    return colours


def _describe(tree: StackTree, node: int, *, compared: bool) -> str:
    time_ns, samples = tree.total_ns[node], tree.samples[node]
    of_all = format_share(float(time_ns[0] / max(tree.total_ns[0, 0], 1)))
    error = format_time(float(tree.estimate_error(node)[0]))
    lines = [
        f"<b>{escape(name_function(tree, node)[:MAX_TEXT])}</b>",
        f"{format_time(float(time_ns[0]))} ± {error}, {of_all}"
        + f", {format_count(int(samples[0]))} samples",
    ]
    if compared:
        lines.append(f"other ranks: {format_time(float(time_ns[1]))}, mean")
    self_ns = float(tree.self_ns[node, 0])
    if 0 < self_ns < time_ns[0]:
        lines.append(f"{format_time(self_ns)} in its own code")
    return "<br>".join(lines)
