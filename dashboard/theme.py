"""Plotly template and colours of figures, from the design tokens."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mpiprof.account.shape_names import is_native
from mpiprof.interface.tokens import (
    CYCLE,
    FONT,
    GREEN,
    GREY,
    MESSAGE_CALLS,
    OPERATIONS,
    TOKENS,
    WAITING,
    WORK,
    get_colour,
    name_operation_colour,
    operation_colour,
)

OUTSIDE = "#9AA5B1"
BALANCED = GREEN
WITHOUT_COLOURS = frozenset({"customdata", "text", "x", "y", "z"})  # large parts of a figure
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def algorithm_colour(algorithm: str) -> str:
    """Return the colour of an algorithm, equal on all pages; grey for native algorithms."""
    if is_native(algorithm):
        return GREY
    return CYCLE[zlib.crc32(algorithm.split(":")[0].encode()) % (len(CYCLE) - 1)]


def state_colours(kind: str, names: Sequence[str]) -> list[str]:
    """Return a colour per state of a timeline coloured by operation, algorithm or waiting."""
    if kind == "waiting":
        return [WAITING, WORK]
    if kind == "operation":
        return [operation_colour(name) for name in names]
    return distinct_colours([algorithm_colour(name) for name in names])


def state_tokens(kind: str, names: Sequence[str]) -> list[str]:
    """Return the token of the colour of each state of the timeline, such as "op-bcast"."""
    if kind == "waiting":
        return ["hatch", "ink3"]
    if kind == "operation":
        return [name_operation_colour(name) for name in names]
    free = list(OPERATIONS)
    chosen = []
    for name in names:
        token = OPERATIONS[zlib.crc32(name.split(":")[0].encode()) % len(OPERATIONS)]
        if is_native(name):
            token = MESSAGE_CALLS
        elif token not in free and free:
            token = free[0]
        if token in free:
            free.remove(token)
        chosen.append(token)
    return chosen


def distinct_colours(names: Sequence[str]) -> list[str]:
    """Return the colours, with repeated colours replaced by unused colours while any remain."""
    free = [c for c in CYCLE if c not in names]
    chosen: list[str] = []
    for colour in names:
        chosen.append(free.pop(0) if colour in chosen and free else colour)
    return chosen


def find_differences(light: Any, dark: Any) -> list[tuple[list[Any], Any, Any]]:
    """Return the texts, and lists of texts, in which two figures of equal structure differ.

    A difference is its path (keys and indices), and its value in the first and second figure.
    """
    return [(list(path), *values) for path, *values in _walk_differences(light, dark, ())]


def _walk_differences(first: Any, second: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    first, second = (list(v) if isinstance(v, tuple | np.ndarray) else v for v in (first, second))
    if isinstance(first, dict):
        for key in sorted(first.keys() & second.keys() - WITHOUT_COLOURS):
            yield from _walk_differences(first[key], second[key], (*path, key))
    elif isinstance(first, list) and not all(isinstance(value, str) for value in first):
        if not all(isinstance(value, int | float) for value in (first[0], first[-1])):
            for index, values in enumerate(zip(first, second, strict=True)):
                yield from _walk_differences(*values, (*path, index))
    elif isinstance(first, list | str) and first != second:
        yield path, first, second


def make_template(*, dark: bool) -> go.layout.Template:
    """Return the Plotly template of a theme, from the design tokens."""
    ink, ink2, grid = (get_colour(name, dark=dark) for name in ("ink", "ink2", "line"))
    font = {"family": FONT, "size": TOKENS["type"]["small"][0]}
    axis = {
        "gridcolor": grid,
        "linecolor": get_colour("line2", dark=dark),
        "zerolinecolor": get_colour("line2", dark=dark),
        "tickfont": {"size": TOKENS["type"]["axis"][0]},
        "title": {"font": {"size": TOKENS["type"]["small"][0]}},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "colorway": [get_colour(name, dark=dark) for name in OPERATIONS],
            "font": {**font, "color": ink2},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {
                "font": {**font, "color": ink},
                "bgcolor": get_colour("raised", dark=dark),
                "bordercolor": get_colour("line2", dark=dark),
            },
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "bargap": 0.15,
        }
    )
