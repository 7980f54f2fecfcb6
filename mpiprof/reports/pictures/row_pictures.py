"""Small pictures in the rows of tables: who is late, what is saved, a value over the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpiprof.interface import svg
from mpiprof.interface.format_units import format_ranks, format_share
from mpiprof.trace.types import Bool, Float

BARS_WIDTH, BARS_PX, MAX_BARS = 150.0, 26.0, 48
SAVING_WIDTH, SAVING_PX = 104.0, 12.0
LINE_WIDTH, LINE_PX = 180.0, 20.0


def draw_lateness_bars(
    late_ns: Float, blamed: Bool, measure: str = "Mean lateness of each rank"
) -> str:
    """Return a bar per rank, or per run of ranks with the latest of the run; blamed in accent."""
    count = len(late_ns)
    limits = np.linspace(0, count, min(count, MAX_BARS) + 1).astype(int)[:-1]
    known = np.nan_to_num(late_ns)
    heights = np.maximum.reduceat(known, limits) if count else known
    marks = np.logical_or.reduceat(blamed, limits) if count else blamed
    largest, wide = max(float(heights.max(initial=0.0)), 1.0), (BARS_WIDTH - 6) / max(len(marks), 1)
    parts = [svg.make_line(0, BARS_PX - 0.5, BARS_WIDTH, BARS_PX - 0.5, svg.stroke("line2"))]
    for i, (late, mark) in enumerate(zip(heights.tolist(), marks.tolist(), strict=True)):
        high = max((BARS_PX - 4) * late / largest, 1.0)
        x, bar = 3 + i * wide, max(min(wide - 1, 20.0), 1.0)
        ink = svg.fill("late" if mark else "q3", 1.0 if mark else 0.8)
        parts.append(svg.make_rectangle(x, BARS_PX - 1 - high, bar, high, ink))
    who = np.flatnonzero(blamed).tolist()
    label = f"{measure}; {format_ranks(who) + ' in accent' if who else 'no rank stands out'}"
    return svg.make_picture(BARS_WIDTH, BARS_PX, label, parts, scales=False)


def draw_two_bars(share: float, name: str) -> str:
    """Return the time of a call today and, below it, with another algorithm (`share` of today)."""
    wide = BARS_WIDTH - 8 - svg.measure_text(name[:12])
    parts = [
        svg.make_rectangle(0, 3, wide, 8, svg.fill("q3")),
        svg.make_rectangle(0, 14, max(wide * min(share, 1.0), 1.0), 8, svg.fill("good")),
        svg.make_text(wide * min(share, 1.0) + 5, 22, name[:12], "ink2"),
    ]
    label = f"{name} takes {format_share(share)} of the time"
    return svg.make_picture(BARS_WIDTH, BARS_PX, label, parts, scales=False)


def draw_saving(share: float, *, first: bool) -> str:
    """Return a bar for a saving, as a share of the largest one; the first is in accent."""
    wide = max(SAVING_WIDTH * min(max(share, 0.0), 1.0), 2.0)
    parts = [svg.make_rectangle(0, 0, wide, SAVING_PX, svg.fill("late" if first else "q3"))]
    label = f"{format_share(share)} of the largest saving"
    return svg.make_picture(SAVING_WIDTH, SAVING_PX, label, parts, scales=False)


def draw_line(values: Sequence[float | None], label: str, *, late: bool = False) -> str:
    """Return a line over the run, with gaps where a value is unknown; `late` in accent."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) or 1.0
    step = (LINE_WIDTH - 4) / max(len(values) - 1, 1)
    course, pen = "", "M"
    for i, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = LINE_PX - 3 - (LINE_PX - 6) * value / top
        course += f"{pen}{2 + i * step:.1f} {y:.1f}"
        pen = "L"
    if len(known) == 1:
        course += "h3"
    parts = [svg.make_path(course, svg.stroke("late" if late else "ink3", 1.2))] * bool(known)
    return svg.make_picture(LINE_WIDTH, LINE_PX, label, parts, scales=False)
