"""Cells of a matrix in a few steps of one or two colours; cells of one step share one path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mpiprof.interface import svg

STEPS = 6  # of the opacity of a colour
FAINTEST = 0.15  # opacity of the first step, so that it differs from an empty cell


def draw_cells(
    values: Any,
    colour: str,
    edges: Sequence[float],
    left: float,
    width: float,
    *,
    above: float = 0.0,
) -> Iterator[str]:
    """Yield the cells with a value greater than `above`; 1 and more are opaque.

    values: rows x columns, NaN for an empty cell. edges: borders of the rows in px, from the top.
    """
    count, columns = values.shape
    known = np.nan_to_num(values)
    steps = np.where(known > above, np.clip(np.ceil(known * STEPS), 1, STEPS), 0).astype(np.int64)
    pitch = width / max(columns, 1)
    for step in range(1, STEPS + 1):
        course = ""
        for row in range(count):
            hit = np.flatnonzero(np.diff(steps[row] == step, prepend=False, append=False))
            top, high = edges[row], edges[row + 1] - edges[row]
            for first, last in hit.reshape(-1, 2).tolist():
                x, wide = left + first * pitch, (last - first) * pitch
                course += f"M{x:.1f} {top:.1f}h{wide:.1f}v{high:.1f}h{-wide:.1f}z"
        if course:
            opacity = FAINTEST + (1 - FAINTEST) * (step - 1) / (STEPS - 1)
            yield svg.make_path(course, svg.fill(colour, opacity))
