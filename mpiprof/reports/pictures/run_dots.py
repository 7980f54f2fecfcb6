"""Run times of two groups of runs as dots on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.interface import svg
from mpiprof.interface.format_units import unit_of
from mpiprof.interface.svg import TableRow, choose_ticks

WIDTH, HEIGHT = 430.0, 76.0
LEFT, RIGHT = 20.0, 400.0
# Name of a group, run times in ns, and the colour of the dots.
RunGroup = tuple[str, Sequence[float], str]


def list_values(groups: Sequence[RunGroup]) -> list[TableRow]:
    """Return the data of the picture: the time of each run."""
    rows = [(name, value) for name, values, _ in groups for value in values]
    return [("runs", "run_time_ns"), *rows]


def draw_run_dots(groups: Sequence[RunGroup]) -> str:
    """Return the picture."""
    every = [value for _, values, _ in groups for value in values]
    low, high = min(every), max(every)
    margin = max(0.15 * (high - low), 0.02 * high, 1.0)
    low, high = max(low - margin, 0.0), high + margin

    def place(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)

    unit, scale = unit_of(high)
    parts = []
    ticks = choose_ticks(low / scale, high / scale, 5)
    for i, tick in enumerate(ticks):
        x = place(tick * scale)
        text = f"{tick:g}{f' {unit}' * (i == len(ticks) - 1)}"
        parts.append(svg.make_line(x, 4, x, 56, svg.stroke("line")))
        parts.append(svg.make_text(x, 70, text, anchor="middle"))
    for i, (name, values, colour) in enumerate(groups):
        y = 18 + 24 * i
        parts += [
            f'<circle cx="{place(value):.1f}" cy="{y}" r="4" {svg.fill(colour, 0.75)}/>'
            for value in values
        ]
        is_left = place(max(values)) < (LEFT + RIGHT) / 2
        x = place(max(values)) + 10 if is_left else place(min(values)) - 10
        anchor = "start" if is_left else "end"
        parts.append(svg.make_text(x, y + 4, name, colour, anchor=anchor, size=12))
    return svg.make_picture(WIDTH, HEIGHT, "Run time of each run", parts, scales=False)
